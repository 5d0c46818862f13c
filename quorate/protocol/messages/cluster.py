"""The insides of brokers: DescribeLogDirs, DescribeProducers."""

from quorate.model import UNKNOWN_OFFSET
from quorate.protocol.fields import OWN_TAG, array, boolean, int16, int32, int64, string
from quorate.protocol.message import message, nested


@nested
class DescribableLogDirTopic:
    """The partitions of one topic to look for."""

    topic: str = string()
    partitions: list[int] = array("int32")


@message(versions="1-5", flexible="2+")
class DescribeLogDirsRequest:
    """Asks what a broker has on its disks; null means everything."""

    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")
    include_own_fields: bool = boolean("2+", tag=OWN_TAG)


@nested
class DescribeLogDirsPartition:
    """One replica on disk; the tagged fields are our own, for who asks for them."""

    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()
    log_end_offset: int = int64("2+", default=UNKNOWN_OFFSET, tag=OWN_TAG)
    high_watermark: int = int64("2+", default=UNKNOWN_OFFSET, tag=OWN_TAG + 1)
    log_start_offset: int = int64("2+", default=UNKNOWN_OFFSET, tag=OWN_TAG + 2)


@nested
class DescribeLogDirsTopic:
    """The replicas of one topic on disk."""

    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@nested
class DescribeLogDirsResult:
    """One directory; sizes of -1 are not known."""

    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64("4+", default=-1)
    usable_bytes: int = int64("4+", default=-1)
    is_cordoned: bool = boolean("5+")


@message(versions="1-5", flexible="2+")
class DescribeLogDirsResponse:
    """Answers a DescribeLogDirsRequest."""

    throttle_time_ms: int = int32()
    error_code: int = int16("3+")
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)


@nested
class DescribeProducersTopicRequest:
    """The partitions of one topic to look at."""

    name: str = string()
    partition_indexes: list[int] = array("int32")


@message(versions="0", flexible="0+")
class DescribeProducersRequest:
    """Asks who has been writing to partitions (KIP-664)."""

    topics: list[DescribeProducersTopicRequest] = array(DescribeProducersTopicRequest)


@nested
class ProducerState:
    """What the leader remembers about one producer."""

    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


@nested
class DescribeProducersPartitionResponse:
    """The producers of one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    active_producers: list[ProducerState] = array(ProducerState)


@nested
class DescribeProducersTopicResponse:
    """The producers of one topic."""

    name: str = string()
    partitions: list[DescribeProducersPartitionResponse] = array(DescribeProducersPartitionResponse)


@message(versions="0", flexible="0+")
class DescribeProducersResponse:
    """Answers a DescribeProducersRequest."""

    throttle_time_ms: int = int32()
    topics: list[DescribeProducersTopicResponse] = array(DescribeProducersTopicResponse)
