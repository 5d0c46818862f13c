"""What the Admin client asks about where partitions are, and reads in the answers (pure)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from quorate.client.admin_results import Reassignment
from quorate.model import TopicPartition
from quorate.protocol.messages.placement import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)

PREFERRED = 0
UNCLEAN = 1

T = TypeVar("T")

Told = dict[TopicPartition, tuple[int, str | None]]
"""An error code and what was said about it, for each partition; a code of 0 is no error."""


def by_topic(partitions: Mapping[TopicPartition, T]) -> dict[str, dict[int, T]]:
    """Return what is said of partitions by topic, in the order of the first of each."""
    topics: dict[str, dict[int, T]] = {}
    for partition, value in partitions.items():
        topics.setdefault(partition.topic, {})[partition.partition] = value
    return topics


def elect_request(
    partitions: Iterable[TopicPartition] | None, *, unclean: bool, timeout_ms: int
) -> ElectLeadersRequest:
    """Return the request for elections; None stands for all partitions."""
    wanted = None
    if partitions is not None:
        topics = by_topic(dict.fromkeys(partitions))
        wanted = [TopicPartitions(topic=t, partitions=list(p)) for t, p in topics.items()]
    return ElectLeadersRequest(
        election_type=UNCLEAN if unclean else PREFERRED,
        topic_partitions=wanted,
        timeout_ms=timeout_ms,
    )


def elections_of(response: ElectLeadersResponse) -> Told:
    """Return what became of each election."""
    return {
        TopicPartition(topic.topic, told.partition_id): (told.error_code, told.error_message)
        for topic in response.replica_election_results
        for told in topic.partition_result
    }


def reassign_request(
    targets: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int
) -> AlterPartitionReassignmentsRequest:
    """Return the request to move partitions; None calls off what is under way."""
    return AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms,
        topics=[
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(
                        partition_index=number,
                        replicas=None if replicas is None else list(replicas),
                    )
                    for number, replicas in partitions.items()
                ],
            )
            for topic, partitions in by_topic(targets).items()
        ],
    )


def reassigned_of(response: AlterPartitionReassignmentsResponse) -> Told:
    """Return whether each partition is on its way."""
    return {
        TopicPartition(topic.name, told.partition_index): (told.error_code, told.error_message)
        for topic in response.responses
        for told in topic.partitions
    }


def moves_request(
    partitions: Iterable[TopicPartition] | None, timeout_ms: int
) -> ListPartitionReassignmentsRequest:
    """Return the question which partitions are on the move; None stands for all."""
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=topic, partition_indexes=list(numbers))
            for topic, numbers in by_topic(dict.fromkeys(partitions)).items()
        ]
    return ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=topics)


def moves_of(response: ListPartitionReassignmentsResponse) -> dict[TopicPartition, Reassignment]:
    """Return the partitions on the move."""
    return {
        TopicPartition(topic.name, told.partition_index): Reassignment(
            tuple(told.replicas), tuple(told.adding_replicas), tuple(told.removing_replicas)
        )
        for topic in response.topics
        for told in topic.partitions
    }
