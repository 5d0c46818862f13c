"""Finding batches in a segment by offset, position or time: first the index, then headers."""

from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple, Protocol

from quorate.broker.log.files import File, Files
from quorate.broker.log.index import FIRST, SECOND, Index
from quorate.broker.log.scan import PlacedBatch, scan_headers
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
    for batch in batches_from(segment, entry.second if entry else 0):
        if batch.header.last_offset >= offset:
            return batch.position
    return segment.size_bytes


def search_boundary(segment: Searchable, target: int, start: int) -> int:
    """Find, without help from memory, what ``Searchable.boundary_before`` says."""
    entry = segment.offset_index.floor(target, SECOND)
    boundary = max(start, entry.second) if entry else start
    ends = (b.position + b.header.size_bytes for b in batches_from(segment, boundary))
    return max(takewhile(lambda end: end <= target, ends), default=boundary)


def search_offset_behind(segment: Searchable, position: int, end_offset: int) -> int:
    """Find, without help from memory, what ``Searchable.offset_behind`` says."""
    entry = segment.offset_index.ceiling(position, SECOND)
    return end_offset if entry is None else segment.base_offset + entry.first + 1


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
