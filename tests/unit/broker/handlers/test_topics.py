"""Topics are created, deleted and widened by the controller; each is answered by itself."""

from typing import Any

import pytest

from quorate.broker.handlers.topics import create_partitions, create_topics, delete_topics
from quorate.control.messages import (
    DONE,
    CreatePartitions,
    CreatePartitionsAnswer,
    CreateTopics,
    CreateTopicsAnswer,
    DeleteTopics,
    DeleteTopicsAnswer,
    Failure,
    NewPartitions,
    NewTopic,
    PartitionsCreation,
    TopicCreation,
    TopicDeletion,
)
from quorate.errors import ErrorCode
from quorate.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from quorate.settings import TOPIC_SETTINGS
from tests.unit.broker.harness import codes, new_node, now, over, waits

ID = b"i" * 16
EXISTS = Failure(int(ErrorCode.TOPIC_ALREADY_EXISTS), "there already")


def creatable(name: str, **more: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, **more)


def assigned(*places: tuple[int, list[int]]) -> list[CreatableReplicaAssignment]:
    return [CreatableReplicaAssignment(partition_index=i, broker_ids=b) for i, b in places]


def test_a_client_waits_as_long_as_it_likes_but_a_controller_is_given_a_minute() -> None:
    node = new_node()
    for timeout_ms in (59_999, 60_000, 60_001, 2**31 - 1, 0, -1):
        request = CreateTopicsRequest(topics=[creatable("a")], timeout_ms=timeout_ms)
        assert waits(create_topics(node.broker, request, over(7)))
    assert node.controller.timeouts_ms == [59_999, 60_000, 60_000, 60_000, 30_000, 30_000]


def test_topics_are_created_as_the_controller_decides() -> None:
    node = new_node()
    request = CreateTopicsRequest(
        topics=[
            creatable("a", configs=[CreatableTopicConfig(name="retention.ms", value="1d")]),
            creatable("b", assignments=assigned((0, [1, 2]), (1, [2, 1]))),
        ],
        validate_only=True,
        timeout_ms=700,
    )
    answer = create_topics(node.broker, request, over(7))
    assert waits(answer)
    assert node.controller.timeouts_ms == [700]
    assert node.controller.requests == [
        CreateTopics(
            (
                NewTopic("a", -1, -1, None, {"retention.ms": "1d"}),
                NewTopic("b", -1, -1, {0: (1, 2), 1: (2, 1)}, {}),
            ),
            validate_only=True,
            principal="User:ANONYMOUS",
        )
    ]
    created = TopicCreation("a", DONE, ID, 3, 1, {"retention.ms": "86400000"})
    node.controller.answer(CreateTopicsAnswer((created, TopicCreation("b", EXISTS))))
    done, refused = now(answer).topics
    assert (done.error_code, done.topic_id, done.num_partitions) == (0, ID, 3)
    assert done.replication_factor == 1
    values = {config.name: (config.value, config.config_source) for config in done.configs}
    assert set(values) == set(TOPIC_SETTINGS)
    assert values["retention.ms"] == ("86400000", 1)
    assert values["segment.bytes"] == ("1073741824", 5)
    assert refused == CreatableTopicResult(
        name="b", error_code=EXISTS.code, error_message=EXISTS.message, configs=None
    )


def test_topics_that_make_no_sense_fail_without_the_others() -> None:
    node = new_node()
    request = CreateTopicsRequest(
        topics=[
            creatable("twice", assignments=assigned((0, [1]), (0, [1]))),
            creatable("good"),
            creatable("empty", configs=[CreatableTopicConfig(name="retention.ms", value=None)]),
        ]
    )
    answer = create_topics(node.broker, request, over(7))
    (asked,) = node.controller.requests
    assert isinstance(asked, CreateTopics)
    assert [topic.name for topic in asked.topics] == ["good"]
    node.controller.answer(CreateTopicsAnswer((TopicCreation("good", DONE, ID, 1, 1),)))
    assert {topic.name: topic.error_code for topic in now(answer).topics} == {
        "good": 0,
        "twice": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "empty": ErrorCode.INVALID_CONFIG,
    }


def test_a_topic_that_is_named_twice_is_not_created_once_because_the_other_makes_no_sense() -> None:
    node = new_node()
    nonsense = creatable("a", configs=[CreatableTopicConfig(name="retention.ms", value=None)])
    request = CreateTopicsRequest(topics=[creatable("a"), nonsense])
    answer = now(create_topics(node.broker, request, over(7)))
    assert codes(answer.topics) == [ErrorCode.INVALID_REQUEST]
    assert node.controller.requests == []


def test_nothing_to_create_does_not_bother_the_controller() -> None:
    node = new_node()
    request = CreateTopicsRequest(
        topics=[creatable("twice", assignments=assigned((0, [1]), (0, [1])))]
    )
    results = now(create_topics(node.broker, request, over(7))).topics
    assert codes(results) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert node.controller.requests == []


