"""Topics, configurations and offsets as they are printed."""

from dataclasses import replace

import pytest

from quorate.client.admin_results import (
    ConfigEntry,
    ConfigResource,
    PartitionDescription,
    TopicDescription,
)
from quorate.model import TopicPartition
from quorate.tools.configs import known_settings, parse_resource
from quorate.tools.offsets import kafka_lines, parse_offset_time
from quorate.tools.output import Column, Table
from quorate.tools.problems import UsageError
from quorate.tools.topic_options import topic_names
from quorate.tools.topics import Described, trim_table

LONG_MAX = str(2**63 - 1)


def entry(name: str, value: str, source: int) -> ConfigEntry:
    return ConfigEntry(
        name, value, source, is_read_only=False, is_sensitive=False, documentation=None
    )


def described(*, messages: str = LONG_MAX, ms: str = LONG_MAX, source: int = 5) -> Described:
    topic = TopicDescription(
        "t",
        bytes(range(16)),
        False,
        (
            PartitionDescription(0, 1, 3, (1, 2), (1,), ()),
            PartitionDescription(1, -1, 4, (2, 1), (), (2,), (1, 3), (4,)),
        ),
    )
    configs = {
        "flush.messages": entry("flush.messages", messages, source),
        "flush.ms": entry("flush.ms", ms, 5),
        "segment.bytes": entry("segment.bytes", "1024", 1),
    }
    return Described(topic, configs)


def test_a_topic_is_described_in_kafkas_words() -> None:
    assert described(messages="1", source=1).lines(wide=False) == [
        (
            "Topic: t\tTopicId: AAECAwQFBgcICQoLDA0ODw\tPartitionCount: 2\tReplicationFactor: 2"
            "\tConfigs: flush.messages=1,segment.bytes=1024"
        ),
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\tElr: \tLastKnownElr: ",
        "\tTopic: t\tPartition: 1\tLeader: none\tReplicas: 2,1\tIsr: \tElr: 1,3\tLastKnownElr: 4",
    ]


def test_brokers_that_know_of_no_eligible_leader_replicas_have_none_to_tell() -> None:
    old = replace(described(), elr_is_known=False)
    assert old.lines(wide=False)[2].endswith("\tElr: N/A\tLastKnownElr: N/A")
    (*_, partitions) = old.row()
    assert partitions[1]["elr"] is None


def test_wide_descriptions_say_when_a_record_is_safe() -> None:
    lines = described(messages="1").lines(wide=True)
    assert lines[0].endswith("\tDurability: fsync")
    assert lines[1].endswith("\tLeaderEpoch: 3")


@pytest.mark.parametrize(
    ("messages", "ms", "mode"),
    [(LONG_MAX, LONG_MAX, "replicated"), ("1", LONG_MAX, "fsync"), (LONG_MAX, "5", "timed"),
     ("9", LONG_MAX, "timed")],
)  # fmt: skip
def test_the_durability_follows_from_the_flush_settings(messages: str, ms: str, mode: str) -> None:
    assert described(messages=messages, ms=ms).durability == mode


def test_a_row_has_the_partitions_as_values() -> None:
    name, _, durability, configs, partitions = described().row()
    assert (name, durability, configs) == ("t", "replicated", {"segment.bytes": "1024"})
    assert [p["leader"] for p in partitions] == [1, -1]


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("topic/a", ConfigResource.topic("a")),
        ("topics/a/b", ConfigResource.topic("a/b")),
        ("broker/2", ConfigResource.broker(2)),
        ("brokers/default", ConfigResource.broker(None)),
        ("broker", ConfigResource.broker(None)),
        ("group/g", ConfigResource.group("g")),
    ],
)
def test_what_has_a_configuration(text: str, resource: ConfigResource) -> None:
    assert parse_resource(text) == resource


@pytest.mark.parametrize("text", ["topic", "topic/", "broker/x", "group/", ""])
def test_what_has_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="nothing that has a configuration"):
        parse_resource(text)


def test_every_setting_is_listed_with_range_and_unit() -> None:
    topic = {row[0]: row for row in known_settings().rows}
    node = {row[0]: row for row in known_settings(node=True).rows}
    assert topic["segment.bytes"][2:4] == ("1024..2147483647", "bytes")
    assert topic["cleanup.policy"][2] == "delete|compact"
    assert {"node.id", "log.segment.bytes"} <= node.keys()
    (*_, session) = known_settings(group=True).rows
    assert session[:3] == ("consumer.session.timeout.ms", "45000", "1..2147483647")


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [("earliest", -2), ("latest", -1), ("-3", -3), ("max-timestamp", -3), ("@-1s", 999_000),
     ("2000000000000", 2_000_000_000_000)],
)  # fmt: skip
def test_times_of_offsets(text: str, timestamp: int) -> None:
    assert parse_offset_time(text, 1_000_000) == timestamp


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(UsageError, match="no time"):
        parse_offset_time("soon", 0)


def test_offsets_in_kafkas_form() -> None:
    columns = (Column("topic"), Column("partition"), Column("offset"))
    assert kafka_lines(Table("o", columns, (("t", 0, 5), ("t", 1, None)))) == "t:0:5\nt:1:\n"
    ends = (Column("topic"), Column("partition"), Column("first_offset"), Column("next_offset"))
    assert kafka_lines(Table("o", ends, (("t", 0, 5, 9),))) == "t:0:9\n"


def test_a_trim_says_how_much_goes() -> None:
    assert trim_table({TopicPartition("t", 0): (5, 9)}).rows == (("t", 0, 5, 9, 4),)


def test_topics_are_named_in_two_ways_each_once() -> None:
    assert topic_names(["a", "b"], ["b", "c"]) == ["a", "b", "c"]
    with pytest.raises(UsageError, match="name a topic"):
        topic_names(None, [])
