"""Compaction of transactions: who reads what is committed finds the same table before and after."""

# pyright: reportPrivateUsage=false

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.broker.log.compacting import BufferTooSmallError, Compaction
from quorate.broker.log.compaction_steps import LogChangedError, compaction_steps
from quorate.broker.log.fates import Fates
from quorate.broker.log.log import Log
from quorate.broker.log.transactions import AbortedTransaction
from quorate.records.batch import DELETE_HORIZON_BIT, BatchHeader, parse_header
from quorate.records.control import find_end_marker
from quorate.records.record import Record, read_records
from tests.unit.broker.log.batches import (
    NOW_MS,
    PARTITION,
    bytes_of,
    headers_of,
    new_disk,
    new_log,
    open_data,
    read_all,
)
from tests.unit.broker.log.compacting import COMPACT, checkpoint, compact, table_of
from tests.unit.broker.log.transacting import LEGACY, PER_TRANSACTION, Writer, told_by

DIRECTORY = f"/data/{PARTITION}"
RETENTION_MS = 1000
CONFIG = replace(COMPACT, delete_retention_ms=RETENTION_MS)


def committed(log: Log, max_bytes: int = 300) -> list[Record]:
    """Read a log as Kafka's consumers do that want what is committed only."""
    if log.producers.transactions is not None:
        log.producers.transactions.replicated(log.log_end_offset)
    limit_offset = log.producers.last_stable_offset(log.log_end_offset)
    offset, found = log.log_start_offset, list[Record]()
    while offset < limit_offset:
        piece = log.read(offset, max_bytes=max_bytes, limit_offset=limit_offset, at_least_one=True)
        assert piece is not None
        aborted = log.aborted_in(piece, offset, limit_offset=limit_offset, may_wait=True)
        data = bytes_of(piece)
        offset = _read(data, aborted, offset, found)
    return found


def _read(data: bytes, aborted: list[AbortedTransaction], offset: int, found: list[Record]) -> int:
    waiting = sorted(aborted, key=lambda each: each.first_offset)
    producers: set[int] = set()
    position, end = 0, offset
    for header in headers_of(data):
        batch = data[position : position + header.size_bytes]
        position += header.size_bytes
        while waiting and waiting[0].first_offset <= header.last_offset:
            producers.add(waiting.pop(0).producer_id)
        if header.is_control:
            marker = find_end_marker(batch, header)
            if marker is not None and not marker.committed:
                producers.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in producers):
            records = read_records(batch, header, PARTITION, bytes_max=1 << 20)
            found += [record for record in records if record.offset >= offset]
        end = header.next_offset
    return end


def headers(log: Log) -> list[BatchHeader]:
    return [parse_header(batch, 0) for batch in read_all(log).values()]


def markers(log: Log) -> list[int]:
    return [header.base_offset for header in headers(log) if header.is_control]


def close(log: Log, disk_checkpoint: bool = True) -> None:
    log.roll(NOW_MS)
    Writer(99).put(log, (b"head", b""), transactional=False)
    if disk_checkpoint:
        checkpoint(log)


def test_aborted_records_replace_nothing_and_go() -> None:
    disk = new_disk()
    log = new_log(disk, CONFIG)
    writer = Writer(1)
    writer.put(log, (b"a", b"1"), transactional=False)
    writer.put(log, (b"a", b"2"), (b"b", b"2"))
    writer.end(log, committed=False)
    writer.put(log, (b"c", b"3"))
    writer.end(log, committed=True)
    close(log)
    before = table_of(committed(log))
    compact(disk, log)
    assert table_of(committed(log)) == before == {b"a": b"1", b"c": b"3", b"head": b""}
    assert [(h.base_offset, h.record_count) for h in headers(log) if not h.is_control] == [
        (0, 1), (1, 0), (4, 1), (6, 1)
    ]  # fmt: skip


def test_a_marker_goes_when_nothing_of_its_transaction_was_left_for_delete_retention_ms() -> None:
    disk = new_disk()
    log = new_log(disk, CONFIG)
    writer = Writer(1)
    writer.put(log, (b"a", b"1"))
    aborted = writer.end(log, committed=False)
    writer.put(log, (b"a", b"2"))
    kept = writer.end(log, committed=True)
    close(log)
    compact(disk, log)
    assert markers(log) == [aborted, kept], "there was something of it left until now"
    compact(disk, log, now_ms=NOW_MS)
    marked = next(h for h in headers(log) if h.base_offset == aborted)
    assert marked.attributes & DELETE_HORIZON_BIT
    assert marked.base_timestamp_ms == NOW_MS + RETENTION_MS
    compact(disk, log, now_ms=NOW_MS + RETENTION_MS - 1)
    assert markers(log) == [aborted, kept]
    compact(disk, log, now_ms=NOW_MS + RETENTION_MS)
    assert markers(log) == [kept], "a value of that transaction is there"
    assert table_of(committed(log)) == {b"a": b"2", b"head": b""}


def test_the_last_marker_of_a_producer_stays_to_tell_its_epoch() -> None:
    disk = new_disk()
    log = new_log(disk, CONFIG)
    writer = Writer(1, version=PER_TRANSACTION)
    writer.put(log, (b"a", b"1"))
    marker = writer.end(log, committed=False)
    close(log)
    for late_ms in (0, 0, RETENTION_MS, RETENTION_MS):
        compact(disk, log, now_ms=NOW_MS + late_ms)
    assert [(h.base_offset, h.record_count) for h in headers(log) if h.is_control] == [(marker, 0)]
    disk.restart()
    for name in disk.list_directory(DIRECTORY):
        if name.endswith(".snapshot"):
            disk.remove(f"{DIRECTORY}/{name}")
    known = open_data(disk).logs[PARTITION].producers.get(1)
    assert known is not None
    assert known.epoch == 1


