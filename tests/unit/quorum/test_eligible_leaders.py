"""Who is elected without losing anything when the ISR is too small, or empty (KIP-966)."""

import pytest

from quorate.control import messages as m
from quorate.control.messages import ConfigChange, ConfigOperation, ResourceChanges
from quorate.control.partition_messages import Election, ElectLeaders
from quorate.errors import ErrorCode
from quorate.model import NO_LEADER
from quorate.quorum.control.configs import alter_configs
from quorate.quorum.control.decision import Reason
from quorate.quorum.control.elections import (
    BALANCED_TOGETHER_MAX,
    balance_leaders,
    elect_leaders,
    on_broker_draining,
    on_broker_leaving,
    on_broker_registered_again,
    on_broker_unfenced,
    on_broker_unregistered,
    on_brokers_fenced,
)
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.image import MetadataImage, PartitionState
from quorate.settings import NodeConfig
from tests.unit.quorum.partitions import (
    ID,
    broker,
    cluster,
    created,
    epoch_of,
    partition,
    the_partition,
    with_records,
)

REASON = Reason("why", 1)
Facts = list[r.PartitionChanged]


def after(image: MetadataImage, changes: Facts, number: int = 0) -> PartitionState:
    return the_partition(with_records(image, *changes), number)


def fence(image: MetadataImage, *broker_ids: int) -> MetadataImage:
    """Let brokers fall silent, one after the other."""
    for broker_id in broker_ids:
        moved = on_brokers_fenced(image, frozenset({broker_id}), REASON)
        fenced = r.BrokerFenced("c", 1, broker_id, epoch_of(broker_id))
        image = with_records(image, fenced, *moved)
    return image


def unfence(image: MetadataImage, broker_id: int) -> MetadataImage:
    """Let a broker come into service."""
    moved = on_broker_unfenced(image, broker_id, REASON)
    unfenced = r.BrokerUnfenced("c", 1, broker_id, epoch_of(broker_id))
    return with_records(image, unfenced, *moved)


def restart(
    image: MetadataImage, broker_id: int, *, forgot: bool = True, wiped: bool = False
) -> MetadataImage:
    """Let a broker's process be replaced by another, which is not in service yet."""
    moved = on_broker_registered_again(image, broker_id, REASON, forgot=forgot, wiped=wiped)
    fenced = r.BrokerFenced("c", 1, broker_id, epoch_of(broker_id))
    return with_records(image, fenced, *moved)


def config(name: str, value: str) -> r.ConfigSet:
    return r.ConfigSet("c", 1, "topic", "t", name, value)


UNCLEAN = config("unclean.leader.election.enable", "true")


# --- leaving the ISR


def test_as_long_as_enough_are_in_sync_who_leaves_is_not_eligible() -> None:
    state = the_partition(fence(cluster(partition()), 1))
    assert (state.leader_id, state.isr, state.elr) == (2, (2, 3), ())


def test_who_leaves_an_isr_that_is_too_small_then_stays_eligible() -> None:
    state = the_partition(fence(cluster(partition()), 1, 2))
    assert (state.leader_id, state.isr, state.elr) == (3, (3,), (2,))
    assert state.last_known_leader == NO_LEADER


def test_the_last_in_sync_is_eligible_and_remembered_as_the_last_leader() -> None:
    state = the_partition(fence(cluster(partition()), 1, 2, 3))
    assert (state.leader_id, state.isr, state.elr) == (NO_LEADER, (), (2, 3))
    assert state.last_known_leader == 3


def test_a_partition_with_fewer_replicas_needs_only_these() -> None:
    image = cluster(partition((1,), 1, replicas=(1,)), min_isr=3)
    assert the_partition(image).elr == ()
    state = the_partition(fence(image, 1))
    assert (state.isr, state.elr) == ((), (1,))


