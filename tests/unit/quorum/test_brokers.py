"""Registration, sessions, fencing and producer ids."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from quorate.control import messages as m
from quorate.control.partition_messages import (
    AlterPartition,
    ChangeBroker,
    InSyncReplica,
    PartitionAlteration,
)
from quorate.errors import (
    DuplicateBrokerRegistrationError,
    ErrorCode,
    InconsistentClusterIdError,
    InvalidRequestError,
    KafkaError,
    StaleBrokerEpochError,
    UnsupportedVersionError,
)
from quorate.model import NO_LEADER, Endpoint
from quorate.quorum.control import brokers, elections
from quorate.quorum.control.brokers import UNABLE_MS, Now, Sessions
from quorate.quorum.control.decision import Decision
from quorate.quorum.control.partitions import alter_partition
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.features import NEWEST_LEVEL
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionState
from tests.unit.quorum.partitions import (
    broker,
    cluster,
    epoch_of,
    partition,
    the_partition,
    with_records,
)

TIMEOUT_MS = 9000
REGISTER = m.RegisterBroker(
    broker_id=1,
    incarnation_id=b"1" * 16,
    endpoints={"PLAINTEXT": Endpoint("h", 9092)},
    rack="r1",
    directory_id=b"d" * 16,
)
FORMATTED = apply_records(EMPTY_IMAGE, 4, [r.ClusterFormatted("c", 1, "cluster")])
ID = b"i" * 16


def sessions(now_ms: int = 0) -> Sessions:
    return Sessions(now_ms, TIMEOUT_MS)


def now(ms: int) -> Now:
    return Now(ms, 1_000_000 + ms)


def commit(image: MetadataImage, decision: Decision[m.Answer]) -> MetadataImage:
    return apply_records(image, image.version + 1, decision.records) if decision.records else image


def registered() -> MetadataImage:
    return commit(FORMATTED, brokers.register(FORMATTED, sessions(), REGISTER, now(0)))


def in_service() -> MetadataImage:
    """A cluster of one broker that leads one partition."""
    image = registered()
    beat = m.BrokerHeartbeat(1, 5, metadata_version=5)
    image = commit(image, brokers.heartbeat(image, beat, 0))
    created: list[r.MetadataRecord] = [
        r.TopicCreated("c", 1, "t", ID),
        r.PartitionCreated("c", 1, ID, 0, (1,), (1,), 1),
    ]
    return apply_records(image, image.version + 1, created)


def leader(image: MetadataImage) -> tuple[int, int]:
    state = image.topics["t"].partitions[0]
    return state.leader_id, state.leader_epoch


def test_a_new_broker_is_registered_and_fenced() -> None:
    decision = brokers.register(FORMATTED, sessions(), REGISTER, now(7))
    assert decision.answer == m.RegisterBrokerAnswer(broker_epoch=5)
    broker = commit(FORMATTED, decision).brokers[1]
    assert (broker.fenced, broker.rack, broker.broker_epoch) == (True, "r1", 5)
    assert decision.records[0].time_ms == 1_000_007
    assert "broker 1" in decision.records[0].cause


def test_a_broker_that_is_too_old_for_the_cluster_is_refused() -> None:
    image = apply_records(FORMATTED, 5, [r.FeatureLevelSet("c", 1, "metadata.version", 2)])
    with pytest.raises(UnsupportedVersionError, match=r"support metadata.version 2: upgrade it"):
        brokers.register(image, sessions(), REGISTER, now(0))
    newer = replace(REGISTER, features=(m.SupportedFeature("metadata.version", 1, 3),))
    image = commit(image, brokers.register(image, sessions(), newer, now(0)))
    assert image.brokers[1].features == newer.features


@pytest.mark.parametrize(
    "endpoint",
    [Endpoint("a..b", 9092), Endpoint("", 9092), Endpoint("h" * 5000, 9092), Endpoint("h", 0)],
)
def test_a_broker_that_nobody_can_connect_to_is_refused(endpoint: Endpoint) -> None:
    request = replace(REGISTER, endpoints={**REGISTER.endpoints, "SSL": endpoint})
    with pytest.raises(KafkaError, match="nobody can connect to broker 1") as caught:
        brokers.register(FORMATTED, sessions(), request, now(0))
    assert caught.value.code == ErrorCode.INVALID_REGISTRATION


def test_a_registration_whose_answer_was_lost_is_answered_again() -> None:
    image = registered()
    decision = brokers.register(image, sessions(), REGISTER, now(1))
    assert decision == Decision((), m.RegisterBrokerAnswer(5))


def test_the_same_process_may_register_with_other_endpoints() -> None:
    image = registered()
    moved = replace(REGISTER, endpoints={"PLAINTEXT": Endpoint("h", 9093)}, directory_id=b"")
    decision = brokers.register(image, sessions(), moved, now(1))
    assert decision.answer.broker_epoch == 6


def test_another_process_with_the_id_of_a_live_broker_is_refused() -> None:
    other = replace(REGISTER, incarnation_id=b"2" * 16, directory_id=b"e" * 16)
    live = sessions()
    live.touch(1, 5000)
    with pytest.raises(DuplicateBrokerRegistrationError, match="at h:9092: stop one of the two"):
        brokers.register(registered(), live, other, now(5000 + TIMEOUT_MS - 1))
    without = replace(other, directory_id=b"")
    with pytest.raises(DuplicateBrokerRegistrationError):
        brokers.register(registered(), live, without, now(6000))


def test_an_id_is_free_again_when_its_session_has_expired() -> None:
    other = replace(REGISTER, incarnation_id=b"2" * 16, directory_id=b"e" * 16)
    live = sessions()
    live.touch(1, 5000)
    decision = brokers.register(registered(), live, other, now(5000 + TIMEOUT_MS))
    assert decision.answer.broker_epoch == 6


def test_a_restarted_broker_need_not_wait_if_it_shows_the_directory_of_the_old_one() -> None:
    again = replace(REGISTER, incarnation_id=b"2" * 16)
    image = in_service()
    decision = brokers.register(image, sessions(), again, now(1))
    after = commit(image, decision)
    assert after.brokers[1].fenced
    assert after.brokers[1].broker_epoch == decision.answer.broker_epoch > 5
    assert leader(after) == (NO_LEADER, 1)


def test_brokers_that_do_not_say_which_directory_they_have_are_not_taken_for_one() -> None:
    first = replace(REGISTER, directory_id=b"")
    image = commit(FORMATTED, brokers.register(FORMATTED, sessions(), first, now(0)))
    live = sessions()
    live.touch(1, 5000)
    with pytest.raises(DuplicateBrokerRegistrationError):
        brokers.register(image, live, replace(first, incarnation_id=b"2" * 16), now(5001))


def test_a_process_that_was_replaced_does_not_come_back_while_its_successor_lives() -> None:
    successor = replace(REGISTER, incarnation_id=b"2" * 16)
    live = sessions()
    image = registered()
    image = commit(image, brokers.register(image, live, successor, now(1)))
    live.replace(REGISTER.incarnation_id)
    live.touch(1, 1)
    with pytest.raises(DuplicateBrokerRegistrationError):
        brokers.register(image, live, REGISTER, now(2))
    assert brokers.register(image, live, REGISTER, now(1 + TIMEOUT_MS)).records


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (replace(REGISTER, broker_id=-1), ErrorCode.INVALID_REQUEST),
        (replace(REGISTER, incarnation_id=b""), ErrorCode.INVALID_REQUEST),
        (replace(REGISTER, endpoints={}), ErrorCode.INVALID_REGISTRATION),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused(
    request_: m.RegisterBroker, code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as caught:
        brokers.register(FORMATTED, sessions(), request_, now(0))
    assert caught.value.code == code


def test_a_broker_of_another_cluster_is_refused() -> None:
    brokers.register(FORMATTED, sessions(), replace(REGISTER, cluster_id="cluster"), now(0))
    with pytest.raises(InconsistentClusterIdError):
        brokers.register(FORMATTED, sessions(), replace(REGISTER, cluster_id="other"), now(0))


def test_a_broker_is_unfenced_once_it_has_caught_up() -> None:
    image = registered()
    behind = brokers.heartbeat(image, m.BrokerHeartbeat(1, 5, metadata_version=4), 0)
    assert behind == Decision((), m.BrokerHeartbeatAnswer(fenced=True, caught_up=False))
    decision = brokers.heartbeat(image, m.BrokerHeartbeat(1, 5, metadata_version=5), 0)
    assert decision.answer == m.BrokerHeartbeatAnswer(fenced=False, caught_up=True)
    assert commit(image, decision).live_broker_ids() == {1}


def test_a_broker_that_was_told_more_than_there_is_is_not_taken_into_service() -> None:
    image = registered()
    brokers.heartbeat(image, m.BrokerHeartbeat(1, 5, metadata_version=image.version), 0)
    told_more = m.BrokerHeartbeat(1, 5, metadata_version=image.version + 1)
    with pytest.raises(InconsistentClusterIdError, match="an older copy, or new"):
        brokers.heartbeat(image, told_more, 0)


def test_a_heartbeat_in_service_changes_nothing() -> None:
    decision = brokers.heartbeat(in_service(), m.BrokerHeartbeat(1, 5, metadata_version=5), 0)
    assert decision == Decision((), m.BrokerHeartbeatAnswer(fenced=False, caught_up=True))


def test_a_broker_that_shuts_down_gives_its_partitions_away_first() -> None:
    image = in_service()
    beat = m.BrokerHeartbeat(1, 5, metadata_version=5, wants_shut_down=True)
    decision = brokers.heartbeat(image, beat, 0)
    assert decision.answer == m.BrokerHeartbeatAnswer(True, True, should_shut_down=True)
    after = commit(image, decision)
    assert leader(after) == (NO_LEADER, 1)
    again = brokers.heartbeat(after, beat, 0)
    assert again.records == ()
    assert again.answer.should_shut_down


def test_a_broker_may_ask_to_be_fenced() -> None:
    beat = m.BrokerHeartbeat(1, 5, metadata_version=5, wants_fence=True)
    decision = brokers.heartbeat(in_service(), beat, 0)
    assert decision.answer == m.BrokerHeartbeatAnswer(fenced=True, caught_up=True)
    assert isinstance(decision.records[0], r.BrokerFenced)
    again = brokers.heartbeat(commit(in_service(), decision), beat, 0)
    assert again == Decision((), m.BrokerHeartbeatAnswer(fenced=True, caught_up=True))


def cannot_write(broker_id: int) -> m.BrokerHeartbeat:
    return m.BrokerHeartbeat(broker_id, epoch_of(broker_id), 20, cannot_write=True)


def test_a_broker_that_cannot_write_has_others_lead_and_is_in_sync_still() -> None:
    image = replicated(partition(), partition((1,)), partition((2, 1), 2))
    decision = brokers.heartbeat(image, cannot_write(1), 0)
    assert decision.answer == m.BrokerHeartbeatAnswer(fenced=False, caught_up=True)
    after = commit(image, decision)
    assert after.brokers[1].cannot_write
    moved, alone, other = after.topics["t"].partitions
    assert (moved.leader_id, moved.isr) == (2, (1, 2, 3))
    assert (alone, other) == tuple(image.topics["t"].partitions[1:])
    assert brokers.heartbeat(after, cannot_write(1), 0).records == ()


def test_a_broker_can_write_again_once_it_says_so() -> None:
    image = replicated(partition())
    image = commit(image, brokers.heartbeat(image, cannot_write(1), 0))
    beat = replace(cannot_write(1), cannot_write=False)
    after = commit(image, brokers.heartbeat(image, beat, 0))
    assert not after.brokers[1].cannot_write
    assert brokers.heartbeat(after, beat, 0).records == ()


def test_a_broker_that_cannot_write_and_starts_again_is_asked_anew() -> None:
    image = replicated(partition())
    image = commit(image, brokers.heartbeat(image, cannot_write(1), 0))
    again = replace(broker(1), broker_epoch=image.version + 1)
    assert not with_records(image, again).brokers[1].cannot_write


@pytest.mark.parametrize(("unable", "leader_id"), [([2, 1], 3), ([2, 3, 1], 1)])
def test_nobody_is_to_lead_who_cannot_write_either_if_others_can(
    unable: list[int], leader_id: int
) -> None:
    image = replicated(partition())
    for broker_id in unable:
        image = commit(image, brokers.heartbeat(image, cannot_write(broker_id), 0))
    assert the_partition(image).leader_id == leader_id


def test_nobody_is_told_that_a_broker_cannot_write_who_is_alone() -> None:
    """Nothing follows from it, and the controller's disk may be the one that is full."""
    image = with_records(
        cluster(partition((1,), replicas=(1,)), alive=(1,), brokers=(1,)),
        r.ClusterFormatted("c", 1, "cluster"),
    )
    assert brokers.heartbeat(image, cannot_write(1), 0).records == ()
    image = with_records(image, broker(2))
    assert brokers.heartbeat(image, cannot_write(1), 0).records != ()


