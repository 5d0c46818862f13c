"""What configurations come to: a topic's own property, or else the cluster's.

The controllers and all brokers must agree on these, because they decide together what is committed:
so what a single node was started with does not count.
"""

from typing import Final

from quorate.quorum.metadata.image import (
    BROKER,
    CLUSTER_DEFAULT,
    TOPIC,
    ConfigResource,
    MetadataImage,
)

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
MIN_INSYNC_REPLICAS_DEFAULT: Final = 1
UNCLEAN_LEADER_ELECTION: Final = "unclean.leader.election.enable"

SUCCESSION_RULES: Final = frozenset({MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION})
"""The properties that decide who may lead partitions: topics have them, or the whole cluster."""

CLUSTER_CONFIG: Final = ConfigResource(BROKER, CLUSTER_DEFAULT)


def min_insync_replicas(image: MetadataImage, topic: str) -> int:
    """Return how many replicas of a topic's partitions must be in sync to commit anything.

    A partition with fewer replicas needs all of them.
    """
    value = _effective(image, topic, MIN_INSYNC_REPLICAS)
    return MIN_INSYNC_REPLICAS_DEFAULT if value is None else int(value)


def allows_unclean_elections(image: MetadataImage, topic: str) -> bool:
    """Return whether a topic would rather lose committed records than wait."""
    return _effective(image, topic, UNCLEAN_LEADER_ELECTION) == "true"


def _effective(image: MetadataImage, topic: str, name: str) -> str | None:
    value = image.config(ConfigResource(TOPIC, topic)).get(name)
    return image.config(CLUSTER_CONFIG).get(name) if value is None else value