def test_those_that_die_together_are_eligible_together() -> None:
    image = cluster(partition())
    state = after(image, on_brokers_fenced(image, frozenset({1, 2, 3}), REASON))
    assert (state.leader_id, state.isr, state.elr) == (NO_LEADER, (), (1, 2, 3))


# --- coming back


def test_an_eligible_replica_that_returns_leads_alone_in_sync() -> None:
    state = the_partition(unfence(fence(cluster(partition()), 1, 2, 3), 2))
    assert (state.leader_id, state.isr, state.elr) == (2, (2,), (3,))
    assert state.leader_epoch == 5 + 4
    assert state.last_known_leader == NO_LEADER


def test_a_replica_that_is_not_eligible_waits() -> None:
    image = fence(cluster(partition()), 1, 2, 3)
    assert on_broker_unfenced(image, 1, REASON) == []


def test_a_leader_among_the_eligible_ends_that_if_it_alone_can_commit() -> None:
    offline = partition((), NO_LEADER, elr=(2, 3), last_known_leader=3)
    state = the_partition(unfence(cluster(offline, alive=(), min_isr=1), 3))
    assert (state.leader_id, state.isr, state.elr) == (3, (3,), ())


def test_the_isr_of_an_older_cluster_loses_those_that_did_not_return() -> None:
    state = the_partition(unfence(cluster(partition((1, 2), NO_LEADER), alive=()), 2))
    assert (state.leader_id, state.isr, state.elr) == (2, (2,), (1,))


def test_who_forgot_what_it_had_is_not_eligible_any_more() -> None:
    image = restart(fence(cluster(partition()), 1, 2), 2)
    state = the_partition(image)
    assert (state.leader_id, state.isr, state.elr) == (3, (3,), ())
    image = restart(fence(image, 3), 3)
    state = the_partition(image)
    assert (state.isr, state.elr, state.last_known_leader) == ((), (), 3)


def test_who_closed_its_directory_properly_stays_eligible() -> None:
    image = restart(fence(cluster(partition()), 1, 2), 2, forgot=False)
    assert the_partition(image).elr == (2,)


def test_when_all_forgot_the_last_leader_leads_again_and_nobody_else() -> None:
    image = cluster(partition())
    for broker_id in (2, 1, 3):
        image = restart(image, broker_id)
    state = the_partition(image)
    assert (state.leader_id, state.isr, state.elr) == (NO_LEADER, (), ())
    assert state.last_known_leader == 3
    image = unfence(unfence(image, 1), 2)
    assert the_partition(image).leader_id == NO_LEADER
    (change,) = on_broker_unfenced(image, 3, REASON)
    assert change.cause == "why; the last leader leads again, what it has lost meanwhile is lost"
    state = after(image, [change])
    assert (state.leader_id, state.isr, state.last_known_leader) == (3, (3,), NO_LEADER)


def test_the_last_leader_waits_for_those_that_are_eligible() -> None:
    offline = partition((), NO_LEADER, elr=(2,), last_known_leader=3)
    assert on_broker_unfenced(cluster(offline, alive=(1,)), 3, REASON) == []


def test_who_is_eligible_waits_for_an_older_clusters_isr() -> None:
    offline = partition((1,), NO_LEADER, elr=(2,))
    assert on_broker_unfenced(cluster(offline, alive=()), 2, REASON) == []
    state = the_partition(unfence(cluster(offline, alive=()), 1))
    assert (state.leader_id, state.isr, state.elr) == (1, (1,), (2,))


def test_who_lost_everything_is_not_even_the_last_leader() -> None:
    image = restart(cluster(partition((1,), 1)), 1, wiped=True)
    state = the_partition(image)
    assert (state.isr, state.elr, state.last_known_leader) == ((), (), NO_LEADER)
    assert on_broker_unfenced(image, 1, REASON) == []


