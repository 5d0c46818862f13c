"""Metadata records: facts that the quorum has agreed on.

Each says why it came about (``cause``: what happened, by whom) and when (``time_ms``, the active
controller's clock), so that a log of records is also the cluster's diary.
"""

from collections.abc import Mapping
from typing import Annotated, Final

from quorate.control.codec import Key
from quorate.control.messages import SupportedFeature
from quorate.dataclass import dataclass
from quorate.model import NO_LEADER, Endpoint

CAUSE_KEY: Final = Key(1)
TIME_KEY: Final = Key(2)


@dataclass(frozen=True, slots=True)
class ClusterFormatted:
    """The cluster began to exist."""

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    cluster_id: Annotated[str, Key(3)]


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """A broker process joined, replacing whatever was registered under its id.

    ``broker_epoch`` is greater than that of every registration before; whoever shows an older one
    is refused (KIP-631).
    """

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    broker_id: Annotated[int, Key(3)]
    broker_epoch: Annotated[int, Key(4)]
    incarnation_id: Annotated[bytes, Key(5)]
    directory_id: Annotated[bytes, Key(6)]
    endpoints: Annotated[Mapping[str, Endpoint], Key(7)]
    rack: Annotated[str | None, Key(8)]
    fenced: Annotated[bool, Key(9)]
    features: Annotated[tuple[SupportedFeature, ...], Key(10)] = ()


@dataclass(frozen=True, slots=True)
class BrokerFenced:
    """A broker may not lead or be in sync until it is unfenced."""

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    broker_id: Annotated[int, Key(3)]
    broker_epoch: Annotated[int, Key(4)]


@dataclass(frozen=True, slots=True)
class BrokerUnfenced:
    """A broker is in service."""

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    broker_id: Annotated[int, Key(3)]
    broker_epoch: Annotated[int, Key(4)]


@dataclass(frozen=True, slots=True)
class BrokerUnregistered:
    """A broker left the cluster for good."""

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    broker_id: Annotated[int, Key(3)]
    broker_epoch: Annotated[int, Key(4)]


@dataclass(frozen=True, slots=True)
class BrokerChanged:
    """A broker shuts down, is drained, or cannot write, or not any more; ``None`` is as before.

    Registering again ends shutting down, and being unable to write, which it says again if it still
    is. Being drained lasts until it is called off.
    """

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    broker_id: Annotated[int, Key(3)]
    broker_epoch: Annotated[int, Key(4)]
    shutting_down: Annotated[bool | None, Key(5)] = None
    draining: Annotated[bool | None, Key(6)] = None
    cannot_write: Annotated[bool | None, Key(7)] = None


