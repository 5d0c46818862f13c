"""Compaction of one log: of each key only the last record stays (Kafka: class ``Cleaner``).

First the keys of the dirty part are read, with the offset that each has last.  Then all segments up
to there are copied, a few at a time, without the records that a later one of the same key replaces.
Offsets stay what they are: where whole batches fall out, an empty batch stands for their offsets,
one for each leader epoch, so that batches follow each other without a gap as in every log.

Everything here may run in a worker thread: it reads closed segments, and writes files that mean
nothing yet.
"""

from collections.abc import Iterator, Mapping, Sequence

from quorate.broker.log.compaction import ClosedPart, group_segments
from quorate.broker.log.fates import Fates
from quorate.broker.log.files import FileSystem, OpenFiles
from quorate.broker.log.index import RELATIVE_OFFSET_MAX
from quorate.broker.log.key_offsets import SECRET_BYTES, KeyOffsets
from quorate.broker.log.producers import NO_BATCH, LastWritten
from quorate.broker.log.rewriting import (
    OPEN_FILES_MAX,
    Charge,
    PlainBatch,
    SegmentWriter,
    discard,
    read_batches,
)
from quorate.broker.log.segment import (
    Segment,
)
from quorate.dataclass import dataclass
from quorate.errors import CorruptRecordError, QuorateError
from quorate.records.batch import (
    DELETE_HORIZON_BIT,
    BatchHeader,
)
from quorate.records.checksum import extend_crc32c
from quorate.records.compacting import (
    PlacedRecord,
    empty_batch,
    place_records,
    unpacked,
    with_records,
    without_records,
)
from quorate.records.compression import DECOMPRESSED_BYTES_MAX
from quorate.records.control import find_end_marker


class BufferTooSmallError(QuorateError):
    """There is not enough memory to compact a log at all."""


@dataclass(frozen=True, slots=True)
class CompactedSegment:
    """What is to take the place of some neighbours; nothing yet."""

    sources: Sequence[Segment]
    path: str
    """Of its log file."""
    end_offset: int
    txn_index_bytes: int
    """Of the index of aborted transactions, which is there even if it is empty."""


@dataclass(slots=True)
class Outcome:
    """What a compaction did, for who looks."""

    keys: int = 0
    segments_before: int = 0
    segments_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    records_before: int = 0
    records_after: int = 0


