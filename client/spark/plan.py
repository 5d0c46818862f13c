"""What is read: offsets found for places, ranges cut into tasks, micro-batches kept to their limit.

What a broker has to be asked for is asked through a function that is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from quorate.client.spark.places import (
    EARLIEST,
    LATEST,
    End,
    Offsets,
    OptionError,
    Place,
    Time,
    Times,
    named,
)
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.model import TopicPartition

if TYPE_CHECKING:
    from quorate.client.spark.options import RateOptions

Ask: TypeAlias = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]]
"""Asks ListOffsets for a time, or for LATEST or EARLIEST; -1 where no record is so late."""

LOSS_IS_AN_ERROR: Final = (
    "Some data may have been lost because they are not available in Kafka any more; either the data"
    " was aged out by Kafka or the topic may have been deleted before all the data in the topic was"
    " processed. If you don't want your streaming query to fail on such cases, set the source"
    ' option "failOnDataLoss" to "false".'
)
LOSS_IS_TOLD: Final = (
    "Some data may have been lost because they are not available in Kafka any more; either the data"
    " was aged out by Kafka or the topic may have been deleted before all the data in the topic was"
    " processed. If you want your streaming query to fail on such cases, set the source option"
    ' "failOnDataLoss" to "true".'
)
NO_RECORD: Final = -1


class DataLossError(QuorateError):
    """Records that should be read are gone, and ``failOnDataLoss`` is on."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of a partition, from ``start`` up to ``end``, exclusive."""

    topic_partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets that is; there may be fewer records."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Task:
    """What one task reads; ``topic_id`` is in hexadecimal, empty if the broker gives none."""

    offsets: OffsetRange
    topic_id: str


def resolve(
    place: Place,
    partitions: Collection[TopicPartition],
    ask: Ask,
    *,
    starting: bool,
    latest_without_match: bool,
) -> dict[TopicPartition, int]:
    """Return the offset of a place in each partition.

    Args:
        place: What the options say.
        partitions: Those that are read.
        ask: Asks brokers.
        starting: Whether this is where to begin, and not where to end.
        latest_without_match: Whether a time later than all records means the end of the log when
            it is where to begin. (It does when it is where to end.)

    Raises:
        OptionError: The place does not fit the partitions, or a time matches no record.
    """
    times = _asked(place, partitions)
    found = dict(ask({p: time for p, time in times.items() if time is not None}))
    offsets: dict[TopicPartition, int] = {}
    unmatched: list[TopicPartition] = []
    for partition in sorted(partitions):
        if times[partition] is None:
            assert isinstance(place, Offsets)
            offsets[partition] = place.by_partition[partition]
        elif found[partition] == NO_RECORD:
            if starting and not latest_without_match:
                raise OptionError(
                    f"No offset matched from request of topic-partition {partition} and timestamp"
                    f" {times[partition]}."
                )
            unmatched.append(partition)
        else:
            offsets[partition] = found[partition]
    offsets.update(ask(dict.fromkeys(unmatched, LATEST)))
    return offsets


def _asked(
    place: Place, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int | None]:
    """Return what to ask for; None where the place names an offset."""
    if isinstance(place, End):
        return dict.fromkeys(partitions, place.offset)
    if isinstance(place, Time):
        return dict.fromkeys(partitions, place.timestamp_ms)
    given, assigned = set(place.by_partition), named(dict.fromkeys(partitions, 0))
    if isinstance(place, Times):
        if given != set(partitions):
            raise OptionError(
                "If starting/endingOffsetsByTimestamp contains specific offsets, you must specify"
                f" all topics. Specified: {named(place.by_partition)} Assigned: {assigned}"
            )
        return dict(place.by_partition)
    if given != set(partitions):
        raise OptionError(
            "If startingOffsets contains specific offsets, you must specify all TopicPartitions."
            " Use -1 for latest, -2 for earliest, if you don't care."
            f" Specified: {named(place.by_partition)} Assigned: {assigned}"
        )
    return {
        partition: offset if offset in {LATEST, EARLIEST} else None
        for partition, offset in place.by_partition.items()
    }


