"""Segments: the row of a log's segments, and which of them holds an offset."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import is_

from quorate.broker.log.active import ActiveSegment
from quorate.broker.log.files import Files
from quorate.broker.log.lookup import LogSegment, Searchable
from quorate.broker.log.segment import Segment


class Segments:
    """All segments of a log, oldest first; the last one is active.

    Invariant: base offsets increase, and ``_bases`` holds exactly them, so that finding a segment
    is a bisection in memory whatever the number of segments.
    """

    __slots__ = ("_aborted", "_bases", "_closed", "active", "rolled_bytes")

    def __init__(self, closed: Sequence[Segment], active: ActiveSegment) -> None:
        self._closed = list(closed)
        self._bases = [*(segment.base_offset for segment in closed), active.base_offset]
        self.active = active
        self.rolled_bytes = 0
        """Of segments that were closed since."""
        self._aborted = [segment.base_offset for segment in closed if segment.has_aborted]
        """The bases of closed segments with an index of aborted transactions."""
        assert self._bases == sorted(set(self._bases)), "segments in order"

    def __len__(self) -> int:
        return len(self._bases)

    def __iter__(self) -> Iterator[LogSegment]:
        yield from self._closed
        yield self.active

    @property
    def closed(self) -> Sequence[Segment]:
        """All but the active one."""
        return self._closed

    @property
    def first_offset(self) -> int:
        """The first offset that the files can hold."""
        return self._bases[0]

    def number_of(self, offset: int) -> int:
        """Return the number of the segment in whose range the offset is."""
        number = bisect_right(self._bases, offset) - 1
        assert number >= 0, f"offset {offset} lies before the first segment"
        return number

    def at(self, number: int) -> LogSegment:
        """Return a segment by number."""
        return self.active if number == len(self._closed) else self._closed[number]

    @property
    def have_aborted(self) -> bool:
        """Whether there are aborted transactions at all."""
        return bool(self._aborted) or self.active.aborted is not None

    def with_aborted(self, offset: int) -> Iterator[Segment]:
        """Yield the closed segments with aborted transactions, from the one with the offset on."""
        if not self._aborted:
            return
        bases, closed = self._bases, self._closed
        begin = bases[self.number_of(offset)]
        for base in self._aborted[bisect_left(self._aborted, begin) :]:
            yield closed[bisect_left(bases, base)]

    def base_of(self, number: int) -> int:
        """Return the first offset of a segment's range."""
        return self._bases[number]

    def end_of(self, number: int, log_end_offset: int) -> int:
        """Return the offset at which the segment of that number ends."""
        return log_end_offset if number == len(self._closed) else self._bases[number + 1]

    def through(self, files: Files) -> "FrozenSegments":
        """Return the segments there are now, oldest first, to be read from these files."""
        return FrozenSegments(list(self._closed), self.active.through(files), files)

    def roll(self, closed: Segment, active: ActiveSegment) -> None:
        """The active segment was closed and another one begun."""
        assert closed.base_offset == self._bases[-1] < active.base_offset
        self.rolled_bytes += self.active.size_bytes  # the closed one would look at the disk
        self._closed.append(closed)
        if closed.has_aborted:
            self._aborted.append(closed.base_offset)
        self._bases.append(active.base_offset)
        self.active = active

    def holds(self, sources: Sequence[Segment]) -> bool:
        """Whether these are neighbours in the row still."""
        number = bisect_right(self._bases, sources[0].base_offset) - 1
        held = self._closed[max(number, 0) : number + len(sources)]
        return len(held) == len(sources) and all(map(is_, held, sources))

    def replace(self, sources: Sequence[Segment], segment: Segment) -> None:
        """Put one segment in the place of neighbours, the first of which has the same base."""
        assert self.holds(sources)
        number = self._bases.index(segment.base_offset)
        self._closed[number : number + len(sources)] = [segment]
        self._bases[number : number + len(sources)] = [segment.base_offset]
        self.note_aborted()

    def drop_oldest(self, count: int) -> list[Segment]:
        """Take the oldest closed segments out."""
        dropped = self._closed[:count]
        del self._closed[:count]
        del self._bases[:count]
        if self._aborted:
            self.note_aborted()
        return dropped

    def note_aborted(self) -> None:
        """Look again which closed segments have aborted transactions."""
        self._aborted = [each.base_offset for each in self._closed if each.has_aborted]


class FrozenSegments:
    """Segments as they were at a moment; may be walked through in another thread."""

    __slots__ = ("_active", "_closed", "_files")

    def __init__(self, closed: Sequence[Segment], active: Searchable, files: Files) -> None:
        self._closed = closed
        self._active = active
        self._files = files

    def __iter__(self) -> Iterator[Searchable]:
        for segment in self._closed:
            yield segment.through(self._files)
        yield self._active

    @property
    def are_replaced(self) -> bool:
        """Whether compaction has put others in the place of some since."""
        return any(segment.is_replaced for segment in self._closed)
