"""Configurations change all or nothing, and only to what is valid."""

import pytest

from quorate.control import messages as m
from quorate.control.messages import ConfigChange, ConfigOperation, ResourceChanges
from quorate.errors import ErrorCode
from quorate.quorum.control.configs import alter_configs
from quorate.quorum.control.decision import Decision
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.image import EMPTY_IMAGE, ConfigResource, MetadataImage
from quorate.settings import NodeConfig

SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE
APPEND, SUBTRACT = ConfigOperation.APPEND, ConfigOperation.SUBTRACT
TOPIC = ConfigResource("topic", "t")
IMAGE = apply_records(
    EMPTY_IMAGE,
    1,
    [
        r.TopicCreated("c", 1, "t", b"i" * 16),
        r.ConfigSet("c", 1, "topic", "t", "retention.ms", "1000"),
        r.ConfigSet("c", 1, "topic", "t", "gone.in.this.version", "x"),
    ],
)


def change(name: str, value: str | None, operation: ConfigOperation = SET) -> ConfigChange:
    return ConfigChange(name, operation, value)


def alter(
    *resources: ResourceChanges, image: MetadataImage = IMAGE, validate_only: bool = False
) -> Decision[m.AlterConfigsAnswer]:
    request = m.AlterConfigs(resources, validate_only, "User:a")
    return alter_configs(image, request, 5, NodeConfig())


def topic(*changes: ConfigChange, replace: bool = False) -> ResourceChanges:
    return ResourceChanges("topic", "t", changes, replace)


def after(decision: Decision[m.AlterConfigsAnswer]) -> dict[str, str]:
    assert [a.failure for a in decision.answer.resources] == [m.DONE]
    if not decision.records:
        return dict(IMAGE.config(TOPIC))
    return dict(apply_records(IMAGE, 2, decision.records).config(TOPIC))


def code(decision: Decision[m.AlterConfigsAnswer]) -> ErrorCode:
    assert decision.records == ()
    return ErrorCode(decision.answer.resources[0].failure.code)


def test_values_are_set_and_written_the_standard_way() -> None:
    decision = alter(topic(change("retention.ms", "7d"), change("segment.bytes", " 1M ")))
    found = after(decision)
    assert (found["retention.ms"], found["segment.bytes"]) == ("604800000", "1048576")
    assert decision.records[0].cause == "AlterConfigs by User:a"


def test_a_value_that_is_the_same_makes_no_record() -> None:
    assert alter(topic(change("retention.ms", "1000"))).records == ()
    assert alter(topic(change("retention.ms", "1s"))).records == ()


def test_deleting_takes_a_property_back_to_its_default() -> None:
    found = after(
        alter(topic(change("retention.ms", None, DELETE), change("segment.ms", None, DELETE)))
    )
    assert found == {"gone.in.this.version": "x"}


def test_a_property_of_another_version_can_be_deleted_but_not_set() -> None:
    assert after(alter(topic(change("gone.in.this.version", None, DELETE)))) == {
        "retention.ms": "1000"
    }
    assert code(alter(topic(change("gone.in.this.version", "y")))) == ErrorCode.INVALID_CONFIG


def test_a_property_that_there_never_was_is_deleted_in_peace() -> None:
    """MirrorMaker 2 takes back what has a default where it copies from, known here or not."""
    unknown = change("remote.log.delete.on.disable", None, DELETE)
    found = after(alter(topic(unknown, change("retention.ms", "2000"))))
    assert found["retention.ms"] == "2000"
    for resource in ("broker", "group"):
        assert alter(ResourceChanges(resource, "1", (unknown,))).records == ()


def test_replacing_leaves_nothing_else() -> None:
    found = after(alter(topic(change("segment.bytes", "2048"), replace=True)))
    assert found == {"segment.bytes": "2048"}
    assert after(alter(topic(replace=True))) == {}


