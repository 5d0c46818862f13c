"""Levels: what not every node knows is not written, and who does not know enough stops."""

from dataclasses import replace

import pytest

from quorate.control.messages import SupportedFeature
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.features import (
    GROUP_VERSION,
    LEVELS,
    METADATA_VERSION,
    SUPPORTED,
    UnsupportedLevelError,
    bootstrap_records,
    level_in,
    level_of,
    metadata_level,
    supports,
)
from quorate.quorum.metadata.image import EMPTY_IMAGE, InconsistentRecordError
from quorate.quorum.metadata.snapshot import decode_image, encode_image

ACL = r.AclAdded("c", 1, b"a", 2, "t", 3, "User:alice", "*", 3, 3)


def level(number: int, name: str = METADATA_VERSION) -> r.FeatureLevelSet:
    return r.FeatureLevelSet("c", 1, name, number)


def test_new_clusters_work_at_the_newest_level() -> None:
    image = apply_records(EMPTY_IMAGE, 1, bootstrap_records("x", 1))
    assert image.cluster_id == "x"
    assert metadata_level(image.features) == SUPPORTED[METADATA_VERSION].level_max
    assert all(needed <= metadata_level(image.features) for needed in LEVELS.values())


def test_a_cluster_that_does_not_say_works_at_the_first_level() -> None:
    assert metadata_level(EMPTY_IMAGE.features) == 1


def test_records_of_a_newer_level_are_not_written() -> None:
    with pytest.raises(InconsistentRecordError, match=r"AclAdded needs metadata.version 2.*is 1"):
        apply_records(EMPTY_IMAGE, 1, [ACL])
    image = apply_records(EMPTY_IMAGE, 1, [level(2), ACL])
    assert list(image.access_rules) == [b"a"]


TOPIC = r.TopicCreated("c", 1, "t", b"t")
CREATED = r.PartitionCreated("c", 1, b"t", 0, (1, 2), (1,), 1)
CHANGED = r.PartitionChanged("c", 1, b"t", 0, 1, 0, (1,))


@pytest.mark.parametrize(
    "record",
    [
        replace(CREATED, adding_replicas=(2,)),
        replace(CREATED, removing_replicas=(2,)),
        replace(CREATED, elr=(2,)),
        replace(CREATED, last_known_leader=1),
        replace(CHANGED, replicas=(1,)),
        replace(CHANGED, adding_replicas=()),
        replace(CHANGED, removing_replicas=()),
        replace(CHANGED, elr=()),
        replace(CHANGED, last_known_leader=-1),
        r.BrokerChanged("c", 1, 1, 1, draining=True),
        r.BrokerChanged("c", 1, 1, 1, cannot_write=True),
    ],
)
def test_who_does_not_know_what_came_later_is_not_told_of_it(record: r.MetadataRecord) -> None:
    """A node that did not know a field would ignore it, and disagree."""
    broker = r.BrokerRegistered("c", 1, 1, 1, b"", b"", {}, None, fenced=True)
    before: list[r.MetadataRecord] = [level(level_of(record) - 1), broker, TOPIC]
    if isinstance(record, r.PartitionChanged):
        before.append(CREATED)
    image = apply_records(EMPTY_IMAGE, 1, before)
    with pytest.raises(InconsistentRecordError, match=f"needs metadata.version {level_of(record)}"):
        apply_records(image, 2, [record])
    apply_records(image, 2, [level(level_of(record)), record])


def test_partitions_as_they_always_were_have_no_level() -> None:
    assert level_of(CREATED) == level_of(CHANGED) == level_of(TOPIC) == 1
    assert level_of(ACL) == 2


@pytest.mark.parametrize(("name", "number"), [(METADATA_VERSION, 99), ("other.version", 1)])
def test_a_node_that_does_not_know_the_level_of_its_cluster_stops(name: str, number: int) -> None:
    with pytest.raises(UnsupportedLevelError, match=f"works at {name} {number}.*upgrade this node"):
        apply_records(EMPTY_IMAGE, 1, [level(number, name)])


def test_what_was_always_on_is_remembered_as_off() -> None:
    image = apply_records(EMPTY_IMAGE, 1, bootstrap_records("x", 1))
    assert level_in(image.features, GROUP_VERSION) == 1
    image = apply_records(image, 2, [level(0, GROUP_VERSION)])
    assert level_in(image.features, GROUP_VERSION) == 0
    assert level_in(EMPTY_IMAGE.features, GROUP_VERSION) == 1
    assert level_in(decode_image(encode_image(image)).features, GROUP_VERSION) == 0


def test_a_broker_that_does_not_say_is_at_the_levels_that_always_were() -> None:
    assert [n for n in range(4) if supports([], "transaction.version", n)] == [0, 2]


def test_features_can_be_switched_off_but_not_the_metadata() -> None:
    image = apply_records(EMPTY_IMAGE, 1, [level(0, "other.version")])
    assert image.features == {}
    with pytest.raises(InconsistentRecordError, match="metadata has a level"):
        apply_records(EMPTY_IMAGE, 1, [level(0)])


def test_a_node_supports_what_it_says_and_the_first_level_of_the_metadata() -> None:
    features = [SupportedFeature("f", 2, 3)]
    assert [n for n in range(6) if supports(features, "f", n)] == [0, 2, 3]
    assert [n for n in range(6) if supports(features, METADATA_VERSION, n)] == [0, 1]
    assert [n for n in range(6) if supports([], "f", n)] == [0]
