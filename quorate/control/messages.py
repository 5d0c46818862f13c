"""What brokers, tools and controllers say to each other, as frozen values.

Each request names the type of its answer, so that a call is typed from end to end.  A request that
fails as a whole is answered by :class:`ErrorAnswer`, which callers meet as the ``KafkaError`` of
its code; the answers about several things carry a :class:`Failure` for each.
"""

import zlib
from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Final, Generic, TypeVar

from quorate.control.codec import Key
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode
from quorate.model import Endpoint

PROTOCOL_VERSION_MIN: Final = 1
PROTOCOL_VERSION_MAX: Final = 1

NO_NODE: Final = -1
"""A node id that stands for nobody."""

NO_DIRECTORY: Final = bytes(16)
"""A directory id that stands for none, or for one that is not known."""

UNKNOWN_TIME: Final = -1
"""A time that is not known."""

UNKNOWN_CHECKSUM: Final = -1
"""A checksum that is not known."""

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
    """The request failed; ``leader_id`` and its endpoint say who may serve it, if that is known."""

    code: Annotated[int, Key(1)]
    message: Annotated[str, Key(2)]
    leader_id: Annotated[int, Key(3)] = NO_NODE
    leader_endpoint: Annotated[Endpoint | None, Key(4)] = None


# --- introduction -------------------------------------------------------------


class Purpose(IntEnum):
    """What a connection is for; after the hello of a mesh, only Raft frames come."""

    REQUESTS = 0
    MESH = 1


@dataclass(frozen=True, slots=True)
class Member:
    """A controller: its id, the directory that makes it this one (KIP-853), and where it listens.

    A controller whose disk was wiped has another directory, and so is another controller.
    """

    node_id: Annotated[int, Key(1)]
    directory_id: Annotated[bytes, Key(2)] = NO_DIRECTORY
    endpoint: Annotated[Endpoint | None, Key(3)] = None


@dataclass(frozen=True, slots=True)
class HelloAnswer(Answer):
    """Who the controller is, and the protocol version that this connection speaks from now on.

    An empty ``cluster_id`` means that its directory is not formatted yet. ``founders`` are the
    voters that its directory was formatted with: not those of now, and none if it joined later.
    ``voters`` are those of now, as far as it knows: who joins may have been told of none of them.
    """

    cluster_id: Annotated[str, Key(1)]
    node_id: Annotated[int, Key(2)]
    version: Annotated[int, Key(3)]
    directory_id: Annotated[bytes, Key(4)] = NO_DIRECTORY
    endpoint: Annotated[Endpoint | None, Key(5)] = None
    founders: Annotated[tuple[Member, ...], Key(6)] = ()
    voters: Annotated[tuple[Member, ...], Key(7)] = ()


@dataclass(frozen=True, slots=True)
class Hello(Request[HelloAnswer]):
    """The first message of a connection.

    An empty ``cluster_id`` means "not known yet"; tools say ``node_id`` ``NO_NODE``. Controllers
    say which directory they run on and where they listen. ``incarnation_id`` is drawn anew by
    every process, so that two processes with a copy of one directory are noticed.
    """

    cluster_id: Annotated[str, Key(1)]
    node_id: Annotated[int, Key(2)]
    version_min: Annotated[int, Key(3)] = PROTOCOL_VERSION_MIN
    version_max: Annotated[int, Key(4)] = PROTOCOL_VERSION_MAX
    directory_id: Annotated[bytes, Key(5)] = NO_DIRECTORY
    purpose: Annotated[Purpose, Key(6)] = Purpose.REQUESTS
    endpoint: Annotated[Endpoint | None, Key(7)] = None
    incarnation_id: Annotated[bytes, Key(8)] = b""


# --- brokers ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SupportedFeature:
    """The levels of a feature that a broker can work at."""

    name: Annotated[str, Key(1)]
    level_min: Annotated[int, Key(2)]
    level_max: Annotated[int, Key(3)]


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

    ``previous_broker_epoch`` is the broker epoch that the directory was closed in, if it was closed
    properly (KIP-966): otherwise, what was not on the disk yet may be missing there.
    """

    broker_id: Annotated[int, Key(1)]
    incarnation_id: Annotated[bytes, Key(2)]
    endpoints: Annotated[Mapping[str, Endpoint], Key(3)]
    rack: Annotated[str | None, Key(4)] = None
    directory_id: Annotated[bytes, Key(5)] = b""
    cluster_id: Annotated[str, Key(6)] = ""
    features: Annotated[tuple[SupportedFeature, ...], Key(7)] = ()
    previous_broker_epoch: Annotated[int, Key(8)] = -1


@dataclass(frozen=True, slots=True)
class BrokerHeartbeatAnswer(Answer):
    """Whether the broker may serve, and whether it may stop now."""

    fenced: Annotated[bool, Key(1)]
    caught_up: Annotated[bool, Key(2)]
    should_shut_down: Annotated[bool, Key(3)] = False


@dataclass(frozen=True, slots=True)
class BrokerHeartbeat(Request[BrokerHeartbeatAnswer]):
    """A broker lives, and has applied metadata up to ``metadata_version``.

    With ``cannot_write``, its disk has refused something since its last one, or has no room yet.
    """

    broker_id: Annotated[int, Key(1)]
    broker_epoch: Annotated[int, Key(2)]
    metadata_version: Annotated[int, Key(3)]
    wants_fence: Annotated[bool, Key(4)] = False
    wants_shut_down: Annotated[bool, Key(5)] = False
    cannot_write: Annotated[bool, Key(6)] = False


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
    """The records that made one version, as ``quorate.quorum.metadata`` encodes batches.

    ``term`` is that in which they were decided; 0 if it is not told.
    """

    version: Annotated[int, Key(1)]
    records: Annotated[bytes, Key(3)]
    term: Annotated[int, Key(4)] = 0

    @property
    def checksum(self) -> int:
        """What tells it from a batch that another past has at this version: its CRC-32."""
        return zlib.crc32(self.records)


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
    """Ask for the metadata after ``from_version``, waiting up to ``wait_ms`` for some.

    A broker says that it is one: while it waits, the controller can tell that it is connected.
    ``checksum`` is that of the batch which made ``from_version``, if it came as one: controllers
    with another batch there, or none, are of another past.
    """

    from_version: Annotated[int, Key(1)]
    wait_ms: Annotated[int, Key(2)]
    broker_id: Annotated[int, Key(3)] = NO_NODE
    checksum: Annotated[int, Key(4)] = UNKNOWN_CHECKSUM


# --- the quorum ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A voter or observer as the leader knows it; -1 is what it does not know.

    Offsets are exclusive ends. The times are of the day, in ms: when the leader last heard from
    it, and when it last had everything that the leader had.
    """

    node_id: Annotated[int, Key(1)]
    log_end_offset: Annotated[int, Key(2)]
    directory_id: Annotated[bytes, Key(3)] = NO_DIRECTORY
    endpoint: Annotated[Endpoint | None, Key(4)] = None
    last_fetch_ms: Annotated[int, Key(5)] = UNKNOWN_TIME
    last_caught_up_ms: Annotated[int, Key(6)] = UNKNOWN_TIME


