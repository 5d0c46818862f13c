"""Reads records of topics between two places, and writes them out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import trio

from quorate.client.consumer import Consumer
from quorate.dataclass import dataclass
from quorate.errors import OffsetOutOfRangeError, UnknownTopicOrPartitionError
from quorate.model import TopicPartition
from quorate.records.record import Record
from quorate.tools.positions import Anchor, Mark, Span

POLL_RECORDS = 2000
POLL_MS = 200
RESETS = {
    Anchor.OFFSET: "none",
    Anchor.START: "earliest",
    Anchor.TIME: "earliest",
    Anchor.END: "latest",
}
"""Where to go when the place to start at is gone: a named offset is that one or an error."""


@dataclass(frozen=True, slots=True)
class ConsumePlan:
    """What to read.

    Attributes:
        partitions: their numbers, in every topic; None for all.
        records_max: stop after so many; None for no limit.
        stop_at_end: stop where partitions ended when reading began.
        silence_max_ms: stop when nothing came for so long; None to wait for ever.
        text: what to write for a record.
        keep: which records to write, and to count; None for all.
    """

    topics: tuple[str, ...]
    partitions: tuple[int, ...] | None
    span: Span
    records_max: int | None
    stop_at_end: bool
    silence_max_ms: int | None
    text: Callable[[Record], bytes]
    keep: Callable[[Record], bool] | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a partition begins and ends, and its first record at or after the times asked for."""

    first_offset: int
    end_offset: int
    by_time: Mapping[int, int]

    def offset_of(self, mark: Mark) -> int:
        """Return the offset that a mark means here."""
        match mark.anchor:
            case Anchor.OFFSET:
                return mark.value
            case Anchor.START:
                return min(self.first_offset + mark.value, self.end_offset)
            case Anchor.END:
                return max(self.end_offset + mark.value, self.first_offset)
            case Anchor.TIME:
                return self.by_time.get(mark.value, self.end_offset)


async def consume(
    bootstrap: str, plan: ConsumePlan, settings: dict[str, Any], out: BinaryIO
) -> int:
    """Write records until the plan is fulfilled; return how many.

    Raises:
        QuorateError: something cannot be read.
    """
    settings = {"auto_offset_reset": RESETS[plan.span.start.anchor], **settings}
    async with Consumer(bootstrap, **settings) as consumer:
        partitions = await _partitions(consumer, plan)
        bounds = await find_bounds(consumer, partitions, marks_of(plan.span))
        if settings["auto_offset_reset"] == "none":
            _check_start(plan.span.start, bounds)
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, bounds[partition].offset_of(plan.span.start))
        reading = Reading(plan, bounds)
        consumer.assign(reading.unfinished)
        await _copy(consumer, reading, out)
        return reading.written


def _check_start(start: Mark, bounds: Mapping[TopicPartition, Bounds]) -> None:
    """Refuse to begin behind the end of a partition: nothing would come, and nobody be told why.

    Raises:
        OffsetOutOfRangeError: it does.
    """
    for partition, known in bounds.items():
        if start.anchor is Anchor.OFFSET and start.value > known.end_offset:
            raise OffsetOutOfRangeError(
                f"offset {start.value} of {partition} lies behind its end, {known.end_offset}"
            )


def marks_of(span: Span) -> list[Mark]:
    """Return the ends of a span."""
    return [span.start] if span.stop is None else [span.start, span.stop]


async def _partitions(consumer: Consumer, plan: ConsumePlan) -> list[TopicPartition]:
    found: list[TopicPartition] = []
    for topic in plan.topics:
        numbers = await consumer.partitions_of(topic)
        wanted = numbers if plan.partitions is None else plan.partitions
        for number in wanted:
            if number not in numbers:
                raise UnknownTopicOrPartitionError(
                    f"topic {topic!r} has no partition {number}; it has {len(numbers)},"
                    " numbered from 0"
                )
            found.append(TopicPartition(topic, number))
    return found


