"""LogReader: the segments of a log, and what is looked up in them."""

from collections.abc import Callable
from typing import TypeVar

from quorate.broker.log.cold import (
    CachedFiles,
    ColdError,
    ColdLookup,
    NotCachedError,
    find_cached,
)
from quorate.broker.log.context import LogContext
from quorate.broker.log.files import Files
from quorate.broker.log.lookup import LogSegment, Searchable, slice_of
from quorate.broker.log.segments import Segments
from quorate.broker.log.times import TimeLookup, start_lookup
from quorate.broker.log.transactions import AbortedTransaction
from quorate.errors import CorruptRecordError, OffsetOutOfRangeError
from quorate.model import TopicPartition
from quorate.records.slices import FileSlice

T = TypeVar("T")


class LogReader:
    """What readers of a log need to know of it.

    Invariant: ``log_start_offset <= log_end_offset``, and the segments hold what is between them.
    """

    __slots__ = (
        "_context",
        "_segments",
        "log_end_offset",
        "log_start_offset",
        "topic_partition",
    )

    def __init__(
        self,
        context: LogContext,
        topic_partition: TopicPartition,
        segments: Segments,
        log_start_offset: int,
        log_end_offset: int,
    ) -> None:
        self._context = context
        self.topic_partition = topic_partition
        self._segments = segments
        self.log_start_offset: int = log_start_offset
        self.log_end_offset = log_end_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of batches in all segments."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def written_bytes(self) -> int:
        """Grows by what is appended, as long as the log is not cut back."""
        return self._segments.rolled_bytes + self._segments.active.size_bytes

    @property
    def segment_count(self) -> int:
        """Segments, the active one included."""
        return len(self._segments)

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        limit_offset: int,
        at_least_one: bool,
        may_wait: bool = True,
    ) -> FileSlice | None:
        """Return whole batches of one segment from the one that holds ``offset`` on.

        Args:
            offset: the first offset wanted; a batch is given whole, so it may begin earlier.
            max_bytes: how much at most.
            limit_offset: nothing at or behind it is given (the high watermark, for consumers).
            at_least_one: whether a first batch larger than ``max_bytes`` is given all the same.
            may_wait: whether the disk may be waited for.

        Returns:
            None if there is nothing to give.

        Raises:
            ColdError: only if it may not be waited for: it would have to be.
            CorruptRecordError: what should be there is damaged, or gone.
            OffsetOutOfRangeError: the offset lies before the log start or behind the log end.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            message = f"{offset} is not in {self.log_start_offset}..{self.log_end_offset}"
            raise OffsetOutOfRangeError(message)
        segments = self._segments
        if offset >= limit_offset or offset == self.log_end_offset:
            return None
        number = segments.number_of(offset)
        segment = segments.at(number)
        end = segments.end_of(number, self.log_end_offset)

        def find(where: Searchable) -> FileSlice | None:
            return slice_of(
                where,
                offset,
                max_bytes=max_bytes,
                limit_offset=limit_offset if limit_offset < end else None,
                at_least_one=at_least_one,
            )

        found = find(segment) if may_wait else self._look(segment, offset, find)
        if found is None and at_least_one and limit_offset >= end:
            raise CorruptRecordError(f"{self.topic_partition}: nothing holds offset {offset}")
        return found

    def bytes_from(
        self, piece: FileSlice, offset: int, *, limit_offset: int, may_wait: bool
    ) -> int | None:
        """Return how much there is from the beginning of a slice on, whatever the slice has of it.

        Args:
            piece: what :meth:`read` returned.
            offset: from where on it was asked for.
            limit_offset: as it was asked for.
            may_wait: whether the disk may be waited for.

        Returns:
            None if that reaches into segments behind that of the slice.

        Raises:
            ColdError: only if it may not be waited for: it would have to be.
        """
        segments = self._segments
        number = segments.number_of(offset)
        segment, end_offset = segments.at(number), segments.end_of(number, self.log_end_offset)
        if limit_offset > end_offset:
            return None

        def find(where: Searchable) -> int:
            is_whole = limit_offset == end_offset
            end = where.size_bytes if is_whole else where.position_of(limit_offset)
            return end - piece.position

        return find(segment) if may_wait else self._look(segment, offset, find)

    def aborted_in(
        self, piece: FileSlice, offset: int, *, limit_offset: int, may_wait: bool
    ) -> list[AbortedTransaction]:
        """Return the transactions that were aborted with records in a slice, maybe a few more.

        They are in the order of their markers. How long that takes depends on how many there are in
        the slice, and on those that end behind it before all that begin in it have.

        Args:
            piece: what :meth:`read` returned.
            offset: from where on it was asked for.
            limit_offset: as it was asked for: the last stable offset.
            may_wait: whether the disk may be waited for.

        Raises:
            ColdError: only if it may not be waited for: it would have to be.
        """
        segments, files = self._segments, self._context.files
        if not segments.have_aborted:
            return []
        number = segments.number_of(offset)
        segment, end_offset = segments.at(number), segments.end_of(number, self.log_end_offset)
        closed, active = list(segments.with_aborted(offset)), segments.active.aborted
        end = piece.position + piece.size_bytes

        def find(files: Files) -> list[AbortedTransaction]:
            where = segment if segment.remembers(offset) else segment.through(files)
            limit = min(limit_offset, where.offset_behind(end, end_offset))
            found: list[AbortedTransaction] = []
            for each in closed:
                more, is_all = each.through(files).aborted_between(offset, limit)
                found += more
                if is_all:
                    return found
            return found if active is None else found + active.between(offset, limit)[0]

        if may_wait:
            return find(files)
        try:
            return find(CachedFiles(files))
        except NotCachedError:
            raise ColdError(ColdLookup(files.fs, find)) from None

    def _look(self, segment: LogSegment, offset: int, find: Callable[[Searchable], T]) -> T:
        """Look something up without waiting for the disk.

        Raises:
            ColdError: it would have to be waited for.
        """
        if segment.remembers(offset):
            return find(segment)
        return find_cached(self._context.files, segment, find)

    def start_time_lookup(self, timestamp_ms: int | None) -> TimeLookup:
        """Return what finds the first record as new as that; None: the newest of all."""
        fs, start_offset = self._context.fs, self.log_start_offset
        return start_lookup(self._segments, fs, self.topic_partition, start_offset, timestamp_ms)
