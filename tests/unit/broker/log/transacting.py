"""Transactions for tests of the log, and what its batches say of them, read the simple way."""

# pyright: reportPrivateUsage=false

from dataclasses import dataclass, field

from quorate.broker.log.log import Log
from quorate.broker.log.transactions import AbortedTransaction
from quorate.records.batch import TRANSACTIONAL_BIT, BatchHeader, parse_header
from quorate.records.control import EndMarker, TransactionEnd, read_end_marker
from quorate.records.record import ProducerStamp
from tests.unit.broker.log.batches import NOW_MS, make_batch, read_all

LEGACY, PER_TRANSACTION = 1, 2
"""Transaction versions: an epoch for each transaction, or not."""


@dataclass
class Writer:
    """A transactional producer, as it writes to one log."""

    producer_id: int
    epoch: int = 0
    sequence: int = 0
    coordinator_epoch: int = 0
    version: int = LEGACY

    def write(self, log: Log, count: int = 1, *, transactional: bool = True, size: int = 1) -> int:
        """Append records, asking the coordinator before if a transaction begins with them."""
        entries = [(None, b"v" * size)] * count
        return self.put(log, *entries, transactional=transactional)

    def put(
        self, log: Log, *entries: tuple[bytes | None, bytes | None], transactional: bool = True
    ) -> int:
        """Do the same with keys and values."""
        guard = None
        if transactional:
            guard = log.producers.begin_verification(
                self.producer_id, self.epoch, self.sequence, adds=False, now_ms=NOW_MS
            )
        batch = make_batch(
            [value for _, value in entries],
            keys=[key for key, _ in entries],
            producer=ProducerStamp(self.producer_id, self.epoch, self.sequence),
            attributes=TRANSACTIONAL_BIT if transactional else 0,
        )
        result = log.append(batch, 0, NOW_MS, None, guard)
        self.sequence += len(entries)
        return result.base_offset

    def end(self, log: Log, *, committed: bool) -> int:
        """Append a marker."""
        if self.version >= PER_TRANSACTION:
            self.epoch, self.sequence = self.epoch + 1, 0
        return log.append_marker(self.ending(committed=committed), 0, NOW_MS).base_offset

    def ending(self, *, committed: bool) -> TransactionEnd:
        marker = EndMarker(committed, self.coordinator_epoch)
        return TransactionEnd(self.producer_id, self.epoch, marker, self.version)


@dataclass
class Told:
    """What a log's batches say of transactions."""

    open: dict[int, int] = field(default_factory=dict[int, int])
    """First offsets, by producer id."""
    aborted: list[AbortedTransaction] = field(default_factory=list[AbortedTransaction])
    decided: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """First offset and that of the marker."""


def told_by(log: Log) -> Told:
    """Read a log from its beginning, the simple way."""
    told = Told()
    for batch in read_all(log).values():
        header = parse_header(batch, 0)
        if header.is_control:
            _end(told, header, batch)
        elif header.is_transactional:
            told.open.setdefault(header.producer_id, header.base_offset)
    return told


def _end(told: Told, header: BatchHeader, batch: bytes) -> None:
    marker = read_end_marker(batch, header)
    first_offset = told.open.pop(header.producer_id, None)
    if marker is None or first_offset is None:
        return
    offset = header.base_offset
    told.decided.append((first_offset, offset))
    if not marker.committed:
        stable_offset = min([*told.open.values(), offset + 1])
        told.aborted.append(
            AbortedTransaction(header.producer_id, first_offset, offset, stable_offset)
        )


def check(log: Log, high_watermark: int) -> None:
    """What a log knows of transactions is what its batches say."""
    told = told_by(log)
    producers = log.producers
    known = {pid: p.transaction_start for pid, p in producers.items() if p.transactional}
    assert known == told.open
    if producers.transactions is not None:
        producers.transactions.replicated(high_watermark)
        assert list(producers.transactions.open) == sorted(told.open.values())
    undecided = [first for first, marker in told.decided if marker >= high_watermark]
    expected = min([*told.open.values(), *undecided, high_watermark])
    assert producers.last_stable_offset(high_watermark) == expected
    check_aborted(log, told, expected)


def check_aborted(log: Log, told: Told, stable_offset: int) -> None:
    """For whatever is read, at least the transactions that were aborted in it are given."""
    offset = log.log_start_offset
    while offset < stable_offset:
        piece = log.read(offset, max_bytes=300, limit_offset=stable_offset, at_least_one=True)
        assert piece is not None
        found = log.aborted_in(piece, offset, limit_offset=stable_offset, may_wait=True)
        end = parse_last(log, piece.position + piece.size_bytes, offset)
        needed = [a for a in told.aborted if a.last_offset >= offset and a.first_offset < end]
        assert [each for each in found if each in needed] == needed
        assert all(each in told.aborted and each.first_offset < stable_offset for each in found), (
            "no transaction is made up"
        )
        assert found == sorted(found, key=lambda each: each.last_offset)
        offset = end


def parse_last(log: Log, position: int, offset: int) -> int:
    """Return the offset behind the batches of a segment up to a position."""
    number = log._segments.number_of(offset)
    segment = log._segments.at(number)
    at = end = 0
    while at < position:
        header = parse_header(segment.file.read_at(61, at), 0)
        at, end = at + header.size_bytes, header.next_offset
    return end
