"""Requests to change the cluster, each sent once through some broker; what came of it is known.

Each returns what the cluster said. Without an answer it raises :class:`wire.ClosedError` (it may
have been done) or :class:`raw.NotNowError` (it was not).
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from quorate.errors import ErrorCode, known_code
from quorate.jepsen.clients.raw import Raw
from quorate.jepsen.history import Kind
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.placement import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from quorate.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)

CREATE_TOPICS_VERSION: Final = 7
DELETE_TOPICS_VERSION: Final = 5
CREATE_PARTITIONS_VERSION: Final = 3
REASSIGN_VERSION: Final = 0
TIMEOUT_MS: Final = 3_000

REFUSED: Final = frozenset(
    {
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    }
)
"""What controllers answer that have changed nothing."""


def kind_of(code: ErrorCode) -> Kind:
    """Return what an answer to a change says: done, certainly not, or nobody knows."""
    if code == ErrorCode.NONE:
        return Kind.OK
    return Kind.FAIL if code in REFUSED else Kind.INFO


class Created(NamedTuple):
    """What became of a topic; the id is None if it was not told."""

    code: ErrorCode
    topic_id: str | None


def create_topic(
    raw: Raw, name: str, partitions: int, replicas: int, configs: Mapping[str, str]
) -> Created:
    """Create a topic."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=n, value=v) for n, v in configs.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
    answer = raw.ask_once(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, request)
    told = answer.topics[0]
    topic_id = told.topic_id.hex() if any(told.topic_id) else None
    return Created(known_code(told.error_code), topic_id)


def delete_topic(raw: Raw, name: str) -> ErrorCode:
    """Delete a topic."""
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS)
    answer = raw.ask_once(ApiKey.DELETE_TOPICS, DELETE_TOPICS_VERSION, request)
    return known_code(answer.responses[0].error_code)


def grow_topic(raw: Raw, name: str, partitions: int) -> ErrorCode:
    """Give a topic more partitions: so many in all."""
    topic = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
    answer = raw.ask_once(ApiKey.CREATE_PARTITIONS, CREATE_PARTITIONS_VERSION, request)
    return known_code(answer.results[0].error_code)


def reassign(raw: Raw, where: TopicPartition, replicas: Sequence[int]) -> ErrorCode:
    """Have a partition move to these brokers."""
    partition = ReassignablePartition(partition_index=where.partition, replicas=list(replicas))
    topic = ReassignableTopic(name=where.topic, partitions=[partition])
    request = AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=[topic])
    answer = raw.ask_once(ApiKey.ALTER_PARTITION_REASSIGNMENTS, REASSIGN_VERSION, request)
    if answer.error_code:
        return known_code(answer.error_code)
    return known_code(answer.responses[0].partitions[0].error_code)


def moving(raw: Raw, topic: str) -> list[int]:
    """Return the partitions of a topic that are on the move."""
    request = ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None)
    answer = raw.ask_any(ApiKey.LIST_PARTITION_REASSIGNMENTS, REASSIGN_VERSION, request)
    return [
        each.partition_index
        for found in answer.topics
        if found.name == topic
        for each in found.partitions
    ]
