"""FindCoordinator, and the topic that is made for it."""

from typing import Any

import pytest

from quorate.broker.handlers.coordinators import find_coordinator
from quorate.broker.handlers.produce import produce
from quorate.broker.shards.topics import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from quorate.control.messages import (
    DONE,
    CreateTopics,
    CreateTopicsAnswer,
    Failure,
    TopicCreation,
)
from quorate.errors import ErrorCode
from quorate.protocol.messages.data import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from quorate.protocol.messages.groups import FindCoordinatorRequest
from tests.unit.broker.handlers.grouping import new_coordinator
from tests.unit.broker.harness import Node, new_node, now, over, waits
from tests.unit.broker.log.batches import make_batch

NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


def find(node: Node, key: str = "g", *, version: int = 3, key_type: int = 0) -> Any:
    request = FindCoordinatorRequest(key=key, key_type=key_type)
    return find_coordinator(node.broker, request, over(version))


def made(node: Node, failure: Failure = DONE, topic: str = GROUPS_TOPIC) -> None:
    """Let the controller answer that the topic is made, or why it is not."""
    node.controller.answer(CreateTopicsAnswer((TopicCreation(topic, failure),)))


@pytest.mark.parametrize("version", range(4))
def test_the_leader_of_a_groups_partition_is_its_coordinator(version: int) -> None:
    answer = find(new_coordinator(), version=version)
    assert (answer.error_code, answer.node_id) == (0, 1)
    assert (answer.host, answer.port) == ("127.0.0.1", 9092)


def test_many_groups_are_asked_for_at_once() -> None:
    node = new_coordinator(2)
    node.lead(GROUPS_TOPIC, 0, 1, leader_id=-1)
    request = FindCoordinatorRequest(coordinator_keys=["b", "a"])
    b, a = now(find_coordinator(node.broker, request, over(4))).coordinators
    assert (b.key, b.error_code, b.node_id) == ("b", NOT_AVAILABLE, -1)
    assert b.error_message == "__consumer_offsets-0 has no leader"
    assert (a.key, a.error_code, a.node_id) == ("a", 0, 1)


def test_the_topic_of_transactions_is_made_when_their_first_coordinator_is_looked_for() -> None:
    node = new_coordinator()
    answer = find(node, "my-id", key_type=1)
    (request,) = node.controller.requests
    assert isinstance(request, CreateTopics)
    (topic,) = request.topics
    assert (topic.name, topic.partition_count) == (TRANSACTIONS_TOPIC, 50)
    assert topic.replication_factor == 3
    assert topic.configs == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }
    node.create_topic(TRANSACTIONS_TOPIC, 50)
    made(node, topic=TRANSACTIONS_TOPIC)
    assert (now(answer).error_code, now(answer).node_id) == (0, 1)


def test_other_things_than_groups_and_transactions_have_no_coordinators() -> None:
    assert find(new_coordinator(), key_type=9).error_code == ErrorCode.INVALID_REQUEST


def test_the_topic_is_made_once_for_all_who_look_for_a_coordinator_first() -> None:
    node = new_node({"offsets.topic.num.partitions": "5", "offsets.topic.segment.bytes": "1M"})
    node.join()
    first, second = find(node), find(node)
    assert waits(first)
    (request,) = node.controller.requests
    assert isinstance(request, CreateTopics)
    (topic,) = request.topics
    assert (topic.name, topic.partition_count, topic.replication_factor) == (GROUPS_TOPIC, 5, 3)
    assert topic.configs == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "1048576",
    }
    node.create_topic(GROUPS_TOPIC, 5)
    made(node)
    assert [now(first).error_code, now(second).error_code] == [0, 0]


def test_why_the_topic_is_not_made_is_told_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = new_node()
    node.join()
    for _ in range(2):
        answer = find(node)
        made(node, Failure(int(ErrorCode.INVALID_REPLICATION_FACTOR), "1 broker for 3 replicas"))
        assert now(answer).error_code == NOT_AVAILABLE
        assert "1 broker for 3 replicas" in now(answer).error_message
    assert len([r for r in caplog.records if "1 broker for 3 replicas" in r.message]) == 1
    answer = find(node)
    node.controller.fail(ErrorCode.NOT_CONTROLLER, "")
    assert "NOT_CONTROLLER" in now(answer).error_message
    answer = find(node)
    made(node, Failure(int(ErrorCode.TOPIC_ALREADY_EXISTS), ""))
    assert now(answer).error_message == "there is no topic __consumer_offsets yet"


@pytest.mark.parametrize("version", [8, 13])
def test_clients_do_not_write_where_groups_are_kept(version: int) -> None:
    node = new_coordinator()
    topic_id = node.replicas.image.topics[GROUPS_TOPIC].topic_id
    data = PartitionProduceData(index=0, records=make_batch([b"v"], keys=[b"k"]))
    topic = TopicProduceData(name=GROUPS_TOPIC, topic_id=topic_id, partition_data=[data])
    answer = now(produce(node.broker, ProduceRequest(acks=1, topic_data=[topic]), over(version)))
    code = answer.responses[0].partition_responses[0].error_code
    assert code == ErrorCode.INVALID_TOPIC_EXCEPTION
