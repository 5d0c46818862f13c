"""Metadata says who serves and who leads what, and creates topics if both sides want that."""

import pytest

from quorate.broker.handlers.metadata import (
    describe_cluster,
    describe_topic_partitions,
    metadata,
)
from quorate.control.messages import DONE, CreateTopics, CreateTopicsAnswer, Failure, TopicCreation
from quorate.errors import ErrorCode
from quorate.protocol.messages.metadata import (
    Cursor,
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsTopicRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from quorate.quorum.metadata import records as r
from tests.unit.broker.harness import Node, codes, new_node, now, over, waits

CALLER = over(12)


def new_cluster(texts: dict[str, str] | None = None) -> Node:
    """Brokers 1 and 2 in service, broker 3 fenced; broker 1 answers."""
    node = new_node(texts)
    node.join(1, port=9092, rack="east")
    node.join(2, port=9093)
    node.join(3, port=9094)
    node.apply(r.BrokerFenced("test", 0, 3, node.replicas.image.brokers[3].broker_epoch))
    return node


def ask_for(*names: str, create: bool = False) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


def test_brokers_in_service_are_told_with_the_address_of_the_listener_that_was_asked() -> None:
    node = new_cluster()
    response = now(metadata(node.broker, ask_for(), CALLER))
    assert [(b.node_id, b.host, b.port, b.rack) for b in response.brokers] == [
        (1, "127.0.0.1", 9092, "east"),
        (2, "127.0.0.1", 9093, None),
    ]
    assert (response.cluster_id, response.controller_id) == ("cluster", 1)
    assert now(metadata(node.broker, ask_for(), over(12, "SSL"))).brokers == []


def test_all_topics_are_told_to_who_asks_for_null_or_in_version_0_for_none() -> None:
    node = new_cluster()
    node.create_topic("appLogs", 2)
    node.create_topic("dbLogs")

    def names(request: MetadataRequest, version: int) -> list[str | None]:
        return [topic.name for topic in now(metadata(node.broker, request, over(version))).topics]

    assert names(MetadataRequest(topics=None), 12) == ["appLogs", "dbLogs"]
    assert names(MetadataRequest(topics=[]), 0) == ["appLogs", "dbLogs"]
    assert names(MetadataRequest(topics=[]), 12) == []


def test_each_partition_is_told_with_its_leader_and_replicas() -> None:
    node = new_cluster()
    topic_id = node.create_topic("appLogs", 2, replicas=(1, 3))
    node.lead("appLogs", 1, leader_epoch=4, leader_id=-1)
    (topic,) = now(metadata(node.broker, ask_for("appLogs"), CALLER)).topics
    assert (topic.error_code, topic.topic_id) == (0, topic_id)
    led, headless = topic.partitions
    assert codes(topic.partitions) == [ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE]
    assert (led.leader_id, led.leader_epoch, led.replica_nodes, led.isr_nodes) == (
        1,
        0,
        [1, 3],
        [1],
    )
    assert led.offline_replicas == [3]
    assert (headless.leader_id, headless.leader_epoch) == (-1, 4)


def test_topics_are_found_by_id() -> None:
    node = new_cluster()
    topic_id = node.create_topic("appLogs")
    asked = [MetadataRequestTopic(name=None, topic_id=i) for i in (topic_id, b"?" * 16)]
    known, unknown = now(metadata(node.broker, MetadataRequest(topics=asked), CALLER)).topics
    assert known.name == "appLogs"
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


def test_versions_that_cannot_answer_without_a_name_answer_with_an_empty_one() -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=b"?" * 16)])
    (unknown,) = now(metadata(new_cluster().broker, asked, over(11))).topics
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, "")


def test_a_name_that_no_topic_may_have_is_told_to_be_bad() -> None:
    response = now(metadata(new_cluster().broker, ask_for("a b"), CALLER))
    assert codes(response.topics) == [ErrorCode.INVALID_TOPIC_EXCEPTION]


# --- creating


def creation(name: str, failure: Failure = DONE) -> CreateTopicsAnswer:
    return CreateTopicsAnswer((TopicCreation(name, failure),))


@pytest.mark.parametrize(("wanted", "allowed"), [(False, "true"), (True, "false")])
def test_an_absent_topic_is_not_created_unless_both_sides_want_that(
    wanted: bool, allowed: str
) -> None:
    node = new_cluster({"auto.create.topics.enable": allowed})
    response = now(metadata(node.broker, ask_for("new", create=wanted), CALLER))
    assert codes(response.topics) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert node.controller.requests == []


def test_an_absent_topic_is_created_first() -> None:
    node = new_cluster()
    node.create_topic("old")
    answer = metadata(node.broker, ask_for("new", "old", "new", create=True), CALLER)
    assert waits(answer)
    (request,) = node.controller.requests
    assert isinstance(request, CreateTopics)
    assert [topic.name for topic in request.topics] == ["new"]
    assert request.principal == "User:ANONYMOUS through auto.create.topics.enable"
    node.create_topic("new")
    node.controller.answer(creation("new"))
    assert [(t.name, t.error_code) for t in now(answer).topics] == [
        ("new", 0),
        ("old", 0),
        ("new", 0),
    ]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_REPLICATION_FACTOR),
        (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE),
    ],
)
def test_who_asks_for_a_topic_that_is_not_there_yet_hears_whether_to_ask_again(
    code: ErrorCode, told: ErrorCode
) -> None:
    node = new_cluster()
    answer = metadata(node.broker, ask_for("new", create=True), CALLER)
    node.controller.answer(creation("new", Failure(int(code), "")))
    assert codes(now(answer).topics) == [told]


def test_while_the_controller_is_away_topics_are_on_their_way() -> None:
    node = new_cluster()
    node.create_topic("old")
    answer = metadata(node.broker, ask_for("new", "old", create=True), CALLER)
    node.controller.fail(ErrorCode.NETWORK_EXCEPTION, "gone")
    response = now(answer)
    assert isinstance(response, MetadataResponse)
    assert codes(response.topics) == [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE]


# --- DescribeCluster


def test_fenced_brokers_are_described_on_request() -> None:
    node = new_cluster()
    response = describe_cluster(node.broker, DescribeClusterRequest(), over(2))
    assert [(b.broker_id, b.is_fenced) for b in response.brokers] == [(1, False), (2, False)]
    asked = DescribeClusterRequest(include_fenced_brokers=True)
    response = describe_cluster(node.broker, asked, over(2))
    assert [(b.broker_id, b.is_fenced) for b in response.brokers][2] == (3, True)
    assert (response.cluster_id, response.controller_id) == ("cluster", 1)
    assert describe_cluster(node.broker, asked, over(2, "SSL")).brokers == []


def test_controllers_are_not_described_here() -> None:
    response = describe_cluster(new_node().broker, DescribeClusterRequest(endpoint_type=2), over(2))
    assert codes([response]) == [ErrorCode.MISMATCHED_ENDPOINT_TYPE]


# --- DescribeTopicPartitions


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
    assert indexes(page(node, cursor=Cursor(topic_name="c", partition_index=-7))) == [("c", [0, 1])]
    assert indexes(page(node, cursor=Cursor(topic_name="d", partition_index=0))) == []
