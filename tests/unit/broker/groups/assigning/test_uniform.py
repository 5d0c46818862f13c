"""Uniform: balanced first, then sticky."""

from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.broker.groups.assigning import uniform
from quorate.broker.groups.assigning.uniform import assign_uniformly
from quorate.broker.groups.assigning.values import Readers
from tests.unit.broker.groups.assigning.readers import (
    TOPICS,
    A,
    B,
    C,
    assert_covers,
    groups,
    holding,
    moved,
    numbers,
    partitions,
    reader,
    readers,
    sizes,
)


def test_four_partitions_are_two_each_for_two_members_and_one_each_for_four() -> None:
    two = readers({A: 4}, reader("m1", [A]), reader("m2", [A]))
    assert sizes(assign_uniformly(two)) == [2, 2]
    four = readers({A: 4}, *(reader(f"m{i}", [A]) for i in range(4)))
    assert sizes(assign_uniformly(four)) == [1, 1, 1, 1]


def test_of_more_members_than_partitions_some_have_none() -> None:
    group = readers({A: 3}, *(reader(f"m{i}", [A]) for i in range(4)))
    assert sizes(assign_uniformly(group)) == [0, 1, 1, 1]


def test_the_partitions_of_each_topic_are_spread() -> None:
    group = readers({A: 2, B: 2}, reader("m1", [A, B]), reader("m2", [A, B]))
    assignment = assign_uniformly(group)
    assert [len(numbers(assignment, m, t)) for m in ("m1", "m2") for t in (A, B)] == [1, 1, 1, 1]


def test_a_member_that_dies_leaves_only_its_own_partitions_to_others() -> None:
    group = readers({A: 9}, *(reader(f"m{i}", [A]) for i in range(3)))
    before = assign_uniformly(group)
    after = assign_uniformly(holding(group, before, "m1"))
    assert before["m0"] <= after["m0"]
    assert before["m2"] <= after["m2"]
    assert sizes(after) == [4, 5]


def test_a_member_that_comes_gets_only_what_makes_it_even() -> None:
    group = readers(
        {A: 9},
        reader("m0", [A], partitions(A, 0, 1, 2, 3, 4)),
        reader("m1", [A], partitions(A, 5, 6, 7, 8)),
        reader("m2", [A]),
    )
    after = assign_uniformly(group)
    assert sizes(after) == [3, 3, 3]
    assert after["m0"] < partitions(A, 0, 1, 2, 3, 4)
    assert after["m1"] < partitions(A, 5, 6, 7, 8)


def test_new_partitions_go_to_who_has_fewest() -> None:
    held = reader("m0", [A], partitions(A, 0, 1)), reader("m1", [A], partitions(A, 2))
    after = assign_uniformly(readers({A: 4}, *held))
    assert after == {"m0": partitions(A, 0, 1), "m1": partitions(A, 2, 3)}


def test_what_is_deleted_or_no_longer_subscribed_to_is_taken_away() -> None:
    held = partitions(A, 0) | partitions(B, 0) | partitions(C, 0)
    group = readers({A: 1}, reader("m0", [A], held))
    assert assign_uniformly(group) == {"m0": partitions(A, 0)}


def test_a_topic_that_only_one_member_reads_counts_for_its_balance() -> None:
    group = readers({A: 3, B: 3}, reader("m0", [A, B]), reader("m1", [B]))
    after = assign_uniformly(group)
    assert numbers(after, "m0", A) == [0, 1, 2]
    assert sizes(after) == [3, 3]


def test_a_chain_of_moves_evens_out_what_no_single_move_can() -> None:
    """m0 can pass only A on, to m1, who can pass only B on, to m2."""
    group = readers(
        {A: 4, B: 2},
        reader("m0", [A], partitions(A, 0, 1, 2, 3)),
        reader("m1", [A, B], partitions(B, 0, 1)),
        reader("m2", [B]),
    )
    assert sizes(assign_uniformly(group)) == [2, 2, 2]


def test_in_a_chain_what_was_not_read_before_moves_first() -> None:
    group = readers(
        {A: 3, B: 1},
        reader("m0", [A], partitions(A, 1)),
        reader("m1", [A, B]),
    )
    after = assign_uniformly(group)
    assert 1 in numbers(after, "m0")
    assert sizes(after) == [2, 2]


def test_the_search_for_balance_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uniform, "STEPS_MAX", 0)
    group = readers(
        {A: 4, B: 1}, reader("m0", [A], partitions(A, 0, 1, 2, 3)), reader("m1", [A, B])
    )
    after = assign_uniformly(group)
    assert_covers(group, after)
    assert sizes(after) == [1, 4]


@given(groups(alike=True))
def test_members_that_subscribe_alike_differ_by_one_at_most(group: Readers) -> None:
    assignment = assign_uniformly(group)
    assert_covers(group, assignment)
    if assignment:
        assert sizes(assignment)[-1] - sizes(assignment)[0] <= 1


@given(groups(alike=True))
def test_among_those_as_few_partitions_move_as_can(group: Readers) -> None:
    """Everybody keeps all of what it held, or as much as anybody may have."""
    group = holding(group, assign_uniformly(group))
    members = [*group.members, reader("new", group.members[0].topics if group.members else [])]
    group = Readers(tuple(members), group.partition_counts)
    total = sum(group.partition_counts.values())
    quota, longer = divmod(total, len(members))
    may_keep = sorted((len(m.held) for m in members), reverse=True)
    kept_at_best = sum(min(n, quota + (i < longer)) for i, n in enumerate(may_keep))
    after = assign_uniformly(group)
    assert sum(len(m.held & after[m.member_id]) for m in members) == kept_at_best


@given(groups(alike=False))
def test_every_partition_is_with_one_member_that_wants_it(group: Readers) -> None:
    assert_covers(group, assign_uniformly(group))


@given(groups(alike=False, members_max=3, partitions_max=2))
@settings(deadline=None)
def test_no_other_assignment_is_more_even(group: Readers) -> None:
    choices = [
        [m.member_id for m in group.members if topic in m.topics]
        for topic, count in group.partition_counts.items()
        for _ in range(count)
    ]
    if len(choices) > 8:
        return
    ids = [m.member_id for m in group.members]
    best = min(sum(way.count(m) ** 2 for m in ids) for way in product(*choices))
    assert sum(n**2 for n in sizes(assign_uniformly(group))) == best


@given(st.booleans().flatmap(lambda alike: groups(alike=alike)))
def test_nothing_moves_when_nothing_has_happened(group: Readers) -> None:
    assert moved(assign_uniformly, group, assign_uniformly(group)) == 0


@given(st.booleans().flatmap(lambda alike: groups(alike=alike)), st.randoms())
def test_the_order_of_members_and_topics_makes_no_difference(
    group: Readers, random: Random
) -> None:
    shuffled = list(group.members)
    random.shuffle(shuffled)
    counts = dict(reversed(list(group.partition_counts.items())))
    assert assign_uniformly(Readers(tuple(shuffled), counts)) == assign_uniformly(group)


def test_a_thousand_partitions_of_a_hundred_members_are_dealt_evenly() -> None:
    counts = dict.fromkeys(TOPICS, 200)
    same = readers(counts, *(reader(f"m{i}", TOPICS) for i in range(100)))
    assert set(sizes(assign_uniformly(same))) == {10}
    differ = readers(counts, *(reader(f"m{i}", TOPICS[i % 3 :]) for i in range(100)))
    assert set(sizes(assign_uniformly(differ))) == {10}
