"""Range: partitions that follow each other, the same numbers of each topic."""

from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.groups.assigning.ranges import assign_ranges
from quorate.broker.groups.assigning.values import Readers
from tests.unit.broker.groups.assigning.readers import (
    A,
    B,
    assert_covers,
    groups,
    moved,
    numbers,
    partitions,
    reader,
    readers,
)


def test_the_first_ranges_are_longer() -> None:
    assignment = assign_ranges(readers({A: 5}, *(reader(f"m{i}", [A]) for i in range(3))))
    assert [numbers(assignment, f"m{i}") for i in range(3)] == [[0, 1], [2, 3], [4]]


def test_topics_with_equally_many_partitions_are_split_alike() -> None:
    assignment = assign_ranges(readers({A: 3, B: 3}, reader("m0", [A, B]), reader("m1", [A, B])))
    assert numbers(assignment, "m0", A) == numbers(assignment, "m0", B) == [0, 1]
    assert numbers(assignment, "m1", A) == numbers(assignment, "m1", B) == [2]


def test_only_subscribers_of_a_topic_share_it() -> None:
    assignment = assign_ranges(readers({A: 2, B: 4}, reader("m0", [A, B]), reader("m1", [B])))
    assert assignment == {
        "m0": partitions(A, 0, 1) | partitions(B, 0, 1),
        "m1": partitions(B, 2, 3),
    }


def test_static_members_come_first_and_keep_their_ranges_under_other_member_ids() -> None:
    before = readers(
        {A: 3},
        reader("x", [A], instance_id="i1"),
        reader("a", [A]),
        reader("y", [A], instance_id="i0"),
    )
    assignment = assign_ranges(before)
    assert [numbers(assignment, m) for m in ("y", "x", "a")] == [[0], [1], [2]]
    after = readers(
        {A: 3},
        reader("p", [A], instance_id="i0"),
        reader("a", [A]),
        reader("q", [A], instance_id="i1"),
    )
    assignment = assign_ranges(after)
    assert [numbers(assignment, m) for m in ("p", "q", "a")] == [[0], [1], [2]]


@given(st.booleans().flatmap(lambda alike: groups(alike=alike)))
def test_every_partition_is_in_one_range(group: Readers) -> None:
    assignment = assign_ranges(group)
    assert_covers(group, assignment)
    for topic_id, count in group.partition_counts.items():
        subscribers = [m for m in group.members if topic_id in m.topics]
        for member in subscribers:
            mine = numbers(assignment, member.member_id, topic_id)
            assert mine == list(range(mine[0], mine[0] + len(mine))) if mine else True
            assert count // len(subscribers) <= len(mine) <= -(-count // len(subscribers))


@given(groups(alike=False))
def test_nothing_moves_when_nothing_has_happened(group: Readers) -> None:
    assert moved(assign_ranges, group, assign_ranges(group)) == 0