def test_who_is_drained_but_can_write_leads_rather_than_who_cannot() -> None:
    image = replicated(partition((1, 2)))
    drained = r.BrokerChanged("c", 1, 2, epoch_of(2), draining=True)
    image = with_records(image, drained)
    image = commit(image, brokers.heartbeat(image, cannot_write(1), 0))
    assert the_partition(image).leader_id == 2
    full = r.BrokerChanged("c", 1, 2, epoch_of(2), cannot_write=True)
    image = with_records(image, replace(full, broker_id=1, broker_epoch=epoch_of(1)), full)
    assert the_partition(image).leader_id == 2, "neither can write"


def test_what_not_every_node_knows_is_not_done_about_a_broker_that_cannot_write() -> None:
    image = with_records(
        cluster(partition(), level=NEWEST_LEVEL - 1), r.ClusterFormatted("c", 1, "cluster")
    )
    after = commit(image, brokers.heartbeat(image, cannot_write(1), 0, unable=frozenset({1, 2})))
    assert not after.brokers[1].cannot_write
    assert the_partition(after).leader_id == 3, "others lead, as they always could"
    everybody = frozenset({1, 2, 3})
    assert brokers.heartbeat(after, cannot_write(3), 0, unable=everybody).records == ()


def test_whose_disk_refused_something_is_known_for_a_while() -> None:
    spared = sessions()
    spared.refuse(1, 1000)
    assert spared.unable(1000 + UNABLE_MS - 1) == {1}
    assert spared.unable(1000 + UNABLE_MS) == frozenset()


