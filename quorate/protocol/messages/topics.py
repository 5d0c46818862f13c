"""Changing topics: CreateTopics, DeleteTopics, DeleteRecords, CreatePartitions."""

from typing import Final

from quorate.protocol.fields import array, boolean, int8, int16, int32, int64, string, uuid
from quorate.protocol.message import message, nested

TIMEOUT_MS: Final = 60_000


@nested
class CreatableReplicaAssignment:
    """Which brokers get the replicas of one partition; the first one is to lead."""

    partition_index: int = int32()
    broker_ids: list[int] = array("int32")


@nested
class CreatableTopicConfig:
    """One setting of a new topic."""

    name: str = string()
    value: str | None = string(nullable="0+")


@nested
class CreatableTopic:
    """A topic to create; -1 as a number means the broker's default (KIP-464)."""

    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


@message(versions="2-7", flexible="5+")
class CreateTopicsRequest:
    """Creates topics, or only says whether that would work."""

    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=TIMEOUT_MS)
    validate_only: bool = boolean("1+")


@nested
class CreatableTopicConfigs:
    """One setting of the topic that was created, and where it came from."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()


@nested
class CreatableTopicResult:
    """What became of one topic."""

    name: str = string()
    topic_id: bytes = uuid("7+")
    error_code: int = int16()
    error_message: str | None = string("1+", nullable="1+")
    topic_config_error_code: int = int16("5+", tag=0)
    num_partitions: int = int32("5+", default=-1)
    replication_factor: int = int16("5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, "5+", nullable="5+")


@message(versions="2-7", flexible="5+")
class CreateTopicsResponse:
    """Answers a CreateTopicsRequest."""

    throttle_time_ms: int = int32("2+")
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)


@nested
class DeleteTopicState:
    """A topic to delete, by name or by id."""

    name: str | None = string(nullable="0+")
    topic_id: bytes = uuid()


@message(versions="1-6", flexible="4+")
class DeleteTopicsRequest:
    """Deletes topics."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array("string", "0-5")
    timeout_ms: int = int32()


@nested
class DeletableTopicResult:
    """What became of one topic."""

    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+")
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+")


@message(versions="1-6", flexible="4+")
class DeleteTopicsResponse:
    """Answers a DeleteTopicsRequest."""

    throttle_time_ms: int = int32("1+")
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)


@nested
class DeleteRecordsPartition:
    """The offset before which everything goes; -1 stands for the high watermark."""

    partition_index: int = int32()
    offset: int = int64()


@nested
class DeleteRecordsTopic:
    """The partitions of one topic to shorten."""

    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


@message(versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    """Deletes the oldest records of partitions."""

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@nested
class DeleteRecordsPartitionResult:
    """Where the partition starts now."""

    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


@nested
class DeleteRecordsTopicResult:
    """What became of one topic's partitions."""

    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@message(versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    """Answers a DeleteRecordsRequest."""

    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)


@nested
class CreatePartitionsAssignment:
    """Which brokers get the replicas of one new partition."""

    broker_ids: list[int] = array("int32")


@nested
class CreatePartitionsTopic:
    """A topic that is to have `count` partitions; null lets the cluster place the new ones."""

    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable="0+"
    )


@message(versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """Adds partitions to topics, or only says whether that would work."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@nested
class CreatePartitionsTopicResult:
    """What became of one topic."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    """Answers a CreatePartitionsRequest."""

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