@dataclass(frozen=True, slots=True)
class ProducerIdsAllocated:
    """Producer ids below ``next_producer_id`` are taken; the last block went to this broker."""

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    broker_id: Annotated[int, Key(3)]
    broker_epoch: Annotated[int, Key(4)]
    next_producer_id: Annotated[int, Key(5)]


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic exists; its partitions follow in the same batch, in order."""

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    name: Annotated[str, Key(3)]
    topic_id: Annotated[bytes, Key(4)]


@dataclass(frozen=True, slots=True)
class TopicRemoved:
    """A topic, its partitions and its configuration are gone."""

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    topic_id: Annotated[bytes, Key(3)]


@dataclass(frozen=True, slots=True)
class PartitionCreated:
    """A topic has one more partition, with the next number.

    A new partition has but replicas, ISR and leader; the rest is there for snapshots.
    """

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    topic_id: Annotated[bytes, Key(3)]
    partition: Annotated[int, Key(4)]
    replicas: Annotated[tuple[int, ...], Key(5)]
    isr: Annotated[tuple[int, ...], Key(6)]
    leader_id: Annotated[int, Key(7)]
    leader_epoch: Annotated[int, Key(8)] = 0
    partition_epoch: Annotated[int, Key(9)] = 0
    adding_replicas: Annotated[tuple[int, ...], Key(10)] = ()
    removing_replicas: Annotated[tuple[int, ...], Key(11)] = ()
    elr: Annotated[tuple[int, ...], Key(12)] = ()
    last_known_leader: Annotated[int, Key(13)] = NO_LEADER


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    """A partition has this leader and ISR from now on.

    Every such record starts a new partition epoch; ``leader_epoch`` grows when leadership changes,
    so that followers truncate exactly when they must (KIP-101). What is ``None`` stays as it was.
    """

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    topic_id: Annotated[bytes, Key(3)]
    partition: Annotated[int, Key(4)]
    leader_id: Annotated[int, Key(5)]
    leader_epoch: Annotated[int, Key(6)]
    isr: Annotated[tuple[int, ...], Key(7)]
    replicas: Annotated[tuple[int, ...] | None, Key(8)] = None
    adding_replicas: Annotated[tuple[int, ...] | None, Key(9)] = None
    removing_replicas: Annotated[tuple[int, ...] | None, Key(10)] = None
    elr: Annotated[tuple[int, ...] | None, Key(11)] = None
    last_known_leader: Annotated[int | None, Key(12)] = None


@dataclass(frozen=True, slots=True)
class ConfigSet:
    """A property of a topic or broker has a value."""

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    resource_type: Annotated[str, Key(3)]
    resource_name: Annotated[str, Key(4)]
    name: Annotated[str, Key(5)]
    value: Annotated[str, Key(6)]


@dataclass(frozen=True, slots=True)
class ConfigDeleted:
    """A property of a topic or broker is back at its default."""

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    resource_type: Annotated[str, Key(3)]
    resource_name: Annotated[str, Key(4)]
    name: Annotated[str, Key(5)]


@dataclass(frozen=True, slots=True)
class RequestAnswered:
    """The records of this batch carry out a request; a retry of it gets this answer.

    ``answer`` is a frame's body (``quorate.control.frames``).
    """

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    request_id: Annotated[bytes, Key(3)]
    answer: Annotated[bytes, Key(4)]


@dataclass(frozen=True, slots=True)
class FeatureLevelSet:
    """A feature of the whole cluster works at this level from now on; 0 switches it off.

    The level of ``metadata.version`` says which records may be written.
    """

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    name: Annotated[str, Key(3)]
    level: Annotated[int, Key(4)]


@dataclass(frozen=True, slots=True)
class AclAdded:
    """An access rule (an ACL) holds; the codes of its parts are Kafka's."""

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    acl_id: Annotated[bytes, Key(3)]
    resource_type: Annotated[int, Key(4)]
    resource_name: Annotated[str, Key(5)]
    pattern_type: Annotated[int, Key(6)]
    principal: Annotated[str, Key(7)]
    host: Annotated[str, Key(8)]
    operation: Annotated[int, Key(9)]
    permission: Annotated[int, Key(10)]


@dataclass(frozen=True, slots=True)
class AclRemoved:
    """An access rule does not hold any more."""

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    acl_id: Annotated[bytes, Key(3)]


@dataclass(frozen=True, slots=True)
class ScramCredentialSet:
    """A user has a password for a SCRAM mechanism (Kafka's code); what is kept cannot log in."""

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    user: Annotated[str, Key(3)]
    mechanism: Annotated[int, Key(4)]
    salt: Annotated[bytes, Key(5)]
    stored_key: Annotated[bytes, Key(6)]
    server_key: Annotated[bytes, Key(7)]
    iterations: Annotated[int, Key(8)]


@dataclass(frozen=True, slots=True)
class ScramCredentialRemoved:
    """A user cannot log in with a SCRAM mechanism any more."""

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    user: Annotated[str, Key(3)]
    mechanism: Annotated[int, Key(4)]


@dataclass(frozen=True, slots=True)
class QuotaEntityPart:
    """One side of who is limited: a user, a client id, ...; without a name, all that have none."""

    type: Annotated[str, Key(1)]
    name: Annotated[str | None, Key(2)]

    def __str__(self) -> str:
        return f"{self.type}={'<default>' if self.name is None else self.name}"


QuotaEntity = tuple[QuotaEntityPart, ...]


@dataclass(frozen=True, slots=True)
class ClientQuotaSet:
    """Some clients may use so much of something: bytes per second, per cent of a thread, ..."""

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    entity: Annotated[QuotaEntity, Key(3)]
    name: Annotated[str, Key(4)]
    value: Annotated[float, Key(5)]


@dataclass(frozen=True, slots=True)
class ClientQuotaRemoved:
    """Some clients are not limited in something any more."""

    cause: Annotated[str, CAUSE_KEY]
    time_ms: Annotated[int, TIME_KEY]
    entity: Annotated[QuotaEntity, Key(3)]
    name: Annotated[str, Key(4)]


MetadataRecord = (
    ClusterFormatted
    | BrokerRegistered
    | BrokerFenced
    | BrokerUnfenced
    | BrokerUnregistered
    | BrokerChanged
    | ProducerIdsAllocated
    | TopicCreated
    | TopicRemoved
    | PartitionCreated
    | PartitionChanged
    | ConfigSet
    | ConfigDeleted
    | RequestAnswered
    | FeatureLevelSet
    | AclAdded
    | AclRemoved
    | ScramCredentialSet
    | ScramCredentialRemoved
    | ClientQuotaSet
    | ClientQuotaRemoved
)
