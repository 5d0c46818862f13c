"""The controller quorum, as Kafka's tools ask for it."""

import pytest

from quorate.broker.handlers.quorum import METADATA_TOPIC, describe_quorum
from quorate.control.messages import DescribeQuorum, DescribeQuorumAnswer, Voter
from quorate.errors import ErrorCode
from quorate.protocol.messages.quorum import (
    DescribeQuorumPartitionRequest,
    DescribeQuorumRequest,
    DescribeQuorumTopicRequest,
)
from tests.unit.broker.harness import codes, new_node, now, over

CALLER = over()


def asking(*partitions: int, topic: str = METADATA_TOPIC) -> DescribeQuorumRequest:
    indexes = [DescribeQuorumPartitionRequest(partition_index=index) for index in partitions]
    asked = DescribeQuorumTopicRequest(topic_name=topic, partitions=indexes)
    return DescribeQuorumRequest(topics=[asked])


def test_the_quorum_is_described_as_the_controller_sees_it() -> None:
    node = new_node()
    answer = describe_quorum(node.broker, asking(0), CALLER)
    assert node.controller.requests == [DescribeQuorum()]
    node.controller.answer(DescribeQuorumAnswer(3, 5, 100, (Voter(3, 100), Voter(4, 98)), 90))
    (topic,) = now(answer).topics
    (partition,) = topic.partitions
    assert topic.topic_name == METADATA_TOPIC
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (3, 5, 100)
    voters = [(voter.replica_id, voter.log_end_offset) for voter in partition.current_voters]
    assert voters == [(3, 100), (4, 98)]


@pytest.mark.parametrize("request_", [asking(1), asking(0, 1), asking(0, topic="appLogs")])
def test_only_the_partition_of_the_metadata_has_a_quorum(request_: DescribeQuorumRequest) -> None:
    node = new_node()
    (topic,) = now(describe_quorum(node.broker, request_, CALLER)).topics
    assert set(codes(topic.partitions)) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    (asked,) = request_.topics
    indexes = [partition.partition_index for partition in topic.partitions]
    assert (topic.topic_name, indexes) == (
        asked.topic_name,
        [partition.partition_index for partition in asked.partitions],
    )
    assert node.controller.requests == []


def test_without_a_controller_the_quorum_is_not_known() -> None:
    node = new_node()
    answer = describe_quorum(node.broker, asking(0), CALLER)
    node.controller.fail(ErrorCode.NOT_CONTROLLER, "away")
    assert (now(answer).error_code, now(answer).error_message) == (ErrorCode.NOT_CONTROLLER, "away")
