"""What the Admin client takes and gives: values, all frozen."""

from __future__ import annotations

from dataclasses import field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

from quorate.client.receiving.positions import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from quorate.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quorate.errors import QuorateError
    from quorate.model import Endpoint, TopicPartition
    from quorate.net.rpc import VersionRange


class OffsetSpec(IntEnum):
    """Which offset of a partition is asked for, where it is not that of a time."""

    LATEST = LATEST_TIMESTAMP
    EARLIEST = EARLIEST_TIMESTAMP
    MAX_TIMESTAMP = MAX_TIMESTAMP


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; None leaves a number to the cluster.

    Attributes:
        assignments: Replicas by partition; then the numbers above must be None.
    """

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict[str, str])
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])


@dataclass(frozen=True, slots=True)
class TopicListing:
    """One line of the list of topics."""

    name: str
    topic_id: bytes
    partition_count: int
    is_internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """Who leads a partition (-1: nobody), who has it, and who of them is in sync.

    Attributes:
        elr: Who left the in-sync replicas and may lead all the same (KIP-966); empty, too, where
            nobody was asked for it.
        last_known_elr: Who was eligible before the shutdowns that were not clean.
    """

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition on the move: all that have it, who of them is new, who is to go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """Who has it in the end."""
        return tuple(broker_id for broker_id in self.replicas if broker_id not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """Who had it before."""
        return tuple(broker_id for broker_id in self.replicas if broker_id not in self.adding)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic and its partitions, in their order."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True)
class DeletedRecords:
    """The offset of the first record that is left."""

    low_watermark: int


class ResourceType(Enum):
    """What has settings; the values are the protocol's."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A topic or group by name, or a broker by id; "" stands for the defaults of all brokers."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        """Return the resource of a topic."""
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker_id: int | None) -> ConfigResource:
        """Return the resource of a broker, or of the defaults of all for None."""
        return cls(ResourceType.BROKER, "" if broker_id is None else str(broker_id))

    @classmethod
    def group(cls, group_id: str) -> ConfigResource:
        """Return the resource of a group, which need not exist yet."""
        return cls(ResourceType.GROUP, group_id)

    @classmethod
    def of(cls, type_number: int, name: str) -> ConfigResource:
        """Return the resource that the protocol's numbers stand for."""
        return cls(ResourceType(type_number), name)

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name!r}"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting.

    Attributes:
        value: As text; None if it is a secret or has none.
        source: The protocol's number: 1 topic, 2 to 4 broker, 5 default, 8 group.
    """

    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source == 5


class ConfigOperation(Enum):
    """What to do with a setting; the values are the protocol's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of one setting; APPEND and SUBTRACT are for lists, DELETE has no value."""

    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker and where to reach it.

    Attributes:
        is_fenced: It is registered but not alive.
        is_shutting_down: Its leaders are on their way elsewhere, then it goes; Quorate's only.
        is_draining: It stays, and is to lead nothing; Quorate's only.
        cannot_write: Its disk is full, or refuses what it is to write; Quorate's only.
    """

    broker_id: int
    endpoint: Endpoint
    rack: str | None
    is_fenced: bool
    is_shutting_down: bool = False
    is_draining: bool = False
    cannot_write: bool = False

    @property
    def is_spared(self) -> bool:
        """Whether it is to lead only what nobody else can, and is given nothing new."""
        return self.is_draining or self.cannot_write


@dataclass(frozen=True, slots=True)
class BrokerVersions:
    """What a broker speaks and supports, and what its cluster agreed on.

    Attributes:
        apis: The versions of each API, by the API's number.
        supported_features: The levels of each feature that this broker could work at.
        finalized_features: The level that the cluster works at; what is switched off is missing.
        features_epoch: Grows with whatever is finalized; -1 if the broker does not know.
    """

    apis: Mapping[int, VersionRange]
    supported_features: Mapping[str, VersionRange]
    finalized_features: Mapping[str, int]
    features_epoch: int


class FeatureUpgrade(IntEnum):
    """Which way the level of a feature may go; the numbers are the protocol's."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureChange:
    """A feature shall work at a level; 0 switches it off."""

    name: str
    level: int
    upgrade: FeatureUpgrade = FeatureUpgrade.UPGRADE


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster's id, which broker takes its admin requests, and its brokers."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A controller as the leader knows it; -1 and None are what it does not know.

    ``log_end_offset`` is the next offset of its metadata log. The times are of the day, in ms: when
    the leader last heard from it, and when it last had all that the leader had. A controller whose
    disk was replaced has another ``directory_id``, and is another replica.
    """

    node_id: int
    log_end_offset: int
    directory_id: bytes = bytes(16)
    endpoint: Endpoint | None = None
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """Which controller leads (-1: none), how far the metadata is committed, who votes and listens.

    ``high_watermark`` is the offset after the last committed one.
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...] = ()


@dataclass(frozen=True, slots=True)
class LogDirReplica:
    """A replica on a disk; the offsets are -1 where the broker is not Quorate's."""

    size_bytes: int
    offset_lag: int
    is_future: bool
    log_end_offset: int = -1
    high_watermark: int = -1
    log_start_offset: int = -1


@dataclass(frozen=True, slots=True)
class ReplicaPart:
    """A piece of one replica's log, and where that log stands; ``batches`` are whole or cut off."""

    high_watermark: int
    log_start_offset: int
    batches: bytes


@dataclass(frozen=True, slots=True)
class LogDir:
    """A directory with replicas; sizes of -1 are not known."""

    path: str
    error: QuorateError | None
    total_bytes: int
    usable_bytes: int
    replicas: Mapping[TopicPartition, LogDirReplica]


@dataclass(frozen=True, slots=True)
class BrokerLogDirs:
    """All directories of one broker."""

    log_dirs: tuple[LogDir, ...]