@dataclass(frozen=True, slots=True)
class DescribeQuorumAnswer(Answer):
    """The state of the quorum as ``node_id`` sees it; offsets are exclusive ends.

    ``leader_id`` is ``NO_NODE`` if it knows of none; then, and if it does not lead itself, it knows
    about the other replicas only who they are. The sizes, ``snapshot_index`` (the last index that
    its snapshot holds, 0 without one), the time since its start and ``disk_full`` (its log or a
    snapshot waits for space) are its own.
    """

    leader_id: Annotated[int, Key(1)]
    leader_epoch: Annotated[int, Key(2)]
    high_watermark: Annotated[int, Key(3)]
    voters: Annotated[tuple[QuorumReplica, ...], Key(4)]
    metadata_version: Annotated[int, Key(5)]
    observers: Annotated[tuple[QuorumReplica, ...], Key(6)] = ()
    log_bytes: Annotated[int, Key(7)] = 0
    snapshot_bytes: Annotated[int, Key(8)] = 0
    snapshot_index: Annotated[int, Key(9)] = 0
    uptime_ms: Annotated[int, Key(10)] = 0
    node_id: Annotated[int, Key(11)] = NO_NODE
    commit_index: Annotated[int, Key(12)] = 0
    last_index: Annotated[int, Key(13)] = 0
    disk_full: Annotated[bool, Key(14)] = False


@dataclass(frozen=True, slots=True)
class DescribeQuorum(Request[DescribeQuorumAnswer]):
    """Ask how the quorum is: its leader, or with ``local`` whoever is asked, without a majority."""

    local: Annotated[bool, Key(1)] = False


@dataclass(frozen=True, slots=True)
class AddVoterAnswer(Answer):
    """The controller votes; these are the voters now."""

    voters: Annotated[tuple[Member, ...], Key(1)]


@dataclass(frozen=True, slots=True)
class AddVoter(Request[AddVoterAnswer]):
    """Make an observer a voter, once it has caught up.

    Without a directory id or an endpoint, those of the observer with that node id are meant.
    """

    node_id: Annotated[int, Key(1)]
    directory_id: Annotated[bytes, Key(2)] = NO_DIRECTORY
    endpoint: Annotated[Endpoint | None, Key(3)] = None


@dataclass(frozen=True, slots=True)
class RemoveVoterAnswer(Answer):
    """The controller does not vote any more; these are the voters now."""

    voters: Annotated[tuple[Member, ...], Key(1)]


@dataclass(frozen=True, slots=True)
class RemoveVoter(Request[RemoveVoterAnswer]):
    """Take a controller out of the quorum; without a directory id, the voter of that node id."""

    node_id: Annotated[int, Key(1)]
    directory_id: Annotated[bytes, Key(2)] = NO_DIRECTORY


@dataclass(frozen=True, slots=True)
class TransferLeadershipAnswer(Answer):
    """The leader has given up leading in favour of ``leader_id``."""

    leader_id: Annotated[int, Key(1)]


@dataclass(frozen=True, slots=True)
class TransferLeadership(Request[TransferLeadershipAnswer]):
    """Let another voter lead: a certain one, or whichever is best for ``NO_NODE``."""

    node_id: Annotated[int, Key(1)] = NO_NODE


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
class Expected:
    """What a property of a resource has to be now: ``None`` if it must not be set there."""

    value: Annotated[str | None, Key(1)]


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One property of one resource; ``value`` is ``None`` for ``DELETE``.

    With ``expected`` it changes only from that value; from any other, nothing of the resource
    changes and the failure is ``INVALID_UPDATE_VERSION``.
    """

    name: Annotated[str, Key(1)]
    operation: Annotated[ConfigOperation, Key(2)]
    value: Annotated[str | None, Key(3)] = None
    expected: Annotated[Expected | None, Key(4)] = None


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
