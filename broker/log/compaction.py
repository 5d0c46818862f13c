"""Which logs are to be compacted, and which of their segments become one (``LogCleanerManager``).

A log that is compacted has a clean part, in which each key stands once, and a dirty part behind
it.  The filthiest log comes first; logs that have waited too long need not be filthy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from quorate.broker.log.fates import NO_ABORTED, AbortedSource
from quorate.broker.log.files import Files
from quorate.broker.log.index import RELATIVE_OFFSET_MAX
from quorate.broker.log.lookup import batches_from
from quorate.broker.log.segment import Segment
from quorate.dataclass import dataclass
from quorate.setting_fields import LONG_MAX
from quorate.settings import TopicConfig


@dataclass(frozen=True, slots=True)
class ClosedPart:
    """The closed segments of a log that lie below its last stable offset, oldest first."""

    segments: Sequence[Segment]
    end_offset: int
    """Where the last one ends."""
    cleaned_offset: int
    """Where the dirty part begins."""
    config: TopicConfig
    aborted: AbortedSource = NO_ABORTED
    """Which transactions were aborted, in the whole log."""

    def ends(self) -> Iterator[int]:
        """Yield where each segment ends."""
        yield from (segment.base_offset for segment in self.segments[1:])
        if self.segments:
            yield self.end_offset

    def below(self, offset: int) -> "ClosedPart":
        """Return the part of it whose segments begin below the offset."""
        kept = [segment for segment in self.segments if segment.base_offset < offset]
        end_offset = self.end_offset
        if len(kept) < len(self.segments):
            end_offset = self.segments[len(kept)].base_offset
        return replace(self, segments=kept, end_offset=end_offset)


@dataclass(frozen=True, slots=True)
class Filth:
    """How much of a log wants compaction."""

    part: ClosedPart
    """Less what is too young."""
    dirty_bytes: int
    total_bytes: int
    is_overdue: bool
    """Whether a record has waited longer than ``max.compaction.lag.ms``."""

    @property
    def dirty_ratio(self) -> float:
        """The dirty share of all that may be compacted."""
        return self.dirty_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        """Whether to compact the log."""
        if self.dirty_bytes == 0:
            return False
        return self.is_overdue or self.dirty_ratio > self.part.config.min_cleanable_dirty_ratio


def filth_of(part: ClosedPart, files: Files, now_ms: int) -> Filth:
    """Look, through these files, how dirty a log is; may run in a worker thread.

    Raises:
        OSError: a segment is not there any more, or the disk fails.
    """
    part = _old_enough(part, files, now_ms)
    total_bytes = sum(segment.size_bytes for segment in part.segments)
    dirty = [
        segment
        for segment, end in zip(part.segments, part.ends(), strict=True)
        if end > part.cleaned_offset
    ]
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    is_overdue = any(_is_overdue(each.through(files), part.config, now_ms) for each in dirty)
    return Filth(part, dirty_bytes, total_bytes, is_overdue)


def _old_enough(part: ClosedPart, files: Files, now_ms: int) -> ClosedPart:
    """Return the part up to the first dirty segment with a record that is too young."""
    lag_ms = part.config.min_compaction_lag_ms
    if lag_ms == 0:
        return part
    for segment, end in zip(part.segments, part.ends(), strict=True):
        if end > part.cleaned_offset:
            largest = segment.through(files).largest
            if largest.timestamp_ms > now_ms - lag_ms:
                return part.below(segment.base_offset)
    return part


def _is_overdue(segment: Segment, config: TopicConfig, now_ms: int) -> bool:
    """Whether the first batch of a dirty segment has waited for too long.

    Times need not grow with offsets, and an empty batch has none.
    """
    lag_ms = config.max_compaction_lag_ms
    if lag_ms == LONG_MAX:
        return False
    first = next(batches_from(segment, 0), None)
    return first is not None and 0 <= first.header.max_timestamp_ms < now_ms - lag_ms


def filthiest(candidates: Sequence[Filth]) -> Filth | None:
    """Return which log to compact next, if any is due."""
    due = [each for each in candidates if each.is_due]
    return max(due, key=lambda each: each.dirty_ratio, default=None)


def group_segments(part: ClosedPart) -> list[ClosedPart]:
    """Return which neighbours may become one segment, whatever little is taken out of them."""
    groups: list[ClosedPart] = []
    members: list[Segment] = []
    sizes = _Sizes()
    begin = 0
    for segment, end in zip(part.segments, part.ends(), strict=True):
        size = _Sizes(segment.size_bytes, *segment.index_sizes)
        if members and not sizes.admits(size, part.config, end - 1 - members[0].base_offset):
            groups.append(replace(part, segments=members, end_offset=begin))
            members, sizes = [], _Sizes()
        members.append(segment)
        sizes = sizes.plus(size)
        begin = end
    if members:
        groups.append(replace(part, segments=members, end_offset=begin))
    return groups


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The bytes of a segment's three files, or of several segments'."""

    log: int = 0
    offset_index: int = 0
    time_index: int = 0

    def plus(self, other: "_Sizes") -> "_Sizes":
        return _Sizes(
            self.log + other.log,
            self.offset_index + other.offset_index,
            self.time_index + other.time_index,
        )

    def admits(self, more: "_Sizes", config: TopicConfig, span: int) -> bool:
        """Whether one segment may hold both, and offsets that are so far apart."""
        both = self.plus(more)
        return (
            both.log <= config.segment_bytes
            and max(both.offset_index, both.time_index) <= config.segment_index_bytes
            and span <= RELATIVE_OFFSET_MAX
        )
