"""The assignor ``uniform``: all members read equally many partitions, and keep what they can."""

from collections import deque
from itertools import chain
from typing import Final

from quorate.broker.groups.assigning.values import (
    Assignment,
    Readers,
    TopicIdPartition,
)

STEPS_MAX: Final = 300_000
"""So much is searched at most for a better balance among members that subscribe differently.

It takes a quarter of a second. What is found until then stands; only groups of hundreds of members
with hundreds of different subscriptions come near it.
"""


def assign_uniformly(readers: Readers) -> Assignment:
    """Give every member as many partitions as any other, or one more.

    Among members that subscribe to different topics that may be impossible; then no chain of moves
    from member to member makes it more even. Whoever reads a partition goes on with it, unless that
    is in the way of the balance: among members that subscribe alike as few partitions move as can.
    Equal groups get equal assignments, whatever the order of their members.
    """
    if readers.alike:
        return _among_equals(readers)
    return _Balance(readers).assignment()


def _among_equals(readers: Readers) -> Assignment:
    """Deal partitions to members that all may read all of them."""
    everything = _partitions(readers)
    kept = _kept(readers, everything)
    # Who holds most gets one more than others, if somebody must: so least is taken from anybody.
    in_order = sorted(kept, key=lambda member_id: (-len(kept[member_id]), member_id))
    quota, longer = divmod(len(everything), max(1, len(in_order)))
    quotas = {m: quota + (index < longer) for index, m in enumerate(in_order)}
    for member_id, partitions in kept.items():
        del partitions[quotas[member_id] :]
    free = deque(sorted(everything.difference(chain.from_iterable(kept.values()))))
    # One after the other in turns, so that the partitions of each topic are spread, too.
    takers = deque(m for m in in_order if len(kept[m]) < quotas[m])
    while free:
        member_id = takers.popleft()
        kept[member_id].append(free.popleft())
        if len(kept[member_id]) < quotas[member_id]:
            takers.append(member_id)
    return {member.member_id: frozenset(kept[member.member_id]) for member in readers.members}


def _partitions(readers: Readers) -> set[TopicIdPartition]:
    return {
        TopicIdPartition(topic_id, partition)
        for topic_id, count in readers.partition_counts.items()
        for partition in range(count)
    }


def _kept(readers: Readers, everything: set[TopicIdPartition]) -> dict[str, list[TopicIdPartition]]:
    """Return what members hold of what exists and they subscribe to; nothing is held twice."""
    taken: set[TopicIdPartition] = set()
    kept: dict[str, list[TopicIdPartition]] = {}
    for member in sorted(readers.members, key=lambda m: m.member_id):
        still = [p for p in sorted(member.held & everything) if p.topic_id in member.topics]
        kept[member.member_id] = [p for p in still if p not in taken]
        taken.update(still)
    return kept


class _Balance:
    """Partitions on their way to members that subscribe to different topics.

    Invariant: a partition is with one member, who subscribes to its topic; at the end all are.
    """

    def __init__(self, readers: Readers) -> None:
        everything = _partitions(readers)
        self._order = [member.member_id for member in readers.members]
        self._held_before = {member.member_id: member.held for member in readers.members}
        self._subscribers: dict[bytes, list[str]] = {
            topic: [] for topic in readers.partition_counts
        }
        for member in sorted(readers.members, key=lambda m: m.member_id):
            for topic_id in member.topics:
                self._subscribers[topic_id].append(member.member_id)
        self._loads: dict[str, int] = {}
        self._with: dict[str, dict[bytes, list[TopicIdPartition]]] = {}
        kept = _kept(readers, everything)
        for member_id, partitions in kept.items():
            self._loads[member_id] = 0
            self._with[member_id] = {}
            for partition in partitions:
                self._add(member_id, partition)
        free = everything.difference(chain.from_iterable(kept.values()))
        # Those that few may read come first: others can make way for them later, not the reverse.
        for partition in sorted(free, key=lambda p: (len(self._subscribers[p.topic_id]), p)):
            self._add(min(self._subscribers[partition.topic_id], key=self._load), partition)
        self._steps = 0

    def assignment(self) -> Assignment:
        """Even the members out, and return what each is to read."""
        evener = True
        while evener:
            evener = False
            for member_id in sorted(self._loads, key=lambda m: (-self._loads[m], m)):
                while self._relieve(member_id):
                    evener = True
        return {
            member_id: frozenset(chain.from_iterable(self._with[member_id].values()))
            for member_id in self._order
        }

    def _relieve(self, member_id: str) -> bool:
        """Move partitions along a chain from one member to another that has two fewer, if any.

        Each member of the chain passes one on and gets one, so nobody else's load changes. Members
        are searched breadth first: the shortest chain moves least.
        """
        enough = self._loads[member_id] - 2
        came_from: dict[str, tuple[str, bytes]] = {}
        seen_topics: set[bytes] = set()
        waiting = deque([member_id])
        while waiting and self._steps < STEPS_MAX:
            giver = waiting.popleft()
            for topic_id in sorted(self._with[giver].keys() - seen_topics):
                seen_topics.add(topic_id)
                for taker in self._subscribers[topic_id]:
                    self._steps += 1
                    if taker == member_id or taker in came_from:
                        continue
                    came_from[taker] = (giver, topic_id)
                    if self._loads[taker] <= enough:
                        self._move_along(came_from, taker, member_id)
                        return True
                    waiting.append(taker)
        return False

    def _move_along(self, came_from: dict[str, tuple[str, bytes]], last: str, first: str) -> None:
        taker = last
        while taker != first:
            giver, topic_id = came_from[taker]
            held = self._held_before[giver]
            # Rather what the giver did not read before: that interrupts nobody.
            partition = max(self._with[giver][topic_id], key=lambda p: (p not in held, p))
            self._remove(giver, partition)
            self._add(taker, partition)
            taker = giver

    def _add(self, member_id: str, partition: TopicIdPartition) -> None:
        self._with[member_id].setdefault(partition.topic_id, []).append(partition)
        self._loads[member_id] += 1

    def _remove(self, member_id: str, partition: TopicIdPartition) -> None:
        partitions = self._with[member_id][partition.topic_id]
        partitions.remove(partition)
        if not partitions:
            del self._with[member_id][partition.topic_id]
        self._loads[member_id] -= 1

    def _load(self, member_id: str) -> tuple[int, str]:
        return self._loads[member_id], member_id
