"""ClusterView: brokers, topics and leaders, as last heard."""

from collections.abc import Sequence
from ipaddress import AddressValueError, IPv6Address
from typing import Final

from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, known_code
from quorate.model import NO_LEADER, PORT_MAX, Endpoint, TopicPartition, is_host
from quorate.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

DEFAULT_PORT: Final = 9092


def parse_bootstrap(addresses: str | Sequence[str]) -> tuple[Endpoint, ...]:
    """Return the endpoints of ``host:port,host:port`` or of a sequence of ``host:port``.

    The port may be left out; IPv6 addresses with a port stand in brackets.

    Raises:
        ValueError: An address is not of that form, or there is none.
    """
    listed = addresses.split(",") if isinstance(addresses, str) else addresses
    endpoints = tuple(_parse_endpoint(entry.strip()) for entry in listed if entry.strip())
    if not endpoints:
        raise ValueError("no bootstrap address; try '127.0.0.1:9092'")
    return endpoints


def _parse_endpoint(address: str) -> Endpoint:
    bracket, closed, rest = address.rpartition("]")
    if closed:
        host, port = bracket.removeprefix("["), rest.removeprefix(":")
    elif address.count(":") > 1:  # an IPv6 address without a port
        host, port = address, ""
    else:
        host, _, port = address.partition(":")
    known = _is_ipv6(host) if ":" in host else is_host(host)
    if not known or (port and not (port.isdecimal() and 0 < int(port) <= PORT_MAX)):
        raise ValueError(f"{address!r} is not an address; try 'host:port', as in '127.0.0.1:9092'")
    return Endpoint(host, int(port) if port else DEFAULT_PORT)


def _is_ipv6(host: str) -> bool:
    try:
        IPv6Address(host)
    except AddressValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition, as a broker described it."""

    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic, as a broker described it; with an error there may be no partitions."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: dict[int, PartitionView]
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a partition, and since which epoch."""

    broker_id: int
    epoch: int


class ClusterView:
    """What brokers said last about brokers, topics and leaders.

    Invariant: as long as a topic keeps its id, the leader epoch of a partition never goes back, so
    that the answer of a broker that lags behind does not undo what is known.
    """

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = NO_LEADER
        self.brokers: dict[int, Endpoint] = {}
        self.topics: dict[str, TopicView] = {}

    def update(self, response: MetadataResponse) -> None:
        """Learn from an answer; topics that it does not mention stay as they are."""
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {b.node_id: Endpoint(b.host, b.port) for b in response.brokers}
        for topic in response.topics:
            if topic.name is not None:
                self.topics[topic.name] = self._merge(topic.name, topic)

    def _merge(self, name: str, topic: MetadataResponseTopic) -> TopicView:
        known = self.topics.get(name)
        same_topic = known is not None and known.topic_id == topic.topic_id
        partitions: dict[int, PartitionView] = {}
        for told in topic.partitions:
            view = PartitionView(
                leader_id=told.leader_id,
                leader_epoch=told.leader_epoch,
                replicas=tuple(told.replica_nodes),
                isr=tuple(told.isr_nodes),
                error=known_code(told.error_code),
            )
            before = known.partitions.get(told.partition_index) if known and same_topic else None
            newer = before is None or view.leader_epoch >= before.leader_epoch
            partitions[told.partition_index] = view if before is None or newer else before
        return TopicView(
            name=name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=partitions,
            error=known_code(topic.error_code),
        )

    def partition_count(self, topic: str) -> int | None:
        """Return how many partitions the topic has, or None if it is not known."""
        view = self.topics.get(topic)
        return len(view.partitions) if view and view.partitions else None

    def leader_of(self, topic_partition: TopicPartition) -> Leader | None:
        """Return who leads the partition and can be reached, or None if nobody is known to."""
        topic = self.topics.get(topic_partition.topic)
        partition = topic.partitions.get(topic_partition.partition) if topic else None
        if partition is None or partition.leader_id not in self.brokers:
            return None
        return Leader(partition.leader_id, partition.leader_epoch)

    def lacks_leaders(self, topics: Sequence[str]) -> bool:
        """Whether one of the topics is not known, or a partition of one has no leader."""
        for name in topics:
            topic = self.topics.get(name)
            if topic is None or not topic.partitions:
                return True
            if any(view.leader_id == NO_LEADER for view in topic.partitions.values()):
                return True
        return False
