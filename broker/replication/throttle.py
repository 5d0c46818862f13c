"""Throttling: replicas that move are fetched no faster than their brokers are told (KIP-73).

The properties are Kafka's: a topic says which replicas are throttled, a broker how many bytes a
second those on it fetch together, and those it leads send together to who is not in sync.
"""

from collections.abc import Callable
from typing import Final

from quorate.dataclass import dataclass
from quorate.model import TopicPartition
from quorate.quorum.metadata.image import BROKER, CLUSTER_DEFAULT, ConfigResource, MetadataImage
from quorate.settings import TopicConfig

EVERY_REPLICA: Final = "*"
_ALL_BROKERS: Final = ConfigResource(BROKER, CLUSTER_DEFAULT)


@dataclass(frozen=True, slots=True)
class Side:
    """Which property says how fast, and where a topic says for which replicas that is."""

    rate: str
    replicas: Callable[[TopicConfig], tuple[str, ...]]


FOLLOWING: Final = Side(
    "follower.replication.throttled.rate",
    lambda config: config.follower_replication_throttled_replicas,
)
LEADING: Final = Side(
    "leader.replication.throttled.rate",
    lambda config: config.leader_replication_throttled_replicas,
)


class Throttle:
    """Owns until when the throttled replicas of a broker have moved what they may by then."""

    __slots__ = ("_node_id", "_own", "_side", "_until_ms")

    def __init__(self, node_id: int, side: Side) -> None:
        self._node_id = node_id
        self._side = side
        self._own = ConfigResource(BROKER, str(node_id))
        self._until_ms = 0

    def _rate(self, image: MetadataImage, config: TopicConfig, partition: int) -> int | None:
        """Return how many bytes a second a replica may move; None if it is not throttled."""
        throttled = self._side.replicas(config)
        if not throttled:
            return None
        if f"{partition}:{self._node_id}" not in throttled and EVERY_REPLICA not in throttled:
            return None
        name = self._side.rate
        rate = image.config(self._own).get(name) or image.config(_ALL_BROKERS).get(name)
        return None if rate is None else int(rate)

    def held_until_ms(self, image: MetadataImage, config: TopicConfig, partition: int) -> int:
        """Return before which time a replica may move nothing; 0 if it is not throttled."""
        return 0 if self._rate(image, config, partition) is None else self._until_ms

    def resume_ms(
        self,
        image: MetadataImage,
        config: TopicConfig,
        moved: tuple[TopicPartition, int],
        now_ms: int,
    ) -> int:
        """Return when a replica that has just moved so many bytes may move more; 0 is now."""
        topic_partition, size_bytes = moved
        rate = self._rate(image, config, topic_partition.partition)
        if rate is None:
            return 0
        self._until_ms = max(self._until_ms, now_ms) + size_bytes * 1000 // rate
        return self._until_ms