def test_who_loses_everything_while_it_is_away_is_forgotten_too() -> None:
    image = restart(restart(cluster(partition((1,), 1)), 1), 1, wiped=True)
    assert the_partition(image).last_known_leader == NO_LEADER
    assert on_broker_unfenced(image, 1, REASON) == []


def test_a_broker_that_leaves_the_cluster_takes_its_eligibility_with_it() -> None:
    image = fence(cluster(partition()), 1, 2)
    assert after(image, on_broker_unregistered(image, 2, REASON)).elr == ()
    state = after(image, on_broker_unregistered(image, 3, REASON))
    assert (state.isr, state.elr, state.last_known_leader) == ((), (2,), NO_LEADER)


def test_partitions_that_a_restarted_broker_has_no_part_in_do_not_change() -> None:
    image = cluster(partition((1, 2), 1, elr=(3,)), min_isr=3)
    assert on_broker_registered_again(image, 3, REASON, forgot=False, wiped=False) == []


def test_a_cluster_of_an_older_level_keeps_the_last_in_sync_whatever_they_forgot() -> None:
    image = cluster(partition((1,), 1), level=2)
    state = the_partition(restart(image, 1, forgot=True, wiped=True))
    assert (state.leader_id, state.isr, state.elr) == (NO_LEADER, (1,), ())
    assert state.last_known_leader == NO_LEADER


# --- losing records knowingly


def test_unclean_elections_take_the_last_leader_if_nobody_is_eligible() -> None:
    offline = partition((), NO_LEADER, last_known_leader=3)
    image = with_records(cluster(offline, alive=(1,)), UNCLEAN)
    assert after(image, on_broker_unfenced(image, 3, REASON)).leader_id == 3
    (change,) = on_broker_unfenced(image, 2, REASON)
    assert change.cause == "why; unclean election, committed records may be lost"
    state = after(image, [change])
    assert (state.leader_id, state.isr, state.last_known_leader) == (1, (1,), NO_LEADER)


def test_unclean_elections_do_without_those_that_are_eligible_and_away() -> None:
    image = with_records(fence(cluster(partition((1, 2))), 2, 1), UNCLEAN)
    assert the_partition(image).elr == (1, 2)
    (change,) = on_broker_unfenced(image, 3, REASON)
    state = after(image, [change])
    assert (state.leader_id, state.isr, state.elr) == (3, (3,), ())


def configure(
    image: MetadataImage, name: str, value: str, kind: str = "topic", resource: str = "t"
) -> MetadataImage:
    change = ConfigChange(name, ConfigOperation.SET, value)
    request = m.AlterConfigs((ResourceChanges(kind, resource, (change,)),), principal="User:a")
    decision = alter_configs(image, request, 7, NodeConfig())
    (answer,) = decision.answer.resources
    assert answer.failure == m.DONE
    assert {record.cause for record in decision.records} <= {
        "AlterConfigs by User:a",
        "AlterConfigs by User:a; unclean election, committed records may be lost",
    }
    return with_records(image, *decision.records)


def test_who_waits_is_elected_as_soon_as_unclean_elections_are_allowed() -> None:
    name = "unclean.leader.election.enable"
    one_is_eligible = fence(cluster(partition((1,), 1)), 1)
    nobody_is = cluster(partition((), NO_LEADER, last_known_leader=1), alive=(2, 3))
    for image in (one_is_eligible, nobody_is):
        assert the_partition(configure(image, name, "true")).leader_id == 2
        assert the_partition(configure(image, name, "true", "broker", "")).leader_id == 2
        assert the_partition(configure(image, name, "false")).leader_id == NO_LEADER


# --- min.insync.replicas


def test_when_fewer_in_sync_replicas_may_commit_nobody_else_is_eligible() -> None:
    image = fence(cluster(partition(), min_isr=3), 2)
    assert the_partition(image).elr == (2,)
    assert the_partition(configure(image, "min.insync.replicas", "2")).elr == ()
    image = fence(image, 3)
    assert the_partition(image).elr == (2, 3)
    assert the_partition(configure(image, "min.insync.replicas", "2")).elr == (2, 3)


