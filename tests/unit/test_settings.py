"""Settings are typed, have units and ranges, and say what is wrong in one sentence."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import InvalidConfigError
from quorate.setting_fields import INT_MAX, Kind, Setting
from quorate.setting_values import parse_value, value_text
from quorate.settings import (
    BROKER_SETTINGS,
    NODE_SETTINGS,
    TOPIC_DEFAULTS,
    TOPIC_SETTINGS,
    checked_topic_overrides,
    node_config,
    topic_config,
)

ALL = [*TOPIC_SETTINGS.values(), *NODE_SETTINGS.values()]


@pytest.mark.parametrize("setting", ALL, ids=lambda s: s.name)
def test_every_default_is_a_valid_value(setting: Setting) -> None:
    assert parse_value(setting, value_text(setting.default)) == setting.default
    assert setting.meaning.endswith(".")


def test_no_topic_default_shadows_a_node_setting() -> None:
    assert not TOPIC_DEFAULTS.keys() & NODE_SETTINGS.keys()
    assert len(BROKER_SETTINGS) == len(TOPIC_DEFAULTS) + len(NODE_SETTINGS)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("segment.bytes", "1M", 2**20),
        ("segment.bytes", "1 MiB", 2**20),
        ("segment.bytes", "1MB", 10**6),
        ("retention.bytes", "-1", -1),
        ("retention.ms", "7d", 7 * 86_400_000),
        ("retention.ms", "90s", 90_000),
        ("preallocate", "TRUE", True),
        ("min.insync.replicas", " 2 ", 2),
        ("min.insync.replicas", "0" * 5000 + "2", 2),
        ("message.timestamp.type", "LogAppendTime", "LogAppendTime"),
        ("cleanup.policy", "compact", ("compact",)),
        ("cleanup.policy", "", ()),
        ("cleanup.policy", "compact, delete", ("compact", "delete")),
        ("cleanup.policy", "delete,compact,delete", ("delete", "compact")),
        ("segment.bytes", "+1M", 2**20),
        ("segment.jitter.ms", "+5", 5),
        ("min.cleanable.dirty.ratio", "0.1", 0.1),
    ],
)
def test_values_are_read_with_units(name: str, text: str, value: object) -> None:
    assert parse_value(TOPIC_SETTINGS[name], text) == value


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("segment.bytes", "1 parsec", "number of bytes"),
        ("segment.bytes", "12", "from 1024"),
        ("retention.ms", "soon", "a time such as"),
        ("retention.ms", "-2", "from -1"),
        ("min.insync.replicas", "1k", "whole number"),
        ("preallocate", "maybe", "true or false"),
        ("cleanup.policy", "burn", "one of"),
        ("cleanup.policy", "delete,burn", "one of"),
        ("cleanup.policy", ",", "some of delete, compact"),
        ("cleanup.policy", "delete,", "some of delete, compact"),
        ("compression.gzip.level", "0", "from -1 to 9, but not 0"),
        ("compression.type", "", "one of"),
        ("min.cleanable.dirty.ratio", "1.1", "from 0 to 1"),
        ("compression.type", "rar", "one of producer"),
        ("retention.ms", "9" * 5000, "from -1"),
        ("retention.ms", "-" + "9" * 5000 + "w", "from -1"),
        ("segment.bytes", "9" * 4300 + "T", "from 1024"),
        ("min.insync.replicas", "9" * 5000, "from 1"),
        ("min.cleanable.dirty.ratio", "9" * 5000, "from 0 to 1"),
        ("min.cleanable.dirty.ratio", "nan", "from 0 to 1"),
        ("leader.replication.throttled.replicas", "none", "partition:broker"),
        ("leader.replication.throttled.replicas", "0:1,1-1", "partition:broker"),
        ("follower.replication.throttled.replicas", "*,0:1", "partition:broker"),
    ],
)
def test_invalid_values_are_refused_saying_what_would_be_right(
    name: str, text: str, wanted: str
) -> None:
    with pytest.raises(InvalidConfigError, match=wanted) as refused:
        checked_topic_overrides({name: text})
    assert name in str(refused.value)


@pytest.mark.parametrize("name", ["retention.ms", "compression.type"])
def test_of_a_long_value_that_is_refused_only_the_beginning_is_repeated(name: str) -> None:
    """What is expected comes behind it, and of a message only so much is sent."""
    with pytest.raises(InvalidConfigError) as refused:
        checked_topic_overrides({name: "9" * 40_000})
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("text", ["", "*", "0:1", "0:1, 1:2"])
def test_replicas_to_throttle_are_named_or_all_of_them(text: str) -> None:
    name = "leader.replication.throttled.replicas"
    assert checked_topic_overrides({name: text}) == {name: text.replace(" ", "")}


def test_what_was_stored_before_it_was_refused_keeps_no_broker_from_its_topics() -> None:
    name = "leader.replication.throttled.replicas"
    assert topic_config({}, {name: "none"}).leader_replication_throttled_replicas == ("none",)
    assert topic_config({}, {"compression.gzip.level": "0"}).compression_gzip_level == 0


def test_what_has_no_upper_bound_does_not_name_one() -> None:
    with pytest.raises(InvalidConfigError, match="expected at least 1"):
        node_config({"log.cleaner.io.max.bytes.per.second": "0"})


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidConfigError, match=r"did you mean retention\.ms"):
        topic_config({}, {"retention.msec": "1"})
    with pytest.raises(InvalidConfigError, match=r"did you mean log\.segment\.bytes"):
        node_config({"log.segments.bytes": "1M"})
    with pytest.raises(InvalidConfigError) as refused:
        node_config({"xyzzy": "1"})
    assert "did you mean" not in str(refused.value)


def test_a_topic_inherits_from_the_node_and_the_node_from_the_defaults() -> None:
    node = {"log.segment.bytes": "2M", "log.retention.ms": "1h"}
    config = topic_config(node, {"retention.ms": "2h"})
    assert (config.segment_bytes, config.retention_ms) == (2 * 2**20, 7_200_000)
    assert config.index_interval_bytes == 4096


def test_node_properties_are_checked_including_topic_defaults() -> None:
    config = node_config({"node.id": "7", "log.segment.bytes": "2M", "listeners": "SSL://a:1, "})
    assert (config.node_id, config.listeners) == (7, ("SSL://a:1",))
    with pytest.raises(InvalidConfigError):
        node_config({"log.segment.bytes": "none"})


def test_overrides_are_kept_in_the_standard_form() -> None:
    assert checked_topic_overrides({"segment.bytes": "1M"}) == {"segment.bytes": "1048576"}


@pytest.mark.parametrize(
    ("policy", "compacts", "deletes"),
    [
        ("compact", True, False),
        ("delete", False, True),
        ("compact,delete", True, True),
        ("", False, False),
    ],
)
def test_a_topic_is_compacted_or_shortened_or_both_or_neither(
    policy: str, compacts: bool, deletes: bool
) -> None:
    config = topic_config({}, {"cleanup.policy": policy})
    assert (config.compacts, config.deletes) == (compacts, deletes)


def test_records_are_not_to_be_compacted_before_they_may_be() -> None:
    lags = {"min.compaction.lag.ms": "1s", "max.compaction.lag.ms": "1000"}
    assert set(checked_topic_overrides(lags).values()) == {"1000"}
    with pytest.raises(InvalidConfigError, match="more than max"):
        checked_topic_overrides({**lags, "max.compaction.lag.ms": "999"})


def test_fractions_are_read() -> None:
    ratio = Setting("ratio", Kind.DOUBLE, 0.5, "A ratio.", low=0, high=1)
    assert parse_value(ratio, "0.25") == 0.25
    for text in ("2", "much"):
        with pytest.raises(InvalidConfigError):
            parse_value(ratio, text)


@given(st.sampled_from(ALL), st.text(max_size=12))
def test_any_text_is_a_value_or_a_clear_error(setting: Setting, text: str) -> None:
    try:
        value = parse_value(setting, text)
    except InvalidConfigError:
        with pytest.raises(InvalidConfigError, match=re.escape(setting.name)):
            parse_value(setting, text)
    else:
        assert parse_value(setting, value_text(value)) == value


def test_zeros_before_a_number_cost_no_more_than_to_read_them() -> None:
    """To try each way of sharing out these digits would take hours."""
    assert parse_value(TOPIC_SETTINGS["retention.ms"], "0" * 300_000 + "7") == 7
    with pytest.raises(InvalidConfigError, match="expected a time"):
        parse_value(TOPIC_SETTINGS["retention.ms"], "0" * 300_000 + "!")


def test_times_that_messages_carry_in_32_bits_are_bounded_as_in_kafka() -> None:
    heartbeat = NODE_SETTINGS["group.consumer.heartbeat.interval.ms"]
    assert heartbeat.kind is Kind.INT
    assert parse_value(heartbeat, str(INT_MAX)) == INT_MAX
    with pytest.raises(InvalidConfigError, match=r"group\.consumer\.heartbeat\.interval\.ms"):
        parse_value(heartbeat, str(INT_MAX + 1))
    assert TOPIC_SETTINGS["retention.ms"].kind is Kind.LONG
