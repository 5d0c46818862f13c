"""Creating and deleting topics, adding partitions."""

from random import Random

import pytest

from quorate.control import messages as m
from quorate.errors import ErrorCode
from quorate.quorum.control import topics
from quorate.quorum.control.decision import Decision
from quorate.quorum.control.topics import TopicDefaults
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.image import EMPTY_IMAGE, ConfigResource, MetadataImage

DEFAULTS = TopicDefaults(partition_count=3, replication_factor=1)


def cluster() -> MetadataImage:
    """Brokers 1 and 2 in service, 3 fenced."""
    brokers = [
        r.BrokerRegistered("c", 1, b, 1, b"", b"", {}, None, fenced=b == 3) for b in (1, 2, 3)
    ]
    return apply_records(EMPTY_IMAGE, 1, brokers)


def commit(image: MetadataImage, decision: Decision[m.Answer]) -> MetadataImage:
    return apply_records(image, image.version + 1, decision.records) if decision.records else image


def create(
    image: MetadataImage, *new: m.NewTopic, validate_only: bool = False
) -> Decision[m.CreateTopicsAnswer]:
    request = m.CreateTopics(new, validate_only, principal="User:alice")
    return topics.create_topics(image, request, DEFAULTS, 77, Random(1))


def with_topic(new: m.NewTopic) -> MetadataImage:
    image = cluster()
    return commit(image, create(image, new))


def codes(decision: Decision[m.CreateTopicsAnswer]) -> list[ErrorCode]:
    return [ErrorCode(t.failure.code) for t in decision.answer.topics]


def test_a_topic_is_created_as_asked_for() -> None:
    decision = create(cluster(), m.NewTopic("t", 4, 2, configs={"retention.ms": "1d"}))
    image = commit(cluster(), decision)
    topic = image.topics["t"]
    (answer,) = decision.answer.topics
    assert (answer.topic_id, answer.failure) == (topic.topic_id, m.DONE)
    assert (answer.partition_count, answer.replication_factor) == (4, 2)
    assert answer.configs == {"retention.ms": "86400000"}
    assert len(topic.partitions) == 4
    for state in topic.partitions:
        assert set(state.replicas) == set(state.isr) == {1, 2}
        assert state.leader_id == state.replicas[0]
    assert image.config(ConfigResource("topic", "t")) == {"retention.ms": "86400000"}
    assert {(x.cause, x.time_ms) for x in decision.records} == {("CreateTopics by User:alice", 77)}


def test_of_several_faults_those_that_kafka_looks_for_first_are_told() -> None:
    wrong = {"retention.ms": "x"}
    image = with_topic(m.NewTopic("t"))
    new = [
        m.NewTopic("t", 0, 0, configs=wrong),
        m.NewTopic("u", 0, 0, configs=wrong),
        m.NewTopic("v", 0, 0),
    ]
    expected = [
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REPLICATION_FACTOR,
    ]
    assert codes(create(image, *new)) == expected


def test_defaults_are_used_where_the_request_says_nothing() -> None:
    (answer,) = create(cluster(), m.NewTopic("t")).answer.topics
    assert (answer.partition_count, answer.replication_factor) == (3, 1)


def test_a_default_that_was_changed_for_all_brokers_counts() -> None:
    assert topics.current_defaults(cluster(), DEFAULTS) == DEFAULTS
    changed = [r.ConfigSet("c", 1, "broker", "", "num.partitions", "12")]
    image = apply_records(cluster(), 2, changed)
    assert topics.current_defaults(image, DEFAULTS) == TopicDefaults(12, 1)


def test_validate_only_answers_and_changes_nothing() -> None:
    decision = create(cluster(), m.NewTopic("t"), m.NewTopic("a b"), validate_only=True)
    assert codes(decision) == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert decision.records == ()


