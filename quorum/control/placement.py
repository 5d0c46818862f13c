"""Which brokers hold which replica of a new partition: spread over brokers, and over racks."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from quorate.errors import InvalidReplicationFactorError
from quorate.quorum.metadata.image import BrokerImage

if TYPE_CHECKING:
    from random import Random


class Placement:
    """Places the partitions of one request.

    State: the brokers in two circles, those in service and the others (fenced, shutting down, being
    drained, unable to write), each in random order with the racks spread evenly over it.
    """

    def __init__(self, brokers: Mapping[int, BrokerImage], rng: "Random") -> None:
        self._rng = rng
        able = [b for b in brokers.values() if b.may_lead]
        live = [b for b in able if not b.is_spared] or able
        placed = {b.broker_id for b in live}
        others = [b for b in brokers.values() if b.broker_id not in placed]
        self._live = _Circle(live, rng)
        self._others = _Circle(others, rng)

    def place(self, partition_count: int, replication_factor: int) -> tuple[tuple[int, ...], ...]:
        """Return the replicas of each partition of a topic, the preferred leader first.

        Leaders go round the brokers in service; the other replicas go to racks that have none of
        the partition yet as long as there are such. Other brokers get replicas only if there are
        not enough of those, and never the first one.

        Raises:
            InvalidReplicationFactorError: there are too few brokers, or none in service.
        """
        count = len(self._live.brokers) + len(self._others.brokers)
        if replication_factor > count:
            raise InvalidReplicationFactorError(
                f"replication factor {replication_factor}, but only {count} brokers exist"
            )
        leaders = len(self._live.brokers)
        if not leaders:
            raise InvalidReplicationFactorError("no broker is in service")
        start = self._rng.randrange(leaders)
        # So often the followers are shifted until it is as it was before any shift.
        turns = max(1, leaders - 1) * max(1, len(self._others.brokers))
        again = min(partition_count, leaders * turns)
        placed = [
            self._replicas((start + n) % leaders, n // leaders, replication_factor)
            for n in range(again)
        ]
        return tuple(placed[n % again] for n in range(partition_count))

    def _replicas(self, leader: int, turn: int, replication_factor: int) -> tuple[int, ...]:
        """Return a partition's replicas: its leader, and those that follow it in the circle.

        ``turn`` shifts the followers, so that the partitions of one leader do not all share them.
        """
        broker = self._live.brokers[leader]
        chosen = {broker.broker_id: broker.rack}
        if len(chosen) < replication_factor:
            others = max(1, len(self._live.brokers) - 1)
            self._live.choose(chosen, replication_factor, leader + 1 + turn % others)
        if len(chosen) < replication_factor:
            self._others.choose(chosen, replication_factor, leader + turn)
        return tuple(chosen)


class _Circle:
    """Some brokers in random order, those of each rack spread evenly over it; never changes."""

    def __init__(self, brokers: Iterable[BrokerImage], rng: "Random") -> None:
        racks: defaultdict[str | None, list[BrokerImage]] = defaultdict(list)
        for broker in sorted(brokers, key=lambda b: b.broker_id):
            racks[broker.rack].append(broker)
        columns = list(racks.values())
        rng.shuffle(columns)
        for column in columns:
            rng.shuffle(column)
        placed = [((n + 0.5) / len(column), b) for column in columns for n, b in enumerate(column)]
        self.brokers = [b for _, b in sorted(placed, key=lambda item: item[0])]
        self._rack_count = len(racks)

    def choose(self, chosen: dict[int, str | None], count: int, start: int) -> None:
        """Add brokers to those chosen (with their racks) until there are so many, or no more here.

        The circle is walked from ``start``; racks with the fewest of those chosen come first.
        """
        racks = Counter(chosen.values())
        for few in range(count):
            done = set[str | None]()
            for n in range(start, start + len(self.brokers)):
                broker = self.brokers[n % len(self.brokers)]
                rack = broker.rack
                if racks[rack] == few and broker.broker_id not in chosen:
                    chosen[broker.broker_id] = rack
                    racks[rack] += 1
                    if len(chosen) == count:
                        return
                if racks[rack] > few:
                    done.add(rack)
                    if len(done) == self._rack_count:
                        break
