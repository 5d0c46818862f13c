"""The quorum that keeps the metadata: DescribeQuorum, AddRaftVoter, RemoveRaftVoter."""

from typing import Final

from quorate.protocol.fields import array, boolean, int16, int32, int64, string, uint16, uuid
from quorate.protocol.message import message, nested

DESCRIBED_MAX: Final = 1_000
"""Topics and partitions of one request, of which there is one each."""


@nested
class DescribeQuorumPartitionRequest:
    """A partition of the metadata log; there is only number 0."""

    partition_index: int = int32()


@nested
class DescribeQuorumTopicRequest:
    """The metadata topic."""

    topic_name: str = string()
    partitions: list[DescribeQuorumPartitionRequest] = array(DescribeQuorumPartitionRequest)


@message(versions="0-2", flexible="0+", elements_max=DESCRIBED_MAX)
class DescribeQuorumRequest:
    """Asks about the quorum that keeps the metadata (KIP-595, KIP-853)."""

    topics: list[DescribeQuorumTopicRequest] = array(DescribeQuorumTopicRequest)


@nested
class DescribeQuorumReplicaState:
    """How far one member of the quorum is."""

    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1)
    last_caught_up_timestamp: int = int64("1+", default=-1)


@nested
class DescribeQuorumPartitionData:
    """Who leads the quorum, who votes and who only listens."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+")
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[DescribeQuorumReplicaState] = array(DescribeQuorumReplicaState)
    observers: list[DescribeQuorumReplicaState] = array(DescribeQuorumReplicaState)


@nested
class DescribeQuorumTopicData:
    """The quorum of one topic."""

    topic_name: str = string()
    partitions: list[DescribeQuorumPartitionData] = array(DescribeQuorumPartitionData)


@nested
class DescribeQuorumListener:
    """Where a member of the quorum listens."""

    name: str = string()
    host: str = string()
    port: int = uint16()


@nested
class DescribeQuorumNode:
    """A member of the quorum and its listeners."""

    node_id: int = int32()
    listeners: list[DescribeQuorumListener] = array(DescribeQuorumListener)


@message(versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    """Answers a DescribeQuorumRequest."""

    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+")
    topics: list[DescribeQuorumTopicData] = array(DescribeQuorumTopicData)
    nodes: list[DescribeQuorumNode] = array(DescribeQuorumNode, "2+")


@nested
class RaftVoterListener:
    """Where a new voter listens."""

    name: str = string()
    host: str = string()
    port: int = uint16()


@message(versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    """Makes an observer a voter (KIP-853).

    Version 1 may ask for an answer as soon as the leader has written the new set of voters,
    instead of when it is committed (KIP-1186).
    """

    cluster_id: str | None = string(nullable="0+")
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: list[RaftVoterListener] = array(RaftVoterListener)
    ack_when_committed: bool = boolean("1+", default=True)


@message(versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    """Answers an AddRaftVoterRequest."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    """Makes a voter an observer (KIP-853)."""

    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()


@message(versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    """Answers a RemoveRaftVoterRequest."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
