"""DescribeTopicPartitions: topics page by page, and who could lead their partitions."""

from dataclasses import replace

import pytest

from quorate.broker.handlers.describe_topics import describe_topic_partitions
from quorate.broker.handlers.operations import ON_TOPICS
from quorate.errors import ErrorCode
from quorate.protocol.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsTopicRequest,
)
from quorate.quorum.metadata import records as r
from tests.unit.broker.harness import Node, codes, new_cluster, over


def page(
    node: Node, *names: str, limit: int = 2000, cursor: Cursor | None = None
) -> DescribeTopicPartitionsResponse:
    return describe_topic_partitions(
        node.broker,
        DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsTopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=cursor,
        ),
        over(0),
    )


def indexes(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, list[int]]]:
    return [(t.name, [p.partition_index for p in t.partitions]) for t in response.topics]


def test_topics_are_described_in_the_order_of_their_names() -> None:
    node = new_cluster()
    topic_id = node.create_topic("b", 2, replicas=(1, 3))
    node.create_topic("a")
    response = page(node)
    assert indexes(response) == [("a", [0]), ("b", [0, 1])]
    assert response.next_cursor is None
    partition = response.topics[1].partitions[1]
    assert response.topics[1].topic_id == topic_id
    assert (partition.leader_id, partition.leader_epoch, partition.isr_nodes) == (1, 0, [1])
    assert (partition.replica_nodes, partition.offline_replicas) == ([1, 3], [3])


def test_asking_for_an_unknown_topic_is_answered_in_its_place() -> None:
    node = new_cluster()
    node.create_topic("b")
    response = page(node, "c", "b", "a", "b")
    assert [t.name for t in response.topics] == ["a", "b", "c"]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(response.topics) == [unknown, ErrorCode.NONE, unknown]
    assert codes(page(node, "b b").topics) == [ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_nothing_is_told_to_who_goes_on_before_the_first_partition() -> None:
    node = new_cluster()
    node.create_topic("a")
    response = page(node, "a", "b", cursor=Cursor(topic_name="a", partition_index=-1))
    assert indexes(response) == [("a", []), ("b", [])]
    assert codes(response.topics) == [ErrorCode.INVALID_REQUEST] * 2


def test_one_goes_on_at_a_topic_that_one_asks_for() -> None:
    node = new_cluster()
    node.create_topic("b")
    response = page(node, "b", cursor=Cursor(topic_name="a", partition_index=0))
    assert indexes(response) == [("b", [])]
    assert codes(response.topics) == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("limit", [-1, 0, 1, 2, 3, 5, 2000, 2**31 - 1])
def test_pages_joined_are_the_whole_and_none_is_longer_than_asked(limit: int) -> None:
    node = new_cluster()
    for name, partitions in (("a", 1), ("b", 3), ("c", 2)):
        node.create_topic(name, partitions)
    seen: list[tuple[str | None, int]] = []
    cursor: Cursor | None = None
    for _ in range(10):
        response = page(node, limit=limit, cursor=cursor)
        described = [(name, index) for name, found in indexes(response) for index in found]
        assert 1 <= len(described) <= max(limit, 1)
        seen += described
        cursor = response.next_cursor
        if cursor is None:
            break
    assert seen == [("a", 0), ("b", 0), ("b", 1), ("b", 2), ("c", 0), ("c", 1)]


def test_a_cursor_may_point_at_what_is_not_there_any_more() -> None:
    node = new_cluster()
    node.create_topic("a")
    node.create_topic("c", 2)
    assert indexes(page(node, cursor=Cursor(topic_name="b", partition_index=7))) == [("c", [0, 1])]
    assert indexes(page(node, cursor=Cursor(topic_name="a", partition_index=7))) == [
        ("a", []),
        ("c", [0, 1]),
    ]
    assert indexes(page(node, cursor=Cursor(topic_name="d", partition_index=0))) == []


def test_those_that_could_lead_without_being_in_sync_are_told() -> None:
    node = new_cluster()
    topic_id = node.create_topic("a", replicas=(1, 2, 3))
    level = r.FeatureLevelSet("test", 0, "metadata.version", 3)
    changed = r.PartitionChanged("test", 0, topic_id, 0, 1, 0, (1,), elr=(2,))
    node.apply(level, changed)
    (partition,) = page(node).topics[0].partitions
    assert (partition.isr_nodes, partition.eligible_leader_replicas) == ([1], [2])
    assert partition.last_known_elr == []
    offline = replace(changed, leader_id=-1, leader_epoch=1, isr=(), elr=(), last_known_leader=1)
    node.apply(offline)
    (partition,) = page(node).topics[0].partitions
    assert (partition.leader_id, codes([partition])) == (-1, [ErrorCode.NONE])  # as in Kafka
    assert (partition.isr_nodes, partition.eligible_leader_replicas) == ([], [])
    assert partition.last_known_elr == [1]


def test_what_may_be_done_with_topics_is_told_unasked() -> None:
    node = new_cluster()
    node.create_topic("a")
    assert [t.topic_authorized_operations for t in page(node, "a", "b").topics] == [ON_TOPICS] * 2