def test_lists_are_appended_to_and_subtracted_from() -> None:
    assert (
        after(alter(topic(change("cleanup.policy", "delete", APPEND))))["cleanup.policy"]
        == "delete"
    )
    emptied = alter(topic(change("cleanup.policy", "delete", SUBTRACT)))
    assert after(emptied)["cleanup.policy"] == ""
    for operation in (APPEND, SUBTRACT):
        refused = alter(topic(change("retention.ms", "1", operation)))
        assert code(refused) == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (ResourceChanges("topic", "none", ()), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceChanges("topic", "no name", ()), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ResourceChanges("topic", "", ()), ErrorCode.INVALID_REQUEST),
        (ResourceChanges("broker", "one", ()), ErrorCode.INVALID_REQUEST),
        (ResourceChanges("client-metrics", "g", ()), ErrorCode.INVALID_REQUEST),
        (topic(change("retention.mss", "1")), ErrorCode.INVALID_CONFIG),
        (topic(change("retention.ms", "-2")), ErrorCode.INVALID_CONFIG),
        (topic(change("retention.ms", "9" * 5000)), ErrorCode.INVALID_CONFIG),
        (topic(change("retention.ms", "9" * 5000), replace=True), ErrorCode.INVALID_CONFIG),
        (
            ResourceChanges("group", "g", (change("consumer.session.timeout.ms", "9" * 5000),)),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            ResourceChanges("broker", "", (change("log.retention.ms", "9" * 5000),)),
            ErrorCode.INVALID_CONFIG,
        ),
        (topic(change("retention.ms", None)), ErrorCode.INVALID_REQUEST),
        (topic(change("cleanup.policy", None, APPEND)), ErrorCode.INVALID_REQUEST),
        (topic(change("retention.ms", None), replace=True), ErrorCode.INVALID_REQUEST),
        (topic(change("segment.ms", "1"), change("segment.ms", "2")), ErrorCode.INVALID_REQUEST),
        (ResourceChanges("broker", "1", (change("node.id", "2"),)), ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_is_not_valid_is_refused_with_its_code(
    resource: ResourceChanges, expected: ErrorCode
) -> None:
    assert code(alter(resource)) == expected


def test_compaction_lags_that_contradict_each_other_are_refused() -> None:
    low, high = change("min.compaction.lag.ms", "5000"), change("max.compaction.lag.ms", "4000")
    assert code(alter(topic(low, high))) == ErrorCode.INVALID_CONFIG
    assert after(alter(topic(low)))["min.compaction.lag.ms"] == "5000"


@pytest.mark.parametrize("broker", ["", "1"])
def test_what_a_node_would_not_start_with_is_not_set_while_it_runs(broker: str) -> None:
    shared = r.ConfigSet("c", 1, "broker", "", "log.cleaner.max.compaction.lag.ms", "4000")
    unknown = r.ConfigSet("c", 1, "broker", broker, "gone.in.this.version", "x")
    image = apply_records(IMAGE, 2, [shared, unknown])
    for name, value, told in (
        ("log.retention.ms", "0", "log.retention.ms=0 keeps nothing"),
        ("log.retention.ms", "-1", ""),
        ("log.cleaner.min.compaction.lag.ms", "4001", "log.cleaner.max.compaction.lag.ms=4000"),
        ("log.cleaner.min.compaction.lag.ms", "4000", ""),
    ):
        decision = alter(ResourceChanges("broker", broker, (change(name, value),)), image=image)
        (answer,) = decision.answer.resources
        assert answer.failure.code == (ErrorCode.INVALID_CONFIG if told else ErrorCode.NONE)
        assert told in answer.failure.message
    assert after(alter(topic(change("retention.ms", "0"))))["retention.ms"] == "0"


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    decision = alter(topic(change("retention.mss", "1")))
    assert "did you mean retention.ms?" in decision.answer.resources[0].failure.message


def test_one_bad_change_spoils_its_resource_and_no_other() -> None:
    bad = topic(change("segment.ms", "5"), change("retention.ms", "x"))
    good = ResourceChanges("broker", "", (change("num.partitions", "5"),))
    decision = alter(bad, good)
    assert [a.failure.code for a in decision.answer.resources] == [ErrorCode.INVALID_CONFIG, 0]
    image = apply_records(IMAGE, 2, decision.records)
    assert image.config(ConfigResource("broker", "")) == {"num.partitions": "5"}
    assert image.config(TOPIC) == IMAGE.config(TOPIC)


def test_changes_can_be_tried_out_and_each_resource_is_named_once() -> None:
    assert alter(topic(change("segment.ms", "5")), validate_only=True).records == ()
    twice = alter(topic(change("segment.ms", "5")), topic())
    assert {a.failure.code for a in twice.answer.resources} == {ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize(
    ("name", "expected", "done"),
    [
        ("retention.ms", "1000", True),
        ("retention.ms", "1s", True),
        ("retention.ms", "1001", False),
        ("retention.ms", None, False),
        ("segment.ms", None, True),
        ("segment.ms", "604800000", False),
    ],
)
def test_a_change_with_an_expected_value_is_made_only_from_there(
    name: str, expected: str | None, done: bool
) -> None:
    compare_and_set = ConfigChange(name, SET, "5000", m.Expected(expected))
    decision = alter(topic(change("segment.bytes", "1M"), compare_and_set))
    if done:
        assert after(decision)[name] == "5000"
    else:
        assert code(decision) == ErrorCode.INVALID_UPDATE_VERSION
        assert f"{name} is " in decision.answer.resources[0].failure.message


def test_a_change_to_what_is_there_already_fails_too_if_something_else_was_expected() -> None:
    same = ConfigChange("retention.ms", SET, "1000", m.Expected("7"))
    assert code(alter(topic(same))) == ErrorCode.INVALID_UPDATE_VERSION
    deletion = ConfigChange("retention.ms", DELETE, None, m.Expected("7"))
    assert code(alter(topic(deletion))) == ErrorCode.INVALID_UPDATE_VERSION


# --- groups


def group(*changes: ConfigChange, name: str = "billing") -> ResourceChanges:
    return ResourceChanges("group", name, changes)


def test_a_group_has_settings_of_its_own_before_it_exists() -> None:
    changes = (
        change("consumer.session.timeout.ms", "50s"),
        change("consumer.heartbeat.interval.ms", "7s"),
    )
    decision = alter(group(*changes))
    found = apply_records(IMAGE, 2, decision.records).config(ConfigResource("group", "billing"))
    assert found == {
        "consumer.session.timeout.ms": "50000",
        "consumer.heartbeat.interval.ms": "7000",
    }


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("consumer.session.timeout.ms", "44999", "group.consumer.min.session.timeout.ms=45000"),
        ("consumer.session.timeout.ms", "60001", "group.consumer.max.session.timeout.ms=60000"),
        ("consumer.heartbeat.interval.ms", "4999", "group.consumer.min.heartbeat.interval.ms"),
        ("consumer.heartbeat.interval.ms", "15001", "group.consumer.max.heartbeat.interval.ms"),
        ("consumer.assignment.interval.ms", "15001", "group.consumer.max.assignment.interval.ms"),
        ("consumer.session.timeout.ms", "soon", "expected a time"),
        ("share.session.timeout.ms", "45000", "unknown configuration"),
        ("retention.ms", "45000", "unknown configuration"),
    ],
)
def test_what_the_node_does_not_allow_a_group_is_refused(name: str, value: str, told: str) -> None:
    decision = alter(group(change(name, value)))
    assert code(decision) == ErrorCode.INVALID_CONFIG
    assert told in decision.answer.resources[0].failure.message


