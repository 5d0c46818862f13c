"""Levels of features: what the nodes of a cluster, perhaps of different versions, may rely on.

``metadata.version`` is the level of the metadata itself: a record is only written once the level
that brought it is finalized, which needs every node to know it. The other features are Kafka's:
what brokers offer to clients. See :data:`UNSAID` for a cluster whose metadata does not say.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final

from quorate.control.messages import SupportedFeature
from quorate.errors import QuorateError
from quorate.model import NO_LEADER
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.effective import (
    CLUSTER_CONFIG,
    MIN_INSYNC_REPLICAS,
    MIN_INSYNC_REPLICAS_DEFAULT,
)

METADATA_VERSION: Final = "metadata.version"
FIRST_LEVEL: Final = 1
REPLICATION_LEVEL: Final = 3
"""Brought eligible leader replicas, reassignments, and brokers that shut down or are drained."""

UNWRITABLE_LEVEL: Final = 4
"""Brought brokers that cannot write, for their disks are full or broken."""

NEWEST_LEVEL: Final = UNWRITABLE_LEVEL

GROUP_VERSION: Final = "group.version"
"""At 1, groups may use the new protocol (KIP-848)."""

TRANSACTION_VERSION: Final = "transaction.version"
"""From 2 on, each transaction of a producer that can has an epoch of its own, and partitions join
it by being written (KIP-890). Below, producers are told not to; what is kept of transactions does
not differ, as it does between 0 and 1 on Kafka."""

SUPPORTED: Final[Mapping[str, SupportedFeature]] = {
    METADATA_VERSION: SupportedFeature(METADATA_VERSION, FIRST_LEVEL, NEWEST_LEVEL),
    GROUP_VERSION: SupportedFeature(GROUP_VERSION, 0, 1),
    TRANSACTION_VERSION: SupportedFeature(TRANSACTION_VERSION, 0, 2),
}
"""What this version of Quorate can work at."""

UNSAID: Final[Mapping[str, int]] = {METADATA_VERSION: FIRST_LEVEL} | {
    GROUP_VERSION: 1,
    TRANSACTION_VERSION: 2,
}
"""The levels of a cluster, or of a broker, that does not say: its features were always on."""

PUBLIC_NAMES: Final[Mapping[str, str]] = {METADATA_VERSION: "quorate.metadata.version"}
"""What clients call a feature: they take ``metadata.version`` for the number of a Kafka release."""

LEVELS: Final[Mapping[type[object], int]] = {
    r.AclAdded: 2,
    r.AclRemoved: 2,
    r.ScramCredentialSet: 2,
    r.ScramCredentialRemoved: 2,
    r.ClientQuotaSet: 2,
    r.ClientQuotaRemoved: 2,
    r.BrokerChanged: REPLICATION_LEVEL,
}
"""The level of ``metadata.version`` that brought a record; those that are not here were always."""

_EXTENSIONS: Final[Mapping[type[object], tuple[int, Callable[[Any], Any], object]]] = {
    r.BrokerChanged: (UNWRITABLE_LEVEL, attrgetter("cannot_write"), None),
    r.PartitionCreated: (
        REPLICATION_LEVEL,
        attrgetter("adding_replicas", "removing_replicas", "elr", "last_known_leader"),
        ((), (), (), NO_LEADER),
    ),
    r.PartitionChanged: (
        REPLICATION_LEVEL,
        attrgetter("replicas", "adding_replicas", "removing_replicas", "elr", "last_known_leader"),
        (None, None, None, None, None),
    ),
}
"""The fields of a record that came later, with which level, and what they are below it."""


def level_of(record: r.MetadataRecord) -> int:
    """Return the level of ``metadata.version`` that brought a record, or what it says."""
    extensions = _EXTENSIONS.get(type(record))
    if extensions is not None:
        level, fields, absent = extensions
        if fields(record) != absent:
            return level
    return LEVELS.get(type(record), FIRST_LEVEL)


class UnsupportedLevelError(QuorateError):
    """The cluster works at a level that this version does not know: it must not take part."""

    def __init__(self, name: str, level: int) -> None:
        known = SUPPORTED.get(name)
        levels = f"only {known.level_min} to {known.level_max}" if known else "nothing of it"
        super().__init__(
            f"the cluster works at {name} {level}, this version of Quorate knows {levels}: "
            "upgrade this node"
        )


def check_supported(name: str, level: int) -> None:
    """Refuse to take part in a cluster that works at a level of the future.

    Raises:
        UnsupportedLevelError: this version does not know the level.
    """
    if level and not supports(SUPPORTED.values(), name, level):
        raise UnsupportedLevelError(name, level)


def supports(features: Iterable[SupportedFeature], name: str, level: int) -> bool:
    """Return whether a node with these features can work at a level; 0 is "switched off"."""
    found = next((f for f in features if f.name == name), None)
    if found is None:
        return level in (0, UNSAID.get(name, 0))
    return level == 0 or found.level_min <= level <= found.level_max


def level_in(features: Mapping[str, int], name: str) -> int:
    """Return the level that a feature works at, given those that the metadata say."""
    return features.get(name, UNSAID.get(name, 0))


def public_name(name: str) -> str:
    """Return what clients call a feature."""
    return PUBLIC_NAMES.get(name, name)


def metadata_level(features: Mapping[str, int]) -> int:
    """Return the level of the metadata, given the finalized features."""
    return level_in(features, METADATA_VERSION)


def bootstrap_records(
    cluster_id: str, now_ms: int, min_insync_replicas: int = MIN_INSYNC_REPLICAS_DEFAULT
) -> tuple[r.MetadataRecord, ...]:
    """Return the first records of a new cluster, which works at the newest levels.

    What its controllers and brokers decide by together is a fact of the cluster from the start.
    """
    cause = "the cluster was formatted"
    levels = [
        r.FeatureLevelSet(cause, now_ms, feature.name, feature.level_max)
        for feature in SUPPORTED.values()
    ]
    rules = [
        r.ConfigSet(cause, now_ms, *CLUSTER_CONFIG, MIN_INSYNC_REPLICAS, str(min_insync_replicas))
        for _ in range(int(min_insync_replicas != MIN_INSYNC_REPLICAS_DEFAULT))
    ]
    return (r.ClusterFormatted(cause, now_ms, cluster_id), *levels, *rules)
