"""What the demo sent and what it read, partition by partition, so that both can be compared."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from quorate.dataclass import dataclass
from quorate.model import TopicPartition
from quorate.records.record import Record


def _digest() -> "hashlib._Hash":  # pyright: ignore[reportPrivateUsage]
    return hashlib.sha256()


@dataclass(slots=True)
class Tally:
    """Records of one partition in their order: how many, how large, and a hash over all."""

    records: int = 0
    size_bytes: int = 0
    hash: "hashlib._Hash" = field(default_factory=_digest)  # pyright: ignore[reportPrivateUsage]

    def add(self, key: bytes, value: bytes) -> None:
        """Count a record; lengths are hashed too, so that no two sequences look alike."""
        self.records += 1
        self.size_bytes += len(key) + len(value)
        self.hash.update(b"%d %d " % (len(key), len(value)))
        self.hash.update(key)
        self.hash.update(value)

    @property
    def sha256(self) -> str:
        """The hash in hexadecimal."""
        return self.hash.hexdigest()

    def matches(self, other: "Tally") -> bool:
        """Whether the same records were seen in the same order."""
        return (self.records, self.sha256) == (other.records, other.sha256)


@dataclass(frozen=True, slots=True)
class Sent:
    """A record as it was acknowledged."""

    topic_partition: TopicPartition
    offset: int
    key: bytes
    value: bytes
    in_second_half: bool


@dataclass(slots=True)
class Ledger:
    """Everything that was acknowledged.

    Attributes:
        whole: all records of a partition.
        later: those sent after the middle.
        tail: those from ``middle_offsets`` on.
        gaps: acknowledged offsets that were not the next one.
    """

    whole: dict[TopicPartition, Tally] = field(default_factory=dict[TopicPartition, Tally])
    later: dict[TopicPartition, Tally] = field(default_factory=dict[TopicPartition, Tally])
    tail: dict[TopicPartition, Tally] = field(default_factory=dict[TopicPartition, Tally])
    middle_offsets: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    gaps: int = 0


def make_ledger(sent: Iterable[Sent], partitions: Iterable[TopicPartition]) -> Ledger:
    """Return what was sent to each of the partitions, from records in the order of sending."""
    by_partition: dict[TopicPartition, list[Sent]] = {p: [] for p in partitions}
    for record in sent:
        by_partition[record.topic_partition].append(record)
    ledger = Ledger()
    for partition, records in by_partition.items():
        middle = len(records) // 2
        ledger.gaps += sum(record.offset != at for at, record in enumerate(records))
        ledger.middle_offsets[partition] = middle
        ledger.whole[partition] = tally_of(records)
        ledger.later[partition] = tally_of(r for r in records if r.in_second_half)
        ledger.tail[partition] = tally_of(records[middle:])
    return ledger


def tally_of(records: Iterable[Sent]) -> Tally:
    """Return the tally of records in the order given."""
    tally = Tally()
    for record in records:
        tally.add(record.key, record.value)
    return tally


def tally_records(records: Iterable[Record], tallies: Mapping[TopicPartition, Tally]) -> None:
    """Count records as they were read."""
    for record in records:
        tallies[record.topic_partition].add(record.key or b"", record.value or b"")


def differing(
    expected: Mapping[TopicPartition, Tally], found: Mapping[TopicPartition, Tally]
) -> Iterator[TopicPartition]:
    """Yield the partitions in which something else was read than was sent."""
    for partition, tally in expected.items():
        if not tally.matches(found[partition]):
            yield partition