def ranges_between(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[OffsetRange]:
    """Return what lies between, in the order of partitions; nothing where nothing does."""
    ranges = [OffsetRange(partition, starts[partition], ends[partition]) for partition in ends]
    return sorted((r for r in ranges if r.size > 0), key=lambda r: r.topic_partition)


def check_ends(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    log_ends: Mapping[TopicPartition, int],
    report_loss: Callable[[str], None],
) -> dict[TopicPartition, int]:
    """Return where to end, at most where logs end; what lies behind that is told as lost.

    Raises:
        OptionError: A partition begins behind its end.
    """
    result = dict(ends)
    for partition, end in sorted(ends.items()):
        start = starts[partition]
        if start > end:
            raise OptionError(
                f"The specified start offset {start} is greater than the end offset {end} for topic"
                f" {partition.topic} partition {partition.partition}."
            )
        log_end = log_ends.get(partition, end)
        if end > log_end:
            report_loss(
                f"The end offset of {partition} is {end}, and its log ends at {log_end}: records"
                " were deleted with their topic, or never written"
            )
            result[partition] = max(log_end, start)
    return result


def split(
    ranges: list[OffsetRange], partitions_min: int | None, records_max: int | None
) -> list[OffsetRange]:
    """Cut ranges into about ``partitions_min`` parts, none with more than ``records_max`` offsets.

    As Spark does it: parts in proportion to size, and ranges too small for two stay whole.
    """
    parts = dict.fromkeys(range(len(ranges)), 1)
    if partitions_min is not None and len(ranges) < partitions_min:
        parts = _proportional(ranges, partitions_min)
    pieces: list[OffsetRange] = []
    for index, whole in enumerate(ranges):
        needed = 1 if records_max is None else -(-whole.size // records_max)
        pieces += _pieces(whole, max(parts[index], needed))
    return pieces


def _proportional(ranges: list[OffsetRange], partitions_min: int) -> dict[int, int]:
    total = sum(r.size for r in ranges)
    counts = {i: _share(r.size, total, partitions_min) for i, r in enumerate(ranges)}
    large = {i: ranges[i].size for i, count in counts.items() if count > 1}
    rest = max(partitions_min - (len(ranges) - len(large)), 1)
    total = sum(large.values())
    return {i: _share(large[i], total, rest) if i in large else 1 for i in counts}


def _share(size: int, total: int, parts: int) -> int:
    return max(int(size / total * parts + 0.5), 1)


def _pieces(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    pieces: list[OffsetRange] = []
    start = whole.start
    for left in range(min(parts, whole.size), 0, -1):
        end = start + (whole.end - start) // left
        pieces.append(OffsetRange(whole.topic_partition, start, end))
        start = end
    return pieces


# Micro-batches


def limited(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], offsets_max: int
) -> dict[TopicPartition, int]:
    """Return ends before which there are about ``offsets_max`` offsets, shared out by size.

    Each partition with something to read gets at least one, so that small ones do not starve.

    Args:
        starts: Where the micro-batch begins, for every partition of ``ends``.
        ends: What there is to read.
        offsets_max: How many offsets.
    """
    sizes = {partition: max(end - starts[partition], 0) for partition, end in ends.items()}
    total = sum(sizes.values())
    if total <= offsets_max:
        return dict(ends)
    result: dict[TopicPartition, int] = {}
    for partition, end in ends.items():
        share = max(offsets_max * sizes[partition] // total, 1)
        result[partition] = min(end, starts[partition] + share) if sizes[partition] else end
    return result


@dataclass(slots=True)
class Trigger:
    """When a micro-batch is worth its while, with ``minOffsetsPerTrigger``.

    Invariant: ``last_ms`` is when the last micro-batch was let through.
    """

    rate: RateOptions
    last_ms: int

    def is_due(
        self,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        now_ms: int,
    ) -> bool:
        """Return whether enough is there, or enough time went by."""
        if self.rate.offsets_min is not None:
            waited_ms = now_ms - self.last_ms
            there = sum(end - starts[partition] for partition, end in ends.items())
            if there < self.rate.offsets_min and waited_ms < self.rate.trigger_delay_max_ms:
                return False
        self.last_ms = now_ms
        return True
