"""The image: records add up to facts, all of a batch or none."""

from dataclasses import replace
from typing import Any

import pytest

from quorate.model import NO_LEADER, Endpoint
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.codec import decode_facts, encode_batch
from quorate.quorum.metadata.image import (
    ANSWERS_BYTES_MAX,
    ANSWERS_MAX,
    EMPTY_IMAGE,
    AccessRule,
    ConfigResource,
    InconsistentRecordError,
    MetadataImage,
    PartitionState,
    ScramCredential,
    ScramUser,
    TopicImage,
)
from quorate.quorum.metadata.snapshot import image_records

ID = b"i" * 16
OTHER_ID = b"j" * 16
TOPIC = r.TopicCreated("c", 1, "t", ID)
PARTITION = r.PartitionCreated("c", 1, ID, 0, (1, 2), (1, 2), 1)
BROKER = r.BrokerRegistered(
    "c", 1, 1, 5, b"x" * 16, b"d" * 16, {"A": Endpoint("h", 1)}, "r1", fenced=True
)
RESOURCE = ConfigResource("topic", "t")


def image_of(*records: r.MetadataRecord, after: MetadataImage = EMPTY_IMAGE) -> MetadataImage:
    return apply_records(after, after.version + 1, records)


def test_a_topic_and_its_partitions_appear() -> None:
    image = image_of(TOPIC, PARTITION)
    state = PartitionState((1, 2), (1, 2), leader_id=1, leader_epoch=0, partition_epoch=0)
    assert image.topics == {"t": TopicImage("t", ID, (state,), leaderless=0)}
    assert image.topic_names == {ID: "t"}
    assert image.topic_of(ID) == image.topics["t"]
    assert image.topic_of(OTHER_ID) is None
    assert image.version == 1


@pytest.mark.parametrize("first", [0, 2])
def test_new_partitions_in_a_row_continue_those_there_are(first: int) -> None:
    before = image_of(TOPIC, PARTITION)
    added = [r.PartitionCreated("c", 1, ID, first + n, (2, 1), (2, 1), 2) for n in range(2)]
    with pytest.raises(InconsistentRecordError, match="in order"):
        apply_records(before, 2, decode_facts(encode_batch(added)))


def test_a_change_starts_a_new_partition_epoch() -> None:
    before = image_of(TOPIC, PARTITION)
    image = image_of(r.PartitionChanged("c", 2, ID, 0, 2, 1, (2,)), after=before)
    assert image.topics["t"].partitions == (PartitionState((1, 2), (2,), 2, 1, 1),)
    assert before.topics["t"].partitions[0].leader_id == 1


def answered(request_id: bytes, answer: bytes = b"a") -> r.RequestAnswered:
    return r.RequestAnswered("c", 1, request_id, answer)


def test_answers_are_kept_for_retries_until_there_are_too_many() -> None:
    image = image_of(*(answered(b"%d" % n) for n in range(ANSWERS_MAX)))
    assert image.answers[b"0"] == b"a"
    image = image_of(answered(b"more"), after=image)
    assert list(image.answers) == [b"%d" % n for n in range(1, ANSWERS_MAX)] + [b"more"]


