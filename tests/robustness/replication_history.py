"""What producers sent and were told, what consumers saw, what replicas hold: does it all agree?

Pure: all checks take values and return what is wrong, in words.
"""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

SHOWN_MAX: Final = 5
NOT_ACKED: Final = -1
SLOWEST_ACK_S: Final = 150.0
"""What was sent so long before a moment has been acknowledged by then, or never will be."""


class Value(NamedTuple):
    """A record's value: the number counts what a producer sends, over all partitions."""

    producer: int
    number: int


class Batch(NamedTuple):
    """A batch in the log of a replica; the digest is of all its bytes."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    digest: bytes


Log = Mapping[int, Value]
"""The values in a partition, by their offsets."""


class Sent:
    """What one idempotent producer sent and was told; one thread adds, others may look.

    Invariant: the lists are parallel, their index is the number of the record. A time and an offset
    are NOT_ACKED without acknowledgement.
    """

    def __init__(self, producer: int, partitions: int) -> None:
        self.producer: Final = producer
        self.partitions: Final = partitions
        self.sent_s = array("d")
        self.acked_s = array("d")
        self.offsets = array("q")
        self.acked = 0
        self.failed: dict[int, str] = {}

    def partition_of(self, number: int) -> int:
        """Return where a record goes."""
        return number % self.partitions

    def send(self, now_s: float) -> int:
        """Note that the next record is about to be sent; return its number."""
        self.sent_s.append(now_s)
        self.acked_s.append(NOT_ACKED)
        self.offsets.append(NOT_ACKED)
        return len(self.sent_s) - 1

    def ack(self, number: int, offset: int, now_s: float) -> None:
        """Note that a record is there, and where."""
        self.acked_s[number] = now_s
        self.offsets[number] = offset
        self.acked += 1

    def fail(self, number: int, why: str) -> None:
        """Note that the client gave a record up: it may be there, once, or not."""
        self.failed[number] = why

    @property
    def unanswered(self) -> int:
        """How many records nothing is known of yet."""
        return len(self.sent_s) - self.acked - len(self.failed)


def check(
    sents: Sequence[Sent],
    logs: Mapping[int, Log],
    high_watermarks: Mapping[int, int],
    reads: Mapping[int, Sequence[tuple[int, Value]]],
    replicas: Mapping[int, Mapping[int, Sequence[Batch]]],
) -> list[str]:
    """Return all that is wrong; everything is by partition, replicas also by broker."""
    return [
        *wrong_acks(sents, logs, high_watermarks),
        *failed_sends(sents),
        *duplicates(logs),
        *wrong_order(logs),
        *strangers(sents, logs),
        *holes(logs, high_watermarks),
        *wrong_reads(reads, logs, high_watermarks),
        *divergences(replicas, high_watermarks),
    ]


def wrong_acks(
    sents: Sequence[Sent], logs: Mapping[int, Log], high_watermarks: Mapping[int, int]
) -> Iterator[str]:
    """Say which acknowledged records are not at the offset that was promised."""
    for sent in sents:
        wrong: list[str] = []
        for number, offset in enumerate(sent.offsets):
            if offset == NOT_ACKED:
                continue
            partition = sent.partition_of(number)
            value = Value(sent.producer, number)
            found = logs[partition].get(offset)
            if found != value or offset >= high_watermarks[partition]:
                places = [at for at, other in logs[partition].items() if other == value][:2]
                wrong.append(
                    f"{value} acknowledged at {sent.acked_s[number]:.3f} with offset {offset} of"
                    f" partition {partition}: there is {found}; it is at {places or 'no offset'}"
                )
        yield from _summed_up("acknowledged records are lost or elsewhere", wrong)


def failed_sends(sents: Sequence[Sent]) -> Iterator[str]:
    """Say what clients gave up or never heard of: no fault lasts long enough for that."""
    for sent in sents:
        shown = [f"{Value(sent.producer, number)}: {why}" for number, why in sent.failed.items()]
        yield from _summed_up("records were given up by the client", shown)
        if sent.unanswered > 0:
            yield f"{sent.unanswered} records of producer {sent.producer} were never answered"


def duplicates(logs: Mapping[int, Log]) -> Iterator[str]:
    """Say which values are there more than once."""
    for partition, log in logs.items():
        places = defaultdict[Value, list[int]](list)
        for offset, value in log.items():
            places[value].append(offset)
        twice = [f"{value} at {offsets}" for value, offsets in places.items() if len(offsets) > 1]
        yield from _summed_up(f"values are repeated in partition {partition}", twice)


def wrong_order(logs: Mapping[int, Log]) -> Iterator[str]:
    """Say where the numbers of a producer go back in a partition."""
    for partition, log in logs.items():
        last: dict[int, tuple[int, int]] = {}
        wrong: list[str] = []
        for offset in sorted(log):
            producer, number = log[offset]
            before, before_offset = last.get(producer, (-1, -1))
            if number < before:
                wrong.append(
                    f"{log[offset]} at {offset} follows number {before} at {before_offset}"
                )
            last[producer] = number, offset
        yield from _summed_up(f"records are out of order in partition {partition}", wrong)


def strangers(sents: Sequence[Sent], logs: Mapping[int, Log]) -> Iterator[str]:
    """Say which records nobody sent there."""
    known = {sent.producer: sent for sent in sents}
    for partition, log in logs.items():
        wrong = [
            f"{value} at {offset}"
            for offset, value in log.items()
            if (sent := known.get(value.producer)) is None
            or value.number >= len(sent.sent_s)
            or sent.partition_of(value.number) != partition
        ]
        yield from _summed_up(f"records in partition {partition} were never sent there", wrong)


def holes(logs: Mapping[int, Log], high_watermarks: Mapping[int, int]) -> Iterator[str]:
    """Say which offsets below the high watermark have no record."""
    for partition, log in logs.items():
        missing = [str(offset) for offset in range(high_watermarks[partition]) if offset not in log]
        yield from _summed_up(f"offsets of partition {partition} are empty", missing)


def wrong_reads(
    reads: Mapping[int, Sequence[tuple[int, Value]]],
    logs: Mapping[int, Log],
    high_watermarks: Mapping[int, int],
) -> Iterator[str]:
    """Say what consumers were shown that is not so in the end, and what they were not shown."""
    for partition, read in reads.items():
        wrong: list[str] = []
        expected = 0
        for offset, value in read:
            if offset != expected:
                wrong.append(f"{value} at {offset} was read when {expected} was next")
            if logs[partition].get(offset) != value:
                wrong.append(f"{value} was read at {offset}: {logs[partition].get(offset)}")
            expected = offset + 1
        if expected != high_watermarks[partition]:
            wrong.append(f"the last was {expected - 1} of {high_watermarks[partition] - 1}")
        yield from _summed_up(f"reads of partition {partition} were wrong", wrong)


def divergences(
    replicas: Mapping[int, Mapping[int, Sequence[Batch]]], high_watermarks: Mapping[int, int]
) -> Iterator[str]:
    """Say where two replicas have other bytes below the high watermark."""
    for partition, by_broker in replicas.items():
        committed = {
            broker: [batch for batch in batches if batch.base_offset < high_watermarks[partition]]
            for broker, batches in by_broker.items()
        }
        first = min(committed)
        for broker, batches in committed.items():
            if batches != committed[first]:
                at = _first_difference(committed[first], batches)
                yield (
                    f"partition {partition} differs at batch {at}:"
                    f" {_shown(committed[first], at)} on broker {first},"
                    f" {_shown(batches, at)} on broker {broker}"
                )


def _first_difference(first: Sequence[Batch], second: Sequence[Batch]) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    shorter = min(len(first), len(second))
    return next((at for at, (one, other) in pairs if one != other), shorter)


def _shown(batches: Sequence[Batch], at: int) -> str:
    if at >= len(batches):
        return "nothing"
    batch = batches[at]
    return (
        f"{batch.base_offset} to {batch.next_offset} of epoch {batch.leader_epoch}"
        f" ({batch.digest.hex()[:12]})"
    )


def _summed_up(what: str, wrong: Sequence[str]) -> Iterable[str]:
    if wrong:
        yield f"{len(wrong)} {what}: {'; '.join(wrong[:SHOWN_MAX])}"


# --- how long things took


def longest_gaps(
    sents: Sequence[Sent], partitions: Iterable[int], begin_s: float, end_s: float
) -> dict[int, float]:
    """Return for how long each partition had no acknowledgement, at most, around a span of time.

    A gap counts with its whole length if any of it lies in the span.
    """
    acked_s: dict[int, list[float]] = {partition: [] for partition in partitions}
    for sent in sents:
        for number in range(bisect_left(sent.sent_s, begin_s - SLOWEST_ACK_S), len(sent.sent_s)):
            partition = sent.partition_of(number)
            if partition in acked_s and sent.acked_s[number] != NOT_ACKED:
                acked_s[partition].append(sent.acked_s[number])
    return {partition: _longest(times, begin_s, end_s) for partition, times in acked_s.items()}


def _longest(times: list[float], begin_s: float, end_s: float) -> float:
    times.sort()
    gaps = (b - a for a, b in pairwise(times) if b > begin_s and a < end_s)
    return max(gaps, default=end_s - begin_s)


def slowest_ack(sents: Sequence[Sent], begin_s: float, end_s: float) -> float:
    """Return how long a record of some span of time waited for its acknowledgement, at most."""
    return max(
        (
            (sent.acked_s[number] if sent.acked_s[number] != NOT_ACKED else end_s)
            - sent.sent_s[number]
            for sent in sents
            for number in range(bisect_left(sent.sent_s, begin_s), bisect_left(sent.sent_s, end_s))
        ),
        default=0.0,
    )