class Compaction:
    """One compaction of one log: ``read_keys``, and then ``copy`` for each of ``groups``.

    State: the keys of the dirty part, up to ``cleaned_offset``, behind which all records stay.
    """

    def __init__(
        self,
        fs: FileSystem,
        part: ClosedPart,
        *,
        producers: Mapping[int, LastWritten],
        buffer_bytes: int,
        now_ms: int,
        charge: Charge,
    ) -> None:
        """Prepare to compact.

        Args:
            fs: where the segments are.
            part: what of the log may be compacted.
            producers: what each producer wrote last; that batch stays, if only to say so.
            buffer_bytes: what the keys may take.
            now_ms: the time.
            charge: see there.
        """
        self._fs = fs
        self.part = part
        self._producers = producers
        self._now_ms = now_ms
        self._charge = charge
        self._files = OpenFiles(fs, OPEN_FILES_MAX)
        self._buffer_bytes = buffer_bytes
        self._keys = KeyOffsets(bytes(SECRET_BYTES), buffer_bytes=0, keys_max=0)
        self.cleaned_offset = part.end_offset
        """Where the dirty part will begin."""
        self.reach = part.end_offset
        """Below it may be the reasons why records go: of the next batch, too, if some fitted."""
        self.outcome = Outcome()
        self._checksum = 0
        self._fates = Fates(())

    @property
    def _dirty_offset(self) -> int:
        first_offset = self.part.segments[0].base_offset
        return max(self.part.cleaned_offset, first_offset)

    def read_keys(self) -> None:
        """Find out which record of each key is the last one, as far as there is memory for it.

        Raises:
            BufferTooSmallError: the keys of one batch do not fit into the buffer.
            KafkaError: there is something in the log that is no record.
            OSError: the disk fails, or the segments are gone.
        """
        self._keys = KeyOffsets(
            self._fs.random_bytes(SECRET_BYTES),
            buffer_bytes=self._buffer_bytes,
            keys_max=self.part.end_offset - self._dirty_offset,
        )
        aborted = self.part.aborted.load(self._files)
        self._fates = Fates(aborted)
        dirty = Fates(each for each in aborted if each.last_offset >= self._dirty_offset)
        for header, data in self._dirty_batches():
            if header.is_control:
                dirty.end(header, find_end_marker(data, header))
            elif not dirty.see(header) and not self._note_keys(header, data):
                self.cleaned_offset, self.reach = header.base_offset, header.next_offset
                break
        self.outcome.keys = self._keys.count
        if self.cleaned_offset <= self._dirty_offset < self.part.end_offset:
            raise BufferTooSmallError("log.cleaner.dedupe.buffer.size is too small for one batch")

    def _dirty_batches(self) -> Iterator[PlainBatch]:
        for segment, end in zip(self.part.segments, self.part.ends(), strict=True):
            if end > self._dirty_offset:
                for batch in read_batches(segment.through(self._files), self._charge):
                    if batch.header.next_offset > self._dirty_offset:
                        yield batch

    def _note_keys(self, header: BatchHeader, data: bytes) -> bool:
        """Note the keys of a batch; return whether there was room for all."""
        keys, base_offset = self._keys, header.base_offset
        for record in _records(header, data)[1]:
            if record.key is None:
                continue
            if keys.is_full and keys.get(record.key) is None:
                return False
            keys.put(record.key, base_offset + record.offset_delta)
        return True

    def groups(self) -> list[ClosedPart]:
        """Return what is to be copied, oldest first."""
        return group_segments(self.part.below(self.cleaned_offset))

    def copy(self, group: ClosedPart) -> CompactedSegment | None:
        """Write what stays of some neighbours into one segment; None if all of it does.

        Raises:
            KafkaError: there is something in the log that is no record.
            OSError: the disk fails or is full, or the segments are gone.
        """
        first = group.segments[0]
        folder = first.stem.rpartition("/")[0]
        # What an earlier swap renamed must not come back in the midst of this one.
        self._fs.sync_directory(folder)
        writer = SegmentWriter(
            self._fs, first.stem, first.base_offset, group.config.index_interval_bytes
        )
        checksum = 0
        for written in self._survivors(group, writer):
            checksum = extend_crc32c(checksum, written)
            writer.add(written, self._charge)
        writer.finish(self._charge)
        size_bytes = sum(segment.size_bytes for segment in group.segments)
        self._count(group, size_bytes, writer.size_bytes)
        if len(group.segments) == 1 and (
            (size_bytes, self._checksum) == (writer.size_bytes, checksum)
        ):
            discard(self._fs, first.stem)
            return None
        # Records without a time are as old as their file.
        self._fs.set_modified(writer.path, group.segments[-1].through(self._files).modified_ms)
        self._fs.sync_directory(folder)
        return CompactedSegment(
            group.segments, writer.path, group.end_offset, writer.txn_index_bytes
        )

    def discard(self, group: ClosedPart) -> None:
        """Remove what was written for some neighbours.

        Raises:
            OSError: the disk fails.
        """
        discard(self._fs, group.segments[0].stem)

    def _survivors(self, group: ClosedPart, writer: SegmentWriter) -> Iterator[bytes]:
        """Yield the batches that take the place of the group's, which are summed up meanwhile.

        The writer is told which transactions were aborted by their markers.
        """
        self._checksum = 0
        gap = Gap(group.segments[0].base_offset)
        for segment in group.segments:
            for header, data in read_batches(segment.through(self._files), self._charge):
                self._checksum = extend_crc32c(self._checksum, data)
                if header.is_control:
                    batch = self._marker_survivor(header, data, writer)
                else:
                    batch = self._survivor(header, data)
                filler = gap.widen(header) if batch is None else gap.end(header)
                if filler is not None:
                    yield filler
                if batch is not None:
                    yield batch
        filler = gap.close()
        if filler is not None:
            yield filler

    def _count(self, group: ClosedPart, bytes_before: int, bytes_after: int) -> None:
        outcome = self.outcome
        outcome.segments_before += len(group.segments)
        outcome.segments_after += 1
        outcome.bytes_before += bytes_before
        outcome.bytes_after += bytes_after

    def _survivor(self, header: BatchHeader, data: bytes) -> bytes | None:
        """Return what stays of a batch, or None if not even its header does."""
        self.outcome.records_before += header.record_count
        is_aborted = self._fates.see(header)
        if header.base_offset >= self.cleaned_offset:
            self.outcome.records_after += header.record_count
            return data
        if header.record_count and not is_aborted:
            records, placed = _records(header, data)
            kept = [record for record in placed if self._stays(header, record)]
            self.outcome.records_after += len(kept)
            if kept:
                horizon_ms = self._horizon_for(header, kept)
                if len(kept) == len(placed) and horizon_ms is None:
                    return data
                return with_records(header, records, kept, delete_horizon_ms=horizon_ms)
        last = self._producers.get(header.producer_id)
        if last is not None and last.last_offset == header.last_offset:
            return without_records(header) if header.record_count else data
        return None

    def _marker_survivor(
        self, header: BatchHeader, data: bytes, writer: SegmentWriter
    ) -> bytes | None:
        """Return what stays of a marker: all of it while there is anything that it ends.

        After that it stays for ``delete.retention.ms``, for consumers that have read what it ended.
        """
        self.outcome.records_before += header.record_count
        marker = find_end_marker(data, header)
        if marker is None and header.record_count:
            self.outcome.records_after += header.record_count
            return data  # no marker, as far as we know
        is_needed, aborted = self._fates.end(header, marker)
        if is_needed or header.base_offset >= self.cleaned_offset:
            if aborted is not None:
                writer.add_aborted(aborted)
            self.outcome.records_after += header.record_count
            return data
        if header.record_count:
            if not header.attributes & DELETE_HORIZON_BIT:
                records, placed = _records(header, data)
                horizon_ms = self._now_ms + self.part.config.delete_retention_ms
                self.outcome.records_after += header.record_count
                return with_records(header, records, placed, delete_horizon_ms=horizon_ms)
            if self._now_ms < header.base_timestamp_ms:
                self.outcome.records_after += header.record_count
                return data
        last = self._producers.get(header.producer_id)
        if last is not None and last == (NO_BATCH, header.producer_epoch):
            return without_records(header) if header.record_count else data
        return None

    def _stays(self, header: BatchHeader, record: PlacedRecord) -> bool:
        if record.key is None:
            return False
        last_offset = self._keys.get(record.key)
        if last_offset is not None and last_offset > header.base_offset + record.offset_delta:
            return False
        if record.is_tombstone and header.attributes & DELETE_HORIZON_BIT:
            return self._now_ms < header.base_timestamp_ms
        return True

    def _horizon_for(self, header: BatchHeader, kept: Sequence[PlacedRecord]) -> int | None:
        """Return when the tombstones of a batch may go, if that is to be said now (KIP-534)."""
        if header.attributes & DELETE_HORIZON_BIT or not any(each.is_tombstone for each in kept):
            return None
        return self._now_ms + self.part.config.delete_retention_ms