def test_answers_are_kept_until_they_are_too_large_but_the_newest_always() -> None:
    half = bytes(ANSWERS_BYTES_MAX // 2)
    image = image_of(answered(b"1", half), answered(b"2", half), answered(b"3", b""))
    assert list(image.answers) == [b"1", b"2", b"3"]
    image = image_of(answered(b"1", half + b"x"), after=image)
    assert list(image.answers) == [b"3", b"1"]
    image = image_of(answered(b"4", 3 * half), after=image)
    assert list(image.answers) == [b"4"]


def test_a_removed_topic_takes_its_configuration_with_it() -> None:
    before = image_of(TOPIC, PARTITION, r.ConfigSet("c", 1, "topic", "t", "k", "v"))
    assert before.config(RESOURCE) == {"k": "v"}
    image = image_of(r.TopicRemoved("c", 1, ID), after=before)
    assert not image.topics
    assert not image.topic_names
    assert not image.configs
    recreated = image_of(
        r.TopicRemoved("c", 1, ID),
        r.TopicCreated("c", 1, "t", OTHER_ID),
        r.ConfigSet("c", 1, "topic", "t", "new", "v"),
        after=before,
    )
    assert recreated.config(RESOURCE) == {"new": "v"}
    gone_at_once = image_of(
        r.ConfigSet("c", 1, "topic", "t", "new", "v"),
        r.PartitionChanged("c", 2, ID, 0, 2, 1, (2,)),
        r.TopicRemoved("c", 1, ID),
        after=before,
    )
    assert not gone_at_once.topics
    assert not gone_at_once.configs


def test_configurations_are_set_and_deleted() -> None:
    one = image_of(
        r.ConfigSet("c", 1, "broker", "", "a", "1"), r.ConfigSet("c", 1, "broker", "", "b", "2")
    )
    two = image_of(r.ConfigDeleted("c", 1, "broker", "", "a"), after=one)
    assert two.config(ConfigResource("broker", "")) == {"b": "2"}
    three = image_of(
        r.ConfigDeleted("c", 1, "broker", "", "b"),
        r.ConfigDeleted("c", 1, "broker", "", "unknown"),
        after=two,
    )
    assert three.configs == {}


def test_brokers_come_are_fenced_and_go() -> None:
    image = image_of(BROKER)
    assert image.live_broker_ids() == frozenset()
    image = image_of(r.BrokerUnfenced("c", 1, 1, 5), after=image)
    assert image.live_broker_ids() == {1}
    image = image_of(r.BrokerFenced("c", 1, 1, 5), after=image)
    assert image.brokers[1].fenced
    image = image_of(replace(BROKER, broker_epoch=9), after=image)
    assert image.brokers[1].broker_epoch == 9
    image = image_of(r.BrokerUnregistered("c", 1, 1, 9), after=image)
    assert image.brokers == {}


NEWEST = r.FeatureLevelSet("c", 1, "metadata.version", 3)


def test_brokers_shut_down_and_are_drained() -> None:
    other = replace(BROKER, broker_id=2, fenced=False)
    image = image_of(NEWEST, BROKER, other, r.BrokerChanged("c", 1, 2, 5, draining=True))
    assert image.brokers[2].draining
    assert image.may_lead(2), "if nobody else can"
    assert not image.may_lead(1), "it is fenced"
    assert not image.may_lead(3)
    image = image_of(r.BrokerChanged("c", 1, 2, 5, shutting_down=True), after=image)
    assert image.brokers[2].draining
    assert not image.may_lead(2)
    assert image.live_broker_ids() == {2}
    image = image_of(replace(other, broker_epoch=9), after=image)
    assert image.may_lead(2), "what registers does not shut down any more"
    assert image.brokers[2].draining
    image = image_of(r.BrokerChanged("c", 1, 2, 9, draining=False), after=image)
    assert not image.brokers[2].draining


def test_who_restarted_or_is_out_of_service_may_not_be_in_sync() -> None:
    image = image_of(NEWEST, BROKER, replace(BROKER, broker_id=2, fenced=False))
    assert not image.may_join_isr(1, 5)
    assert image.may_join_isr(2, 5)
    assert image.may_join_isr(2, -1), "an epoch that is not known is not checked"
    assert not image.may_join_isr(2, 4)
    assert not image.may_join_isr(3, -1)
    image = image_of(r.BrokerChanged("c", 1, 2, 5, shutting_down=True), after=image)
    assert not image.may_join_isr(2, 5)


def test_a_partition_moves_and_remembers_who_may_lead() -> None:
    moving = r.PartitionChanged(
        cause="c",
        time_ms=1,
        topic_id=ID,
        partition=0,
        leader_id=-1,
        leader_epoch=1,
        isr=(),
        replicas=(3, 1, 2),
        adding_replicas=(3,),
        removing_replicas=(2,),
        elr=(2,),
        last_known_leader=1,
    )
    image = image_of(NEWEST, moving, after=BASE)
    (state,) = image.topics["t"].partitions
    assert state == PartitionState((3, 1, 2), (), -1, 1, 1, (3,), (2,), (2,), 1)
    assert state.is_moving
    assert state.target_replicas == (3, 1)
    image = image_of(r.PartitionChanged("c", 1, ID, 0, 1, 2, (1,)), after=image)
    (state,) = image.topics["t"].partitions
    assert state == PartitionState((3, 1, 2), (1,), 1, 2, 2, (3,), (2,), (2,), 1)
    done = replace(moving, replicas=(3, 1), adding_replicas=(), removing_replicas=(), elr=())
    image = image_of(done, r.PartitionChanged("c", 1, ID, 0, 1, 2, (1,)), after=BASE_AT_3)
    (state,) = image.topics["t"].partitions
    assert not state.is_moving
    assert state.target_replicas == (3, 1)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"elr": (1,)}, "ELR are replicas that are not in sync"),
        ({"elr": (3,)}, "ELR are replicas that are not in sync"),
        ({"adding_replicas": (3,)}, "added or removed are replicas"),
        ({"removing_replicas": (3,)}, "added or removed are replicas"),
        ({"replicas": (2,)}, "subset of the replicas"),
    ],
)
def test_a_partition_that_cannot_be_is_refused(change: dict[str, Any], complaint: str) -> None:
    wrong = replace(r.PartitionChanged("c", 1, ID, 0, 1, 1, (1,)), **change)
    with pytest.raises(InconsistentRecordError, match=complaint):
        image_of(wrong, after=BASE_AT_3)


