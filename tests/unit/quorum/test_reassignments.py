"""Partitions are moved to other brokers, and never lose what is committed on the way (KIP-455)."""

from dataclasses import replace

import pytest

from quorate.control.partition_messages import (
    AlterPartition,
    AlterReassignments,
    InSyncReplica,
    PartitionAlteration,
)
from quorate.errors import ErrorCode, UnsupportedVersionError
from quorate.model import NO_LEADER
from quorate.quorum.control.partitions import alter_partition
from quorate.quorum.control.reassignments import alter_reassignments
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.image import MetadataImage, PartitionState
from tests.unit.quorum.partitions import (
    ID,
    cluster,
    epoch_of,
    moving,
    partition,
    the_partition,
    with_records,
)

EVERYBODY = (1, 2, 3, 4, 5)
UNCLEAN = r.ConfigSet("c", 1, "topic", "t", "unclean.leader.election.enable", "true")


def move(
    image: MetadataImage,
    target: tuple[int, ...] | None,
    number: int = 0,
    *,
    topic: str = "t",
    allow: bool = True,
) -> tuple[MetadataImage, ErrorCode, str]:
    request = AlterReassignments({topic: {number: target}}, allow, "User:alice")
    decision = alter_reassignments(image, request, 77)
    for record in decision.records:
        assert record.cause.startswith("AlterPartitionReassignments by User:alice")
        assert record.time_ms == 77
    (answer,) = decision.answer.partitions
    assert (answer.topic, answer.partition) == (topic, number)
    after = with_records(image, *decision.records) if decision.records else image
    return after, ErrorCode(answer.failure.code), answer.failure.message


def moved(image: MetadataImage, target: tuple[int, ...] | None) -> PartitionState:
    after, code, _ = move(image, target)
    assert code == ErrorCode.NONE
    return the_partition(after)


def refused(
    image: MetadataImage, target: tuple[int, ...] | None, *, allow: bool = True
) -> tuple[str, str]:
    after, code, message = move(image, target, allow=allow)
    assert after is image
    return code.name, message


def alter(image: MetadataImage, *isr: int) -> tuple[MetadataImage, ErrorCode]:
    """Let the partition's leader tell who is in sync."""
    state = the_partition(image)
    in_sync = tuple(InSyncReplica(b, epoch_of(b)) for b in isr)
    alteration = PartitionAlteration(ID, 0, state.leader_epoch, state.partition_epoch, in_sync)
    request = AlterPartition(state.leader_id, epoch_of(state.leader_id), (alteration,))
    decision = alter_partition(image, request, 78)
    (answer,) = decision.answer.partitions
    return with_records(image, *decision.records), ErrorCode(answer.failure.code)


def test_a_partition_has_old_and_new_replicas_until_the_new_ones_are_in_sync() -> None:
    image, code, _ = move(cluster(partition(), alive=EVERYBODY), (4, 5, 1))
    assert code == ErrorCode.NONE
    state = the_partition(image)
    assert state.replicas == (4, 5, 1, 2, 3)
    assert (state.adding_replicas, state.removing_replicas) == ((4, 5), (2, 3))
    assert (state.leader_id, state.leader_epoch, state.isr) == (1, 5, (1, 2, 3))
    assert state.target_replicas == (4, 5, 1)
    image, _ = alter(image, 1, 2, 3, 4)
    assert the_partition(image).is_moving
    image, code = alter(image, 1, 2, 3, 4, 5)
    state = the_partition(image)
    assert code == ErrorCode.NONE
    assert (state.replicas, state.isr, state.is_moving) == ((4, 5, 1), (1, 4, 5), False)
    assert (state.leader_id, state.leader_epoch) == (1, 6)


def test_a_leader_that_is_given_up_is_told_that_another_one_leads() -> None:
    image, _, _ = move(cluster(partition(), alive=EVERYBODY), (4, 5))
    image, code = alter(image, 1, 2, 3, 4, 5)
    state = the_partition(image)
    assert code == ErrorCode.NEW_LEADER_ELECTED
    assert (state.replicas, state.isr, state.leader_id) == ((4, 5), (4, 5), 4)
    assert state.leader_epoch == 6