def test_heartbeats_of_strangers_and_of_former_lives_are_refused() -> None:
    with pytest.raises(KafkaError) as caught:
        brokers.heartbeat(registered(), m.BrokerHeartbeat(2, 5, 0), 0)
    assert caught.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED
    with pytest.raises(StaleBrokerEpochError):
        brokers.heartbeat(registered(), m.BrokerHeartbeat(1, 4, 0), 0)


def test_a_silent_broker_is_fenced_and_leads_again_later_with_a_higher_epoch() -> None:
    image = in_service()
    live = sessions(now_ms=1000)
    assert brokers.fence_stale(image, live, now(1000 + TIMEOUT_MS - 1)) == ()
    live.touch(1, 2000)
    assert brokers.fence_stale(image, live, now(2000 + TIMEOUT_MS - 1)) == ()
    records = brokers.fence_stale(image, live, now(2000 + TIMEOUT_MS))
    fenced = apply_records(image, image.version + 1, records)
    assert leader(fenced) == (NO_LEADER, 1)
    assert brokers.fence_stale(fenced, live, now(99_000)) == ()
    beat = m.BrokerHeartbeat(1, 5, metadata_version=fenced.version)
    back = commit(fenced, brokers.heartbeat(fenced, beat, 0))
    assert leader(back) == (1, 2)


