"""What the cluster looks like: Metadata, DescribeCluster, DescribeTopicPartitions."""

from typing import Final

from quorate.protocol.fields import (
    OWN_TAG,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
    struct,
    uuid,
)
from quorate.protocol.message import message, nested

OPERATIONS_NOT_ASKED_FOR: Final = -(2**31)
"""The value of authorized operations in an answer to somebody who did not ask for them."""


@nested
class MetadataRequestTopic:
    """A topic by name, or by id with a null name."""

    topic_id: bytes = uuid("10+")
    name: str | None = string(nullable="10+")


@message(versions="0-13", flexible="9+")
class MetadataRequest:
    """Asks about topics: null means all of them, an empty list none (in version 0: all)."""

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


@nested
class MetadataResponseBroker:
    """A broker that clients can talk to."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="1+")


@nested
class MetadataResponsePartition:
    """Who leads a partition and who follows."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1)
    replica_nodes: list[int] = array("int32")
    isr_nodes: list[int] = array("int32")
    offline_replicas: list[int] = array("int32", "5+")


@nested
class MetadataResponseTopic:
    """A topic and its partitions."""

    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: bytes = uuid("10+")
    is_internal: bool = boolean("1+")
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32("8+", default=OPERATIONS_NOT_ASKED_FOR)


@message(versions="0-13", flexible="9+")
class MetadataResponse:
    """Answers a MetadataRequest."""

    throttle_time_ms: int = int32("3+")
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="2+")
    controller_id: int = int32("1+", default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32("8-10", default=OPERATIONS_NOT_ASKED_FOR)
    error_code: int = int16("13+")


@message(versions="0-2", flexible="0+")
class DescribeClusterRequest:
    """Asks who is in the cluster. `endpoint_type` is 1 for brokers, 2 for controllers (KIP-919)."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")
    include_own_fields: bool = boolean("2+", tag=OWN_TAG)


@nested
class DescribeClusterBroker:
    """Where a broker or a controller listens; the tagged fields are our own, on demand."""

    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+")
    is_fenced: bool = boolean("2+")
    is_shutting_down: bool = boolean("2+", tag=OWN_TAG)
    is_draining: bool = boolean("2+", tag=OWN_TAG + 1)
    cannot_write: bool = boolean("2+", tag=OWN_TAG + 2)


@message(versions="0-2", flexible="0+")
class DescribeClusterResponse:
    """Answers a DescribeClusterRequest."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=OPERATIONS_NOT_ASKED_FOR)


@nested
class DescribeTopicPartitionsTopicRequest:
    """A topic to describe."""

    name: str = string()


@nested
class Cursor:
    """The first partition of the next page."""

    topic_name: str = string()
    partition_index: int = int32()


@message(versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    """Asks about topics page by page (KIP-966); an empty list means all of them."""

    topics: list[DescribeTopicPartitionsTopicRequest] = array(DescribeTopicPartitionsTopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = struct(Cursor, nullable="0+")


@nested
class DescribeTopicPartitionsResponsePartition:
    """Who leads a partition, who follows, and who could lead it outside the in-sync replicas."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: list[int] = array("int32")
    isr_nodes: list[int] = array("int32")
    eligible_leader_replicas: list[int] | None = array("int32", nullable="0+", default=None)
    last_known_elr: list[int] | None = array("int32", nullable="0+", default=None)
    offline_replicas: list[int] = array("int32")


@nested
class DescribeTopicPartitionsResponseTopic:
    """A topic and those of its partitions that fit on the page."""

    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: bytes = uuid()
    is_internal: bool = boolean()
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = int32(default=OPERATIONS_NOT_ASKED_FOR)


@message(versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    """Answers a DescribeTopicPartitionsRequest; without a cursor it is the last page."""

    throttle_time_ms: int = int32()
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = struct(Cursor, nullable="0+")