def test_nothing_is_compacted_behind_what_is_open() -> None:
    disk = new_disk()
    log = new_log(disk, CONFIG)
    Writer(2).put(log, (b"a", b"1"), transactional=False)
    log.roll(NOW_MS)
    writer = Writer(1)
    writer.put(log, (b"a", b"2"))
    Writer(3).put(log, (b"a", b"3"), transactional=False)
    close(log)
    assert compact(disk, log).segments_before == 1
    writer.end(log, committed=False)
    close(log)
    compact(disk, log)
    assert table_of(committed(log)) == {b"a": b"3", b"head": b""}


def test_a_cut_of_an_index_behind_what_is_compacted_lets_it_begin_anew_another_time() -> None:
    disk = new_disk()
    log = new_log(disk, CONFIG)
    writer = Writer(1)
    for value in (b"1", b"2"):
        writer.put(log, (b"a", value), transactional=False)
    log.roll(NOW_MS)
    committed_offset = log.log_end_offset
    for _ in range(4):
        writer.put(log, (b"a", b"3"))
        writer.end(log, committed=False)
    close(log)
    part = log.closed_part(committed_offset)
    log.truncate_to(committed_offset + 1, now_ms=NOW_MS)  # no leader has them
    checkpoint(log)
    compaction = Compaction(
        disk, part, producers={}, buffer_bytes=1 << 20, now_ms=NOW_MS, charge=lambda _: None
    )
    steps = compaction_steps(log, compaction)
    next(steps).run()
    with pytest.raises(LogChangedError):
        next(steps)
    compact(disk, log)
    assert table_of(committed(log)) == {b"a": b"2"}


def test_a_marker_of_which_the_index_says_nothing_ends_nothing_that_is_aborted() -> None:
    fates = Fates([])
    header = parse_header(bytes(61), 0)
    assert not fates.see(header)
    assert fates.end(header, None) == (False, None)


KEYS = st.sampled_from([b"a", b"b", b"c"])
VALUES = st.one_of(st.none(), st.binary(max_size=60))
STEPS: st.SearchStrategy[tuple[str, int, list[tuple[bytes, bytes | None]]]] = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 2), st.lists(st.tuples(KEYS, VALUES), min_size=1)),
    st.tuples(st.just("plain"), st.integers(3, 4), st.lists(st.tuples(KEYS, VALUES), min_size=1)),
    st.tuples(st.sampled_from(["commit", "abort", "abort"]), st.integers(0, 2), st.just([])),
    st.tuples(st.sampled_from(["compact", "crash", "restart"]), st.integers(0, 9), st.just([])),
)


def check_index(log: Log) -> None:
    """Of what is left of aborted transactions, the index says so."""
    end_offset = log.log_end_offset
    known = [
        (each.producer_id, each.last_offset)
        for segment in log._segments.with_aborted(log.log_start_offset)
        for each in segment.aborted_between(0, end_offset)[0]
    ]
    active = log._segments.active.aborted
    known += [(each.producer_id, each.last_offset) for each in (active.all if active else ())]
    assert known == sorted(set(known), key=lambda each: each[1])
    assert {(each.producer_id, each.last_offset) for each in told_by(log).aborted} <= set(known)


class World:
    """A log that is compacted and restarted, and the same that never is."""

    def __init__(self, seed: int) -> None:
        self.disk = new_disk(seed)
        self.log = new_log(self.disk, CONFIG)
        self.plain = new_log(config=CONFIG)
        self.write("plain", 5, [(b"first", b"")])
        checkpoint(self.log)

    def write(self, name: str, number: int, entries: list[tuple[bytes, bytes | None]]) -> None:
        for log in (self.log, self.plain):
            known = log.producers.get(number)
            writer = Writer(number, version=PER_TRANSACTION if number else LEGACY)
            if known is not None:
                writer.epoch, writer.sequence = known.epoch, max(known.next_sequence, 0)
            if entries:
                writer.put(log, *entries, transactional=name == "put")
            else:
                writer.end(log, committed=name == "commit")

    def compact(self, number: int) -> None:
        self.log.roll(NOW_MS)
        checkpoint(self.log)
        buffer_bytes = 24 * 4 if number % 2 else 1 << 20
        with suppress(BufferTooSmallError):
            compact(self.disk, self.log, now_ms=NOW_MS + 300 * number, buffer_bytes=buffer_bytes)

    def restart(self, *, loses_snapshots: bool) -> None:
        self.disk.restart()
        if loses_snapshots:
            for file in self.disk.list_directory(DIRECTORY):
                if file.endswith(".snapshot"):
                    self.disk.remove(f"{DIRECTORY}/{file}")
        self.log = open_data(self.disk).logs[PARTITION]
        self.log.config = CONFIG


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, max_size=40), st.integers(0, 99))
def test_who_reads_what_is_committed_finds_the_same_table_whatever_is_compacted(
    steps: list[tuple[str, int, list[tuple[bytes, bytes | None]]]], seed: int
) -> None:
    world = World(seed)
    for name, number, entries in steps:
        if name == "compact":
            world.compact(number)
        elif name in {"crash", "restart"}:
            world.restart(loses_snapshots=name == "crash")
        else:
            world.write(name, number, entries)
        check_index(world.log)
        found, all_of_it = committed(world.log), committed(world.plain)
        assert table_of(found) == table_of(all_of_it)
        known = {record.offset: record for record in all_of_it}
        assert all(known.get(record.offset) == record for record in found)