def test_fenced_brokers_hold_replicas_but_are_not_in_sync() -> None:
    image = with_topic(m.NewTopic("t", 2, 3))
    for state in image.topics["t"].partitions:
        assert set(state.replicas) == {1, 2, 3}
        assert set(state.isr) == {1, 2}


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (m.NewTopic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (m.NewTopic("t", 0), ErrorCode.INVALID_PARTITIONS),
        (m.NewTopic("t", -2), ErrorCode.INVALID_PARTITIONS),
        (m.NewTopic("t", 20_001), ErrorCode.INVALID_PARTITIONS),
        (m.NewTopic("t", 2**31 - 1), ErrorCode.INVALID_PARTITIONS),
        (m.NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (m.NewTopic("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (m.NewTopic("t", 1, 40_000), ErrorCode.INVALID_REPLICATION_FACTOR),
        (m.NewTopic("t", configs={"retention.mss": "1"}), ErrorCode.INVALID_CONFIG),
        (m.NewTopic("t", configs={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
        (m.NewTopic("t", configs={"retention.ms": "9" * 5000}), ErrorCode.INVALID_CONFIG),
        (m.NewTopic("t", 1, assignment={0: (1,)}), ErrorCode.INVALID_REQUEST),
        (m.NewTopic("t", -1, 1, assignment={0: (1,)}), ErrorCode.INVALID_REQUEST),
        (m.NewTopic("t", assignment={}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (m.NewTopic("t", assignment={1: (1,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (m.NewTopic("t", assignment={0: ()}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (m.NewTopic("t", assignment={0: (1, 1)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (m.NewTopic("t", assignment={0: (1, 9)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (m.NewTopic("t", assignment={0: (3,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (m.NewTopic("t", assignment={0: (1,), 1: (1, 2)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_cannot_be_created_is_refused_with_its_code(new: m.NewTopic, code: ErrorCode) -> None:
    decision = create(cluster(), new, m.NewTopic("fine"))
    assert codes(decision) == [code, ErrorCode.NONE]
    assert decision.answer.topics[0].failure.message
    assert set(commit(cluster(), decision).topics) == {"fine"}


def test_an_assignment_by_hand_is_followed() -> None:
    image = with_topic(m.NewTopic("t", assignment={1: (2, 3), 0: (3, 1)}))
    one, two = image.topics["t"].partitions
    assert (one.replicas, one.isr, one.leader_id) == ((3, 1), (1,), 1)
    assert (two.replicas, two.isr, two.leader_id) == ((2, 3), (2,), 2)


def test_names_that_are_taken_or_collide_are_refused() -> None:
    image = with_topic(m.NewTopic("a.b"))
    decision = create(
        image, m.NewTopic("a.b"), m.NewTopic("a_b"), m.NewTopic("x_y"), m.NewTopic("x.y")
    )
    assert codes(decision) == [
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


def test_a_topic_that_is_named_twice_is_not_created() -> None:
    decision = create(cluster(), m.NewTopic("t"), m.NewTopic("t", 9), m.NewTopic("u"))
    assert codes(decision) == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ]


def test_the_log_of_the_quorum_is_no_topic_to_create() -> None:
    decision = create(cluster(), m.NewTopic("__cluster_metadata"), m.NewTopic("u"))
    assert codes(decision) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]


def test_one_request_creates_only_so_many_partitions() -> None:
    by_hand = m.NewTopic("h", assignment=dict.fromkeys(range(15_000), (1,)))
    for too_many in (m.NewTopic("b", 15_000), by_hand):
        decision = create(cluster(), m.NewTopic("a", 15_000), too_many, m.NewTopic("c"))
        assert codes(decision) == [ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS, ErrorCode.NONE]


def test_topic_ids_are_new_and_begin_neither_with_zero_nor_with_a_dash() -> None:
    class Unlucky(Random):
        draws = [bytes(16), b"\xf8" * 16, b"\1" * 16, b"\2" * 16]  # noqa: RUF012

        def randbytes(self, n: int) -> bytes:
            assert n == 16
            return self.draws.pop(0)

    image = apply_records(cluster(), 2, [r.TopicCreated("c", 1, "old", b"\1" * 16)])
    request = m.CreateTopics((m.NewTopic("t"),))
    decision = topics.create_topics(image, request, DEFAULTS, 0, Unlucky(1))
    assert decision.answer.topics[0].topic_id == b"\2" * 16


def test_topics_are_deleted_by_name_and_by_id() -> None:
    image = with_topic(m.NewTopic("a"))
    image = commit(image, create(image, m.NewTopic("b")))
    unknown = (b"u" * 16, b"v" * 16)
    request = m.DeleteTopics(("a", "none"), (image.topics["b"].topic_id, *unknown), "User:bob")
    decision = topics.delete_topics(image, request, 5)
    assert [(t.name, t.failure.code) for t in decision.answer.topics] == [
        ("a", 0),
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("b", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert commit(image, decision).topics == {}
    assert decision.records[0].cause == "DeleteTopics by User:bob"


def test_a_topic_that_is_named_twice_is_not_deleted() -> None:
    image = with_topic(m.NewTopic("a"))
    request = m.DeleteTopics(("a",), (image.topics["a"].topic_id,))
    decision = topics.delete_topics(image, request, 5)
    assert [t.failure.code for t in decision.answer.topics] == [ErrorCode.INVALID_REQUEST]
    assert decision.records == ()


def test_neither_is_one_that_is_not_there() -> None:
    decision = topics.delete_topics(with_topic(m.NewTopic("a")), m.DeleteTopics(("x", "x", "y")), 5)
    assert [(t.name, t.failure.code) for t in decision.answer.topics] == [
        ("x", ErrorCode.INVALID_REQUEST),
        ("y", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def add(
    image: MetadataImage, *wanted: m.NewPartitions, validate_only: bool = False
) -> Decision[m.CreatePartitionsAnswer]:
    return topics.create_partitions(image, m.CreatePartitions(wanted, validate_only), 5, Random(1))


def test_partitions_are_added_behind_the_others() -> None:
    image = with_topic(m.NewTopic("t", 2, 2))
    before = image.topics["t"].partitions
    decision = add(image, m.NewPartitions("t", 5))
    after = commit(image, decision).topics["t"].partitions
    assert decision.answer.topics == (m.PartitionsCreation("t", m.DONE),)
    assert after[:2] == before
    assert [len(p.replicas) for p in after] == [2] * 5
    by_hand = add(image, m.NewPartitions("t", 3, ((2, 1),)))
    assert commit(image, by_hand).topics["t"].partitions[2].replicas == (2, 1)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (m.NewPartitions("none", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (m.NewPartitions("t", 2), ErrorCode.INVALID_PARTITIONS),
        (m.NewPartitions("t", 1), ErrorCode.INVALID_PARTITIONS),
        (m.NewPartitions("t", -1), ErrorCode.INVALID_PARTITIONS),
        (m.NewPartitions("t", 99_999), ErrorCode.INVALID_PARTITIONS),
        (m.NewPartitions("t", 3, ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (m.NewPartitions("t", 3, ((1,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(
    wanted: m.NewPartitions, code: ErrorCode
) -> None:
    image = with_topic(m.NewTopic("t", 2, 2))
    decision = add(image, wanted)
    assert decision.answer.topics[0].failure.code == code
    assert decision.records == ()


def test_adding_can_be_tried_out_and_named_only_once() -> None:
    image = with_topic(m.NewTopic("t", 2, 2))
    assert add(image, m.NewPartitions("t", 3), validate_only=True).records == ()
    twice = add(image, m.NewPartitions("t", 3), m.NewPartitions("t", 4))
    assert {t.failure.code for t in twice.answer.topics} == {ErrorCode.INVALID_REQUEST}


def test_a_drained_broker_leads_a_new_partition_only_in_need() -> None:
    level = r.FeatureLevelSet("c", 1, "metadata.version", 3)
    image = apply_records(cluster(), 2, [level, r.BrokerChanged("c", 1, 1, 1, draining=True)])
    decision = create(image, m.NewTopic("t", assignment={0: (1, 2), 1: (1, 3)}))
    states = commit(image, decision).topics["t"].partitions
    assert [(s.leader_id, s.isr) for s in states] == [(2, (1, 2)), (1, (1,))]


def test_a_broker_that_shuts_down_is_not_in_sync_with_a_new_partition() -> None:
    level = r.FeatureLevelSet("c", 1, "metadata.version", 3)
    image = apply_records(cluster(), 2, [level, r.BrokerChanged("c", 1, 1, 1, shutting_down=True)])
    decision = create(image, m.NewTopic("t", assignment={0: (1, 2)}))
    (state,) = commit(image, decision).topics["t"].partitions
    assert (state.replicas, state.leader_id, state.isr) == ((1, 2), 2, (2,))
