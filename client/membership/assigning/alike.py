"""The sticky assignors among members that all want the same topics.

Everybody gets an equal share, and some one partition more if it does not come out even. Source:
``ConstrainedAssignmentBuilder`` in Kafka's ``AbstractStickyAssignor``; the order of every step is
its, too, so that the outcome is the same.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from quorate.client.membership.assigning.model import partitions_of

if TYPE_CHECKING:
    from quorate.client.membership.assigning.claims import Owned
    from quorate.client.membership.assigning.model import Assignment, Topics
    from quorate.client.membership.assigning.near import Nearness
    from quorate.model import TopicPartition


class AlikeMembers:
    """Assigns partitions to members that want the same topics.

    Invariant: ``_full_count`` members have the larger share, never more than ``_full_max``; members
    that may get more are either below the smaller share (``_below``) or have just that and may get
    the larger one (``_at``).
    """

    def __init__(self, topics: Topics, nearness: Nearness, owned: Owned) -> None:
        self._all = [each for topic in sorted(topics) for each in partitions_of(topics, topic)]
        self._nearness = nearness
        self._owned = owned
        self._smaller, self._full_max = divmod(len(self._all), len(owned.by_member))
        self._larger = self._smaller + (self._full_max > 0)
        self._full_count = 0
        self._below: list[str] = []
        self._at: deque[str] = deque()
        self._next_below = 0
        self._taken_away: dict[TopicPartition, str] = {}
        self.assignment: Assignment = {member_id: [] for member_id in owned.by_member}
        self.moving: dict[TopicPartition, str] = {}
        """What goes from one member to another, and to whom."""

    def assign(self) -> Assignment:
        """Return who reads what."""
        for member_id, partitions in self._owned.by_member.items():
            self._keep(member_id, partitions)
        kept = {each for partitions in self.assignment.values() for each in partitions}
        free = [each for each in self._all if each not in kept]
        self._below.sort()
        self._at = deque(sorted(self._at))
        free = self._nearness.hardest_first(free)
        if self._nearness.matters:
            free = [each for each in free if not self._give_to_a_near_one(each)]
        self._give_in_turns(free)
        return self.assignment

    def _keep(self, member_id: str, owned: list[TopicPartition]) -> None:
        """Leave a member what it has, up to its share."""
        keepable: list[TopicPartition] = []
        for partition in sorted(owned, key=lambda each: (each.partition, each.topic)):
            if self._nearness.is_far(member_id, partition):
                self._taken_away[partition] = member_id
            elif partition not in self._owned.contested:
                keepable.append(partition)
        if len(keepable) < self._smaller:
            kept = len(keepable)
            self._below.append(member_id)
        elif len(keepable) >= self._larger and self._full_count < self._full_max:
            kept = self._larger
            self._one_more_is_full()
        else:
            kept = self._smaller
            if self._full_count < self._full_max:
                self._at.append(member_id)
        self.assignment[member_id] = keepable[:kept]
        self._taken_away.update(dict.fromkeys(keepable[kept:], member_id))

    def _one_more_is_full(self) -> None:
        self._full_count += 1
        if self._full_count == self._full_max:
            self._at.clear()

    def _give_to_a_near_one(self, partition: TopicPartition) -> bool:
        """Give a partition to the next member in its racks; whether there is one with room."""
        index = self._nearness.next_near(partition, self._below, self._next_below)
        if index is not None:
            self._give_below(partition, index)
            return True
        index = self._nearness.next_near(partition, self._at, 0)
        if index is None:
            return False
        member_id = self._at[index]
        del self._at[index]
        self._one_more_is_full()
        self._give(partition, member_id)
        return True

    def _give_below(self, partition: TopicPartition, index: int) -> None:
        member_id = self._below[index]
        if self._give(partition, member_id) >= self._smaller:
            del self._below[index]
            if self._smaller < self._larger and self._full_count < self._full_max:
                self._at.append(member_id)
        else:
            index += 1
        self._next_below = index % len(self._below) if self._below else 0

    def _give_in_turns(self, free: list[TopicPartition]) -> None:
        """Fill everybody up to the smaller share, and then some to the larger one."""
        at = 0
        for partition in free:
            if not self._below:
                self._give(partition, self._at.popleft())
                continue
            if at == len(self._below):
                at = 0
            member_id = self._below[at]
            if self._give(partition, member_id) == self._smaller:
                del self._below[at]
                self._at.append(member_id)
            else:
                at += 1

    def _give(self, partition: TopicPartition, member_id: str) -> int:
        """Give a member a partition, and return how many it has now."""
        had_by = self._taken_away.get(partition, member_id)
        if had_by != member_id or partition in self._owned.contested:
            self.moving[partition] = member_id
        self.assignment[member_id].append(partition)
        return len(self.assignment[member_id])
