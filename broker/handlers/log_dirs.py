"""DescribeLogDirs: what this broker has on its disk of each partition that it leads or follows."""

from quorate.broker.handlers.context import Broker, Caller
from quorate.broker.replication.replica import Replica
from quorate.model import TopicPartition
from quorate.protocol.messages.cluster import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def describe_log_dirs(
    broker: Broker, request: DescribeLogDirsRequest, _caller: Caller
) -> DescribeLogDirsResponse:
    """Say how large each replica on this broker's disk is, and how far behind (KIP-113)."""
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    asked = _asked_for(request)
    for replica in broker.replicas.hosted():
        if asked is None or replica.topic_partition in asked:
            topic, partition = replica.topic_partition
            topics.setdefault(topic, []).append(_described(partition, replica))
    result = DescribeLogDirsResult(
        log_dir=broker.config.log_dir,
        topics=[DescribeLogDirsTopic(name=n, partitions=p) for n, p in topics.items()],
    )
    return DescribeLogDirsResponse(results=[result])


def _asked_for(request: DescribeLogDirsRequest) -> set[TopicPartition] | None:
    """Return which partitions are asked for; None means all."""
    if request.topics is None:
        return None
    return {
        TopicPartition(t.topic, partition) for t in request.topics for partition in t.partitions
    }


def _described(partition: int, replica: Replica) -> DescribeLogDirsPartition:
    """Return what there is of a replica.

    It lags behind by what it lacks of what it knows to be committed, as in Kafka; our own tools,
    which ask all brokers, compare the offsets themselves.
    """
    log = replica.log
    return DescribeLogDirsPartition(
        partition_index=partition,
        partition_size=log.size_bytes,
        offset_lag=max(replica.high_watermark - log.log_end_offset, 0),
        log_end_offset=log.log_end_offset,
        high_watermark=replica.high_watermark,
        log_start_offset=log.log_start_offset,
    )
