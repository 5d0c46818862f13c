"""What brokers, tools and controllers say to each other, as frozen values.

Each request names the type of its answer, so that a call is typed from end to end.  A request that
fails as a whole is answered by :class:`ErrorAnswer`, which callers meet as the ``KafkaError`` of
its code; the answers about several things carry a :class:`Failure` for each.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Final, Generic, TypeVar

from quorate.control.codec import Key
from quorate.errors import ErrorCode
from quorate.model import Endpoint

PROTOCOL_VERSION_MIN: Final = 1
PROTOCOL_VERSION_MAX: Final = 1

NO_NODE: Final = -1
"""A node id that stands for nobody."""

USE_DEFAULT: Final = -1
"""Partitions or replicas of a new topic: as many as the cluster's default says."""


class Answer:
    """The base of all answers."""

    __slots__ = ()


A_co = TypeVar("A_co", bound=Answer, covariant=True)


class Request(Generic[A_co]):
    """The base of all requests; ``A_co`` is the type of the answer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one thing out of a request was not done; ``code`` 0 means that it was."""

    code: Annotated[int, Key(1)] = ErrorCode.NONE.value
    message: Annotated[str, Key(2)] = ""


DONE: Final = Failure()


@dataclass(frozen=True, slots=True)
class ErrorAnswer(Answer):
    """The request failed; ``leader_id`` says who may serve it, if that is known."""

    code: Annotated[int, Key(1)]
    message: Annotated[str, Key(2)]
    leader_id: Annotated[int, Key(3)] = NO_NODE


# --- introduction -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HelloAnswer(Answer):
    """Who the controller is, and the protocol version that this connection speaks from now on."""

    cluster_id: Annotated[str, Key(1)]
    node_id: Annotated[int, Key(2)]
    version: Annotated[int, Key(3)]


@dataclass(frozen=True, slots=True)
class Hello(Request[HelloAnswer]):
    """The first message of a connection.

    An empty ``cluster_id`` means "not known yet"; tools say ``node_id`` ``NO_NODE``.
    """

    cluster_id: Annotated[str, Key(1)]
    node_id: Annotated[int, Key(2)]
    version_min: Annotated[int, Key(3)] = PROTOCOL_VERSION_MIN
    version_max: Annotated[int, Key(4)] = PROTOCOL_VERSION_MAX


# --- brokers ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RegisterBrokerAnswer(Answer):
    """The broker is registered, and fenced until it has applied metadata up to ``broker_epoch``."""

    broker_epoch: Annotated[int, Key(1)]


@dataclass(frozen=True, slots=True)
class RegisterBroker(Request[RegisterBrokerAnswer]):
    """A broker process introduces itself.

    ``incarnation_id`` is drawn anew by every process; ``directory_id`` belongs to the data
    directory. A directory has one owner at a time, so a new incarnation with the directory of the
    old one proves that the old one is gone, and need not wait for its session to expire.
    """

    broker_id: Annotated[int, Key(1)]
    incarnation_id: Annotated[bytes, Key(2)]
    endpoints: Annotated[Mapping[str, Endpoint], Key(3)]
    rack: Annotated[str | None, Key(4)] = None
    directory_id: Annotated[bytes, Key(5)] = b""
    cluster_id: Annotated[str, Key(6)] = ""


@dataclass(frozen=True, slots=True)
class BrokerHeartbeatAnswer(Answer):
    """Whether the broker may serve, and whether it may stop now."""

    fenced: Annotated[bool, Key(1)]
    caught_up: Annotated[bool, Key(2)]
    should_shut_down: Annotated[bool, Key(3)] = False


@dataclass(frozen=True, slots=True)
class BrokerHeartbeat(Request[BrokerHeartbeatAnswer]):
    """A broker lives, and has applied metadata up to ``metadata_version``."""

    broker_id: Annotated[int, Key(1)]
    broker_epoch: Annotated[int, Key(2)]
    metadata_version: Annotated[int, Key(3)]
    wants_fence: Annotated[bool, Key(4)] = False
    wants_shut_down: Annotated[bool, Key(5)] = False


