"""Deltas: what changed between two images, from records or by comparison."""

import pytest

from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_batch, apply_records
from quorate.quorum.metadata.delta import MetadataDelta, Touched, difference, unchanged
from quorate.quorum.metadata.features import bootstrap_records
from quorate.quorum.metadata.image import EMPTY_IMAGE, ConfigResource, MetadataImage, ScramUser

ENTITY = (r.QuotaEntityPart("user", "alice"),)


def topic(name: str, topic_id: bytes) -> list[r.MetadataRecord]:
    return [
        r.TopicCreated("c", 1, name, topic_id),
        r.PartitionCreated("c", 1, topic_id, 0, (1, 2), (1, 2), 1),
    ]


def image() -> MetadataImage:
    records = [
        *bootstrap_records("x", 1),
        *topic("kept", b"k"),
        *topic("changed", b"c"),
        *topic("removed", b"r"),
        *topic("recreated", b"1"),
        r.ConfigSet("c", 1, "topic", "removed", "k", "v"),
        r.BrokerRegistered("c", 1, 1, 1, b"", b"", {}, None, fenced=True),
    ]
    return apply_records(EMPTY_IMAGE, 1, records)


CHANGES: list[r.MetadataRecord] = [
    *topic("new", b"n"),
    *topic("short-lived", b"s"),
    r.TopicRemoved("c", 1, b"s"),
    r.PartitionChanged("c", 1, b"c", 0, 2, 1, (2,)),
    r.TopicRemoved("c", 1, b"r"),
    r.TopicRemoved("c", 1, b"1"),
    *topic("recreated", b"2"),
    r.ConfigSet("c", 1, "broker", "", "k", "v"),
    r.BrokerUnfenced("c", 1, 1, 1),
    r.AclAdded("c", 1, b"a", 2, "t", 3, "User:alice", "*", 3, 3),
    r.ScramCredentialSet("c", 1, "alice", 1, b"salt", b"stored", b"server", 4096),
    r.ClientQuotaSet("c", 1, ENTITY, "rate", 1.0),
]


def names(delta: MetadataDelta) -> tuple[set[str], set[bytes]]:
    return {t.name for t in delta.changed_topics()}, {t.topic_id for t in delta.removed_topics()}


@pytest.mark.parametrize("compared", [False, True])
def test_a_delta_names_what_changed_and_nothing_else(compared: bool) -> None:
    delta = apply_batch(image(), 2, CHANGES)
    if compared:
        delta = difference(image(), delta.after)
    touched = delta.touched
    assert touched.topics - {"short-lived"} == {"new", "changed", "removed", "recreated"}
    assert touched.configs == {ConfigResource("broker", ""), ConfigResource("topic", "removed")}
    assert touched.brokers == {1}
    assert touched.features == set()
    assert touched.access_rules == {b"a"}
    assert touched.scram == {ScramUser("alice", 1)}
    assert touched.quotas == {ENTITY}
    assert names(delta) == ({"new", "changed", "recreated"}, {b"r", b"1"})


def test_deltas_add_up() -> None:
    one = apply_batch(image(), 2, CHANGES)
    two = apply_batch(one.after, 3, [r.TopicRemoved("c", 1, b"n"), *topic("removed", b"R")])
    both = one.then(two)
    assert (both.before, both.after) == (one.before, two.after)
    assert names(both) == ({"changed", "removed", "recreated"}, {b"r", b"1"})
    with pytest.raises(AssertionError, match="one delta follows the other"):
        two.then(one)


def test_topics_leave_a_broker_when_they_are_gone_or_all_elsewhere() -> None:
    changes = [*CHANGES, r.PartitionChanged("c", 1, b"c", 0, 3, 2, (3,), replicas=(3, 2))]
    delta = apply_batch(image(), 2, changes)
    every = ("kept", "changed", "removed", "recreated", "new", "never heard of")
    assert {t.name for t in delta.left_topics(1, every)} == {"changed", "removed", "recreated"}
    assert {t.name for t in delta.left_topics(2, every)} == {"removed", "recreated"}
    assert {t.name for t in delta.left_topics(1, ["kept", "removed"])} == {"removed"}


def test_nothing_is_different_from_itself() -> None:
    delta = unchanged(image())
    assert delta.touched == Touched()
    assert difference(image(), image()).touched == Touched()
    assert names(delta) == (set(), set())
