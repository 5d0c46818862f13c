"""The assignors: what Kafka's gave to whom, and what must hold of every assignment."""

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.client.membership.assigning.java_order import (
    PartitionTable,
    hash_of_partition,
    hash_of_string,
    in_table_order,
)
from quorate.client.membership.assigning.model import Assignment, Candidate, Topics
from quorate.client.membership.assigning.movements import Movements
from quorate.client.membership.assigning.user_data import (
    NOTHING,
    PreviousAssignment,
    decode_generation,
    decode_previous_assignment,
    encode_generation,
    encode_previous_assignment,
)
from quorate.client.membership.assignors import ASSIGNORS, assignors_named, is_cooperative
from quorate.model import TopicPartition
from quorate.protocol.consumer_protocol import NO_GENERATION, Subscription
from tests.compat.assigning.groups import Group, Member, random_group

GOLDEN = Path(__file__).parents[3] / "golden" / "assignors"
NAMES = list(ASSIGNORS)

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


@pytest.mark.parametrize("name", NAMES)
def test_golden_groups_are_assigned_as_by_kafka(name: str) -> None:
    lines = (GOLDEN / f"{name}.jsonl").read_text().splitlines()
    assert len(lines) >= 40
    for line in lines:
        told = json.loads(line)
        assert Group.from_json(told).assign() == told["assignment"], line


def group(name: str, topics: dict[str, int], *members: Member) -> Group:
    return Group(name, {topic: ((),) * count for topic, count in topics.items()}, members)


def test_ranges_lie_side_by_side_and_the_first_members_get_one_more() -> None:
    assigned = group("range", {"t": 3, "u": 3}, Member("b", ("t", "u")), Member("a", ("t", "u")))
    assert assigned.assign() == {"a": ["t-0", "t-1", "u-0", "u-1"], "b": ["t-2", "u-2"]}


def test_members_take_turns_and_static_ones_begin() -> None:
    both = ("t", "u")
    assigned = group("roundrobin", {"t": 3, "u": 2}, Member("a", both), Member("z", both, "i1"))
    assert assigned.assign() == {"a": ["t-1", "u-0"], "z": ["t-0", "t-2", "u-1"]}


def test_a_member_that_leaves_costs_the_others_nothing() -> None:
    stay = Member("a", ("t",), owned=(T0,), generation=4)
    other = Member("b", ("t",), owned=(T1,), generation=4)
    for name in ("sticky", "cooperative-sticky"):
        assigned = group(name, {"t": 4}, stay, other).assign()
        assert "t-0" in assigned["a"]
        assert "t-1" in assigned["b"]


def test_what_a_cooperative_member_still_has_is_nobodys_in_the_first_round() -> None:
    full = Member("a", ("t",), owned=(T0, T1), generation=1)
    assigned = group("cooperative-sticky", {"t": 2}, full, Member("b", ("t",))).assign()
    assert assigned == {"a": ["t-0"], "b": []}
    released = Member("a", ("t",), owned=(T0,), generation=2)
    assigned = group("cooperative-sticky", {"t": 2}, released, Member("b", ("t",))).assign()
    assert assigned == {"a": ["t-0"], "b": ["t-1"]}


def test_partitions_of_a_topic_that_was_made_anew_smaller_are_forgotten() -> None:
    had = Member("a", ("t",), owned=(T0, T2), generation=1)
    assert group("cooperative-sticky", {"t": 2}, had).assign() == {"a": ["t-0", "t-1"]}


def test_what_several_claim_in_one_generation_none_has_whatever_a_later_one_says() -> None:
    claimed = [Member(each, ("t",), owned=(T0,), generation=1) for each in ("a", "b", "c")]
    assert group("cooperative-sticky", {"t": 1}, *claimed).assign() == {"a": [], "b": [], "c": []}
    # "d" is asked last, in Java's order, too.
    later = Member("d", ("t",), owned=(T0, T1), generation=2)
    assigned = group("cooperative-sticky", {"t": 4}, *claimed, later).assign()
    assert "t-0" not in assigned["d"]
    assert assigned["d"] == ["t-1"]