def test_a_new_controller_gives_every_broker_a_full_session() -> None:
    assert brokers.fence_stale(in_service(), sessions(now_ms=50_000), now(58_999)) == ()


def test_an_unregistered_broker_is_gone() -> None:
    image = in_service()
    live = sessions()
    live.touch(1, 99_000)
    with pytest.raises(InvalidRequestError, match="in service"):
        brokers.unregister(image, m.UnregisterBroker(1), 0)
    image = commit(image, brokers.heartbeat(image, m.BrokerHeartbeat(1, 5, 5, wants_fence=True), 0))
    after = commit(image, brokers.unregister(image, m.UnregisterBroker(1), 0))
    live.forget(1)
    live.forget(1)
    assert after.brokers == {}
    assert leader(after) == (NO_LEADER, 1)
    assert not live.is_live(1, 99_001)
    with pytest.raises(KafkaError) as caught:
        brokers.unregister(after, m.UnregisterBroker(1), 0)
    assert caught.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED


# --- at the level that brought replication


def replicated(*states: PartitionState, alive: tuple[int, ...] = (1, 2, 3)) -> MetadataImage:
    return with_records(cluster(*states, alive=alive), r.ClusterFormatted("c", 1, "cluster"))


def another_registration(
    image: MetadataImage, broker_id: int, **changes: Any
) -> Decision[m.RegisterBrokerAnswer]:
    """Let a new process of a broker register, with its directory."""
    before = image.brokers[broker_id]
    request = m.RegisterBroker(
        broker_id,
        b"new process " + bytes(4),
        {"A": Endpoint("h", 1)},
        directory_id=before.directory_id,
        features=before.features,
    )
    ended = sessions()
    ended.end(broker_id)
    return brokers.register(image, ended, replace(request, **changes), now(7))


