"""What was gathered of a cluster at a moment, and what it was a while ago."""

from collections.abc import Iterable, Mapping
from dataclasses import field

from quorate.client.admin_results import (
    BrokerDescription,
    ConfigEntry,
    LogDirReplica,
    TopicDescription,
)
from quorate.client.groups.results import GroupDescription
from quorate.client.transactions.describing import TransactionDescription, TransactionListing
from quorate.dataclass import dataclass
from quorate.model import UNKNOWN_OFFSET, TopicPartition
from quorate.records.record import Record
from quorate.tools.clusters.health import BrokerLoad, Health, health_of, loads_of
from quorate.tools.groups.lag import Lag, PartitionLag, summed
from quorate.tools.metadata.decided import Decided
from quorate.tools.problems import Problem
from quorate.tools.quorum.view import QuorumView
from quorate.tools.verify_runs import Run

OnBrokers = Mapping[int, Mapping[TopicPartition, LogDirReplica]]
LagKey = tuple[str, str, int | None]


@dataclass(frozen=True, slots=True)
class Measures:
    """What grows, at a time: next offsets of topics (summed), and lags of groups."""

    now_ms: int
    ends: Mapping[str, int] = field(default_factory=dict[str, int])
    lags: Mapping[LagKey, Lag] = field(default_factory=dict[LagKey, Lag])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cluster at a moment, as far as somebody looked.

    Attributes:
        now_ms: When that was.
        min_isr: By topic; left out where nobody asked, because nothing is missing.
        on_brokers: Replicas as each broker tells of its own; silent brokers are left out.
        quorum: None if no broker and no controller told of it.
        transactions_told: More of those that have a transaction open, or are described, by name.
        configs: Settings by the resource's name as people type it: ``topic/orders``.
        records: The last ones read from the topic that is followed, oldest first.
        events: What the controllers decided, oldest first.
        runs: Those of ``quorate verify`` in the folder that is looked at, the newest first.
        troubles: What could not be asked just now, in a few words each; then it is shown as it
            was when it last could.
        answered_ms: When brokers last answered.
        problem: Why none does, and what to try; None while one does.
        earlier: What it was a while ago, for rates and trends.
    """

    now_ms: int
    cluster_id: str = ""
    bootstrap: str = ""
    brokers: tuple[BrokerDescription, ...] = ()
    topics: tuple[TopicDescription, ...] = ()
    min_isr: Mapping[str, int] = field(default_factory=dict[str, int])
    on_brokers: OnBrokers = field(default_factory=dict[int, Mapping[TopicPartition, LogDirReplica]])
    quorum: QuorumView | None = None
    groups: tuple[GroupDescription, ...] = ()
    lags: tuple[PartitionLag, ...] = ()
    transactions: tuple[TransactionListing, ...] = ()
    transactions_told: Mapping[str, TransactionDescription] = field(
        default_factory=dict[str, TransactionDescription]
    )
    configs: Mapping[str, Mapping[str, ConfigEntry]] = field(
        default_factory=dict[str, Mapping[str, ConfigEntry]]
    )
    records: tuple[Record, ...] = ()
    events: tuple[Decided, ...] = ()
    runs: tuple[Run, ...] = ()
    troubles: tuple[str, ...] = ()
    answered_ms: int | None = None
    problem: Problem | None = None
    earlier: Measures | None = None

    @property
    def health(self) -> Health:
        """How the partitions are."""
        return health_of(self.topics, self.min_isr)

    @property
    def loads(self) -> Mapping[int, BrokerLoad]:
        """What brokers have to do."""
        return loads_of(self.topics)

    @property
    def dead(self) -> frozenset[int]:
        """Brokers that are out of service."""
        return frozenset(broker.broker_id for broker in self.brokers if broker.is_fenced)

    def topic(self, name: str) -> TopicDescription | None:
        """Return a topic, if there is one of that name."""
        return next((topic for topic in self.topics if topic.name == name), None)

    def waits_for_followers(self, partition: TopicPartition) -> bool:
        """Whether a partition's leader has records that were not committed yet, as it told."""
        topic = self.topic(partition.topic)
        for told in () if topic is None else topic.partitions:
            replica = self.on_brokers.get(told.leader_id, {}).get(partition)
            if told.partition == partition.partition and replica is not None:
                return replica.log_end_offset > replica.high_watermark
        return False

    def broker(self, broker_id: int) -> BrokerDescription | None:
        """Return a broker, if there is one of that id."""
        return next((each for each in self.brokers if each.broker_id == broker_id), None)


def log_end(on_brokers: OnBrokers, partition: TopicPartition, leader_id: int) -> int | None:
    """Return where a leader's log ends, if it told."""
    told = on_brokers.get(leader_id, {}).get(partition)
    return None if told is None or told.log_end_offset == UNKNOWN_OFFSET else told.log_end_offset


def ends_of(snapshot: Snapshot) -> dict[str, int]:
    """Return the sum of the next offsets of each topic; topics not told of are left out."""
    sums: dict[str, int] = {}
    for topic in snapshot.topics:
        ends = [
            log_end(snapshot.on_brokers, TopicPartition(topic.name, told.partition), told.leader_id)
            for told in topic.partitions
        ]
        known = [end for end in ends if end is not None]
        if known and len(known) == len(ends):
            sums[topic.name] = sum(known)
    return sums


def measures_of(snapshot: Snapshot) -> Measures:
    """Return what of a snapshot is worth keeping, to tell later how it changed."""
    lags = {
        lag.key: lag
        for lag in (*group_lags(snapshot.lags), *summed(snapshot.lags, by_partition=True))
    }
    return Measures(snapshot.now_ms, ends_of(snapshot), lags)


def group_lags(lags: Iterable[PartitionLag]) -> list[Lag]:
    """Return the lag of each group, over all that it reads."""
    together: dict[str, list[Lag]] = {}
    for lag in summed(lags, by_partition=False):
        together.setdefault(lag.group_id, []).append(lag)
    return [_sum(group_id, each) for group_id, each in together.items()]


def _sum(group_id: str, lags: list[Lag]) -> Lag:
    since = [lag.unread_since_ms for lag in lags if lag.unread_since_ms is not None]
    return Lag(
        group_id=group_id,
        topic="",
        partition=None,
        partitions=sum(lag.partitions for lag in lags),
        records=sum(lag.records for lag in lags),
        lost=sum(lag.lost for lag in lags),
        committed=sum(lag.committed for lag in lags),
        ends=sum(lag.ends for lag in lags),
        unread_since_ms=min(since, default=None),
        members=max(lag.members for lag in lags),
    )