def test_a_session_is_longer_than_the_heartbeats_are_apart() -> None:
    wide = NodeConfig(
        group_consumer_min_session_timeout_ms=1, group_consumer_session_timeout_ms=9_000
    )
    for name, value, code_ in (
        ("consumer.session.timeout.ms", "5000", ErrorCode.INVALID_CONFIG),
        ("consumer.session.timeout.ms", "5001", ErrorCode.NONE),
        ("consumer.heartbeat.interval.ms", "9000", ErrorCode.INVALID_CONFIG),
        ("consumer.assignment.interval.ms", "9000", ErrorCode.NONE),
    ):
        request = m.AlterConfigs((group(change(name, value)),))
        (answer,) = alter_configs(IMAGE, request, 5, wide).answer.resources
        assert answer.failure.code == code_


def test_settings_of_a_group_are_taken_back_and_there_are_none_of_all_groups() -> None:
    image = apply_records(IMAGE, 2, [r.ConfigSet("c", 1, "group", "billing", "gone.now", "x")])
    decision = alter(group(change("gone.now", None, DELETE)), image=image)
    assert not apply_records(image, 3, decision.records).config(ConfigResource("group", "billing"))
    assert code(alter(group(name=""))) == ErrorCode.INVALID_REQUEST


def test_a_value_has_room_in_every_version_of_an_answer() -> None:
    names = [f"{partition}:1" for partition in range(10_000, 16_000)]
    throttled = "leader.replication.throttled.replicas"
    assert code(alter(topic(change(throttled, ",".join(names))))) == ErrorCode.INVALID_CONFIG
    half = change(throttled, ",".join(names[:3_000]))
    image = apply_records(IMAGE, 2, alter(topic(half)).records)
    more = change(throttled, ",".join(names[3_000:]), APPEND)
    assert code(alter(topic(more), image=image)) == ErrorCode.INVALID_CONFIG


def test_only_replicas_are_throttled() -> None:
    throttled = "follower.replication.throttled.replicas"
    for given, operation in (("none", SET), ("0-1", ConfigOperation.APPEND)):
        answer = alter(topic(change(throttled, given, operation)))
        assert code(answer) == ErrorCode.INVALID_CONFIG
    assert [record.value for record in alter(topic(change(throttled, "0:1, 1:1"))).records] == [  # type: ignore[union-attr]
        "0:1,1:1"
    ]


@pytest.mark.parametrize("name", ["num.partitions", "min.insync.replicas"])
def test_what_controllers_go_by_is_the_same_for_all_brokers(name: str) -> None:
    own, all_brokers = (
        ResourceChanges("broker", broker, (change(name, "2"),), replace=False)
        for broker in ("1", "")
    )
    assert code(alter(own)) == ErrorCode.INVALID_CONFIG
    assert [record.value for record in alter(all_brokers).records] == ["2"]  # type: ignore[union-attr]
