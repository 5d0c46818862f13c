"""How the partitions of a cluster are: led or not, in sync or not; counted for each broker."""

from collections.abc import Iterable, Mapping, Sequence

from quorate.client.admin_results import PartitionDescription, TopicDescription
from quorate.dataclass import dataclass
from quorate.model import NO_LEADER


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What a broker has: partitions that it leads, replicas, and those that are not in sync."""

    leaders: int = 0
    replicas: int = 0
    out_of_sync: int = 0


@dataclass(frozen=True, slots=True)
class Health:
    """Partitions by how they are; one that is offline is under-replicated, too."""

    topics: int = 0
    partitions: int = 0
    offline: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0

    @property
    def is_good(self) -> bool:
        """Whether every partition is led and every replica in sync."""
        return self.offline == 0 and self.under_replicated == 0


def is_offline(partition: PartitionDescription) -> bool:
    """Whether nobody leads it: nothing can be written or read."""
    return partition.leader_id == NO_LEADER


def is_under_replicated(partition: PartitionDescription) -> bool:
    """Whether a replica is not in sync."""
    return len(partition.isr) < len(partition.replicas)


def is_under_min_isr(partition: PartitionDescription, min_isr: int) -> bool:
    """Whether acks=all is refused; a topic with few replicas needs only those."""
    return len(partition.isr) < _needed(partition, min_isr)


def is_at_min_isr(partition: PartitionDescription, min_isr: int) -> bool:
    """Whether acks=all would be refused if one more left; of no interest if all are in sync."""
    at_least = len(partition.isr) == _needed(partition, min_isr)
    return at_least and is_under_replicated(partition)


def _needed(partition: PartitionDescription, min_isr: int) -> int:
    return min(min_isr, len(partition.replicas))


def health_of(topics: Sequence[TopicDescription], min_isr: Mapping[str, int]) -> Health:
    """Return the counts; ``min_isr`` by topic, 1 where it is missing."""
    pairs = [(p, min_isr.get(topic.name, 1)) for topic in topics for p in topic.partitions]
    return Health(
        topics=len(topics),
        partitions=len(pairs),
        offline=sum(is_offline(p) for p, _ in pairs),
        under_replicated=sum(is_under_replicated(p) for p, _ in pairs),
        under_min_isr=sum(is_under_min_isr(p, least) for p, least in pairs),
        at_min_isr=sum(is_at_min_isr(p, least) for p, least in pairs),
    )


def loads_of(topics: Iterable[TopicDescription]) -> dict[int, BrokerLoad]:
    """Return what each broker has that has anything."""
    leaders: dict[int, int] = {}
    replicas: dict[int, int] = {}
    lagging: dict[int, int] = {}
    for topic in topics:
        for partition in topic.partitions:
            if not is_offline(partition):
                leaders[partition.leader_id] = leaders.get(partition.leader_id, 0) + 1
            for broker_id in partition.replicas:
                replicas[broker_id] = replicas.get(broker_id, 0) + 1
                lagging[broker_id] = lagging.get(broker_id, 0) + (broker_id not in partition.isr)
    return {
        broker_id: BrokerLoad(leaders.get(broker_id, 0), count, lagging[broker_id])
        for broker_id, count in replicas.items()
    }


def health_lines(health: Health) -> str:
    """Return the counts in words."""
    if health.partitions == 0:
        return "no topics yet"
    text = f"{counted(health.partitions, 'partition')} in {counted(health.topics, 'topic')}"
    if health.is_good:
        return f"{text}: all led, all replicas in sync"
    counts = (
        (health.offline, "offline"),
        (health.under_replicated, "under-replicated"),
        (health.under_min_isr, "under min ISR"),
        (health.at_min_isr, "at min ISR"),
    )
    return f"{text}: " + ", ".join(f"{count} {what}" for count, what in counts if count)


def counted(count: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{count} {what}{'' if count == 1 else 's'}"
