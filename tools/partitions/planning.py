"""Where partitions should be: evenly on the brokers, over the racks, moving as little as possible.

The order of the rules: every replica on a broker that may have it; the replicas of a partition on
as many racks as there are; the same number of replicas on each broker; the same number of preferred
leaders. A rule gives way to those before it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.model import TopicPartition

Assignment = Mapping[TopicPartition, tuple[int, ...]]


class PlanError(QuorateError):
    """Nothing that is asked for is possible."""


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that is to be elsewhere, or to be led by another first replica."""

    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a copy."""
        return tuple(broker_id for broker_id in self.after if broker_id not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        """Brokers that lose theirs."""
        return tuple(broker_id for broker_id in self.before if broker_id not in self.after)


def plan_moves(now: Assignment, racks: Mapping[int, str]) -> list[Move]:
    """Return what to move so that partitions lie well on the brokers of ``racks``.

    Args:
        now: The replicas of each partition, the preferred leader first.
        racks: The brokers that may have replicas, and where each stands; "" counts as no rack.

    Raises:
        PlanError: a partition has more replicas than there are brokers.
    """
    for partition, replicas in now.items():
        if len(replicas) > len(racks):
            raise PlanError(
                f"{partition} has {len(replicas)} replicas, and there would be {len(racks)} brokers"
            )
    planner = _Planner(now, racks)
    planner.replace_what_must_go()
    planner.spread_over_racks()
    planner.even_out()
    planner.even_out_leaders()
    return [
        Move(partition, before, tuple(planner.replicas[partition]))
        for partition, before in now.items()
        if tuple(planner.replicas[partition]) != before
    ]


class _Planner:
    """Owns an assignment that becomes better step by step.

    Invariant: ``load`` and ``topic_load`` are the replicas of each broker in ``replicas``.
    """

    def __init__(self, now: Assignment, racks: Mapping[int, str]) -> None:
        self.replicas = {partition: list(replicas) for partition, replicas in now.items()}
        self._before = now
        self._racks = racks
        self._load = dict.fromkeys(sorted(racks), 0)
        self._topic_load: Counter[tuple[str, int]] = Counter()
        self._on: defaultdict[int, set[TopicPartition]] = defaultdict(set)
        for partition, replicas in now.items():
            for broker_id in replicas:
                self._count(partition, broker_id, 1)

    def _count(self, partition: TopicPartition, broker_id: int, change: int) -> None:
        if broker_id not in self._load:
            return
        self._load[broker_id] += change
        self._topic_load[partition.topic, broker_id] += change
        if change > 0:
            self._on[broker_id].add(partition)
        else:
            self._on[broker_id].discard(partition)

    def _swap(self, partition: TopicPartition, old: int, new: int) -> None:
        """Give a replica to another broker, at the same place of the list."""
        replicas = self.replicas[partition]
        replicas[replicas.index(old)] = new
        self._count(partition, old, -1)
        self._count(partition, new, 1)

    def _crowd(self, partition: TopicPartition, without: int) -> Counter[str]:
        """Return how many of a partition's other replicas stand in each rack."""
        others = (b for b in self.replicas[partition] if b != without and b in self._racks)
        return Counter(self._racks[broker_id] for broker_id in others)

    def _best(self, partition: TopicPartition, old: int) -> int:
        """Return who should have a replica instead: alone in its rack if possible, least loaded."""
        crowd = self._crowd(partition, old)
        free = (b for b in self._load if b not in self.replicas[partition])
        return min(
            free,
            key=lambda b: (
                crowd[self._racks[b]],
                self._load[b],
                self._topic_load[partition.topic, b],
                b,
            ),
        )

    def replace_what_must_go(self) -> None:
        for partition, replicas in self.replicas.items():
            for broker_id in list(replicas):
                if broker_id not in self._racks:
                    self._swap(partition, broker_id, self._best(partition, broker_id))

    def spread_over_racks(self) -> None:
        for partition, replicas in self.replicas.items():
            for _ in range(len(replicas)):
                if not self._spread_one(partition):
                    break

    def _spread_one(self, partition: TopicPartition) -> bool:
        """Move one replica from the most crowded rack to one with two less; whether there was."""
        crowd = self._crowd(partition, -1)
        most = max(crowd.values())
        free = [b for b in self._load if b not in self.replicas[partition]]
        better = [b for b in free if crowd[self._racks[b]] <= most - 2]
        if not better:
            return False
        new = min(better, key=lambda b: (crowd[self._racks[b]], self._load[b], b))
        crowded = [b for b in self.replicas[partition] if crowd[self._racks[b]] == most]
        # The one that was to come anyway, or that has most; the preferred leader stays if it can.
        kept = self._before[partition]
        old = max(crowded, key=lambda b: (b not in kept, b != kept[0], self._load[b], b))
        self._swap(partition, old, new)
        return True

    def even_out(self) -> None:
        while self._even_one():
            pass

    def _even_one(self) -> bool:
        """Move one replica from a broker to one that has at least two less; whether there was."""
        by_load = sorted(self._load, key=lambda b: (self._load[b], b))
        for old in reversed(by_load):
            for new in by_load:
                if self._load[old] - self._load[new] < 2:
                    break
                partition = self._movable(old, new)
                if partition is not None:
                    self._swap(partition, old, new)
                    return True
        return False

    def _movable(self, old: int, new: int) -> TopicPartition | None:
        """Return a partition to move between two brokers that no rack is worse off for.

        Rather one that moves anyway, then one of a topic that is uneven between the two.
        """
        found = [
            p for p in self._on[old] if p not in self._on[new] and self._racks_allow(p, old, new)
        ]

        def rank(partition: TopicPartition) -> tuple[bool, int, bool, TopicPartition]:
            topic = partition.topic
            uneven = self._topic_load[topic, new] - self._topic_load[topic, old]
            before = self._before[partition]
            return old in before, uneven, old == before[0], partition

        return min(found, key=rank, default=None)

    def _racks_allow(self, partition: TopicPartition, old: int, new: int) -> bool:
        crowd = self._crowd(partition, old)
        return crowd[self._racks[new]] <= crowd[self._racks[old]]

    def even_out_leaders(self) -> None:
        """Change who stands first, along short chains from who leads most to who leads less."""
        while True:
            led: defaultdict[int, list[TopicPartition]] = defaultdict(list)
            for partition, replicas in self.replicas.items():
                if replicas:
                    led[replicas[0]].append(partition)
            count = {broker_id: len(led[broker_id]) for broker_id in self._load}
            for start in sorted(count, key=lambda b: (-count[b], b)):
                chain = self._chain(start, led, count)
                if chain:
                    break
            else:
                return
            for partition, new in chain:
                replicas = self.replicas[partition]
                at = replicas.index(new)
                replicas[0], replicas[at] = replicas[at], replicas[0]

    def _chain(
        self, start: int, led: Mapping[int, Sequence[TopicPartition]], count: Mapping[int, int]
    ) -> list[tuple[TopicPartition, int]]:
        """Return which partitions pass to whom so that ``start`` leads one less, another one more.

        Empty if nobody who leads at least two less can be reached.
        """
        came: dict[int, tuple[int, TopicPartition]] = {}
        queue = [start]
        for broker_id in queue:
            for partition in led.get(broker_id, ()):
                for other in self.replicas[partition][1:]:
                    if other in came or other == start:
                        continue
                    came[other] = (broker_id, partition)
                    if count[other] <= count[start] - 2:
                        return _walked(came, start, other)
                    queue.append(other)
        return []


def _walked(
    came: Mapping[int, tuple[int, TopicPartition]], start: int, end: int
) -> list[tuple[TopicPartition, int]]:
    steps: list[tuple[TopicPartition, int]] = []
    while end != start:
        before, partition = came[end]
        steps.append((partition, end))
        end = before
    return steps


def loads(assignment: Assignment, broker_ids: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Return how many partitions each broker leads first, and how many replicas it has."""
    led = Counter(replicas[0] for replicas in assignment.values() if replicas)
    had = Counter(broker_id for replicas in assignment.values() for broker_id in replicas)
    return {b: (led[b], had[b]) for b in sorted({*broker_ids, *had})}
