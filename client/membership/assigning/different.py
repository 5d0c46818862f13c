"""The sticky assignors among members that do not all want the same topics.

What members have stays theirs; the rest goes to whoever has least; then partitions move as long as
that makes it more even. Source: ``GeneralAssignmentBuilder`` in Kafka's ``AbstractStickyAssignor``;
the order of every step is its, too, so that the outcome is the same.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from quorate.client.membership.assigning.model import partitions_of
from quorate.client.membership.assigning.movements import Movements

if TYPE_CHECKING:
    from collections.abc import Callable

    from quorate.client.membership.assigning.claims import Owned
    from quorate.client.membership.assigning.model import Assignment, Candidate, Topics
    from quorate.client.membership.assigning.near import Nearness
    from quorate.model import TopicPartition


class DifferentMembers:
    """Assigns partitions to members that want different topics.

    Invariant: ``_by_load`` has all members that take part, by how many partitions they have.
    """

    def __init__(
        self,
        topics: Topics,
        candidates: list[Candidate],
        nearness: Nearness,
        owned: Owned,
        before: dict[TopicPartition, str],
    ) -> None:
        self._nearness = nearness
        self._before = before
        self._wanted = {
            each.member_id: frozenset(t for t in each.subscription.topics if t in topics)
            for each in candidates
        }
        self._wanted_by = {
            topic: [each for each, wanted in self._wanted.items() if topic in wanted]
            for topic in topics
        }
        self._sizes = {topic: len(racks) for topic, racks in topics.items()}
        # Partitions of the topics that the fewest want come first.
        self._all = [
            partition
            for topic in sorted(topics, key=lambda each: (len(self._wanted_by[each]), each))
            for partition in partitions_of(topics, topic)
        ]
        self._movements = Movements()
        self._has_to_give_up = False
        self.assignment: Assignment = {}
        self._owner: dict[TopicPartition, str] = {}
        for member_id, partitions in owned.by_member.items():
            self.assignment[member_id] = [p for p in partitions if self._keeps(member_id, p)]
            self._owner.update(dict.fromkeys(self.assignment[member_id], member_id))
        self._by_load = sorted((len(had), each) for each, had in self.assignment.items())

    def _keeps(self, member_id: str, partition: TopicPartition) -> bool:
        keeps = partition.topic in self._wanted[member_id] and not self._nearness.is_far(
            member_id, partition
        )
        self._has_to_give_up |= not keeps
        return keeps

    def assign(self) -> Assignment:
        """Return who reads what."""
        free = [each for each in self._all if each not in self._owner]
        self._give_all(free)
        # Only these can go to somebody else, and only these members can get or give.
        movable = [each for each in self._all if len(self._wanted_by[each.topic]) > 1]
        settled = {each for each in self.assignment if not self._takes_part(each)}
        self._by_load = [entry for entry in self._by_load if entry[1] not in settled]
        if not self._has_to_give_up:
            # Moving what is new costs nobody anything.
            self._even_out([each for each in free if len(self._wanted_by[each.topic]) > 1])
        self._even_out(movable)
        return self.assignment

    # Giving

    def _give_all(self, free: list[TopicPartition]) -> None:
        """Give what nobody has to whoever has least, near ones first."""
        if self._nearness.matters:
            free = [each for each in free if not self._give(each, near_only=True)]
        for partition in free:
            self._give(partition, near_only=False)

    def _give(self, partition: TopicPartition, *, near_only: bool) -> bool:
        """Give a partition to whoever has least; whether there is somebody."""
        for _, member_id in self._by_load:
            if partition.topic in self._wanted[member_id] and not (
                near_only and self._nearness.is_far(member_id, partition)
            ):
                self._change(member_id, lambda had: had.append(partition))
                self._owner[partition] = member_id
                return True
        return False

    def _change(self, member_id: str, change: Callable[[list[TopicPartition]], None]) -> None:
        had = self.assignment[member_id]
        del self._by_load[bisect_left(self._by_load, (len(had), member_id))]
        change(had)
        insort(self._by_load, (len(had), member_id))

    def _takes_part(self, member_id: str) -> bool:
        """Whether a member can get partitions or give some away."""
        had = self.assignment[member_id]
        could_have = sum(self._sizes[topic] for topic in self._wanted[member_id])
        return len(had) < could_have or any(len(self._wanted_by[p.topic]) > 1 for p in had)

    # Evening out

    def _even_out(self, partitions: list[TopicPartition]) -> None:
        """Move partitions until nobody could be better served."""
        moved = True
        while moved:
            moved = False
            for partition in partitions:
                if self._is_even():
                    break
                member_id = self._better_owner(partition)
                if member_id is not None:
                    self._move(partition, member_id)
                    moved = True

    def _is_even(self) -> bool:
        """Whether nobody could get a partition from somebody with two more."""
        if not self._by_load or self._by_load[0][0] >= self._by_load[-1][0] - 1:
            return True
        most: dict[str, int] = {}
        for count, member_id in self._by_load:
            for partition in self.assignment[member_id]:
                most[partition.topic] = count  # ascending: the last one counts
        return all(
            most.get(topic, 0) <= count + 1
            for count, member_id in self._by_load
            for topic in self._wanted[member_id]
        )

    def _better_owner(self, partition: TopicPartition) -> str | None:
        """Return who should rather have a partition: who had it before, or who has least."""
        load = len(self.assignment[self._owner[partition]])
        before = self._before.get(partition)
        if before is not None and load > len(self.assignment[before]) + 1:
            return before
        wanted_by = self._wanted_by[partition.topic]
        if any(load > len(self.assignment[each]) + 1 for each in wanted_by):
            return next(each for _, each in self._by_load if partition.topic in self._wanted[each])
        return None

    def _move(self, partition: TopicPartition, member_id: str) -> None:
        owner = self._owner[partition]
        moving = self._movements.instead_of(partition, owner, member_id)
        owner = self._owner[moving]
        self._movements.move(moving, owner, member_id)
        self._change(owner, lambda had: had.remove(moving))
        self._change(member_id, lambda had: had.append(moving))
        self._owner[moving] = member_id
