"""AlterPartition: leaders change the ISR by compare-and-set, and only they do."""

from dataclasses import replace

import pytest

from quorate.control.messages import DONE
from quorate.control.partition_messages import (
    AlteredPartition,
    AlterPartition,
    InSyncReplica,
    PartitionAlteration,
)
from quorate.errors import ErrorCode, KafkaError
from quorate.quorum.control.partitions import alter_partition
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.features import NEWEST_LEVEL
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionState

ID = b"i" * 16


def cluster() -> MetadataImage:
    """Brokers 1 to 4 with epochs 11 to 14, 4 fenced; 1 leads a partition of all of them."""
    brokers = [
        r.BrokerRegistered("c", 1, b, 10 + b, b"", b"", {}, None, fenced=b == 4)
        for b in (1, 2, 3, 4)
    ]
    topic = r.TopicCreated("c", 1, "t", ID)
    partition = r.PartitionCreated("c", 1, ID, 0, (1, 2, 3, 4), (1, 2), 1, 5, 7)
    return apply_records(EMPTY_IMAGE, 1, [*brokers, topic, partition])


def isr(*ids: int) -> tuple[InSyncReplica, ...]:
    return tuple(InSyncReplica(b, 10 + b) for b in ids)


GROW = PartitionAlteration(ID, 0, leader_epoch=5, partition_epoch=7, isr=isr(1, 2, 3))


def alter(
    image: MetadataImage, *alterations: PartitionAlteration, broker_id: int = 1
) -> tuple[PartitionState, tuple[AlteredPartition, ...]]:
    request = AlterPartition(broker_id, 10 + broker_id, alterations)
    decision = alter_partition(image, request, 77)
    after = apply_records(image, 2, decision.records)
    return after.topics["t"].partitions[0], decision.answer.partitions


@pytest.mark.parametrize("members", [(1, 2, 3), (1,), (2, 1)])
def test_a_leader_grows_and_shrinks_the_isr(members: tuple[int, ...]) -> None:
    state, (answer,) = alter(cluster(), replace(GROW, isr=isr(*members)))
    assert state == PartitionState((1, 2, 3, 4), members, 1, 5, 8)
    assert answer == AlteredPartition(ID, 0, DONE, 1, 5, 8, members)


def test_the_record_says_who_asked_and_when() -> None:
    (record,) = alter_partition(cluster(), AlterPartition(1, 11, (GROW,)), 77).records
    assert (record.cause, record.time_ms) == ("AlterPartition by leader 1", 77)


def test_what_is_so_already_makes_no_record() -> None:
    state, (answer,) = alter(cluster(), replace(GROW, isr=isr(1, 2)))
    assert state.partition_epoch == 7
    assert answer == AlteredPartition(ID, 0, DONE, 1, 5, 7, (1, 2))


def test_epochs_of_brokers_need_not_be_told() -> None:
    state, _ = alter(cluster(), replace(GROW, isr=(InSyncReplica(1), InSyncReplica(3))))
    assert state.isr == (1, 3)