def register_again(
    image: MetadataImage, broker_id: int, **changes: Any
) -> tuple[MetadataImage, list[str]]:
    """Do that; return why partitions changed."""
    decision = another_registration(image, broker_id, **changes)
    causes = [c.cause for c in decision.records if isinstance(c, r.PartitionChanged)]
    return commit(image, decision), causes


def test_who_closed_its_directory_in_its_last_epoch_comes_back_as_it_was() -> None:
    image, causes = register_again(
        replicated(partition((1,), 1, elr=(2,))), 2, previous_broker_epoch=epoch_of(2)
    )
    assert causes == []
    assert the_partition(image).elr == (2,)


@pytest.mark.parametrize("epoch", [-1, epoch_of(2) - 1, epoch_of(2) + 1])
def test_who_did_not_close_its_directory_then_may_lack_records(epoch: int) -> None:
    image = replicated(partition((1,), 1, elr=(2,)))
    image, causes = register_again(image, 2, previous_broker_epoch=epoch)
    assert the_partition(image).elr == ()
    assert causes == ["broker 2 registered after an unclean stop"]


def test_a_process_that_registers_again_has_lost_nothing() -> None:
    image = replicated(partition((1,), 1, elr=(2,)))
    incarnation_id = image.brokers[2].incarnation_id
    image, _ = register_again(image, 2, incarnation_id=incarnation_id)
    assert the_partition(image).elr == (2,)


def test_who_comes_back_with_another_directory_has_lost_everything() -> None:
    image = replicated(partition((2,), 2, replicas=(2,)))
    image, causes = register_again(
        fence_now(image, 2), 2, directory_id=b"w" * 16, previous_broker_epoch=epoch_of(2)
    )
    assert causes == ["broker 2 registered with another directory"]
    state = the_partition(image)
    assert (state.isr, state.elr, state.last_known_leader) == ((), (), NO_LEADER)


def test_an_id_is_free_again_when_its_process_is_known_to_be_gone() -> None:
    other = replace(REGISTER, incarnation_id=b"2" * 16, directory_id=b"e" * 16)
    live = sessions(1000)
    live.touch(1, 1000)
    assert live.is_live(1, 1001)
    live.end(1)
    assert not live.is_live(1, 1000)
    assert brokers.register(registered(), live, other, now(1000)).answer.broker_epoch == 6


