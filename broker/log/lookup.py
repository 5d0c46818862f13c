"""Finding batches in a segment by offset, position or time: first the index, then headers."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import NamedTuple, Protocol

from quorate.broker.log.files import File, Files
from quorate.broker.log.index import FIRST, SECOND, Index, IndexEntry
from quorate.broker.log.scan import PlacedBatch, scan_headers
from quorate.errors import CorruptRecordError, InvalidRecordError
from quorate.records.slices import FileSlice


class TimestampPlace(NamedTuple):
    """A timestamp and the last offset of the batch that has it."""

    timestamp_ms: int
    offset: int


class Searchable(Protocol):
    """A segment, closed or active: batches end to end from position 0 to ``size_bytes``."""

    base_offset: int
    stem: str

    @property
    def size_bytes(self) -> int:
        """Bytes of batches."""
        ...

    @property
    def file(self) -> File:
        """The file of batches."""
        ...

    @property
    def offset_index(self) -> Index:
        """From last offsets of batches to their positions."""
        ...

    @property
    def time_index(self) -> Index:
        """From timestamps to offsets."""
        ...

    @property
    def largest(self) -> TimestampPlace:
        """The largest timestamp, NO_TIMESTAMP if no record has one."""
        ...

    def position_of(self, offset: int) -> int:
        """Return where the first batch begins whose last offset is at least ``offset``."""
        ...

    def boundary_before(self, target: int, start: int) -> int:
        """Return the last batch boundary at or before ``target``, given one at or before it."""
        ...

    def offset_behind(self, position: int, end_offset: int) -> int:
        """Return an offset at or behind all batches that begin before the position.

        It is that of the segment's end at most, which is given.
        """
        ...


class LogSegment(Searchable, Protocol):
    """A segment as a log has it."""

    @property
    def modified_ms(self) -> int:
        """When the file was last written."""
        ...

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Of its files, in the order of making them."""
        ...

    def remembers(self, offset: int) -> bool:
        """Whether the batches from that one on are found without looking into a file."""
        ...

    def through(self, files: Files) -> Searchable:
        """Return the segment as it is now, to be read from these files, maybe elsewhere."""
        ...


def batches_from(segment: Searchable, position: int) -> Iterator[PlacedBatch]:
    """Yield the batches from a position that is a batch's beginning."""
    return scan_headers(segment.file, position, segment.size_bytes)


def batch_start(segment: Searchable, offset: int) -> int:
    """Return the first offset of the batch that holds the offset, or the offset if none does."""
    batch = next(batches_from(segment, segment.position_of(offset)), None)
    return offset if batch is None else min(offset, batch.header.base_offset)


def search_position(segment: Searchable, offset: int) -> int:
    """Find, without help from memory, what ``Searchable.position_of`` says."""
    entry = segment.offset_index.floor(offset - segment.base_offset, FIRST)
    for batch in _batches_at(segment, entry) or batches_from(segment, 0):
        if batch.header.last_offset >= offset:
            return batch.position
    return segment.size_bytes


def search_boundary(segment: Searchable, target: int, start: int) -> int:
    """Find, without help from memory, what ``Searchable.boundary_before`` says."""
    entry = segment.offset_index.floor(target, SECOND)
    if entry is not None and entry.second <= start:
        entry = None
    boundary = start
    # What stands before a damaged batch can be read.
    with suppress(CorruptRecordError, InvalidRecordError):
        for batch in _batches_at(segment, entry) or batches_from(segment, start):
            end = batch.position + batch.header.size_bytes
            if end > target:
                return batch.position
            boundary = end
    return boundary


def search_offset_behind(segment: Searchable, position: int, end_offset: int) -> int:
    """Find, without help from memory, what ``Searchable.offset_behind`` says."""
    entry = segment.offset_index.ceiling(position, SECOND)
    if entry is None or _batches_at(segment, entry) is None:
        return end_offset
    return segment.base_offset + entry.first + 1


def _batches_at(segment: Searchable, entry: IndexEntry | None) -> Iterator[PlacedBatch] | None:
    """Yield the batches from an entry of the offset index on; None if it is not about a batch.

    Indexes have no checksum, and those of closed segments are not checked when a log is opened.
    """
    if entry is None or not 0 <= entry.second < segment.size_bytes:
        return None
    batches = batches_from(segment, entry.second)
    with suppress(CorruptRecordError, InvalidRecordError):
        first = next(batches)
        if first.header.last_offset == segment.base_offset + entry.first:
            return chain((first,), batches)
    return None


def batches_since(
    segment: Searchable, timestamp_ms: int, from_offset: int
) -> Iterator[PlacedBatch]:
    """Yield the batches that may hold a record of that time or later, at or behind the offset."""
    # Everything up to the entry below is older: its timestamp was the largest until then.
    before = segment.time_index.floor(timestamp_ms - 1, FIRST)
    if before is not None:
        from_offset = max(from_offset, segment.base_offset + before.second)
    for batch in batches_from(segment, segment.position_of(from_offset)):
        if batch.header.max_timestamp_ms >= timestamp_ms:
            yield batch


def slice_of(
    segment: Searchable,
    offset: int,
    *,
    max_bytes: int,
    limit_offset: int | None,
    at_least_one: bool,
) -> FileSlice | None:
    """Return whole batches from the one that holds ``offset`` on, or None if there are none.

    Args:
        segment: where to look.
        offset: the first offset wanted.
        max_bytes: how much at most.
        limit_offset: an offset of this segment at and behind which nothing is wanted, or None.
        at_least_one: whether a first batch larger than ``max_bytes`` is wanted all the same.
    """
    start = segment.position_of(offset)
    end = segment.size_bytes if limit_offset is None else segment.position_of(limit_offset)
    if end - start > max_bytes:
        end = segment.boundary_before(start + max_bytes, start)
        if end == start and at_least_one:
            end = start + next(batches_from(segment, start)).header.size_bytes
    if end <= start:
        return None
    # In this order: asking for the descriptor makes a segment open its file.
    return FileSlice(segment.file.fd, start, end - start, segment.file)