def test_the_whole_cluster_may_do_with_fewer_in_sync_replicas() -> None:
    image = cluster(partition((1,), 1, elr=(2,)), partition())
    deleted = r.ConfigDeleted("c", 1, "topic", "t", "min.insync.replicas")
    common = r.ConfigSet("c", 1, "broker", "", "min.insync.replicas", "2")
    image = configure(
        with_records(image, deleted, common), "min.insync.replicas", "1", "broker", ""
    )
    assert the_partition(image).elr == ()


def test_without_a_leader_nothing_is_committed_so_the_eligible_stay_so() -> None:
    offline = partition((), NO_LEADER, elr=(2, 3), last_known_leader=3)
    image = configure(cluster(offline, alive=()), "min.insync.replicas", "1")
    assert the_partition(image).elr == (2, 3)


def test_a_single_broker_has_no_rules_of_its_own() -> None:
    change = ConfigChange("min.insync.replicas", ConfigOperation.SET, "2")
    request = m.AlterConfigs((ResourceChanges("broker", "1", (change,)),))
    (answer,) = alter_configs(cluster(partition()), request, 7, NodeConfig()).answer.resources
    assert answer.failure.code == ErrorCode.INVALID_CONFIG
    assert "the same for all brokers" in answer.failure.message


# --- shutting down and being drained


def leave(image: MetadataImage, broker_id: int) -> MetadataImage:
    moved = on_broker_leaving(image, broker_id, REASON)
    changed = r.BrokerChanged("c", 1, broker_id, epoch_of(broker_id), shutting_down=True)
    return with_records(image, changed, *moved)


def drain(image: MetadataImage, broker_id: int) -> MetadataImage:
    moved = on_broker_draining(image, broker_id, REASON)
    changed = r.BrokerChanged("c", 1, broker_id, epoch_of(broker_id), draining=True)
    return with_records(image, changed, *moved)


def test_a_broker_that_shuts_down_gives_leaders_away_and_leaves_the_isr() -> None:
    image = leave(cluster(partition(), partition((2, 1), 2)), 1)
    state = the_partition(image, 0)
    assert (state.leader_id, state.leader_epoch, state.isr) == (2, 6, (2, 3))
    state = the_partition(image, 1)
    assert (state.leader_id, state.leader_epoch, state.isr, state.elr) == (2, 5, (2,), (1,))


def test_a_broker_that_shuts_down_goes_on_leading_what_nobody_else_can() -> None:
    image = leave(cluster(partition((1,), 1)), 1)
    assert the_partition(image) == partition((1,), 1)
    assert on_broker_leaving(image, 1, REASON) == []


def test_two_brokers_that_shut_down_do_not_hand_leaders_to_each_other() -> None:
    image = leave(leave(cluster(partition((1, 2), 1)), 1), 2)
    state = the_partition(image)
    assert (state.leader_id, state.isr, state.elr) == (2, (2,), (1,))


def test_a_drained_broker_stays_in_sync_and_leads_nothing_that_others_can() -> None:
    image = drain(cluster(partition(), partition((1,), 1)), 1)
    state = the_partition(image, 0)
    assert (state.leader_id, state.leader_epoch, state.isr) == (2, 6, (1, 2, 3))
    assert the_partition(image, 1) == partition((1,), 1)
    assert balance_leaders(image, REASON) == []


def test_a_drained_broker_leads_in_need() -> None:
    image = fence(drain(cluster(partition()), 3), 1, 2)
    assert the_partition(image).leader_id == 3


def test_a_leader_goes_on_while_all_that_could_follow_it_are_drained() -> None:
    image = drain(drain(drain(cluster(partition()), 2), 3), 1)
    assert the_partition(image).leader_id == 1


# --- preferred leaders