def test_a_directory_that_is_not_told_is_taken_for_the_same() -> None:
    image = fence_now(replicated(partition((2,), 2, replicas=(2,))), 2)
    image, _ = register_again(image, 2, directory_id=b"")
    assert the_partition(image).last_known_leader == 2


def fence_now(image: MetadataImage, broker_id: int) -> MetadataImage:
    live = sessions()
    for other in image.brokers:
        if other != broker_id:
            live.touch(other, TIMEOUT_MS)
    records = brokers.fence_stale(image, live, now(TIMEOUT_MS))
    return apply_records(image, image.version + 1, records)


def beat(
    image: MetadataImage, broker_id: int, *, wants_fence: bool = False
) -> tuple[MetadataImage, m.BrokerHeartbeatAnswer]:
    """Let a broker that wants to shut down say so."""
    epoch = image.brokers[broker_id].broker_epoch
    asked = m.BrokerHeartbeat(
        broker_id, epoch, image.version, wants_fence=wants_fence, wants_shut_down=True
    )
    decision = brokers.heartbeat(image, asked, 7)
    return commit(image, decision), decision.answer


def test_a_broker_shuts_down_in_two_steps_so_that_others_lead_before_it_is_gone() -> None:
    image, answer = beat(replicated(partition(), partition((2, 1), 2)), 1)
    assert answer == m.BrokerHeartbeatAnswer(fenced=False, caught_up=True)
    assert image.brokers[1].shutting_down
    assert not image.brokers[1].fenced
    assert [s.leader_id for s in image.topics["t"].partitions] == [2, 2]
    image, answer = beat(image, 1)
    assert answer == m.BrokerHeartbeatAnswer(True, True, should_shut_down=True)
    assert image.brokers[1].fenced
    same, answer = beat(image, 1)
    assert same is image
    assert answer.should_shut_down


def test_a_broker_that_has_nothing_to_give_away_may_shut_down_at_once() -> None:
    image, answer = beat(replicated(partition((1,), 1)), 1)
    assert answer.should_shut_down
    state = the_partition(image)
    assert (state.leader_id, state.isr, state.elr) == (NO_LEADER, (), (1,))


def test_what_catches_up_meanwhile_is_given_away_too() -> None:
    image, _ = beat(replicated(partition(), partition((1,), 1)), 1)
    assert the_partition(image, 1).leader_id == 1
    in_sync = (InSyncReplica(1, epoch_of(1)), InSyncReplica(3, epoch_of(3)))
    state = the_partition(image, 1)
    grown = PartitionAlteration(ID, 1, state.leader_epoch, state.partition_epoch, in_sync)
    request = AlterPartition(1, epoch_of(1), (grown,))
    decision = alter_partition(image, request, 7)
    assert [p.failure.code for p in decision.answer.partitions] == [ErrorCode.NEW_LEADER_ELECTED]
    image = commit(image, decision)
    assert the_partition(image, 1).leader_id == 3
    image, answer = beat(image, 1)
    assert not answer.should_shut_down
    assert the_partition(image, 1).isr == (3,)
    assert beat(image, 1)[1].should_shut_down


def test_a_broker_may_shut_down_without_ceremony() -> None:
    image, answer = beat(replicated(partition()), 1, wants_fence=True)
    assert (answer.fenced, answer.should_shut_down) == (True, True)
    assert image.brokers[1].fenced


def drain(image: MetadataImage, broker_id: int, *, draining: bool = True) -> MetadataImage:
    request = ChangeBroker(broker_id, draining, "User:alice")
    decision = brokers.change_broker(image, request, 7)
    what = "drained" if draining else "put back to work"
    for record in decision.records:
        assert record.cause == f"broker {broker_id} was {what} by User:alice"
    return commit(image, decision)


def test_a_broker_is_drained_and_put_back_to_work() -> None:
    image = drain(replicated(partition()), 1)
    assert image.brokers[1].draining
    assert the_partition(image).leader_id == 2
    assert drain(image, 1) is image
    image = drain(image, 1, draining=False)
    assert not image.brokers[1].draining
    assert the_partition(image).leader_id == 2, "leaders come back as they are balanced"