@pytest.mark.parametrize(
    ("alteration", "code"),
    [
        (replace(GROW, topic_id=b"x" * 16), ErrorCode.UNKNOWN_TOPIC_ID),
        (replace(GROW, partition=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (replace(GROW, partition=-1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (replace(GROW, leader_epoch=6), ErrorCode.NOT_CONTROLLER),
        (replace(GROW, partition_epoch=8), ErrorCode.NOT_CONTROLLER),
        (replace(GROW, leader_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (replace(GROW, leader_epoch=4, partition_epoch=6), ErrorCode.FENCED_LEADER_EPOCH),
        (replace(GROW, partition_epoch=6), ErrorCode.INVALID_UPDATE_VERSION),
        (replace(GROW, isr=isr(1, 9)), ErrorCode.INVALID_REQUEST),
        (replace(GROW, isr=isr(1, 2, 2)), ErrorCode.INVALID_REQUEST),
        (replace(GROW, isr=isr(2, 3)), ErrorCode.INVALID_REQUEST),
        (replace(GROW, isr=()), ErrorCode.INVALID_REQUEST),
        (replace(GROW, isr=isr(1, 4)), ErrorCode.INELIGIBLE_REPLICA),
        (replace(GROW, isr=(*isr(1), InSyncReplica(3, 12))), ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_other_alterations_are_refused_as_kafka_does(
    alteration: PartitionAlteration, code: ErrorCode
) -> None:
    state, (answer,) = alter(cluster(), alteration)
    assert state.partition_epoch == 7
    assert ErrorCode(answer.failure.code) == code


def test_a_replica_whose_broker_left_the_cluster_is_not_in_sync() -> None:
    image = apply_records(cluster(), 2, [r.BrokerUnregistered("c", 1, 3, 13)])
    decision = alter_partition(image, AlterPartition(1, 11, (GROW,)), 77)
    (answer,) = decision.answer.partitions
    assert decision.records == ()
    assert answer.failure.code == ErrorCode.INELIGIBLE_REPLICA
    assert "not registered" in answer.failure.message


def test_who_shuts_down_is_not_taken_into_the_isr_but_its_partitions_go_on() -> None:
    image = apply_records(
        cluster(),
        2,
        [
            r.FeatureLevelSet("c", 1, "metadata.version", 3),
            r.BrokerChanged("c", 1, 3, 13, shutting_down=True),
        ],
    )
    decision = alter_partition(image, AlterPartition(1, 11, (GROW,)), 77)
    (answer,) = decision.answer.partitions
    assert answer.failure.code == ErrorCode.INELIGIBLE_REPLICA
    assert "shuts down" in answer.failure.message
    smaller = replace(GROW, isr=isr(1))
    image = apply_records(image, 3, [r.BrokerChanged("c", 1, 1, 11, shutting_down=True)])
    decision = alter_partition(image, AlterPartition(1, 11, (smaller,)), 77)
    (answer,) = decision.answer.partitions
    assert (answer.failure, answer.isr) == (DONE, (1,))


def test_who_cannot_write_stays_in_the_isr_but_is_not_taken_into_it() -> None:
    level = r.FeatureLevelSet("c", 1, "metadata.version", NEWEST_LEVEL)
    full = [r.BrokerChanged("c", 1, b, 10 + b, cannot_write=True) for b in (2, 3)]
    image = apply_records(cluster(), 2, [level, *full])
    decision = alter_partition(image, AlterPartition(1, 11, (GROW,)), 77)
    (answer,) = decision.answer.partitions
    assert answer.failure.code == ErrorCode.INELIGIBLE_REPLICA
    assert "broker 3 cannot write" in answer.failure.message
    image = apply_records(image, 3, [replace(full[1], cannot_write=False)])
    decision = alter_partition(image, AlterPartition(1, 11, (GROW,)), 77)
    (answer,) = decision.answer.partitions
    assert (answer.failure, answer.isr) == (DONE, (1, 2, 3))


def test_who_cannot_write_is_taken_into_an_isr_that_is_too_small() -> None:
    level = r.FeatureLevelSet("c", 1, "metadata.version", NEWEST_LEVEL)
    needed = r.ConfigSet("c", 1, "topic", "t", "min.insync.replicas", "3")
    full = r.BrokerChanged("c", 1, 3, 13, cannot_write=True)
    image = apply_records(cluster(), 2, [level, needed, full])
    decision = alter_partition(image, AlterPartition(1, 11, (GROW,)), 77)
    (answer,) = decision.answer.partitions
    assert (answer.failure, answer.isr) == (DONE, (1, 2, 3)), "nothing is committed without it"


def test_who_leaves_an_isr_that_is_too_small_is_an_eligible_leader() -> None:
    level = r.FeatureLevelSet("c", 1, "metadata.version", 3)
    needed = r.ConfigSet("c", 1, "topic", "t", "min.insync.replicas", "2")
    image = apply_records(cluster(), 2, [level, needed])
    smaller = replace(GROW, isr=isr(1))
    decision = alter_partition(image, AlterPartition(1, 11, (smaller,)), 77)
    image = apply_records(image, 3, decision.records)
    (state,) = image.topics["t"].partitions
    assert (state.isr, state.elr) == ((1,), (2,))
    larger = PartitionAlteration(ID, 0, 5, 8, isr(1, 3))
    decision = alter_partition(image, AlterPartition(1, 11, (larger,)), 77)
    (state,) = apply_records(image, 4, decision.records).topics["t"].partitions
    assert (state.isr, state.elr) == ((1, 3), ())


def test_who_does_not_lead_changes_nothing() -> None:
    state, (answer,) = alter(cluster(), GROW, broker_id=2)
    assert state.partition_epoch == 7
    assert answer.failure.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("broker_id", "broker_epoch", "code"),
    [
        (1, 10, ErrorCode.STALE_BROKER_EPOCH),
        (1, 12, ErrorCode.STALE_BROKER_EPOCH),
        (9, 19, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ],
)
def test_an_earlier_registration_of_a_broker_is_refused(
    broker_id: int, broker_epoch: int, code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as caught:
        alter_partition(cluster(), AlterPartition(broker_id, broker_epoch, (GROW,)), 77)
    assert caught.value.code == code


def test_each_partition_of_a_request_is_judged_for_itself_and_once() -> None:
    state, answers = alter(cluster(), replace(GROW, partition=9), GROW, replace(GROW, isr=isr(1)))
    assert state.isr == (1, 2, 3)
    assert [ErrorCode(a.failure.code) for a in answers] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
    ]
