"""DescribeLogDirs: what this broker has on its disk of each partition that it leads or follows."""

import logging
from collections.abc import Iterable

from quorate.broker.handlers.context import Broker, Caller
from quorate.broker.replication.replica import Replica
from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.protocol.messages.cluster import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

logger = logging.getLogger(__name__)


def describe_log_dirs(
    broker: Broker, request: DescribeLogDirsRequest, _caller: Caller
) -> DescribeLogDirsResponse:
    """Say how large each replica on this broker's disk is, and how far behind (KIP-113).

    With it goes the space that there is on the disk (KIP-827).  A directory that cannot be looked
    at is KAFKA_STORAGE_ERROR, as one that is offline is in Kafka.
    """
    log_dir = broker.config.log_dir
    try:
        space = broker.replicas.store.space()
        asked = _asked_for(request)
        replicas = [
            replica
            for replica in broker.replicas.hosted()
            if asked is None or replica.topic_partition in asked
        ]
        topics = _topics(replicas, own_fields=request.include_own_fields)
    except OSError as error:
        logger.warning("cannot look at %s: %s", log_dir, error)
        result = DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=log_dir, topics=[]
        )
    else:
        result = DescribeLogDirsResult(
            log_dir=log_dir,
            topics=topics,
            total_bytes=space.total_bytes,
            usable_bytes=space.usable_bytes,
        )
    return DescribeLogDirsResponse(results=[result])


def _topics(replicas: Iterable[Replica], *, own_fields: bool) -> list[DescribeLogDirsTopic]:
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for replica in replicas:
        topic, partition = replica.topic_partition
        described = _described(partition, replica)
        if own_fields:
            _add_own_fields(described, replica)
        topics.setdefault(topic, []).append(described)
    return [DescribeLogDirsTopic(name=n, partitions=p) for n, p in topics.items()]


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
    )


def _add_own_fields(described: DescribeLogDirsPartition, replica: Replica) -> None:
    """Tell what Kafka does not, to who asks for it: not every client can skip it."""
    described.log_end_offset = replica.log.log_end_offset
    described.high_watermark = replica.high_watermark
    described.log_start_offset = replica.log.log_start_offset
