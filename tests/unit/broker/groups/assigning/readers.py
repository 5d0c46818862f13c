"""Groups for assignors: written down, or found by hypothesis."""

from collections.abc import Iterable, Mapping

from hypothesis import strategies as st

from quorate.broker.groups.assigning.values import (
    Assignment,
    Assignor,
    Partitions,
    Reader,
    Readers,
    TopicIdPartition,
)

TOPICS = tuple(bytes([number]) * 16 for number in range(1, 6))
A, B, C = TOPICS[:3]


def partitions(topic_id: bytes, *numbers: int) -> Partitions:
    return frozenset(TopicIdPartition(topic_id, number) for number in numbers)


def reader(
    member_id: str,
    topics: Iterable[bytes],
    held: Partitions = frozenset(),
    instance_id: str | None = None,
) -> Reader:
    return Reader(member_id, instance_id, frozenset(topics), held)


def readers(counts: Mapping[bytes, int], *members: Reader) -> Readers:
    return Readers(members, counts)


def sizes(assignment: Assignment) -> list[int]:
    return sorted(len(held) for held in assignment.values())


def numbers(assignment: Assignment, member_id: str, topic_id: bytes = A) -> list[int]:
    return sorted(p.partition for p in assignment[member_id] if p.topic_id == topic_id)


def holding(group: Readers, assignment: Assignment, *without: str) -> Readers:
    """Return the group as it is after an assignment, without some of its members."""
    members = [
        Reader(m.member_id, m.instance_id, m.topics, assignment.get(m.member_id, frozenset()))
        for m in group.members
        if m.member_id not in without
    ]
    wanted = frozenset[bytes]().union(*(m.topics for m in members))
    return Readers(tuple(members), {t: n for t, n in group.partition_counts.items() if t in wanted})


def assert_covers(group: Readers, assignment: Assignment) -> None:
    """Every partition is read by one member, who subscribes to it; every member is told."""
    assert assignment.keys() == {member.member_id for member in group.members}
    for member in group.members:
        assert {p.topic_id for p in assignment[member.member_id]} <= member.topics
    assigned = sorted(p for held in assignment.values() for p in held)
    assert assigned == sorted(
        TopicIdPartition(topic, number)
        for topic, count in group.partition_counts.items()
        for number in range(count)
    )


@st.composite
def groups(
    draw: st.DrawFn, *, alike: bool, members_max: int = 6, partitions_max: int = 7
) -> Readers:
    """Return a group whose members hold anything: also what is not theirs, or not there."""
    counts = {topic: draw(st.integers(1, partitions_max)) for topic in TOPICS}
    subscriptions = st.frozensets(st.sampled_from(TOPICS))
    common = draw(subscriptions)
    held = st.frozensets(
        st.builds(TopicIdPartition, st.sampled_from(TOPICS), st.integers(0, partitions_max))
    )
    members = tuple(
        Reader(f"m{number}", None, common if alike else draw(subscriptions), draw(held))
        for number in draw(st.lists(st.integers(0, 20), unique=True, max_size=members_max))
    )
    wanted = frozenset[bytes]().union(*(member.topics for member in members))
    return Readers(members, {topic: counts[topic] for topic in sorted(wanted)})


def moved(assignor: Assignor, group: Readers, assignment: Assignment) -> int:
    """Return how many partitions change hands if nothing has happened."""
    again = assignor(holding(group, assignment))
    return sum(len(assignment[m] - again[m]) for m in assignment)
