"""Alter/ListPartitionReassignments: other replicas for partitions (KIP-455)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from quorate.broker.handlers.context import ANONYMOUS, Broker, Caller
from quorate.control.messages import Failure
from quorate.control.partition_messages import AlterReassignments, AlterReassignmentsAnswer
from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.promise import Promise
from quorate.protocol.messages.placement import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from quorate.quorum.metadata.image import MetadataImage

_TWICE: Final = Failure(int(ErrorCode.INVALID_REQUEST), "the partition is named twice")


def alter_partition_reassignments(
    broker: Broker, request: AlterPartitionReassignmentsRequest, _caller: Caller
) -> Promise[AlterPartitionReassignmentsResponse]:
    """Have the controller move partitions, or call that off."""
    promise: Promise[AlterPartitionReassignmentsResponse] = Promise()
    counts = Counter(TopicPartition(t.name, p.partition_index) for t, p in _named(request))
    wanted: dict[str, dict[int, tuple[int, ...] | None]] = {}
    for topic, partition in _named(request):
        if counts[TopicPartition(topic.name, partition.partition_index)] == 1:
            replicas = None if partition.replicas is None else tuple(partition.replicas)
            wanted.setdefault(topic.name, {})[partition.partition_index] = replicas
    allow = request.allow_replication_factor_change

    def answered(answer: AlterReassignmentsAnswer) -> None:
        failures = {TopicPartition(a.topic, a.partition): a.failure for a in answer.partitions}
        results = _results(counts, failures, _TWICE)
        promise.resolve(
            AlterPartitionReassignmentsResponse(
                allow_replication_factor_change=allow, responses=results
            )
        )

    def failed(code: ErrorCode, message: str) -> None:
        promise.resolve(
            AlterPartitionReassignmentsResponse(
                allow_replication_factor_change=allow,
                error_code=int(code),
                error_message=message,
                responses=_results(counts, {}, Failure(int(code), message)),
            )
        )

    alteration = AlterReassignments(wanted, allow, ANONYMOUS)
    broker.ask(alteration, answered, failed, request.timeout_ms)
    return promise


def _named(
    request: AlterPartitionReassignmentsRequest,
) -> Iterator[tuple[ReassignableTopic, ReassignablePartition]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield topic, partition


def _results(
    asked: Iterable[TopicPartition], failures: Mapping[TopicPartition, Failure], other: Failure
) -> list[ReassignableTopicResponse]:
    """Return what became of each partition; of those that nothing is known of, ``other``."""
    topics: dict[str, list[ReassignablePartitionResponse]] = {}
    for key in asked:
        failure = failures.get(key, other)
        topics.setdefault(key.topic, []).append(
            ReassignablePartitionResponse(
                partition_index=key.partition,
                error_code=failure.code,
                error_message=failure.message or None,
            )
        )
    return [ReassignableTopicResponse(name=n, partitions=p) for n, p in topics.items()]


def list_partition_reassignments(
    broker: Broker, request: ListPartitionReassignmentsRequest, _caller: Caller
) -> ListPartitionReassignmentsResponse:
    """Say which partitions are being moved, of all if none are named."""
    image = broker.replicas.image
    asked: Iterable[tuple[str, list[int] | None]]
    if request.topics is None:
        asked = [(name, None) for name in image.topics]
    else:
        asked = [(topic.name, topic.partition_indexes) for topic in request.topics]
    topics = [
        OngoingTopicReassignment(name=name, partitions=moving)
        for name, indexes in asked
        if (moving := list(_moving(image, name, indexes)))
    ]
    return ListPartitionReassignmentsResponse(topics=topics)


def _moving(
    image: MetadataImage, name: str, indexes: list[int] | None
) -> Iterator[OngoingPartitionReassignment]:
    topic = image.topics.get(name)
    if topic is None:
        return
    for index in range(len(topic.partitions)) if indexes is None else indexes:
        if 0 <= index < len(topic.partitions) and topic.partitions[index].is_moving:
            state = topic.partitions[index]
            yield OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(state.replicas),
                adding_replicas=list(state.adding_replicas),
                removing_replicas=list(state.removing_replicas),
            )
