"""Metadata says who serves and who leads what, and creates topics if both sides want that."""

import pytest

from quorate.broker.handlers.metadata import metadata
from quorate.control.messages import DONE, CreateTopics, CreateTopicsAnswer, Failure, TopicCreation
from quorate.errors import ErrorCode
from quorate.protocol.messages.metadata import (
    OPERATIONS_NOT_ASKED_FOR,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from quorate.quorum.metadata import records as r
from tests.unit.broker.harness import codes, new_cluster, now, over, waits

CALLER = over(12)


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


def test_while_no_broker_is_in_service_all_are_told_or_clients_would_forget_them() -> None:
    """A client of librdkafka forgets whoever is not in the list, and does not come back."""
    node = new_cluster()
    for broker_id in (1, 2):
        node.apply(
            r.BrokerFenced(
                "test", 0, broker_id, node.replicas.image.brokers[broker_id].broker_epoch
            )
        )
    response = now(metadata(node.broker, ask_for(), CALLER))
    assert [broker.node_id for broker in response.brokers] == [1, 2, 3]
    assert now(metadata(node.broker, ask_for(), over(12, "SSL"))).brokers == []


@pytest.mark.parametrize(
    ("version", "code"),
    [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)],
)
def test_a_leader_that_does_not_listen_where_a_client_asks_is_not_told(
    version: int, code: ErrorCode
) -> None:
    node = new_cluster()
    node.create_topic("appLogs", 2)
    node.lead("appLogs", 1, leader_epoch=1, leader_id=-1)
    (topic,) = now(metadata(node.broker, ask_for("appLogs"), over(version, "SSL"))).topics
    partition, headless = topic.partitions
    assert (codes([topic, partition]), partition.leader_id) == ([ErrorCode.NONE, code], -1)
    assert codes([headless]) == [ErrorCode.LEADER_NOT_AVAILABLE]
    (topic,) = now(metadata(node.broker, ask_for("appLogs"), over(version))).topics
    assert (codes(topic.partitions[:1]), topic.partitions[0].leader_id) == ([ErrorCode.NONE], 1)


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


@pytest.mark.parametrize("name", [None, ""])
def test_topics_are_found_by_id(name: str | None) -> None:
    """Java's client sends an empty name beside the id."""
    node = new_cluster()
    topic_id = node.create_topic("appLogs")
    asked = [MetadataRequestTopic(name=name, topic_id=i) for i in (topic_id, b"?" * 16)]
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
    assert node.controller.timeouts_ms == [5_000], "the old one is not kept back for long"
    node.controller.fail(ErrorCode.NETWORK_EXCEPTION, "gone")
    response = now(answer)
    assert isinstance(response, MetadataResponse)
    assert codes(response.topics) == [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE]


def test_a_topic_is_described_once_however_often_it_is_named() -> None:
    node = new_cluster()
    topic_id = node.create_topic("appLogs")
    by_id = MetadataRequestTopic(name=None, topic_id=topic_id)
    named = MetadataRequestTopic(name="appLogs")
    request = MetadataRequest(topics=[named, by_id, named, by_id, named])
    response = now(metadata(node.broker, request, CALLER))
    assert [topic.name for topic in response.topics] == ["appLogs", "appLogs"]


def test_all_that_can_be_done_may_be_done_and_is_told_to_who_asks() -> None:
    node = new_cluster()
    node.create_topic("appLogs")
    topics = [
        MetadataRequestTopic(name="appLogs"),
        MetadataRequestTopic(name=None, topic_id=b"x" * 16),
    ]
    response = now(metadata(node.broker, MetadataRequest(topics=topics), over(10)))
    assert response.cluster_authorized_operations == OPERATIONS_NOT_ASKED_FOR
    told = [topic.topic_authorized_operations for topic in response.topics]
    assert told == [OPERATIONS_NOT_ASKED_FOR] * 2
    request = MetadataRequest(
        topics=topics,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    response = now(metadata(node.broker, request, over(10)))
    assert response.cluster_authorized_operations == 0b1_1111_1010_0000
    told = [topic.topic_authorized_operations for topic in response.topics]
    assert told == [0b1101_1111_1000, OPERATIONS_NOT_ASKED_FOR], "Kafka's numbers"
