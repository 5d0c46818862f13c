"""Whatever becomes of a partition, its leader has every committed record, unless that is said."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.model import NO_LEADER
from quorate.quorum.control.decision import Reason
from quorate.quorum.control.succession import (
    LAST_KNOWN,
    UNCLEAN,
    Electorate,
    Rules,
    Successor,
    Wanted,
    change_of,
    succeed,
    wanted_of,
)
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.image import PartitionState
from tests.unit.quorum.partitions import cluster, moving, partition, the_partition

BROKERS = range(1, 6)
SOME = st.frozensets(st.sampled_from(BROKERS))


def orders(brokers: st.SearchStrategy[frozenset[int]]) -> st.SearchStrategy[tuple[int, ...]]:
    return brokers.flatmap(lambda some: st.permutations(sorted(some))).map(tuple)


@st.composite
def partitions(draw: st.DrawFn) -> PartitionState:
    """Draw a partition as it can be: moving or not, led or not."""
    replicas = draw(orders(st.frozensets(st.sampled_from(BROKERS), min_size=1)))
    roles = {b: draw(st.sampled_from(["isr", "isr", "elr", ""])) for b in replicas}
    isr = tuple(b for b in replicas if roles[b] == "isr")
    leader_id = draw(st.sampled_from([*isr, NO_LEADER]))
    moves = {b: draw(st.sampled_from(["", "", "", "adding", "removing"])) for b in replicas}
    last = draw(st.sampled_from([*replicas, NO_LEADER]))
    return PartitionState(
        replicas=replicas,
        isr=isr,
        leader_id=leader_id,
        leader_epoch=draw(st.integers(0, 9)),
        partition_epoch=draw(st.integers(0, 9)),
        adding_replicas=tuple(b for b in replicas if moves[b] == "adding"),
        removing_replicas=tuple(b for b in replicas if moves[b] == "removing"),
        elr=tuple(b for b in replicas if roles[b] == "elr"),
        last_known_leader=last if not isr and leader_id == NO_LEADER else NO_LEADER,
    )


@st.composite
def wishes(draw: st.DrawFn, before: PartitionState) -> Wanted:
    """Draw what is wanted of a partition: a new ISR, other replicas, or that some forgot."""
    replicas = before.replicas
    if draw(st.booleans()):
        replicas = draw(orders(st.frozensets(st.sampled_from(BROKERS), min_size=1)))
    forgetful = draw(SOME)
    some = draw(SOME)
    kept = {b for b in before.isr if b in some} | {b for b in replicas if b in draw(SOME)}
    return Wanted(
        isr=tuple(b for b in replicas if b in kept - forgetful),
        replicas=replicas,
        adding=tuple(b for b in before.adding_replicas if b in replicas),
        removing=tuple(b for b in before.removing_replicas if b in replicas),
        forgetful=forgetful,
        wiped=draw(SOME) & forgetful,
        preferred=draw(st.booleans()),
    )


@st.composite
def rules(draw: st.DrawFn, *, unclean: bool | None = None) -> Rules:
    return Rules(
        Electorate(draw(SOME), draw(SOME), draw(SOME), draw(SOME)),
        min_isr=draw(st.integers(1, 4)),
        unclean=draw(st.booleans()) if unclean is None else unclean,
        keeps_elr=True,
    )


@st.composite
def successions(draw: st.DrawFn) -> tuple[PartitionState, Wanted, Rules, Successor]:
    before = draw(partitions())
    wanted = draw(wishes(before))
    given_rules = draw(rules())
    return before, wanted, given_rules, succeed(before, wanted, given_rules)


Case = tuple[PartitionState, Wanted, Rules, Successor]


@settings(max_examples=300)
@given(successions())
def test_leaders_come_from_the_isr_or_the_elr_or_it_is_said_that_records_may_be_lost(
    case: Case,
) -> None:
    before, wanted, given_rules, (after, loss) = case[0], case[1], case[2], _parts(case[3])
    if after.leader_id == NO_LEADER:
        assert not loss
        return
    entitled = {*wanted.isr, *before.isr, *before.elr} - wanted.forgetful
    if not loss:
        assert after.leader_id in entitled
        assert after.leader_id in after.isr
    elif loss == LAST_KNOWN:
        assert after.leader_id == before.last_known_leader
        assert not wanted.isr
        assert not (set(before.elr) - wanted.forgetful) & set(after.replicas)
    else:
        assert loss == UNCLEAN
        assert given_rules.unclean
    if loss:
        assert (after.isr, after.elr) == ((after.leader_id,), ())


@settings(max_examples=150)
@given(successions())
def test_the_isr_and_the_elr_are_replicas_and_epochs_grow(case: Case) -> None:
    before, wanted, given_rules, (after, _) = case[0], case[1], case[2], _parts(case[3])
    assert set(after.isr) <= set(after.replicas) <= {*before.replicas, *wanted.replicas}
    assert set(after.elr) <= set(after.replicas) - set(after.isr) - wanted.forgetful
    gives_up = not set(before.replicas) <= set(after.replicas)
    changes_leader = after.leader_id != before.leader_id or gives_up
    assert after.leader_epoch == before.leader_epoch + changes_leader
    if len(after.isr) >= min(given_rules.min_isr, len(after.replicas)):
        assert after.elr == (), "records are committed without them"
    if after.leader_id != NO_LEADER or after.isr:
        assert after.last_known_leader == NO_LEADER
    if after.last_known_leader != NO_LEADER:
        assert after.last_known_leader not in wanted.wiped


@settings(max_examples=150)
@given(successions())
def test_nobody_out_of_service_is_elected_and_nobody_in_sync_waits_in_service(case: Case) -> None:
    before, _wanted, given_rules, (after, _) = case[0], case[1], case[2], _parts(case[3])
    electorate = given_rules.electorate
    if after.leader_id == NO_LEADER:
        waiting = after.isr or after.elr
        assert not any(map(electorate.may_lead, waiting))
    elif not electorate.may_lead(after.leader_id):
        assert after.leader_id == before.leader_id, "it goes on until somebody else can"
        assert not any(map(electorate.may_lead, after.isr))


@settings(max_examples=150)
@given(partitions(), rules())
def test_what_has_become_of_a_partition_stays_so_until_something_happens(
    before: PartitionState, given_rules: Rules
) -> None:
    once = succeed(before, wanted_of(before, before.isr), given_rules).state
    again = succeed(once, wanted_of(once, once.isr), given_rules).state
    assert again == once


@settings(max_examples=300)
@given(successions())
def test_records_carry_what_changes_and_nothing_else(case: Case) -> None:
    before, successor = case[0], case[3]
    image = cluster(before)
    topic = image.topics["t"]
    change = change_of(topic, 0, successor, Reason("why", 7))
    if change is None:
        assert successor.state == before
        return
    assert change.cause == (f"why; {successor.loss}" if successor.loss else "why")
    after = the_partition(apply_records(image, image.version + 1, [change]))
    assert after == replace(successor.state, partition_epoch=before.partition_epoch + 1)


def _parts(successor: Successor) -> tuple[PartitionState, str]:
    return successor.state, successor.loss


# --- arriving


def rules_of_all(min_isr: int = 2) -> Rules:
    everybody = Electorate(frozenset(BROKERS), frozenset(), frozenset())
    return Rules(everybody, min_isr, unclean=False, keeps_elr=True)


@pytest.mark.parametrize(
    ("isr", "arrived"),
    [
        ((1, 2, 3), False),
        ((1, 4), False),
        ((1, 2, 3, 4), True),
        ((1, 2, 4), True),
        ((2, 4), True),
        ((4,), False),
    ],
)
def test_a_partition_has_arrived_once_all_that_it_shall_have_are_in_sync(
    isr: tuple[int, ...], arrived: bool
) -> None:
    before = moving((4, 2, 1, 3), (4,), (1, 3), (1, 2, 3), 1)
    after = succeed(before, wanted_of(before, isr), rules_of_all()).state
    assert after.is_moving != arrived
    assert after.replicas == ((4, 2) if arrived else (4, 2, 1, 3))
    if arrived:
        assert set(after.isr) == {2, 4}
        assert (after.leader_id, after.leader_epoch) == (4, 6)


def test_the_leader_stays_and_starts_an_epoch_when_others_are_given_up() -> None:
    before = moving((4, 1, 2, 3), (4,), (2, 3), (1, 2, 3), 1)
    after = succeed(before, wanted_of(before, (1, 2, 3, 4)), rules_of_all()).state
    assert (after.leader_id, after.leader_epoch, after.isr) == (1, 6, (1, 4))


def test_a_partition_that_stays_as_it_is_makes_no_record() -> None:
    image = cluster(partition())
    same = succeed(the_partition(image), wanted_of(partition(), (1, 2, 3)), rules_of_all())
    assert change_of(image.topics["t"], 0, same, Reason("why", 7)) is None
