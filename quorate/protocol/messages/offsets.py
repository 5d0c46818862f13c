"""What groups have read: OffsetCommit, OffsetFetch, OffsetDelete."""

from quorate.protocol.fields import array, boolean, int16, int32, int64, string, uuid
from quorate.protocol.message import message, nested


@nested
class OffsetCommitRequestPartition:
    """How far one partition was read."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1)
    committed_metadata: str | None = string(nullable="0+")


@nested
class OffsetCommitRequestTopic:
    """How far the partitions of one topic were read."""

    name: str = string("0-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@message(versions="2-10", flexible="8+")
class OffsetCommitRequest:
    """Remembers how far a group has read; a generation of -1 is for consumers outside a group."""

    group_id: str = string()
    generation_id_or_member_epoch: int = int32("1+", default=-1)
    member_id: str = string("1+")
    group_instance_id: str | None = string("7+", nullable="7+")
    retention_time_ms: int = int64("2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@nested
class OffsetCommitResponsePartition:
    """Whether one offset was taken."""

    partition_index: int = int32()
    error_code: int = int16()


@nested
class OffsetCommitResponseTopic:
    """Whether the offsets of one topic were taken."""

    name: str = string("0-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@message(versions="2-10", flexible="8+")
class OffsetCommitResponse:
    """Answers an OffsetCommitRequest."""

    throttle_time_ms: int = int32("3+")
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)


@nested
class OffsetFetchRequestTopic:
    """The partitions of one topic, when there is one group in the request."""

    name: str = string()
    partition_indexes: list[int] = array("int32")


@nested
class OffsetFetchRequestTopics:
    """The partitions of one topic, when there are many groups in the request."""

    name: str = string("8-9")
    topic_id: bytes = uuid("10+")
    partition_indexes: list[int] = array("int32")


@nested
class OffsetFetchRequestGroup:
    """One of many groups; null topics mean all that it has offsets for."""

    group_id: str = string()
    member_id: str | None = string("9+", nullable="9+")
    member_epoch: int = int32("9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, nullable="0+")


@message(versions="1-10", flexible="6+")
class OffsetFetchRequest:
    """Asks how far groups have read; one group at a time up to version 7."""

    group_id: str = string("0-7")
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, "0-7", nullable="2-7"
    )
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")


@nested
class OffsetFetchResponsePartition:
    """How far one partition was read, when there is one group in the response."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("5-7", default=-1)
    metadata: str | None = string(nullable="0+")
    error_code: int = int16()


@nested
class OffsetFetchResponseTopic:
    """How far one topic was read, when there is one group in the response."""

    name: str = string()
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


@nested
class OffsetFetchResponsePartitions:
    """How far one partition was read, when there are many groups in the response."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1)
    metadata: str | None = string(nullable="0+")
    error_code: int = int16()


@nested
class OffsetFetchResponseTopics:
    """How far one topic was read, when there are many groups in the response."""

    name: str = string("8-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions)


@nested
class OffsetFetchResponseGroup:
    """How far one of many groups has read."""

    group_id: str = string()
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics)
    error_code: int = int16()


@message(versions="1-10", flexible="6+")
class OffsetFetchResponse:
    """Answers an OffsetFetchRequest."""

    throttle_time_ms: int = int32("3+")
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7")
    error_code: int = int16("2-7")
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")


@nested
class OffsetDeleteRequestPartition:
    """A partition whose offset is to be forgotten."""

    partition_index: int = int32()


@nested
class OffsetDeleteRequestTopic:
    """The partitions of one topic whose offsets are to be forgotten."""

    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@message(versions="0", flexible=None)
class OffsetDeleteRequest:
    """Forgets how far a group has read (KIP-496)."""

    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@nested
class OffsetDeleteResponsePartition:
    """Whether one offset was forgotten."""

    partition_index: int = int32()
    error_code: int = int16()


@nested
class OffsetDeleteResponseTopic:
    """Whether the offsets of one topic were forgotten."""

    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@message(versions="0", flexible=None)
class OffsetDeleteResponse:
    """Answers an OffsetDeleteRequest."""

    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
