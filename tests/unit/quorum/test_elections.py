"""Leaders come from the ISR, and the ISR never loses its last members."""

from hypothesis import given
from hypothesis import strategies as st

from quorate.model import NO_LEADER
from quorate.quorum.control.decision import Reason
from quorate.quorum.control.elections import (
    elect_clean_leader,
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


def test_a_returning_replica_takes_no_leadership_away() -> None:
    image = cluster(state((1, 2), 2), frozenset({2, 3}))
    assert on_broker_unfenced(image, 1, REASON) == []


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
    assert result.leader_id == NO_LEADER or result.leader_id in alive - fenced
    assert result.leader_epoch - 5 == int(result.leader_id != leader_id)
    if set(isr) & alive & fenced:
        assert elect_clean_leader(result, result.isr, alive - fenced) == result.leader_id