async def find_bounds(
    consumer: Consumer, partitions: Sequence[TopicPartition], marks: Sequence[Mark]
) -> dict[TopicPartition, Bounds]:
    """Ask where partitions begin and end, and where the marks' times are in them."""
    firsts = await consumer.beginning_offsets(partitions)
    ends = await consumer.end_offsets(partitions)
    by_time: dict[TopicPartition, dict[int, int]] = {p: {} for p in partitions}
    for time_ms in {mark.value for mark in marks if mark.anchor is Anchor.TIME}:
        found = await consumer.offsets_for_times(dict.fromkeys(partitions, time_ms))
        for partition, place in found.items():
            if place is not None:
                by_time[partition][time_ms] = place.offset
    return {p: Bounds(firsts[p], ends[p], by_time[p]) for p in partitions}


class Reading:
    """Knows what is still to be read.

    Invariant: ``unfinished`` are the partitions in which a record that is wanted may come.
    """

    def __init__(self, plan: ConsumePlan, bounds: Mapping[TopicPartition, Bounds]) -> None:
        self.plan = plan
        self.written = 0
        self._stops: dict[TopicPartition, int] = {}
        self.unfinished: list[TopicPartition] = []
        for partition, known in bounds.items():
            stop = self._stop_of(known)
            if stop is not None:
                self._stops[partition] = stop
            if stop is None or known.offset_of(plan.span.start) < stop:
                self.unfinished.append(partition)

    def _stop_of(self, known: Bounds) -> int | None:
        stop = None if self.plan.span.stop is None else known.offset_of(self.plan.span.stop)
        if self.plan.stop_at_end:
            stop = known.end_offset if stop is None else min(stop, known.end_offset)
        return stop

    @property
    def done(self) -> bool:
        """Whether nothing more is wanted."""
        return not self.unfinished or self.records_left == 0

    @property
    def records_left(self) -> int | None:
        """How many more records are wanted; None for any number."""
        maximum = self.plan.records_max
        return None if maximum is None else max(0, maximum - self.written)

    def wants(self, record: Record) -> bool:
        """Whether a record is to be written; it counts if it is."""
        stop = self._stops.get(record.topic_partition)
        if self.records_left == 0 or (stop is not None and record.offset >= stop):
            return False
        if self.plan.keep is not None and not self.plan.keep(record):
            return False
        self.written += 1
        return True

    def has_stop(self, partition: TopicPartition) -> bool:
        """Whether a partition is read up to some offset only."""
        return partition in self._stops

    def finish(self, partition: TopicPartition, next_offset: int) -> bool:
        """Note how far a partition was read; return whether that was all of it."""
        stop = self._stops.get(partition)
        if stop is None or next_offset < stop or partition not in self.unfinished:
            return False
        self.unfinished.remove(partition)
        return True


async def _copy(consumer: Consumer, reading: Reading, out: BinaryIO) -> None:
    text = reading.plan.text
    silent_since_s = trio.current_time()
    silence_max_ms = reading.plan.silence_max_ms
    while not reading.done:
        records = await consumer.poll(max_records=POLL_RECORDS, timeout_ms=POLL_MS)
        wanted = [record for record in records if reading.wants(record)]
        if wanted:
            out.write(b"".join([text(record) for record in wanted]))
            out.flush()
            silent_since_s = trio.current_time()
        elif (
            silence_max_ms is not None
            and (trio.current_time() - silent_since_s) * 1000 >= silence_max_ms
        ):
            return
        await _drop_finished(consumer, reading, {r.topic_partition for r in records})


async def _drop_finished(consumer: Consumer, reading: Reading, moved: set[TopicPartition]) -> None:
    """Stop fetching partitions that were read as far as wanted.

    When nothing came, all are looked at: a log may end in offsets without records.
    """
    finished = [
        partition
        for partition in list(reading.unfinished)
        if (partition in moved or not moved)
        and reading.has_stop(partition)
        and reading.finish(partition, await consumer.position(partition))
    ]
    if finished:
        consumer.assign(reading.unfinished)
