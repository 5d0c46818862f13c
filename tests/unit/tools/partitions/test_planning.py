"""Plans for partitions: even, over racks, and no more moves than it takes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.model import TopicPartition
from quorate.tools.partitions.planning import Assignment, Move, PlanError, loads, plan_moves


def assignment(
    *replicas: tuple[int, ...], topic: str = "t"
) -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition(topic, number): each for number, each in enumerate(replicas)}


def without_racks(*broker_ids: int) -> dict[int, str]:
    return dict.fromkeys(broker_ids, "")


def after(now: Assignment, moves: list[Move]) -> dict[TopicPartition, tuple[int, ...]]:
    return {**now, **{move.partition: move.after for move in moves}}


def copies(moves: list[Move]) -> int:
    return sum(len(move.adding) for move in moves)


EVEN = assignment((1, 2, 3), (2, 3, 1), (3, 1, 2))


def test_what_is_even_stays_where_it_is() -> None:
    assert plan_moves(EVEN, without_racks(1, 2, 3)) == []
    assert plan_moves({}, without_racks(1)) == []


def test_a_broker_that_is_added_gets_its_share_and_nothing_else_moves() -> None:
    now = assignment((1, 2), (2, 3), (3, 1), (1, 3), (2, 1), (3, 2))
    moves = plan_moves(now, without_racks(1, 2, 3, 4))
    had = loads(after(now, moves), [1, 2, 3, 4])
    assert sorted(count for _, count in had.values()) == [3, 3, 3, 3]
    assert copies(moves) == 3
    assert all(move.adding in ((), (4,)) for move in moves)


def test_a_broker_that_goes_gives_away_all_it_has_and_no_other_replica_moves() -> None:
    now = assignment((1, 2), (2, 3), (3, 4), (4, 1))
    moves = plan_moves(now, without_racks(1, 2, 3))
    assert {move.partition.partition for move in moves if move.adding} == {2, 3}
    assert all(4 not in replicas for replicas in after(now, moves).values())
    assert copies(moves) == 2


def test_replicas_of_a_partition_are_spread_over_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "c"}
    moves = plan_moves(assignment((1, 2, 3)), racks)
    assert moves == [Move(TopicPartition("t", 0), (1, 2, 3), (1, 4, 3))]
    assert (moves[0].adding, moves[0].removing) == ((4,), (2,))


def test_a_rack_is_not_given_up_for_an_even_load() -> None:
    racks = {1: "a", 2: "b", 3: "b"}
    now = assignment((1, 2), (1, 3), (1, 2), (1, 3))
    assert all(move.adding == () for move in plan_moves(now, racks))


def test_leaders_are_evened_out_without_copying_anything() -> None:
    now = assignment((1, 2, 3), (1, 2, 3), (1, 2, 3))
    moves = plan_moves(now, without_racks(1, 2, 3))
    assert copies(moves) == 0
    assert sorted(led for led, _ in loads(after(now, moves), [1, 2, 3]).values()) == [1, 1, 1]


def test_leaders_pass_along_a_chain_where_nobody_can_take_over_directly() -> None:
    now = assignment((1, 2), (1, 2), (2, 3))
    moves = plan_moves(now, without_racks(1, 2, 3))
    assert sorted(led for led, _ in loads(after(now, moves), [1, 2, 3]).values()) == [1, 1, 1]


def test_partitions_of_a_topic_do_not_gather_on_the_new_broker() -> None:
    now = {
        TopicPartition(topic, number): (1 + number % 2,) for topic in "ab" for number in range(4)
    }
    moved = Counter(move.partition.topic for move in plan_moves(now, without_racks(1, 2, 3, 4)))
    assert moved == {"a": 2, "b": 2}


def test_more_replicas_than_brokers_is_refused() -> None:
    with pytest.raises(PlanError, match="t-0 has 3 replicas, and there would be 2 brokers"):
        plan_moves(assignment((1, 2, 3)), without_racks(1, 2))


@st.composite
def problems(draw: st.DrawFn) -> tuple[Assignment, dict[int, str]]:
    brokers = draw(st.integers(1, 7))
    present = draw(st.sets(st.integers(1, brokers), min_size=1))
    racks = {b: draw(st.sampled_from(["a", "b", "c", ""])) for b in present}
    factor = draw(st.integers(1, min(3, len(present))))
    replicas = st.permutations(range(1, brokers + 1)).map(lambda ids: tuple(ids[:factor]))
    return assignment(*draw(st.lists(replicas, max_size=12))), racks


@given(problems())
def test_plans_keep_all_their_rules(problem: tuple[Assignment, dict[int, str]]) -> None:
    now, racks = problem
    then = after(now, plan_moves(now, racks))
    for partition, replicas in then.items():
        assert len(set(replicas)) == len(now[partition])
        assert set(replicas) <= racks.keys()
        crowd = Counter(racks[b] for b in replicas)
        free = {racks[b] for b in racks if b not in replicas}
        assert all(max(crowd.values()) - crowd[rack] < 2 for rack in free), "racks are used"
    if len(set(racks.values())) == 1:
        counts = [had for _, had in loads(then, racks).values()]
        assert max(counts) - min(counts) < 2, "load is even"
    assert plan_moves(then, racks) == [], "a plan that was carried out leaves nothing to do"


@given(problems())
def test_nothing_moves_from_where_it_may_stay_if_loads_were_even(
    problem: tuple[Assignment, dict[int, str]],
) -> None:
    now, racks = problem
    racks = dict.fromkeys(racks, "")
    planned = after(now, plan_moves(now, racks))
    gone = sum(b not in racks for replicas in now.values() for b in replicas)
    had = [count for b, (_, count) in loads(now, racks).items() if b in racks]
    share = sum(map(len, now.values())) / len(racks)
    excess = sum(max(0, int(count - share)) for count in had)
    moved = sum(b not in now[p] for p, replicas in planned.items() for b in replicas)
    assert moved <= gone + excess + len(racks)