def test_who_only_gives_up_replicas_has_arrived_at_once() -> None:
    state = moved(cluster(partition()), (3, 1))
    assert (state.replicas, state.isr, state.is_moving) == ((3, 1), (1, 3), False)
    assert (state.leader_id, state.leader_epoch) == (1, 6)
    state = moved(cluster(partition()), (2, 3))
    assert (state.replicas, state.isr, state.leader_id) == ((2, 3), (2, 3), 2)


def test_another_order_is_another_preferred_leader_and_nothing_else() -> None:
    state = moved(cluster(partition()), (3, 2, 1))
    assert (state.replicas, state.leader_id, state.leader_epoch) == ((3, 2, 1), 1, 5)
    image = cluster(partition())
    same, code, _ = move(image, (1, 2, 3))
    assert (same, code) == (image, ErrorCode.NONE)


def test_who_gives_up_a_replica_in_sync_waits_for_those_that_are_not() -> None:
    state = moved(cluster(partition((1, 2), 1)), (1, 3))
    assert (state.replicas, state.removing_replicas, state.adding_replicas) == ((1, 3, 2), (2,), ())
    assert state.isr == (1, 2)


def test_a_partition_may_get_more_replicas() -> None:
    state = moved(cluster(partition((1,), 1, replicas=(1,)), alive=EVERYBODY), (1, 4, 5))
    assert (state.replicas, state.adding_replicas, state.removing_replicas) == (
        (1, 4, 5),
        (4, 5),
        (),
    )


# --- changing one's mind


def test_a_reassignment_is_called_off() -> None:
    state = moved(cluster(moving((4, 1, 2, 3), (4,), (3,), (1, 4), 4), alive=EVERYBODY), None)
    assert (state.replicas, state.isr, state.is_moving) == ((1, 2, 3), (1,), False)
    assert (state.leader_id, state.leader_epoch) == (1, 6)


def test_another_target_replaces_the_first_one() -> None:
    image = cluster(moving((4, 1, 2, 3), (4,), (3,), (1, 2, 3, 4), 1), alive=EVERYBODY)
    state = moved(image, (5, 1, 2))
    assert state.replicas == (5, 1, 2, 3)
    assert (state.adding_replicas, state.removing_replicas) == ((5,), (3,))
    assert state.isr == (1, 2, 3), "what was being added is given up at once"
    assert state.leader_epoch == 6
    back = moved(with_records(image, r.BrokerFenced("c", 1, 5, epoch_of(5))), (1, 2, 3))
    assert (back.replicas, back.is_moving) == ((1, 2, 3), False)


def test_what_is_being_added_may_stay_though_its_broker_is_away() -> None:
    image = cluster(moving((4, 1, 2, 3), (4,), (3,), (1, 2, 3), 1), alive=(1, 2, 3, 5))
    state = moved(image, (4, 5, 1))
    assert (state.adding_replicas, state.removing_replicas) == ((4, 5), (2, 3))


def test_calling_off_nothing_is_told() -> None:
    code, _ = refused(cluster(partition()), None)
    assert code == "NO_REASSIGNMENT_IN_PROGRESS"


ONLY_NEW_IN_SYNC = moving((4, 1, 2), (4,), (2,), (4,), 4)


def test_the_only_replica_in_sync_is_not_given_up() -> None:
    image = cluster(ONLY_NEW_IN_SYNC, alive=EVERYBODY, min_isr=1)
    for target in (None, (1, 2), (1, 5)):
        code, message = refused(image, target)
        assert code == "INVALID_REPLICA_ASSIGNMENT"
        assert "would need an unclean election" in message


def test_an_eligible_leader_can_take_over_when_a_reassignment_is_called_off() -> None:
    image = cluster(replace(ONLY_NEW_IN_SYNC, elr=(1,)), alive=EVERYBODY)
    state = moved(image, None)
    assert (state.leader_id, state.isr, state.replicas) == (1, (1,), (1, 2))
    away = cluster(replace(ONLY_NEW_IN_SYNC, elr=(1,)), alive=(2, 4))
    assert refused(away, None)[0] == "INVALID_REPLICA_ASSIGNMENT"


def test_the_last_that_could_lead_is_not_given_up() -> None:
    offline = replace(ONLY_NEW_IN_SYNC, isr=(), leader_id=NO_LEADER, elr=(4,), last_known_leader=4)
    assert refused(cluster(offline), None)[0] == "INVALID_REPLICA_ASSIGNMENT"
    known = replace(offline, elr=(1, 4))
    assert moved(cluster(known, alive=()), None).elr == (1,)


