"""Throttling: replicas that move fetch no faster than their broker is told (KIP-73).

The properties are Kafka's: a topic says which replicas are throttled, a broker how many bytes a
second those on it fetch together.  Who fetches waits; leaders need not, as in Kafka, wait as well.
"""

from typing import Final

from quorate.model import TopicPartition
from quorate.quorum.metadata.image import BROKER, CLUSTER_DEFAULT, ConfigResource, MetadataImage
from quorate.settings import TopicConfig

RATE: Final = "follower.replication.throttled.rate"
EVERY_REPLICA: Final = "*"
_ALL_BROKERS: Final = ConfigResource(BROKER, CLUSTER_DEFAULT)


class Throttle:
    """Owns until when the throttled replicas of a broker have fetched what they may by then."""

    __slots__ = ("_node_id", "_own", "_until_ms")

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._own = ConfigResource(BROKER, str(node_id))
        self._until_ms = 0

    def resume_ms(
        self,
        image: MetadataImage,
        config: TopicConfig,
        fetched: tuple[TopicPartition, int],
        now_ms: int,
    ) -> int:
        """Return when a replica that has just fetched so many bytes may fetch more; 0 is now."""
        throttled = config.follower_replication_throttled_replicas
        if not throttled:
            return 0
        topic_partition, size_bytes = fetched
        named = f"{topic_partition.partition}:{self._node_id}"
        if named not in throttled and EVERY_REPLICA not in throttled:
            return 0
        rate = image.config(self._own).get(RATE) or image.config(_ALL_BROKERS).get(RATE)
        if rate is None:
            return 0
        self._until_ms = max(self._until_ms, now_ms) + size_bytes * 1000 // int(rate)
        return self._until_ms
