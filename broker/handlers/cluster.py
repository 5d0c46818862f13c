"""The cluster's insides: disks, producers, reassignments."""

from quorate.broker.handlers.context import Broker, Caller
from quorate.broker.replication.leader import LeaderReplica
from quorate.errors import KafkaError
from quorate.protocol.messages.cluster import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
    ProducerState,
)
from quorate.protocol.messages.placement import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from quorate.records.batch import NO_SEQUENCE


def describe_log_dirs(
    broker: Broker, request: DescribeLogDirsRequest, _caller: Caller
) -> DescribeLogDirsResponse:
    """Say how many bytes each partition has on this broker's disk (KIP-113, KIP-827)."""
    sizes: dict[str, list[DescribeLogDirsPartition]] = {}
    for replica in broker.replicas:
        if _is_asked_for(replica, request.topics):
            topic, partition = replica.topic_partition
            sizes.setdefault(topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=partition, partition_size=replica.log.size_bytes
                )
            )
    result = DescribeLogDirsResult(
        log_dir=broker.config.log_dir,
        topics=[DescribeLogDirsTopic(name=n, partitions=p) for n, p in sizes.items()],
    )
    return DescribeLogDirsResponse(results=[result])


def _is_asked_for(replica: LeaderReplica, topics: list[DescribableLogDirTopic] | None) -> bool:
    if topics is None:
        return True
    topic, partition = replica.topic_partition
    return any(topic == t.topic and partition in t.partitions for t in topics)


def describe_producers(
    broker: Broker, request: DescribeProducersRequest, _caller: Caller
) -> DescribeProducersResponse:
    """Say which idempotent producers wrote to each partition lately (KIP-664)."""
    return DescribeProducersResponse(
        topics=[
            DescribeProducersTopicResponse(
                name=topic.name,
                partitions=[
                    _producers_of(broker, topic.name, index) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _producers_of(broker: Broker, topic: str, partition: int) -> DescribeProducersPartitionResponse:
    answer = DescribeProducersPartitionResponse(partition_index=partition)
    try:
        producers = broker.replicas.leader(topic, partition).log.producers
    except KafkaError as error:
        answer.error_code, answer.error_message = int(error.code), error.message
        return answer
    answer.active_producers = [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.batches[-1].last_sequence if producer.batches else NO_SEQUENCE,
            last_timestamp=producer.last_timestamp_ms,
            coordinator_epoch=-1,
        )
        for producer_id, producer in producers.items()
    ]
    return answer


def list_partition_reassignments(
    _broker: Broker, _request: ListPartitionReassignmentsRequest, _caller: Caller
) -> ListPartitionReassignmentsResponse:
    """Say which partitions are being moved (KIP-455): none, while each has a single replica."""
    return ListPartitionReassignmentsResponse()