def test_maps_that_did_not_change_are_shared() -> None:
    before = image_of(TOPIC, PARTITION, BROKER)
    after = image_of(r.ConfigSet("c", 1, "topic", "t", "k", "v"), after=before)
    assert after.topics is before.topics
    assert after.brokers is before.brokers
    assert after.topic_names is before.topic_names


BASE = image_of(
    TOPIC,
    PARTITION,
    BROKER,
    r.ClusterFormatted("c", 1, "x"),
    r.ProducerIdsAllocated("c", 1, 1, 5, 9),
)

BASE_AT_3 = image_of(NEWEST, after=BASE)


@pytest.mark.parametrize(
    "record",
    [
        TOPIC,
        r.TopicCreated("c", 1, "other", ID),
        r.TopicRemoved("c", 1, OTHER_ID),
        r.PartitionCreated("c", 1, OTHER_ID, 0, (1,), (1,), 1),
        r.PartitionCreated("c", 1, ID, 2, (1,), (1,), 1),
        r.PartitionCreated("c", 1, ID, 1, (1,), (2,), 2),
        r.PartitionCreated("c", 1, ID, 1, (1, 2), (1,), 2),
        r.PartitionChanged("c", 1, ID, 1, 1, 1, (1,)),
        r.PartitionChanged("c", 1, ID, 0, 1, -1, (1,)),
        r.BrokerFenced("c", 1, 1, 4),
        r.BrokerUnfenced("c", 1, 2, 5),
        r.BrokerUnregistered("c", 1, 2, 5),
        BROKER,
        r.ClusterFormatted("c", 1, "y"),
        r.ProducerIdsAllocated("c", 1, 1, 5, 9),
    ],
)
def test_a_record_that_contradicts_the_image_is_refused(record: r.MetadataRecord) -> None:
    with pytest.raises(InconsistentRecordError):
        image_of(record, after=BASE)


