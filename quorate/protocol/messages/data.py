"""Reading and writing records: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch."""

from collections.abc import Sized
from typing import Final

from quorate.protocol.fields import (
    array,
    int8,
    int16,
    int32,
    int64,
    opaque_records,
    received_records,
    string,
    struct,
    uuid,
)
from quorate.protocol.message import message, nested

OFFSET_MAX: Final = 2**63 - 1

READ_COMMITTED: Final = 1
"""The isolation level of who reads nothing whose transaction is not decided; others have 0."""

PRODUCE_TOPIC_IDS_FROM: Final = 13
"""From this version on Produce names topics by their ids."""

PRODUCE_ELEMENTS_MAX: Final = 100_000
"""Topics and partitions of one request, which may be as large as no other kind is."""


@nested
class LeaderIdAndEpoch:
    """Who leads a partition; sent along when somebody asked the wrong broker (KIP-951)."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@nested
class NodeEndpoint:
    """Where a leader named in the same response can be reached (KIP-951)."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+")


@nested
class PartitionProduceData:
    """Record batches for one partition."""

    index: int = int32()
    records: memoryview | None = received_records()


@nested
class TopicProduceData:
    """Record batches for the partitions of one topic."""

    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@message(versions="3-13", flexible="9+", elements_max=PRODUCE_ELEMENTS_MAX)
class ProduceRequest:
    """Appends record batches. `acks` is 0 (no answer), 1 (leader) or -1 (all in-sync replicas)."""

    transactional_id: str | None = string("3+", nullable="3+")
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@nested
class BatchIndexAndErrorMessage:
    """A record that made its batch fail."""

    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="0+")


@nested
class PartitionProduceResponse:
    """What became of the batches for one partition."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64("2+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+")
    error_message: str | None = string("8+", nullable="8+")
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, "10+", tag=0)


@nested
class TopicProduceResponse:
    """What became of the batches for one topic."""

    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@message(versions="3-13", flexible="9+")
class ProduceResponse:
    """Answers a ProduceRequest, unless its `acks` was 0."""

    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32("1+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)


@nested
class ReplicaState:
    """Which replica fetches, and in which of its lives (KIP-903)."""

    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


@nested
class FetchPartition:
    """From where to read one partition, and how much."""

    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", tag=0)
    high_watermark: int = int64("18+", default=OFFSET_MAX, tag=1)


@nested
class FetchTopic:
    """The partitions of one topic to read."""

    topic: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partitions: list[FetchPartition] = array(FetchPartition)


@nested
class ForgottenTopic:
    """Partitions that leave a fetch session."""

    topic: str = string("7-12")
    topic_id: bytes = uuid("13+")
    partitions: list[int] = array("int32")


@message(versions="4-18", flexible="12+")
class FetchRequest:
    """Reads record batches; waits up to `max_wait_ms` until there are `min_bytes` of them."""

    cluster_id: str | None = string("12+", nullable="12+", tag=0)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState | None = struct(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32("3+", default=0x7FFFFFFF)
    isolation_level: int = int8("4+")
    session_id: int = int32("7+")
    session_epoch: int = int32("7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+")


@nested
class FetchEpochEndOffset:
    """Where the log of the fetcher and of the leader part ways (KIP-595)."""

    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@nested
class SnapshotId:
    """The snapshot from which a metadata follower has to start."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@nested
class AbortedTransaction:
    """A producer whose records from `first_offset` on were aborted."""

    producer_id: int = int64()
    first_offset: int = int64()


@nested
class PartitionData:
    """Record batches of one partition; in practice also where its log stands."""

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64("4+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: FetchEpochEndOffset | None = struct(FetchEpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId | None = struct(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, "4+", nullable="4+"
    )
    preferred_read_replica: int = int32("11+", default=-1)
    records: Sized | None = opaque_records()


@nested
class FetchableTopicResponse:
    """Record batches of one topic."""

    topic: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partitions: list[PartitionData] = array(PartitionData)


@message(versions="4-18", flexible="12+")
class FetchResponse:
    """Answers a FetchRequest."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16("7+")
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)


@nested
class ListOffsetsPartition:
    """Which time to look for; -1 is the latest offset, -2 the earliest, -3 the newest record."""

    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1)
    timestamp: int = int64()


@nested
class ListOffsetsTopic:
    """The partitions of one topic to search."""

    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@message(versions="1-11", flexible="6+")
class ListOffsetsRequest:
    """Finds offsets by time. A consumer's `replica_id` is -1."""

    replica_id: int = int32()
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+")


@nested
class ListOffsetsPartitionResponse:
    """The first offset at or after the time asked for; -1 if there is none."""

    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


@nested
class ListOffsetsTopicResponse:
    """The offsets found in one topic."""

    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@message(versions="1-11", flexible="6+")
class ListOffsetsResponse:
    """Answers a ListOffsetsRequest."""

    throttle_time_ms: int = int32("2+")
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)


@nested
class OffsetForLeaderPartition:
    """Which leader epoch to look for in one partition."""

    partition: int = int32()
    current_leader_epoch: int = int32("2+", default=-1)
    leader_epoch: int = int32()


@nested
class OffsetForLeaderTopic:
    """The partitions of one topic to search."""

    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@message(versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    """Asks where leader epochs ended. A consumer's `replica_id` is -1; -2 means nobody said."""

    replica_id: int = int32("3+", default=-2)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@nested
class OffsetForLeaderEpochEndOffset:
    """The largest epoch not after the one asked for, and the offset after its last record."""

    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32("1+", default=-1)
    end_offset: int = int64(default=-1)


@nested
class OffsetForLeaderTopicResult:
    """The ends of epochs in one topic."""

    topic: str = string()
    partitions: list[OffsetForLeaderEpochEndOffset] = array(OffsetForLeaderEpochEndOffset)


@message(versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    """Answers an OffsetForLeaderEpochRequest."""

    throttle_time_ms: int = int32("2+")
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
