"""Who leads and who holds partitions, and which brokers go: elections and reassignments."""

from quorate.protocol.fields import array, boolean, int8, int16, int32, string
from quorate.protocol.message import message, nested
from quorate.protocol.messages.topics import TIMEOUT_MS


@nested
class TopicPartitions:
    """The partitions of one topic that are to have an election."""

    topic: str = string()
    partitions: list[int] = array("int32")


@message(versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """Elects leaders: type 0 the preferred ones, 1 also outside the in-sync replicas (KIP-460)."""

    election_type: int = int8("1+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    timeout_ms: int = int32(default=TIMEOUT_MS)


@nested
class PartitionResult:
    """What became of one election."""

    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@nested
class ReplicaElectionResult:
    """What became of the elections in one topic."""

    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


@message(versions="0-2", flexible="2+")
class ElectLeadersResponse:
    """Answers an ElectLeadersRequest."""

    throttle_time_ms: int = int32()
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)


@nested
class ReassignablePartition:
    """The replicas that a partition is to have; null calls off what is under way."""

    partition_index: int = int32()
    replicas: list[int] | None = array("int32", nullable="0+", default=None)


@nested
class ReassignableTopic:
    """The partitions of one topic to move."""

    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


@message(versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    """Moves partitions to other brokers (KIP-455)."""

    timeout_ms: int = int32(default=TIMEOUT_MS)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


@nested
class ReassignablePartitionResponse:
    """Whether one partition is on its way."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@nested
class ReassignableTopicResponse:
    """Whether the partitions of one topic are on their way."""

    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


@message(versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    """Answers an AlterPartitionReassignmentsRequest."""

    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean("1+", default=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)


@nested
class ListPartitionReassignmentsTopics:
    """The partitions of one topic to look at."""

    name: str = string()
    partition_indexes: list[int] = array("int32")


@message(versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    """Asks which partitions are on the move; null means anywhere."""

    timeout_ms: int = int32(default=TIMEOUT_MS)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, nullable="0+", default=None
    )


@nested
class OngoingPartitionReassignment:
    """One partition on the move."""

    partition_index: int = int32()
    replicas: list[int] = array("int32")
    adding_replicas: list[int] = array("int32")
    removing_replicas: list[int] = array("int32")


@nested
class OngoingTopicReassignment:
    """The partitions of one topic on the move."""

    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


@message(versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    """Answers a ListPartitionReassignmentsRequest."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)


@message(versions="0", flexible="0+")
class UnregisterBrokerRequest:
    """Takes a broker that is gone out of the cluster (KIP-500)."""

    broker_id: int = int32()


@message(versions="0", flexible="0+")
class UnregisterBrokerResponse:
    """Answers an UnregisterBrokerRequest."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
