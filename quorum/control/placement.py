"""Which brokers hold which replica of a new partition: spread over brokers, and over racks."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING

from quorate.errors import InvalidReplicationFactorError
from quorate.quorum.metadata.image import BrokerImage

if TYPE_CHECKING:
    from random import Random


def place(
    brokers: Mapping[int, BrokerImage], partition_count: int, replication_factor: int, rng: "Random"
) -> tuple[tuple[int, ...], ...]:
    """Return the replicas of each new partition, the preferred leader first.

    Leaders go round the brokers in service; the other replicas go to racks that have none of the
    partition yet as long as there are such. Fenced brokers get replicas only if there are not
    enough others, and never the first one.

    Raises:
        InvalidReplicationFactorError: there are too few brokers, or none in service.
    """
    if replication_factor > len(brokers):
        raise InvalidReplicationFactorError(
            f"replication factor {replication_factor}, but only {len(brokers)} brokers exist"
        )
    circle = _interleaved_by_rack(brokers.values(), rng)
    leaders = [b for b in circle if not b.fenced]
    if not leaders:
        raise InvalidReplicationFactorError("no broker is in service")
    start = rng.randrange(len(leaders))
    return tuple(
        _replicas(
            leaders[(start + n) % len(leaders)], circle, n // len(leaders), replication_factor
        )
        for n in range(partition_count)
    )


def _interleaved_by_rack(brokers: Iterable[BrokerImage], rng: "Random") -> list[BrokerImage]:
    """Return the brokers in random order, neighbours in different racks as far as that goes."""
    racks: defaultdict[str | None, list[BrokerImage]] = defaultdict(list)
    for broker in sorted(brokers, key=lambda b: b.broker_id):
        racks[broker.rack].append(broker)
    columns = list(racks.values())
    rng.shuffle(columns)
    for column in columns:
        rng.shuffle(column)
    return [b for row in zip_longest(*columns) for b in row if b is not None]


def _replicas(
    leader: BrokerImage, circle: list[BrokerImage], turn: int, replication_factor: int
) -> tuple[int, ...]:
    """Return a partition's replicas: its leader, and those that follow it in the circle.

    ``turn`` shifts the followers, so that the partitions of one leader do not all share them.
    """
    chosen = [leader]
    racks = Counter([leader.rack])
    after = circle.index(leader) + 1
    others = [b for b in circle[after:] + circle[:after] if b is not leader]
    shift = turn % len(others) if others else 0
    candidates = others[shift:] + others[:shift]
    while len(chosen) < replication_factor:
        best = min(candidates, key=lambda b: (b.fenced, racks[b.rack]))
        candidates.remove(best)
        chosen.append(best)
        racks[best.rack] += 1
    return tuple(b.broker_id for b in chosen)
