"""The range assignor: of every topic, each member gets partitions that lie side by side.

The same partitions of topics with as many partitions go to the same member, so that what has the
same key meets there. Source: Kafka's ``RangeAssignor``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.client.membership.assigning.model import (
    Assignment,
    Candidate,
    Topics,
    in_order_of_identity,
    partitions_of,
    racks_matter,
)
from quorate.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable


def assign_ranges(topics: Topics, candidates: list[Candidate]) -> Assignment:
    """Return who reads what."""
    assignment: Assignment = {each.member_id: [] for each in candidates}
    shares = [
        _Share(name, topics, [c for c in candidates if name in c.subscription.topics])
        for name in sorted(topics)
    ]
    if any(share.racks_matter for share in shares):
        _assign_near(shares, assignment)
    for share in shares:
        share.give_ranges(assignment, lambda _member_id, _partition: True)
    for partitions in assignment.values():
        partitions.sort()
    return assignment


class _Share:
    """How one topic is shared out.

    Invariant: nobody gets more than an equal share, and the first few, one more if it does not come
    out even.
    """

    def __init__(self, topic: str, topics: Topics, candidates: list[Candidate]) -> None:
        self.topic = topic
        self.member_racks = {
            each.member_id: each.rack_id for each in in_order_of_identity(candidates)
        }
        racks = {rack for rack in self.member_racks.values() if rack is not None}
        self.partition_racks = list(topics[topic]) if racks else []
        self.racks_matter = racks_matter(racks, self.partition_racks)
        self._left = dict.fromkeys(partitions_of(topics, topic))
        self._given = dict.fromkeys(self.member_racks, 0)
        self._equal, self._extra_left = divmod(len(self._left), len(candidates))

    def is_near(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether there is a replica in the member's rack; or it has none."""
        rack = self.member_racks[member_id]
        return rack is None or rack in self.partition_racks[partition.partition]

    def room(self, member_id: str) -> int:
        """Return how many more partitions a member may get."""
        return max(0, self._equal + (self._extra_left > 0) - self._given[member_id])

    def give_ranges(
        self, assignment: Assignment, may_have: Callable[[str, TopicPartition], bool]
    ) -> None:
        """Give each member in turn the next partitions that it may have."""
        for member_id in self.member_racks:
            wanted = [each for each in self._left if may_have(member_id, each)]
            self.give(member_id, wanted[: self.room(member_id)], assignment)

    def give(
        self, member_id: str, partitions: list[TopicPartition], assignment: Assignment
    ) -> None:
        """Give a member partitions."""
        if not partitions:
            return
        assignment[member_id] += partitions
        self._given[member_id] += len(partitions)
        if self._given[member_id] > self._equal:
            self._extra_left -= 1
        for partition in partitions:
            del self._left[partition]


def _assign_near(shares: list[_Share], assignment: Assignment) -> None:
    """Give partitions to members near to them.

    What has the same number, in topics that are read by the same members and have as many
    partitions, goes to the same member.
    """
    alike: dict[tuple[frozenset[tuple[str, str | None]], int], list[_Share]] = {}
    for share in shares:
        key = frozenset(share.member_racks.items()), len(share.partition_racks)
        alike.setdefault(key, []).append(share)
    for (_, partition_count), together in alike.items():
        if len(together) > 1:
            _assign_near_together(together, partition_count, assignment)
        elif together[0].racks_matter:
            together[0].give_ranges(assignment, together[0].is_near)


def _assign_near_together(
    shares: list[_Share], partition_count: int, assignment: Assignment
) -> None:
    for number in range(partition_count):
        for member_id in shares[0].member_racks:
            if all(
                share.is_near(member_id, TopicPartition(share.topic, number))
                and share.room(member_id)
                for share in shares
            ):
                for share in shares:
                    share.give(member_id, [TopicPartition(share.topic, number)], assignment)
                break