class Gap:
    """Offsets behind the last batch written of which nothing stays.

    State: where they begin and end, and the leader epoch that they are of.
    """

    __slots__ = ("_begin", "_end", "_epoch")

    def __init__(self, offset: int) -> None:
        self._begin = self._end = offset
        self._epoch = 0

    def widen(self, header: BatchHeader) -> bytes | None:
        """Count a batch in that falls out; return one that stands for the gap before it, or None.

        Raises:
            CorruptRecordError: the batch does not follow the one before.
        """
        self._check_follows(header)
        filler = None
        fits = header.last_offset - self._begin <= RELATIVE_OFFSET_MAX
        if header.leader_epoch != self._epoch or not fits:
            filler = self.close()
        self._epoch = header.leader_epoch
        self._end = header.next_offset
        return filler

    def end(self, header: BatchHeader) -> bytes | None:
        """Begin anew behind a batch that stays; return one that stands for the gap, or None.

        Raises:
            CorruptRecordError: the batch does not follow the one before.
        """
        self._check_follows(header)
        filler = self.close()
        self._begin = self._end = header.next_offset
        return filler

    def close(self) -> bytes | None:
        """Return a batch that stands for the gap, if there is one; another one begins behind it."""
        begin, self._begin = self._begin, self._end
        return empty_batch(begin, self._end - 1, self._epoch) if begin < self._end else None

    def _check_follows(self, header: BatchHeader) -> None:
        if header.base_offset != self._end:
            message = f"a batch at {header.base_offset}, where {self._end} was to be next"
            raise CorruptRecordError(message)


def _records(header: BatchHeader, data: bytes) -> tuple[bytes, list[PlacedRecord]]:
    records = unpacked(data, header, bytes_max=DECOMPRESSED_BYTES_MAX)
    return records, place_records(records, header.record_count, header.last_offset_delta)
