"""What was fetched of one partition and not given out yet: batches in, records out."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from copy import copy
from dataclasses import field
from operator import attrgetter
from typing import TYPE_CHECKING, cast

from quorate.client.receiving.positions import Position
from quorate.dataclass import dataclass
from quorate.errors import CorruptRecordError, QuorateError
from quorate.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET, TopicPartition
from quorate.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    check_header,
    crc_matches,
    parse_header,
)
from quorate.records.compression import DECOMPRESSED_BYTES_MAX
from quorate.records.control import ABORT_KEY
from quorate.records.record import Record, read_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quorate.protocol.messages.data import PartitionData

_offset_of = attrgetter("offset")


@dataclass(slots=True)
class _Chunk:
    """What one response said about the partition, as far as it was not decoded yet."""

    data: memoryview
    at: int
    aborted: deque[tuple[int, int]]
    """(first offset, producer id) of transactions that were aborted, in order of offset."""

    aborting: set[int] = field(default_factory=set[int])
    """The producers whose transaction is an aborted one where this is.

    A response names again what began before it: what was known from the one before may be over,
    and its marker compacted away.
    """


class PartitionStream:
    """One partition on its way from broker to consumer.

    Invariants: records come out in the order of offsets, from ``position`` on, each once; a record
    is decoded when somebody asks for it, and never before its batch's checksum was compared.
    ``fetch_offset`` is what to fetch next: the end of what is buffered.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        asked_timestamp: int | None,
        *,
        committed_only: bool,
        check_crcs: bool,
    ) -> None:
        self.topic_partition = topic_partition
        self.position = Position(topic_partition, asked_timestamp)
        self.fetch_offset: int | None = None
        self.fetch_epoch = UNKNOWN_EPOCH
        """The leader epoch in which the record before ``fetch_offset`` was written, if known."""

        self.agreed_epoch = UNKNOWN_EPOCH
        """The last leader epoch whose leader had what is before ``fetch_offset``."""

        self.high_watermark = UNKNOWN_OFFSET
        self.last_stable_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.paused = False
        self.asking = False
        """Whether a request about this partition is under way."""

        self.retry_at_ms = 0
        self.failures = 0
        self.error: QuorateError | None = None
        self.buffered_bytes = 0
        self._committed_only = committed_only
        self._check_crcs = check_crcs
        self._chunks: deque[_Chunk] = deque()
        self._decoded: list[Record] = []
        self._decoded_end = 0
        self._decoded_epoch = UNKNOWN_EPOCH

    # Where to read

    def seek(self, offset: int, epoch: int = UNKNOWN_EPOCH) -> None:
        """Give out from that offset on.

        Args:
            offset: The next offset to give out.
            epoch: The leader epoch in which the record before it was written, if that is known:
                then a leader that does not have that record is noticed (KIP-320).
        """
        self.position.seek(offset, epoch)
        self._restart()

    def look_for(self, timestamp: int) -> None:
        """Give out from where a broker says."""
        self.position.look_for(timestamp)
        self._restart()

    def found(self, offset: int, generation: int) -> None:
        """Take a broker's answer to where to begin."""
        if self.position.found(offset, generation):
            self._restart()

    def fail(self, error: QuorateError) -> None:
        """Stop until somebody seeks; the next one who asks for records gets the error."""
        self.position.lose()
        self._restart()
        self.error = error

    def needs_check(self, leader_epoch: int) -> bool:
        """Whether a leader of that epoch has to be asked whether it has what was read (KIP-320).

        An epoch that is earlier than that of the last leader is one of another topic of that name.
        """
        return self.fetch_epoch >= 0 and 0 <= leader_epoch != self.agreed_epoch

    def _restart(self) -> None:
        self.fetch_offset = self.position.offset
        self.fetch_epoch = self.position.epoch
        self.agreed_epoch = UNKNOWN_EPOCH
        self.error = None
        self.retry_at_ms = 0
        self.buffered_bytes = 0
        self._chunks.clear()
        self._decoded = []

    # Batches come in

    def add(self, data: PartitionData, fetch_offset: int, generation: int) -> bool:
        """Take what a broker sent for the offset asked for; nothing, if that is void by now.

        Returns whether it can be read, or is what the next one who asks for records fails with;
        who has others to give out before asks for it again.
        """
        if generation != self.position.generation or fetch_offset != self.fetch_offset:
            return True
        self.high_watermark = data.high_watermark
        self.last_stable_offset = data.last_stable_offset
        self.log_start_offset = data.log_start_offset
        if not data.records:
            return True
        records = memoryview(cast("bytes", data.records))
        try:
            end, next_offset, epoch = _whole_batches(records, fetch_offset)
        except QuorateError as error:
            if self.is_buffering:
                return False
            self.fail(CorruptRecordError(f"{self.topic_partition} at {fetch_offset}: {error}"))
            return True
        aborted = [(a.first_offset, a.producer_id) for a in data.aborted_transactions or ()]
        self._chunks.append(_Chunk(records[:end], 0, deque(sorted(aborted))))
        self.buffered_bytes += end
        self.fetch_offset, self.fetch_epoch = next_offset, epoch
        return True

    def drop_fetched(self) -> None:
        """Forget what was fetched and not given out: it may not be there any more."""
        self._restart()

    # Records come out

    @property
    def is_buffering(self) -> bool:
        """Whether something was fetched that was not given out."""
        return bool(self._decoded or self._chunks)

    @property
    def has_records(self) -> bool:
        """Whether there may be records to give out, or an error to raise."""
        return self.error is not None or (not self.paused and self.is_buffering)

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is known to be there that was not fetched; not before the first answer.

        A paused partition is nowhere: nobody asks for what it has.
        """
        end = self.last_stable_offset if self._committed_only else self.high_watermark
        offset = self.fetch_offset
        return not self.paused and offset is not None and 0 <= end <= offset

    def next_record(self) -> Record | None:
        """Return the record that comes next, without taking it; None if it must be fetched."""
        return self._decoded[0] if self._decode_until_wanted() else None

    def decoded(self) -> Sequence[Record]:
        """Return the next records as far as they are decoded, without taking them."""
        return self._decoded

    def take(self, records_max: int) -> list[Record]:
        """Return the next records: at most so many, none if the next ones must be fetched first.

        Raises:
            QuorateError: The partition cannot be read on from here.
        """
        taken: list[Record] = []
        while len(taken) < records_max and self._decode_until_wanted():
            room = records_max - len(taken)
            decoded = self._decoded
            if len(decoded) <= room:
                self._decoded = []
                self.position.advance(self._decoded_end, self._decoded_epoch)
            else:
                decoded = decoded[:room]
                del self._decoded[:room]
                self.position.advance(self._behind(decoded[-1]), self._decoded_epoch)
            if taken:
                taken += decoded
            else:
                taken = decoded  # usually all there is: no copy
        if not taken and self.error is not None:
            raise copy(self.error)
        return taken

    def _behind(self, record: Record) -> int:
        """Return the position behind a record in the middle of its batch.

        Brokers do not look at the offsets of records in it: whatever a producer made of them, the
        position goes on, and not beyond the batch.
        """
        return min(max(self.position.offset or 0, record.offset + 1), self._decoded_end)

    def _decode_until_wanted(self) -> bool:
        """Decode batches until there is a record to give out; whether there is one."""
        while not self._decoded and self._chunks:
            self._decode_batch()
        return bool(self._decoded)

    def _decode_batch(self) -> None:
        chunk = self._chunks[0]
        try:
            header = parse_header(chunk.data, chunk.at)
            if self._check_crcs and not crc_matches(chunk.data, chunk.at, header):
                message = f"{self.topic_partition} at {header.base_offset}: checksum is wrong"
                raise CorruptRecordError(message)
            records = self._wanted_records(chunk, header)
        except QuorateError as error:
            self.fail(error)
            return
        chunk.at += header.size_bytes
        self.buffered_bytes -= header.size_bytes
        if chunk.at == len(chunk.data):
            self._chunks.popleft()
        if records:
            self._decoded, self._decoded_end = records, header.next_offset
            self._decoded_epoch = header.leader_epoch
        else:
            offset = max(header.next_offset, self.position.offset or 0)
            self.position.advance(offset, header.leader_epoch)

    def _wanted_records(self, chunk: _Chunk, header: BatchHeader) -> list[Record]:
        """Return a batch's records from the position on; none of what consumers do not see."""
        self._begin_aborted(chunk, header.last_offset)
        if header.is_control:
            if header.producer_id in chunk.aborting and self._is_abort(chunk, header):
                chunk.aborting.discard(header.producer_id)
            return []
        if header.is_transactional and header.producer_id in chunk.aborting:
            return []
        records = self._read(chunk, header)
        position = self.position.offset
        assert position is not None
        if records and records[0].offset < position:
            del records[: bisect_left(records, position, key=_offset_of)]
        return records

    def _begin_aborted(self, chunk: _Chunk, last_offset: int) -> None:
        aborted = chunk.aborted
        if self._committed_only:
            while aborted and aborted[0][0] <= last_offset:
                chunk.aborting.add(aborted.popleft()[1])

    def _is_abort(self, chunk: _Chunk, header: BatchHeader) -> bool:
        markers = self._read(chunk, header)
        return bool(markers) and markers[0].key == ABORT_KEY

    def _read(self, chunk: _Chunk, header: BatchHeader) -> list[Record]:
        batch = chunk.data[chunk.at : chunk.at + header.size_bytes]
        return read_records(batch, header, self.topic_partition, bytes_max=DECOMPRESSED_BYTES_MAX)


def _whole_batches(data: memoryview, fetch_offset: int) -> tuple[int, int, int]:
    """Return where the last whole batch ends, the offset behind it, and its leader epoch.

    Brokers cut answers at byte limits, so what follows the first batch may be a part of one.

    Raises:
        QuorateError: The bytes are not batches, or lead nowhere.
    """
    at, next_offset, epoch = 0, fetch_offset, UNKNOWN_EPOCH
    while at + HEADER_BYTES <= len(data):
        header = parse_header(data, at)
        if at and header.size_bytes > len(data) - at:
            break
        check_header(header, len(data) - at)
        at += header.size_bytes
        next_offset = max(next_offset, header.next_offset)
        epoch = header.leader_epoch
    if next_offset == fetch_offset:
        raise CorruptRecordError(f"{len(data)} bytes without a record that was asked for")
    return at, next_offset, epoch