ACL = r.AclAdded("c", 1, b"a", 2, "t", 3, "User:alice", "*", 3, 3)
SCRAM = r.ScramCredentialSet("c", 1, "alice", 1, b"salt", b"stored", b"server", 4096)
ALICE = (r.QuotaEntityPart("user", "alice"),)
QUOTA = r.ClientQuotaSet("c", 1, ALICE, "producer_byte_rate", 1024.0)
LEVEL = r.FeatureLevelSet("c", 1, "metadata.version", 2)


def test_access_rules_credentials_and_quotas_come_and_go() -> None:
    more = replace(QUOTA, name="consumer_byte_rate", value=0.5)
    image = image_of(LEVEL, ACL, SCRAM, QUOTA, more)
    assert image.access_rules == {b"a": AccessRule(2, "t", 3, "User:alice", "*", 3, 3)}
    known = ScramCredential(b"salt", b"stored", b"server", 4096)
    assert image.scram == {ScramUser("alice", 1): known}
    assert image.quotas == {ALICE: {"producer_byte_rate": 1024.0, "consumer_byte_rate": 0.5}}
    image = image_of(r.ClientQuotaRemoved("c", 1, ALICE, "producer_byte_rate"), after=image)
    assert image.quotas == {ALICE: {"consumer_byte_rate": 0.5}}
    image = image_of(
        r.AclRemoved("c", 1, b"a"),
        r.ScramCredentialRemoved("c", 1, "alice", 1),
        r.ClientQuotaRemoved("c", 1, ALICE, "consumer_byte_rate"),
        after=image,
    )
    assert not image.access_rules
    assert not image.scram
    assert not image.quotas


@pytest.mark.parametrize(
    "record",
    [
        ACL,
        r.AclRemoved("c", 1, b"unknown"),
        r.ScramCredentialRemoved("c", 1, "alice", 2),
        r.ClientQuotaRemoved("c", 1, ALICE, "unknown"),
    ],
)
def test_what_is_not_there_is_not_removed_and_no_rule_is_added_twice(
    record: r.MetadataRecord,
) -> None:
    image = image_of(LEVEL, ACL, SCRAM, QUOTA)
    with pytest.raises(InconsistentRecordError):
        image_of(record, after=image)


def test_topics_that_would_have_one_name_in_metrics_are_refused() -> None:
    image = image_of(r.TopicCreated("c", 1, "a.b", ID))
    assert image.metric_names == {"a_b": "a.b"}
    with pytest.raises(InconsistentRecordError, match="collides"):
        image_of(r.TopicCreated("c", 1, "a_b", OTHER_ID), after=image)
    assert not image_of(r.TopicRemoved("c", 1, ID), after=image).metric_names


def test_an_epoch_has_one_leader() -> None:
    with pytest.raises(InconsistentRecordError, match="one leader"):
        image_of(r.PartitionChanged("c", 1, ID, 0, 2, 0, (2,)), after=BASE)


def test_versions_only_grow() -> None:
    with pytest.raises(InconsistentRecordError, match="version 1 after 1"):
        apply_records(BASE, 1, [])


def test_a_partition_without_a_leader_keeps_its_isr() -> None:
    image = image_of(r.PartitionChanged("c", 1, ID, 0, NO_LEADER, 1, (1, 2)), after=BASE)
    assert image.topics["t"].partitions[0].leader_id == NO_LEADER
    assert image.topics["t"].leaderless == 1


def test_an_image_can_be_made_again_from_its_records() -> None:
    full = image_of(
        r.ConfigSet("c", 1, "topic", "t", "k", "v"),
        r.PartitionChanged("c", 1, ID, 0, 2, 7, (2,)),
        after=BASE,
    )
    assert apply_records(EMPTY_IMAGE, full.version, image_records(full)) == full
    assert list(image_records(EMPTY_IMAGE)) == []


def test_a_quota_says_whom_it_is_for() -> None:
    assert str(r.QuotaEntityPart("user", "alice")) == "user=alice"
    assert str(r.QuotaEntityPart("client-id", None)) == "client-id=<default>"