@dataclass(frozen=True, slots=True)
class UnregisterBrokerAnswer(Answer):
    """The broker is not in the cluster any more."""


@dataclass(frozen=True, slots=True)
class UnregisterBroker(Request[UnregisterBrokerAnswer]):
    """Take a broker that is gone out of the cluster."""

    broker_id: Annotated[int, Key(1)]


@dataclass(frozen=True, slots=True)
class AllocateProducerIdsAnswer(Answer):
    """The ids from ``first_producer_id`` on, ``count`` of them, belong to the broker."""

    first_producer_id: Annotated[int, Key(1)]
    count: Annotated[int, Key(2)]


@dataclass(frozen=True, slots=True)
class AllocateProducerIds(Request[AllocateProducerIdsAnswer]):
    """A broker needs producer ids to hand out."""

    broker_id: Annotated[int, Key(1)]
    broker_epoch: Annotated[int, Key(2)]


# --- metadata -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MetadataBatch:
    """The records that made one version; their meaning is ``quorate.quorum.metadata``'s."""

    version: Annotated[int, Key(1)]
    records: Annotated[tuple[bytes, ...], Key(2)]


@dataclass(frozen=True, slots=True)
class FetchMetadataAnswer(Answer):
    """What happened since the version asked for.

    With a ``snapshot``, start from it instead of what you have; the batches continue from there.
    Without either, nothing happened within the time given. Versions grow, with gaps.
    """

    version: Annotated[int, Key(1)]
    batches: Annotated[tuple[MetadataBatch, ...], Key(2)] = ()
    snapshot: Annotated[bytes | None, Key(3)] = None


@dataclass(frozen=True, slots=True)
class FetchMetadata(Request[FetchMetadataAnswer]):
    """Ask for the metadata after ``from_version``, waiting up to ``wait_ms`` for some."""

    from_version: Annotated[int, Key(1)]
    wait_ms: Annotated[int, Key(2)]


@dataclass(frozen=True, slots=True)
class Voter:
    """One controller of the quorum, and the end of its log as the leader knows it (-1: unknown)."""

    node_id: Annotated[int, Key(1)]
    log_end_offset: Annotated[int, Key(2)]


@dataclass(frozen=True, slots=True)
class DescribeQuorumAnswer(Answer):
    """The state of the quorum; offsets are exclusive ends."""

    leader_id: Annotated[int, Key(1)]
    leader_epoch: Annotated[int, Key(2)]
    high_watermark: Annotated[int, Key(3)]
    voters: Annotated[tuple[Voter, ...], Key(4)]
    metadata_version: Annotated[int, Key(5)]


@dataclass(frozen=True, slots=True)
class DescribeQuorum(Request[DescribeQuorumAnswer]):
    """Ask how the quorum is."""


