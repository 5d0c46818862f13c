"""DescribeTopicPartitions: topics page by page, and who could lead their partitions."""

from typing import Final

from quorate.broker.handlers.context import Broker, Caller
from quorate.broker.handlers.metadata import offline_replicas
from quorate.broker.handlers.operations import ON_TOPICS
from quorate.broker.shards.topics import INTERNAL_TOPICS
from quorate.errors import ErrorCode
from quorate.model import NO_LEADER
from quorate.protocol.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from quorate.quorum.metadata.image import MetadataImage, TopicImage
from quorate.quorum.metadata.topic_names import may_be_named

DESCRIBED_PARTITIONS_MAX: Final = 2000


def describe_topic_partitions(
    broker: Broker, request: DescribeTopicPartitionsRequest, _caller: Caller
) -> DescribeTopicPartitionsResponse:
    """Describe topics page by page (KIP-966), in order of names; none means all topics."""
    asked = {topic.name for topic in request.topics}
    if request.cursor is not None and _is_wrong(request.cursor, asked):
        return _refused(request)
    image = broker.replicas.image
    names = sorted(asked or image.topics)
    first_index = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        if names and names[0] == request.cursor.topic_name:
            first_index = request.cursor.partition_index
    left = max(1, min(request.response_partition_limit, DESCRIBED_PARTITIONS_MAX))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        topic = image.topics.get(name)
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        response.topics.append(_described(image, name, topic, first_index, left))
        described = len(response.topics[-1].partitions)
        if topic is not None and first_index + described < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=first_index + described)
            break
        left -= described
        first_index = 0
    return response


def _is_wrong(cursor: Cursor, asked: set[str]) -> bool:
    """Whether one cannot go on there: at a partition below 0, or a topic that is not asked for."""
    return cursor.partition_index < 0 or bool(asked and cursor.topic_name not in asked)


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Answer who goes on at the wrong place; there is no place to say it but at topics."""
    code = int(ErrorCode.INVALID_REQUEST)
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name)
            for topic in request.topics
        ]
    )


def _described(
    image: MetadataImage, name: str, topic: TopicImage | None, first_index: int, limit: int
) -> DescribeTopicPartitionsResponseTopic:
    if topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not may_be_named(name):
            code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return DescribeTopicPartitionsResponseTopic(
            error_code=int(code), name=name, topic_authorized_operations=ON_TOPICS
        )
    live = image.live_broker_ids()
    states = list(enumerate(topic.partitions))[first_index : first_index + limit]
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=state.leader_id,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr),
                eligible_leader_replicas=list(state.elr),
                last_known_elr=[b for b in (state.last_known_leader,) if b != NO_LEADER],
                offline_replicas=offline_replicas(state, live),
            )
            for index, state in states
        ],
        topic_authorized_operations=ON_TOPICS,
    )