def test_what_a_member_had_long_ago_and_does_not_want_any_more_is_not_its() -> None:
    stale = Member("a", ("u",), owned=(T0,), generation=1)
    now = Member("b", ("t", "u"), owned=(T1,), generation=2)
    assigned = group("sticky", {"t": 2, "u": 1}, stale, now).assign()
    assert assigned == {"a": ["u-0"], "b": ["t-0", "t-1"]}


def test_no_partition_goes_back_to_who_does_not_want_its_topic_any_more() -> None:
    stale = Member("a", ("u",), owned=(T0,), generation=1)
    busy = Member("b", ("t",), owned=(T0, T1, T2), generation=2)
    assigned = group("sticky", {"t": 4, "u": 1}, stale, busy, Member("c", ("t",))).assign()
    assert assigned["a"] == ["u-0"]
    assert sorted(assigned["b"] + assigned["c"]) == ["t-0", "t-1", "t-2", "t-3"]


# What must hold of any group: the groups are those that the golden tables were made of.


def group_of(name: str, seed: int) -> Group:
    return random_group(name, Random(seed))


GROUPS = st.builds(group_of, st.sampled_from(NAMES), st.integers(0, 10**9))


def assigned_to(group: Group) -> tuple[Assignment, Topics, list[Candidate]]:
    wanted = {topic for member in group.members for topic in member.topics}
    topics: Topics = {
        topic: tuple(frozenset(racks) for racks in partitions)
        for topic, partitions in group.topics.items()
        if topic in wanted
    }
    candidates = [member.candidate(group.assignor) for member in group.members]
    return ASSIGNORS[group.assignor].assign(topics, candidates), topics, candidates


@given(GROUPS)
def test_nobody_gets_what_it_does_not_want_and_no_partition_has_two_readers(group: Group) -> None:
    assignment, topics, candidates = assigned_to(group)
    assert assignment.keys() == {each.member_id for each in candidates}
    given_out = [partition for partitions in assignment.values() for partition in partitions]
    assert len(given_out) == len(set(given_out))
    for each in candidates:
        for topic, number in assignment[each.member_id]:
            assert topic in each.subscription.topics
            assert number < len(topics[topic])
    if group.assignor != "cooperative-sticky":
        assert len(given_out) == sum(map(len, topics.values()))


@given(GROUPS)
def test_cooperative_members_get_nothing_that_another_has(group: Group) -> None:
    if group.assignor != "cooperative-sticky":
        return
    assignment, _, candidates = assigned_to(group)
    for each in candidates:
        others = {p for o in candidates if o is not each for p in o.subscription.owned}
        for partition in assignment[each.member_id]:
            assert partition in each.subscription.owned or partition not in others


@given(GROUPS)
def test_equal_wishes_are_met_evenly(group: Group) -> None:
    assignment, _, candidates = assigned_to(group)
    if len({frozenset(each.subscription.topics) for each in candidates}) > 1:
        return
    if group.assignor in {"roundrobin", "sticky"}:
        counts = [len(partitions) for partitions in assignment.values()]
        assert max(counts) - min(counts) <= 1
    if group.assignor == "range":
        for topic in group.topics:
            counts = [sum(p.topic == topic for p in had) for had in assignment.values()]
            assert max(counts) - min(counts) <= 1