def test_the_last_leader_is_not_given_up_while_nobody_else_may_lead() -> None:
    waiting = replace(ONLY_NEW_IN_SYNC, isr=(), leader_id=NO_LEADER, last_known_leader=4)
    for target in (None, (1, 2), (1, 5)):
        code, message = refused(cluster(waiting, alive=(1, 2, 5)), target)
        assert code == "INVALID_REPLICA_ASSIGNMENT"
        assert "would need an unclean election" in message
    kept = moved(cluster(waiting, alive=(1, 2, 5)), (4, 5))
    assert (kept.leader_id, kept.last_known_leader) == (NO_LEADER, 4)
    image = with_records(cluster(waiting, alive=(1, 2, 5)), UNCLEAN)
    assert moved(image, None).leader_id == 1


def test_who_led_last_does_not_lead_because_those_are_given_up_who_have_all() -> None:
    waiting = replace(ONLY_NEW_IN_SYNC, isr=(), leader_id=NO_LEADER, elr=(4,), last_known_leader=1)
    for target in (None, (1, 2), (1, 5)):
        code, message = refused(cluster(waiting, alive=(1, 2, 5)), target)
        assert code == "INVALID_REPLICA_ASSIGNMENT"
        assert "would need an unclean election" in message
    image = with_records(cluster(waiting, alive=(1, 2, 5)), UNCLEAN)
    assert moved(image, None).leader_id == 1


def test_who_allows_unclean_elections_allows_this_one() -> None:
    image = with_records(cluster(ONLY_NEW_IN_SYNC, alive=EVERYBODY), UNCLEAN)
    state = moved(image, None)
    assert (state.leader_id, state.isr, state.replicas) == (1, (1,), (1, 2))


# --- what cannot be


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ((), "different brokers"),
        ((1, 1), "different brokers"),
        ((1, 9), "broker 9 is not registered"),
        ((1, 2, 3, 4, 5, 6), "broker 6 is not registered"),
        ((1, 4), "broker 4 is not in service"),
        ((1, 5), "broker 5 is not in service"),
    ],
)
def test_replicas_that_cannot_be_are_refused(target: tuple[int, ...], complaint: str) -> None:
    leaving = r.BrokerChanged("c", 1, 5, epoch_of(5), shutting_down=True)
    image = with_records(cluster(partition(), alive=(1, 2, 3, 5)), leaving)
    code, message = refused(image, target)
    assert code == "INVALID_REPLICA_ASSIGNMENT"
    assert complaint in message


def test_another_number_of_replicas_may_be_ruled_out() -> None:
    image = cluster(partition(), alive=EVERYBODY)
    code, message = refused(image, (1, 2), allow=False)
    assert code == "INVALID_REPLICATION_FACTOR"
    assert "has 3 replicas, and would have 2" in message
    on_its_way = cluster(moving((4, 1, 2, 3), (4,), (2, 3), (1,), 1), alive=EVERYBODY)
    assert move(on_its_way, (5, 1), allow=False)[1] == ErrorCode.NONE
    assert refused(on_its_way, (1, 2, 3), allow=False)[0] == "INVALID_REPLICATION_FACTOR"
    assert move(on_its_way, None, allow=False)[1] == ErrorCode.NONE


def test_partitions_that_do_not_exist_are_not_moved() -> None:
    image = cluster(partition())
    for topic, number in (("t", 1), ("t", -1), ("nowhere", 0)):
        _, code, _ = move(image, (1,), number, topic=topic)
        assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_each_partition_is_judged_for_itself() -> None:
    image = cluster(partition(), partition())
    request = AlterReassignments({"t": {0: (9,), 1: (1, 2)}})
    decision = alter_reassignments(image, request, 77)
    assert [bool(p.failure.code) for p in decision.answer.partitions] == [True, False]
    after = with_records(image, *decision.records)
    assert [s.replicas for s in after.topics["t"].partitions] == [(1, 2, 3), (1, 2)]


def test_nothing_moves_before_every_node_knows_of_that() -> None:
    with pytest.raises(UnsupportedVersionError, match=r"needs metadata.version 3"):
        move(cluster(partition(), level=2), (1, 2))