def test_a_broker_that_is_put_back_to_work_keeps_what_nobody_else_could_lead() -> None:
    image = drain(replicated(partition((1,))), 1)
    joined = r.PartitionChanged("c", 1, ID, 0, 1, the_partition(image).leader_epoch, (1, 2))
    image = drain(with_records(image, joined), 1, draining=False)
    assert the_partition(image).leader_id == 1


def test_a_broker_that_nobody_knows_is_not_drained() -> None:
    with pytest.raises(KafkaError) as caught:
        drain(replicated(), 9)
    assert caught.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED
    with pytest.raises(UnsupportedVersionError, match="draining a broker needs"):
        drain(in_service(), 1)


def test_brokers_whose_processes_are_gone_are_fenced_together() -> None:
    image, live = replicated(partition()), sessions(now_ms=1000)
    assert brokers.fence_stale(image, live, now(1000)) == ()
    live.end(1)
    alone = brokers.fence_stale(image, live, now(1000))
    assert {record.cause for record in alone} == {"broker 1 is gone"}
    live.end(2)
    live.end(9)  # nobody knows it
    records = brokers.fence_stale(image, live, now(1000))
    assert {record.cause for record in records} == {"2 brokers are gone"}
    after = apply_records(image, image.version + 1, records)
    assert the_partition(after).leader_id == 3
    assert brokers.fence_stale(after, live, now(1000)) == ()
    live.touch(2, 1000)
    assert brokers.fence_stale(image, live, now(1000)) == alone


def test_no_producer_id_is_given_twice() -> None:
    image = registered()
    request = m.AllocateProducerIds(1, 5)
    one = brokers.allocate_producer_ids(image, request, 0)
    assert one.answer == m.AllocateProducerIdsAnswer(0, 1000)
    image = commit(image, one)
    assert brokers.allocate_producer_ids(image, request, 0).answer.first_producer_id == 1000
    with pytest.raises(StaleBrokerEpochError):
        brokers.allocate_producer_ids(image, m.AllocateProducerIds(1, 4), 0)


def test_producer_ids_end() -> None:
    image = registered()._replace(next_producer_id=2**63 - 10)
    with pytest.raises(KafkaError, match="used up"):
        brokers.allocate_producer_ids(image, m.AllocateProducerIds(1, 5), 0)


@pytest.mark.parametrize(("limit", "commands"), [(17, 1), (16, 2), (5, 4), (1, 17)])
def test_brokers_that_hold_too_much_for_one_command_are_fenced_after_the_last(
    monkeypatch: pytest.MonkeyPatch, limit: int, commands: int
) -> None:
    move_at_a_time(monkeypatch, limit)
    image, live = holding(16), sessions()
    live.touch(4, 1000)
    made: list[tuple[r.MetadataRecord, ...]] = []
    while records := brokers.fence_stale(image, live, now(TIMEOUT_MS)):
        image = apply_records(image, image.version + 1, records)
        made.append(records)
    assert len(made) == commands
    assert [len(records) for records in made[:-1]] == [limit] * (commands - 1)
    kinds = Counter(type(record) for records in made for record in records)
    assert kinds == {r.PartitionChanged: 16, r.BrokerFenced: 4}, "nothing moves twice"
    assert {type(record) for record in made[-1][:4]} == {r.BrokerFenced}
    assert {state.leader_id for state in image.topics["t"].partitions} == {4}


def test_a_broker_that_holds_very_much_asks_for_its_shutdown_until_all_is_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    move_at_a_time(monkeypatch, 3)
    image = holding(16)
    request = m.BrokerHeartbeat(0, 1, 1, wants_shut_down=True, wants_fence=True)
    told: list[m.BrokerHeartbeatAnswer] = []
    while not image.brokers[0].fenced:
        decision = brokers.heartbeat(image, request, 0)
        image = commit(image, decision)
        told.append(decision.answer)
    shown = [(answer.fenced, answer.should_shut_down) for answer in told]
    assert shown == [(False, False), (True, True)]