def test_without_a_controller_no_topic_is_created() -> None:
    node = new_node()
    answer = create_topics(
        node.broker, CreateTopicsRequest(topics=[creatable("a"), creatable("b")]), over(7)
    )
    node.controller.fail(ErrorCode.NOT_CONTROLLER, "away")
    assert [(t.name, t.error_message) for t in now(answer).topics] == [("a", "away"), ("b", "away")]
    assert codes(now(answer).topics) == [ErrorCode.NOT_CONTROLLER] * 2


# --- deleting


def test_topics_are_deleted_by_name_and_by_id() -> None:
    node = new_node()
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=None, topic_id=ID), DeleteTopicState(name="a")]
    )
    answer = delete_topics(node.broker, request, over(6))
    assert node.controller.requests == [DeleteTopics(("a",), (ID,), "User:ANONYMOUS")]
    unknown = Failure(int(ErrorCode.UNKNOWN_TOPIC_ID), "unknown")
    node.controller.answer(
        DeleteTopicsAnswer((TopicDeletion("a", b"a" * 16, DONE), TopicDeletion(None, ID, unknown)))
    )
    assert now(answer).responses == [
        DeletableTopicResult(name="a", topic_id=b"a" * 16),
        DeletableTopicResult(
            name=None, topic_id=ID, error_code=unknown.code, error_message="unknown"
        ),
    ]


def test_a_topic_with_name_and_id_or_neither_is_refused_without_the_others() -> None:
    node = new_node()
    both, neither = DeleteTopicState(name="a", topic_id=ID), DeleteTopicState(name=None)
    request = DeleteTopicsRequest(topics=[both, neither, DeleteTopicState(name="b")])
    answer = delete_topics(node.broker, request, over(6))
    assert node.controller.requests == [DeleteTopics(("b",), (), "User:ANONYMOUS")]
    node.controller.answer(DeleteTopicsAnswer((TopicDeletion("b", b"b" * 16, DONE),)))
    assert [(t.name, t.topic_id, t.error_code) for t in now(answer).responses] == [
        ("b", b"b" * 16, 0),
        ("a", ID, ErrorCode.INVALID_REQUEST),
        (None, bytes(16), ErrorCode.INVALID_REQUEST),
    ]


def test_nothing_to_delete_does_not_bother_the_controller() -> None:
    node = new_node()
    for topics in ([], [DeleteTopicState(name="a", topic_id=ID)]):
        answer = now(delete_topics(node.broker, DeleteTopicsRequest(topics=topics), over(6)))
        assert codes(answer.responses) == [ErrorCode.INVALID_REQUEST] * len(topics)
    assert node.controller.requests == []


def test_older_clients_name_topics_elsewhere() -> None:
    node = new_node()
    delete_topics(node.broker, DeleteTopicsRequest(topic_names=["a", "b"]), over(5))
    assert node.controller.requests == [DeleteTopics(("a", "b"), (), "User:ANONYMOUS")]


def test_without_a_controller_no_topic_is_deleted() -> None:
    node = new_node()
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name="a"), DeleteTopicState(name=None, topic_id=ID)]
    )
    answer = delete_topics(node.broker, request, over(6))
    node.controller.fail(ErrorCode.REQUEST_TIMED_OUT, "slow")
    assert [(t.name, t.topic_id, t.error_message) for t in now(answer).responses] == [
        ("a", bytes(16), "slow"),
        (None, ID, "slow"),
    ]


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)],
)
def test_deleting_can_be_forbidden(version: int, code: ErrorCode) -> None:
    node = new_node({"delete.topic.enable": "false"})
    request = DeleteTopicsRequest(topic_names=["a"])
    assert codes(now(delete_topics(node.broker, request, over(version))).responses) == [code]
    assert node.controller.requests == []


# --- widening


def test_topics_get_more_partitions() -> None:
    node = new_node()
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name="a", count=3, assignments=None),
            CreatePartitionsTopic(
                name="b", count=2, assignments=[CreatePartitionsAssignment(broker_ids=[1, 2])]
            ),
        ],
        validate_only=True,
    )
    answer = create_partitions(node.broker, request, over(3))
    assert node.controller.requests == [
        CreatePartitions(
            (NewPartitions("a", 3, None), NewPartitions("b", 2, ((1, 2),))),
            validate_only=True,
            principal="User:ANONYMOUS",
        )
    ]
    failure = Failure(int(ErrorCode.INVALID_PARTITIONS), "fewer")
    node.controller.answer(
        CreatePartitionsAnswer((PartitionsCreation("a", DONE), PartitionsCreation("b", failure)))
    )
    results = [(t.name, t.error_code, t.error_message) for t in now(answer).results]
    assert results == [("a", 0, None), ("b", failure.code, "fewer")]


def test_without_a_controller_no_partition_is_created() -> None:
    node = new_node()
    topics = [CreatePartitionsTopic(name="a", count=3, assignments=None)]
    answer = create_partitions(node.broker, CreatePartitionsRequest(topics=topics), over(3))
    node.controller.fail(ErrorCode.NOT_CONTROLLER, "away")
    assert codes(now(answer).results) == [ErrorCode.NOT_CONTROLLER]