def test_preferred_leaders_lead_again_where_they_are_in_sync() -> None:
    image = cluster(
        partition((1, 2), 2),
        partition((2, 3), 2),
        partition((1, 2), 1),
        partition((), NO_LEADER, elr=(1,), last_known_leader=1),
    )
    (change,) = balance_leaders(image, REASON)
    state = after(image, [change])
    assert (state.leader_id, state.leader_epoch, state.isr) == (1, 6, (1, 2))


def test_preferred_leaders_wait_until_they_can_write() -> None:
    def full(broker_id: int) -> r.BrokerChanged:
        return r.BrokerChanged("c", 1, broker_id, epoch_of(broker_id), cannot_write=True)

    image = cluster(partition((1, 2), 2))
    assert balance_leaders(with_records(image, full(1)), REASON) == []
    assert len(balance_leaders(with_records(image, full(3)), REASON)) == 1


def test_very_many_leaders_are_not_moved_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert BALANCED_TOGETHER_MAX == 1000
    monkeypatch.setattr("quorate.quorum.control.elections.BALANCED_TOGETHER_MAX", 3)
    image = cluster(*(partition((1, 2), 2) for _ in range(7)))
    other = b"j" * 16
    more = [created(n, partition((1, 2), 2), other) for n in range(7)]
    image = with_records(image, r.TopicCreated("c", 1, "u", other), *more)
    rounds = 0
    while changes := balance_leaders(image, REASON):
        assert len(changes) <= 3
        image = with_records(image, *changes)
        rounds += 1
    assert rounds == 5, "of fourteen"
    assert all(s.leader_id == 1 for t in image.topics.values() for s in t.partitions)


# --- on request


def elect(image: MetadataImage, election: Election) -> tuple[PartitionState, ErrorCode, list[str]]:
    decision = elect_leaders(image, ElectLeaders(election, {"t": (0,)}), 77)
    (answer,) = decision.answer.partitions
    state = the_partition(with_records(image, *decision.records))
    return state, ErrorCode(answer.failure.code), [record.cause for record in decision.records]


def test_who_asks_for_an_unclean_election_gets_an_eligible_leader_if_there_is_one() -> None:
    offline = partition((), NO_LEADER, elr=(2,), last_known_leader=2)
    state, code, causes = elect(cluster(offline, alive=(1, 2)), Election.UNCLEAN)
    assert (state.leader_id, state.isr, code) == (2, (2,), ErrorCode.NONE)
    assert causes == ["ElectLeaders (unclean)"]


def test_who_asks_for_an_unclean_election_may_lose_records() -> None:
    offline = partition((), NO_LEADER, elr=(2,), last_known_leader=2)
    state, code, causes = elect(cluster(offline, alive=(1, 3)), Election.UNCLEAN)
    assert (state.leader_id, state.isr, state.elr, code) == (1, (1,), (), ErrorCode.NONE)
    assert causes == ["ElectLeaders (unclean); unclean election, committed records may be lost"]


def test_an_election_of_the_preferred_leader_is_never_unclean() -> None:
    image = with_records(cluster(partition((), NO_LEADER), alive=(1, 3)), UNCLEAN)
    state, code, _ = elect(image, Election.PREFERRED)
    assert (state.leader_id, code) == (NO_LEADER, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)


def test_a_drained_broker_is_not_preferred() -> None:
    image = drain(cluster(partition((1, 2), 2)), 1)
    state, code, _ = elect(image, Election.PREFERRED)
    assert (state.leader_id, code) == (2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)


def test_topics_that_a_broker_has_no_part_in_do_not_change() -> None:
    other = b"j" * 16
    image = with_records(
        cluster(partition(), brokers=(1, 2)),
        broker(3, rack="r"),
        r.TopicCreated("c", 1, "u", other),
        created(0, partition((3,), 3), other),
    )
    assert [c.topic_id for c in on_brokers_fenced(image, frozenset({1}), REASON)] == [ID]
