"""The metadata image: every fact that the quorum has agreed on, as values."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from quorate.control.messages import SupportedFeature
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.model import NO_LEADER, Endpoint
from quorate.quorum.metadata.records import PartitionCreated, QuotaEntity
from quorate.quorum.metadata.sharded import ShardedMap

TOPIC: Final = "topic"
BROKER: Final = "broker"
GROUP: Final = "group"
CLUSTER_DEFAULT: Final = ""
"""The name of the broker resource that stands for all brokers."""


ANSWERS_MAX: Final = 1024
ANSWERS_BYTES_MAX: Final = 2**20
"""Answers to requests are kept for retries until there are more or larger ones than this."""


class InconsistentRecordError(QuorateError):
    """A record speaks of something that the image does not have, or would break a rule of it."""


class ConfigResource(NamedTuple):
    """What a configuration belongs to: a topic or group by name, or a broker by id."""

    type: str
    name: str


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who holds a partition, who leads it, who is in sync.

    Every change starts a new partition epoch, every change of the leader a new leader epoch.

    While a partition moves, ``replicas`` are those that it is to have and, after them, those that
    it is to lose: ``adding_replicas`` and ``removing_replicas`` tell which are new and which go.

    ``elr`` are eligible leaders that are not in sync (KIP-966): they left the ISR when it had fewer
    members than ``min.insync.replicas``, and since then nothing was committed. The ISR may be empty
    if nobody leads; ``last_known_leader`` then tells who led last.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_id: int
    leader_epoch: int
    partition_epoch: int
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_leader: int = NO_LEADER

    def __post_init__(self) -> None:
        if self.isr is not self.replicas and not set(self.isr) <= set(self.replicas):
            raise InconsistentRecordError("the ISR is a subset of the replicas")
        if self.leader_id != NO_LEADER and self.leader_id not in self.isr:
            raise InconsistentRecordError("leaders are in sync")
        if self.elr and not set(self.elr) <= set(self.replicas).difference(self.isr):
            raise InconsistentRecordError("the ELR are replicas that are not in sync")
        if self.is_moving and not {*self.adding_replicas, *self.removing_replicas} <= set(
            self.replicas
        ):
            raise InconsistentRecordError("those that are added or removed are replicas")

    @property
    def is_moving(self) -> bool:
        """Whether the partition is to have other replicas than it has."""
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The replicas that the partition has once it does not move any more."""
        if not self.removing_replicas:
            return self.replicas
        return tuple(b for b in self.replicas if b not in self.removing_replicas)


def initial_state(record: PartitionCreated) -> PartitionState:
    """Return what a new partition begins with.

    Raises:
        InconsistentRecordError: the record contradicts itself.
    """
    replicas, isr = record.replicas, record.isr
    return PartitionState(
        replicas,
        replicas if isr == replicas else isr,  # one object: there are very many
        record.leader_id,
        record.leader_epoch,
        record.partition_epoch,
        record.adding_replicas,
        record.removing_replicas,
        record.elr,
        record.last_known_leader,
    )


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic; the partition's number is its place in ``partitions``.

    ``leaderless`` tells how many of them nobody leads, so that one need not look for them.
    """

    name: str
    topic_id: bytes
    partitions: tuple[PartitionState, ...]
    leaderless: int


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A registered broker; ``directory_id`` may be empty (not told).

    One that shuts down stops leading first. One that is being drained leads only what nobody else
    can, and is given nothing new; it stays in sync. So does one that cannot write (its disk is full
    or broken), as long as it lacks nothing.
    """

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes
    directory_id: bytes
    endpoints: Mapping[str, Endpoint]
    rack: str | None
    fenced: bool
    features: tuple[SupportedFeature, ...] = ()
    shutting_down: bool = False
    draining: bool = False
    cannot_write: bool = False

    @property
    def is_spared(self) -> bool:
        """Whether the broker is to lead only what nobody else can, and is given nothing new."""
        return self.draining or self.cannot_write

    @property
    def may_lead(self) -> bool:
        """Whether the broker may lead: it is in service, and stays there."""
        return not self.fenced and not self.shutting_down


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Who may, or may not, do what with which resources (an ACL); the codes are Kafka's."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class ScramUser(NamedTuple):
    """Whose SCRAM credential it is, and for which mechanism (Kafka's code)."""

    name: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a broker needs to check a password without knowing it (RFC 5802)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class MetadataImage(NamedTuple):
    """Immutable; :func:`~quorate.quorum.metadata.applying.apply_records` makes the next one.

    A tuple, because every request that a controller decides on makes one.

    ``version`` grows with every batch of records, with gaps; equal versions mean equal images.
    ``answers`` are those to the newest requests that carried an id, by that id, oldest first.
    ``metric_names`` has the topics whose names are not their names in metrics, by the latter.
    """

    version: int
    cluster_id: str
    topics: ShardedMap[str, TopicImage]
    topic_names: ShardedMap[bytes, str]
    metric_names: ShardedMap[str, str]
    configs: ShardedMap[ConfigResource, Mapping[str, str]]
    brokers: Mapping[int, BrokerImage]
    next_producer_id: int
    answers: Mapping[bytes, bytes]
    features: Mapping[str, int]
    access_rules: Mapping[bytes, AccessRule]
    scram: Mapping[ScramUser, ScramCredential]
    quotas: Mapping[QuotaEntity, Mapping[str, float]]

    def topic_of(self, topic_id: bytes) -> TopicImage | None:
        """Return the topic of an id, if it exists."""
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def config(self, resource: ConfigResource) -> Mapping[str, str]:
        """Return what was set for a resource; empty if nothing was."""
        return self.configs.get(resource, {})

    def live_broker_ids(self) -> frozenset[int]:
        """Return the ids of the brokers in service."""
        return frozenset(b.broker_id for b in self.brokers.values() if not b.fenced)

    def may_lead(self, broker_id: int) -> bool:
        """Return whether a broker may be elected: registered, in service, not shutting down."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.may_lead

    def may_join_isr(self, broker_id: int, broker_epoch: int, *, in_need: bool = False) -> bool:
        """Return whether a broker may come to be in sync.

        It may lead, is able to write (or nothing is committed without it: ``in_need``), and was not
        registered again since.

        -1 is an epoch that is not known, and not checked (KIP-903).
        """
        broker = self.brokers.get(broker_id)
        if broker is None or not broker.may_lead or (broker.cannot_write and not in_need):
            return False
        return broker_epoch in (-1, broker.broker_epoch)


EMPTY_IMAGE: Final = MetadataImage(
    version=0,
    cluster_id="",
    topics=ShardedMap(),
    topic_names=ShardedMap(),
    metric_names=ShardedMap(),
    configs=ShardedMap(),
    brokers={},
    next_producer_id=0,
    answers={},
    features={},
    access_rules={},
    scram={},
    quotas={},
)