HELD = (
    *[partition()] * 5,
    *[partition((1,), 1, elr=(2,))] * 3,
    *[partition((2,), 2, elr=(1,))] * 2,
)


@pytest.mark.parametrize(("limit", "commands"), [(11, 1), (10, 2), (4, 3), (1, 11)])
def test_a_broker_that_holds_too_much_for_one_command_registers_again_with_the_last(
    monkeypatch: pytest.MonkeyPatch, limit: int, commands: int
) -> None:
    before = replicated(*HELD)
    at_once, causes = register_again(before, 1)
    assert len(causes) == len(HELD), "it may have lost records, and is eligible nowhere"
    move_at_a_time(monkeypatch, limit)
    image, made = before, [another_registration(before, 1)]
    while not made[-1].completes:
        image = commit(image, made[-1])
        assert image.brokers == before.brokers, "whoever follows is told that it goes on"
        made.append(another_registration(image, 1))
    assert len(made) == commands
    assert {len(decision.records) for decision in made[:-1]} <= {limit}
    assert sum(len(decision.records) for decision in made) == len(HELD) + 1, "nothing moves twice"
    image = commit(image, made[-1])
    assert image.topics == at_once.topics
    assert image.brokers[1].broker_epoch == made[-1].answer.broker_epoch == image.version


def test_a_broker_that_is_eligible_for_too_much_is_unregistered_with_the_last_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    move_at_a_time(monkeypatch, 2)
    image = replicated(*[partition((2,), 2, elr=(1,))] * 5, alive=(2, 3))
    sizes: list[int] = []
    while 1 in image.brokers:
        decision = brokers.unregister(image, m.UnregisterBroker(1), 0)
        assert decision.completes == (len(sizes) == 2)
        sizes.append(len(decision.records))
        image = commit(image, decision)
    assert sizes == [2, 2, 2]
    assert not any(state.elr for state in image.topics["t"].partitions)


def test_what_waits_for_a_broker_is_led_part_by_part_if_it_is_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    move_at_a_time(monkeypatch, 4)
    waits = partition((), NO_LEADER, elr=(1,), last_known_leader=1)
    image, live = replicated(*[waits] * 10, alive=(2, 3)), sessions()
    unfenced = brokers.heartbeat(image, m.BrokerHeartbeat(1, epoch_of(1), image.version), 0)
    assert not unfenced.answer.fenced
    image = commit(image, unfenced)
    sizes = [len(unfenced.records)]
    assert brokers.lead_what_waits(image, live, frozenset(), now(0)) == ()
    assert brokers.lead_what_waits(image, live, frozenset({4, 5}), now(0)) == ()
    while records := brokers.lead_what_waits(image, live, image.live_broker_ids(), now(0)):
        image = apply_records(image, image.version + 1, records)
        sizes.append(len(records))
    assert sizes == [5, 4, 2]
    assert {state.leader_id for state in image.topics["t"].partitions} == {1}


def test_what_is_moved_away_from_a_silent_broker_is_not_given_back_to_it() -> None:
    waits = partition((), NO_LEADER, elr=(1,), last_known_leader=1)
    image, live = replicated(waits), sessions(1000)
    assert len(brokers.lead_what_waits(image, live, frozenset({1}), now(1000))) == 1
    live.end(1)
    assert brokers.lead_what_waits(image, live, frozenset({1}), now(1000)) == ()


def holding(count: int) -> MetadataImage:
    """Return brokers 0 to 3, which hold partitions in turn, each with broker 4."""
    joined = [r.BrokerRegistered("c", 1, b, 1, b"", b"", {}, None, fenced=False) for b in range(5)]
    held = [r.PartitionCreated("c", 1, ID, p, (p % 4, 4), (p % 4, 4), p % 4) for p in range(count)]
    return apply_records(FORMATTED, 5, [*joined, r.TopicCreated("c", 1, "t", ID), *held])


def move_at_a_time(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    for module in (brokers, elections):
        monkeypatch.setattr(module, "MOVED_TOGETHER_MAX", count)
