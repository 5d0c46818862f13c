"""Leaders come from the ISR, which never loses its last members, in a cluster of an old level.

``test_eligible_leaders.py`` has those that know of eligible leader replicas.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.control.partition_messages import Election, ElectLeaders
from quorate.errors import ErrorCode
from quorate.model import NO_LEADER
from quorate.quorum.control.decision import Reason
from quorate.quorum.control.elections import (
    elect_leaders,
    on_broker_unfenced,
    on_brokers_fenced,
)
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionState

ID = b"i" * 16
REASON = Reason("why", 1)


def cluster(state: PartitionState, alive: frozenset[int]) -> MetadataImage:
    brokers = [
        r.BrokerRegistered("c", 1, b, 1, b"", b"", {}, None, fenced=b not in alive)
        for b in (1, 2, 3)
    ]
    topic = r.TopicCreated("c", 1, "t", ID)
    partition = r.PartitionCreated(
        "c", 1, ID, 0, state.replicas, state.isr, state.leader_id, state.leader_epoch
    )
    return apply_records(EMPTY_IMAGE, 1, [*brokers, topic, partition])


def state(isr: tuple[int, ...], leader_id: int) -> PartitionState:
    return PartitionState((1, 2, 3), isr, leader_id, leader_epoch=5, partition_epoch=0)


def after(image: MetadataImage, changes: list[r.PartitionChanged]) -> PartitionState:
    return apply_records(image, image.version + 1, changes).topics["t"].partitions[0]


def test_the_next_in_sync_replica_leads_when_the_leader_is_fenced() -> None:
    image = cluster(state((1, 2, 3), 1), frozenset({1, 2, 3}))
    result = after(image, on_brokers_fenced(image, frozenset({1}), REASON))
    assert (result.leader_id, result.leader_epoch, result.isr) == (2, 6, (2, 3))


def test_a_fenced_follower_leaves_the_isr_and_the_leader_stays() -> None:
    image = cluster(state((1, 2, 3), 1), frozenset({1, 2, 3}))
    result = after(image, on_brokers_fenced(image, frozenset({2}), REASON))
    assert (result.leader_id, result.leader_epoch, result.isr) == (1, 5, (1, 3))
    assert result.partition_epoch == 1


def test_the_last_in_sync_replica_stays_in_the_isr_without_leading() -> None:
    image = cluster(state((1,), 1), frozenset({1, 2, 3}))
    result = after(image, on_brokers_fenced(image, frozenset({1}), REASON))
    assert (result.leader_id, result.leader_epoch, result.isr) == (NO_LEADER, 6, (1,))


def test_in_sync_replicas_that_die_together_stay_in_the_isr_together() -> None:
    image = cluster(state((1, 2), 1), frozenset({1, 2, 3}))
    result = after(image, on_brokers_fenced(image, frozenset({1, 2}), REASON))
    assert (result.leader_id, result.isr) == (NO_LEADER, (1, 2))


def test_partitions_without_the_broker_do_not_change() -> None:
    image = cluster(state((1, 2), 1), frozenset({1, 2, 3}))
    assert on_brokers_fenced(image, frozenset({3}), REASON) == []


def test_fencing_again_changes_nothing() -> None:
    image = cluster(state((1,), NO_LEADER), frozenset({2, 3}))
    assert on_brokers_fenced(image, frozenset({1}), REASON) == []


def test_a_returning_member_of_the_isr_leads_with_a_higher_epoch() -> None:
    image = cluster(state((1,), NO_LEADER), frozenset({2, 3}))
    result = after(image, on_broker_unfenced(image, 1, REASON))
    assert (result.leader_id, result.leader_epoch, result.isr) == (1, 6, (1,))


def test_a_returning_replica_outside_the_isr_does_not_lead() -> None:
    image = cluster(state((1,), NO_LEADER), frozenset({3}))
    assert on_broker_unfenced(image, 2, REASON) == []


def test_members_of_the_isr_that_did_not_return_leave_it_once_another_leads() -> None:
    image = cluster(state((1, 2), NO_LEADER), frozenset({3}))
    result = after(image, on_broker_unfenced(image, 2, REASON))
    assert (result.leader_id, result.leader_epoch, result.isr) == (2, 6, (2,))


def test_partitions_beside_one_that_waits_stay_as_they_are() -> None:
    image = cluster(state((1,), NO_LEADER), frozenset({2, 3}))
    led = r.PartitionCreated("c", 1, ID, 1, (1, 2), (2,), 2)
    foreign = r.PartitionCreated("c", 1, ID, 2, (3,), (3,), NO_LEADER)
    image = apply_records(image, 2, [led, foreign])
    (change,) = on_broker_unfenced(image, 1, REASON)
    assert (change.partition, change.leader_id) == (0, 1)


def test_a_returning_replica_takes_no_leadership_away() -> None:
    image = cluster(state((1, 2), 2), frozenset({2, 3}))
    assert on_broker_unfenced(image, 1, REASON) == []


# --- availability before consistency

UNCLEAN = r.ConfigSet("c", 1, "topic", "t", "unclean.leader.election.enable", "true")


def lossy(image: MetadataImage, *records: r.MetadataRecord) -> MetadataImage:
    return apply_records(image, image.version + 1, records or [UNCLEAN])


def test_a_topic_that_allows_it_gets_a_leader_that_is_not_in_sync() -> None:
    image = lossy(cluster(state((1,), 1), frozenset({1, 3})))
    (change,) = on_brokers_fenced(image, frozenset({1}), REASON)
    result = after(image, [change])
    assert (result.leader_id, result.leader_epoch, result.isr) == (3, 6, (3,))
    assert change.cause == "why; unclean election, committed records may be lost"


def test_a_topic_that_allows_it_gets_a_leader_as_soon_as_any_replica_returns() -> None:
    image = lossy(cluster(state((1,), NO_LEADER), frozenset()))
    result = after(image, on_broker_unfenced(image, 2, REASON))
    assert (result.leader_id, result.isr) == (2, (2,))


def test_without_any_replica_even_such_a_topic_has_no_leader() -> None:
    image = lossy(cluster(state((1,), 1), frozenset({1})))
    result = after(image, on_brokers_fenced(image, frozenset({1}), REASON))
    assert (result.leader_id, result.isr) == (NO_LEADER, (1,))


def test_a_topic_can_refuse_what_the_cluster_allows() -> None:
    everywhere = r.ConfigSet("c", 1, "broker", "", "unclean.leader.election.enable", "true")
    image = lossy(cluster(state((1,), NO_LEADER), frozenset()), everywhere)
    assert on_broker_unfenced(image, 2, REASON)
    image = lossy(image, replace(UNCLEAN, value="false"))
    assert on_broker_unfenced(image, 2, REASON) == []


# --- on request


def elect(
    image: MetadataImage, election: Election, partitions: tuple[int, ...] | None = (0,)
) -> tuple[PartitionState, list[ErrorCode]]:
    named = None if partitions is None else {"t": partitions}
    decision = elect_leaders(image, ElectLeaders(election, named, "User:alice"), 77)
    for record in decision.records:
        assert record.cause.startswith(f"ElectLeaders ({election.name.lower()}) by User:alice")
        assert record.time_ms == 77
    codes = [ErrorCode(p.failure.code) for p in decision.answer.partitions]
    return apply_records(image, 9, decision.records).topics["t"].partitions[0], codes


EVERYBODY = frozenset({1, 2, 3})
NOBODY = frozenset[int]()


@pytest.mark.parametrize(
    ("before", "alive", "election", "code", "leader_id", "isr"),
    [
        (state((1, 2), 2), EVERYBODY, Election.PREFERRED, ErrorCode.NONE, 1, (1, 2)),
        (state((1, 2), 1), EVERYBODY, Election.PREFERRED, ErrorCode.ELECTION_NOT_NEEDED, 1, (1, 2)),
        (
            state((2, 3), 2),
            EVERYBODY,
            Election.PREFERRED,
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            2,
            (2, 3),
        ),
        (
            state((1, 2), NO_LEADER),
            frozenset({2, 3}),
            Election.PREFERRED,
            ErrorCode.NONE,
            2,
            (2,),
        ),
        (
            state((1, 2), NO_LEADER),
            frozenset({3}),
            Election.PREFERRED,
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            NO_LEADER,
            (1, 2),
        ),
        (state((1, 2), 2), EVERYBODY, Election.UNCLEAN, ErrorCode.ELECTION_NOT_NEEDED, 2, (1, 2)),
        (state((1, 2), NO_LEADER), frozenset({3}), Election.UNCLEAN, ErrorCode.NONE, 3, (3,)),
        (state((1, 2), NO_LEADER), frozenset({2, 3}), Election.UNCLEAN, ErrorCode.NONE, 2, (2,)),
        (
            state((1, 2), NO_LEADER),
            NOBODY,
            Election.UNCLEAN,
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            NO_LEADER,
            (1, 2),
        ),
    ],
)
def test_leaders_are_elected_on_request(
    before: PartitionState,
    alive: frozenset[int],
    election: Election,
    code: ErrorCode,
    leader_id: int,
    isr: tuple[int, ...],
) -> None:
    result, codes = elect(cluster(before, alive), election)
    assert (codes, result.leader_id, result.isr) == ([code], leader_id, isr)
    assert result.leader_epoch == 5 + (leader_id != before.leader_id)


def test_elections_of_all_partitions_tell_only_of_those_that_needed_one() -> None:
    needed = cluster(state((1, 2), 2), EVERYBODY)
    assert elect(needed, Election.PREFERRED, None)[1] == [ErrorCode.NONE]
    not_needed = cluster(state((1, 2), 1), EVERYBODY)
    assert elect(not_needed, Election.PREFERRED, None)[1] == []


def test_partitions_that_do_not_exist_elect_nobody() -> None:
    image = cluster(state((1, 2), 2), EVERYBODY)
    _, codes = elect(image, Election.PREFERRED, (0, 0, 1, -1))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [ErrorCode.NONE, unknown, unknown]
    nowhere = ElectLeaders(Election.PREFERRED, {"nowhere": (0,)})
    (answer,) = elect_leaders(image, nowhere, 77).answer.partitions
    assert (answer.topic, answer.partition, answer.failure.code) == ("nowhere", 0, unknown)


BROKERS = st.frozensets(st.integers(1, 3))


@given(st.permutations([1, 2, 3]), BROKERS, BROKERS, st.data())
def test_whatever_is_fenced_leaders_come_from_the_isr(
    order: list[int], alive: frozenset[int], fenced: frozenset[int], data: st.DataObject
) -> None:
    isr = tuple(data.draw(st.lists(st.sampled_from(order), min_size=1, unique=True)))
    serving = [b for b in isr if b in alive]
    leader_id = data.draw(st.sampled_from([*serving, NO_LEADER]))
    before = PartitionState(tuple(order), isr, leader_id, 5, 0)
    image = cluster(before, alive)
    result = after(image, on_brokers_fenced(image, fenced & alive, REASON))
    assert result.isr
    assert set(result.isr) <= set(isr)
    assert result.leader_epoch - 5 == int(result.leader_id != leader_id)
    if set(isr) & alive & fenced:
        still_serving = set(isr) & (alive - fenced)
        assert set(result.isr) == (still_serving or set(isr))
        in_order = [b for b in order if b in still_serving]
        stays = leader_id in still_serving
        assert result.leader_id == (leader_id if stays else [*in_order, NO_LEADER][0])
