"""How far groups are behind: in records, in seconds, and where that is going."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from quorate.client.groups.results import GroupDescription, MemberDescription, OffsetAndMetadata
from quorate.dataclass import dataclass
from quorate.model import TopicPartition

GROWING: Final = "growing"
SHRINKING: Final = "shrinking"
STEADY: Final = "steady"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where the log of a partition begins, and where it ends for consumers."""

    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group has read a partition.

    Attributes:
        committed: What the group has committed; None for nothing yet.
        bounds: Where the log begins and ends; None if its leader does not tell.
        owner: The member that reads it.
        unread_since_ms: The time of the first record not read; None if it is not known.
    """

    group_id: str
    partition: TopicPartition
    committed: OffsetAndMetadata | None
    bounds: Bounds | None
    owner: MemberDescription | None
    unread_since_ms: int | None = None

    @property
    def records(self) -> int | None:
        """How many records are still to be read, as Kafka counts it; None if nobody knows."""
        if self.committed is None or self.bounds is None:
            return None
        return max(0, self.bounds.end_offset - self.committed.offset)

    @property
    def lost(self) -> int:
        """How many records were deleted before the group read them."""
        if self.committed is None or self.bounds is None:
            return 0
        return max(0, self.bounds.start_offset - self.committed.offset)

    @property
    def first_unread(self) -> int | None:
        """The offset of the first record that is still to be read; None if there is none."""
        if not self.records or self.committed is None or self.bounds is None:
            return None
        return max(self.committed.offset, self.bounds.start_offset)


def partition_lags(
    group: GroupDescription,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    bounds: Mapping[TopicPartition, Bounds],
) -> list[PartitionLag]:
    """Return the lag of all partitions that a group has read or that members have."""
    owners = group.owners
    return [
        PartitionLag(
            group.group_id, partition, offsets.get(partition), bounds.get(partition),
            owners.get(partition),
        )
        for partition in sorted({*offsets, *owners})
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of a group in one topic, or in one partition of it.

    Attributes:
        partitions: How many there are.
        records: How many records are to be read, of the partitions of which it is known.
        committed: The sum of the offsets of these, and ``ends``, that of their ends.
        unread_since_ms: The time of the oldest record not read; None if it is not known.
        members: How many members read them.
    """

    group_id: str
    topic: str
    partition: int | None
    partitions: int
    records: int
    lost: int
    committed: int
    ends: int
    unread_since_ms: int | None
    members: int

    @property
    def key(self) -> tuple[str, str, int | None]:
        """What it is the lag of."""
        return self.group_id, self.topic, self.partition

    def seconds(self, now_ms: int) -> float | None:
        """Return how old the oldest record not read is; 0 if all are read, None if not known."""
        if self.records == 0:
            return 0.0
        if self.unread_since_ms is None:
            return None
        return max(0, now_ms - self.unread_since_ms) / 1000


def summed(lags: Iterable[PartitionLag], *, by_partition: bool) -> list[Lag]:
    """Return lags by group and topic, or by partition too."""
    together: dict[tuple[str, str, int | None], list[PartitionLag]] = {}
    for lag in lags:
        number = lag.partition.partition if by_partition else None
        together.setdefault((lag.group_id, lag.partition.topic, number), []).append(lag)
    return [
        _sum(group_id, topic, number, each) for (group_id, topic, number), each in together.items()
    ]


def _sum(group_id: str, topic: str, partition: int | None, lags: Sequence[PartitionLag]) -> Lag:
    known = [(lag, lag.committed, lag.bounds) for lag in lags]
    sums = [(c.offset, b.end_offset) for _, c, b in known if c is not None and b is not None]
    times = [lag.unread_since_ms for lag in lags if lag.unread_since_ms is not None]
    return Lag(
        group_id=group_id,
        topic=topic,
        partition=partition,
        partitions=len(lags),
        records=sum(lag.records or 0 for lag in lags),
        lost=sum(lag.lost for lag in lags),
        committed=sum(committed for committed, _ in sums),
        ends=sum(end for _, end in sums),
        unread_since_ms=min(times, default=None),
        members=len({lag.owner.member_id for lag in lags if lag.owner is not None}),
    )


@dataclass(frozen=True, slots=True)
class Trend:
    """Where a lag is going: records per second that were read and written, and when it is gone.

    ``eta_s`` is None while it does not shrink.
    """

    direction: str
    read_per_s: float
    written_per_s: float
    eta_s: float | None


def trend_of(before: Lag, after: Lag, passed_ms: int) -> Trend | None:
    """Return where a lag is going, from two looks; None if no time has passed."""
    if passed_ms <= 0:
        return None
    read = (after.committed - before.committed) * 1000 / passed_ms
    written = (after.ends - before.ends) * 1000 / passed_ms
    change = after.records - before.records
    shrinks_per_s = -change * 1000 / passed_ms
    return Trend(
        direction=GROWING if change > 0 else SHRINKING if change < 0 else STEADY,
        read_per_s=read,
        written_per_s=written,
        eta_s=after.records / shrinks_per_s if shrinks_per_s > 0 else None,
    )