# --- topics -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create.

    ``assignment`` places each partition by hand; then the numbers must stay ``USE_DEFAULT``.
    """

    name: Annotated[str, Key(1)]
    partition_count: Annotated[int, Key(2)] = USE_DEFAULT
    replication_factor: Annotated[int, Key(3)] = USE_DEFAULT
    assignment: Annotated[Mapping[int, tuple[int, ...]] | None, Key(4)] = None
    configs: Annotated[Mapping[str, str] | None, Key(5)] = None


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """What became of one topic; the numbers are meaningful only if ``failure`` is ``DONE``."""

    name: Annotated[str, Key(1)]
    failure: Annotated[Failure, Key(2)]
    topic_id: Annotated[bytes, Key(3)] = bytes(16)
    partition_count: Annotated[int, Key(4)] = USE_DEFAULT
    replication_factor: Annotated[int, Key(5)] = USE_DEFAULT
    configs: Annotated[Mapping[str, str] | None, Key(6)] = None


@dataclass(frozen=True, slots=True)
class CreateTopicsAnswer(Answer):
    """What became of each topic, in the order of the request."""

    topics: Annotated[tuple[TopicCreation, ...], Key(1)]


@dataclass(frozen=True, slots=True)
class CreateTopics(Request[CreateTopicsAnswer]):
    """Create topics, or say what creating them would do (``validate_only``)."""

    topics: Annotated[tuple[NewTopic, ...], Key(1)]
    validate_only: Annotated[bool, Key(2)] = False
    principal: Annotated[str, Key(3)] = ""


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """What became of one topic that should go."""

    name: Annotated[str | None, Key(1)]
    topic_id: Annotated[bytes, Key(2)]
    failure: Annotated[Failure, Key(3)]


@dataclass(frozen=True, slots=True)
class DeleteTopicsAnswer(Answer):
    """What became of each topic: the names first, then the ids, in the order of the request."""

    topics: Annotated[tuple[TopicDeletion, ...], Key(1)]


@dataclass(frozen=True, slots=True)
class DeleteTopics(Request[DeleteTopicsAnswer]):
    """Delete topics by name or by id."""

    names: Annotated[tuple[str, ...], Key(1)] = ()
    topic_ids: Annotated[tuple[bytes, ...], Key(2)] = ()
    principal: Annotated[str, Key(3)] = ""


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """A topic shall have ``total_count`` partitions; ``assignment`` places the new ones by hand."""

    name: Annotated[str, Key(1)]
    total_count: Annotated[int, Key(2)]
    assignment: Annotated[tuple[tuple[int, ...], ...] | None, Key(3)] = None


@dataclass(frozen=True, slots=True)
class PartitionsCreation:
    """What became of one topic that should get more partitions."""

    name: Annotated[str, Key(1)]
    failure: Annotated[Failure, Key(2)]


@dataclass(frozen=True, slots=True)
class CreatePartitionsAnswer(Answer):
    """What became of each topic, in the order of the request."""

    topics: Annotated[tuple[PartitionsCreation, ...], Key(1)]


@dataclass(frozen=True, slots=True)
class CreatePartitions(Request[CreatePartitionsAnswer]):
    """Add partitions to topics."""

    topics: Annotated[tuple[NewPartitions, ...], Key(1)]
    validate_only: Annotated[bool, Key(2)] = False
    principal: Annotated[str, Key(3)] = ""


# --- configurations -----------------------------------------------------------


class ConfigOperation(IntEnum):
    """What to do with one property; the numbers are those of Kafka's IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One property of one resource; ``value`` is ``None`` for ``DELETE``."""

    name: Annotated[str, Key(1)]
    operation: Annotated[ConfigOperation, Key(2)]
    value: Annotated[str | None, Key(3)] = None


@dataclass(frozen=True, slots=True)
class ResourceChanges:
    """The changes to one resource: a ``"topic"`` by name, or a ``"broker"`` by id ("" for all).

    With ``replace``, the resource has afterwards what ``changes`` set and nothing else.
    """

    resource_type: Annotated[str, Key(1)]
    resource_name: Annotated[str, Key(2)]
    changes: Annotated[tuple[ConfigChange, ...], Key(3)]
    replace: Annotated[bool, Key(4)] = False


@dataclass(frozen=True, slots=True)
class ResourceAlteration:
    """What became of the changes to one resource: all or nothing."""

    resource_type: Annotated[str, Key(1)]
    resource_name: Annotated[str, Key(2)]
    failure: Annotated[Failure, Key(3)]


@dataclass(frozen=True, slots=True)
class AlterConfigsAnswer(Answer):
    """What became of each resource, in the order of the request."""

    resources: Annotated[tuple[ResourceAlteration, ...], Key(1)]


@dataclass(frozen=True, slots=True)
class AlterConfigs(Request[AlterConfigsAnswer]):
    """Change configurations, or say whether they could be changed so (``validate_only``)."""

    resources: Annotated[tuple[ResourceChanges, ...], Key(1)]
    validate_only: Annotated[bool, Key(2)] = False
    principal: Annotated[str, Key(3)] = ""
