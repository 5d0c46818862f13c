"""The assignor ``range``: of every topic, each member reads partitions that follow each other."""

from quorate.broker.groups.assigning.values import (
    Assignment,
    Reader,
    Readers,
    TopicIdPartition,
)


def assign_ranges(readers: Readers) -> Assignment:
    """Split each topic into as many ranges as it has members, the first ones longer by one.

    Members come in the same order for all topics, so those that read topics with equally many
    partitions read the same numbers of each: what joins of streams need. Static members come first,
    in the order of their instance ids: they get the same again when they come back under another
    member id. Otherwise what was read before does not matter.
    """
    in_order = sorted(readers.members, key=_place)
    assigned: dict[str, list[TopicIdPartition]] = {member.member_id: [] for member in in_order}
    for topic_id, count in readers.partition_counts.items():
        subscribers = [member for member in in_order if topic_id in member.topics]
        size, longer = divmod(count, len(subscribers))
        begin = 0
        for index, member in enumerate(subscribers):
            end = begin + size + (index < longer)
            assigned[member.member_id] += [TopicIdPartition(topic_id, p) for p in range(begin, end)]
            begin = end
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}


def _place(member: Reader) -> tuple[bool, str, str]:
    return member.instance_id is None, member.instance_id or "", member.member_id