@given(st.integers(1, 30), st.integers(1, 8), st.integers(0, 7), st.randoms())
def test_sticky_members_keep_what_an_even_assignment_lets_them_keep(
    partition_count: int, before: int, leaving: int, rng: Random
) -> None:
    names = [f"m{rng.randrange(10**6)}-{number}" for number in range(before)]
    first = group("sticky", {"t": partition_count}, *(Member(name, ("t",)) for name in names))
    had = {
        name: tuple(TopicPartition("t", int(p[2:])) for p in partitions)
        for name, partitions in first.assign().items()
    }
    staying = names[: max(1, before - leaving)]
    members = [Member(name, ("t",), owned=had[name], generation=1) for name in staying]
    second = group("sticky", {"t": partition_count}, *members).assign()
    for name in staying:
        assert {str(partition) for partition in had[name]} <= set(second[name])


# The little things that these rest on


def test_java_hashes_are_reckoned() -> None:
    assert hash_of_string("") == 0
    assert hash_of_string("ab") == 3105
    assert hash_of_string("\U0001f600") == 0xD83D * 31 + 0xDE00
    assert hash_of_partition(TopicPartition("ab", 2)) == 31 * 33 + 3105


def test_a_table_grows_and_its_order_with_it() -> None:
    texts = [chr(ord("a") + number) for number in range(13)]
    assert in_table_order(["q", "a", "a"]) == ["q", "a"]  # both in bucket 1 of 16
    assert in_table_order(texts) == texts
    table = PartitionTable()
    for number in range(12):
        table.add(TopicPartition("", 15 - number))  # the hashes are 31 * (31 + n)
    assert len(table) == 12
    small = table.first()
    table.add(TopicPartition("", 31))
    table.remove(TopicPartition("", 31))
    assert small == min(
        (TopicPartition("", 15 - n) for n in range(12)), key=lambda p: hash_of_partition(p) % 16
    )
    assert table.first() == min(
        (TopicPartition("", 15 - n) for n in range(12)), key=lambda p: hash_of_partition(p) % 32
    )


def test_a_partition_that_goes_back_has_not_moved() -> None:
    movements = Movements()
    movements.move(T0, "a", "b")
    assert movements.instead_of(T1, "b", "a") == T0
    movements.move(T0, "b", "c")
    assert movements.instead_of(T1, "b", "a") == T1
    assert movements.instead_of(T1, "c", "a") == T0
    movements.move(T0, "c", "a")
    assert movements.instead_of(T1, "c", "a") == T1


def test_user_data_says_what_a_member_had_and_garbage_says_nothing() -> None:
    previous = PreviousAssignment((T0, T2, TopicPartition("u", 1)), 7)
    data = encode_previous_assignment(previous)
    assert decode_previous_assignment(data) == previous
    assert decode_previous_assignment(data[:-4]) == PreviousAssignment(previous.partitions, -1)
    assert decode_previous_assignment(b"\xff\xff") == NOTHING
    assert decode_previous_assignment(None) == NOTHING
    assert decode_generation(encode_generation(7)) == 7
    assert decode_generation(b"no") == NO_GENERATION
    assert decode_generation(None) == NO_GENERATION


def test_only_sticky_members_tell_what_they_had() -> None:
    previous = PreviousAssignment((T0,), 7)
    told = {name: each.user_data(previous) for name, each in ASSIGNORS.items()}
    assert told["range"] is None
    assert told["roundrobin"] is None
    assert decode_previous_assignment(told["sticky"]) == previous
    assert decode_generation(told["cooperative-sticky"]) == 7
    assert ASSIGNORS["sticky"].user_data(NOTHING) is None


def test_members_keep_partitions_while_they_join_only_if_all_their_assignors_can() -> None:
    assert is_cooperative(assignors_named(("cooperative-sticky",)))
    assert not is_cooperative(assignors_named(("cooperative-sticky", "range")))


def test_an_assignor_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="there is no assignor 'uniform'; there are range, round"):
        assignors_named(("range", "uniform"))
    with pytest.raises(ValueError, match="names no assignor"):
        assignors_named(())


def test_a_candidate_in_a_rack_without_a_name_is_in_none() -> None:
    assert Candidate("a", Subscription(("t",), rack_id="")).rack_id is None
