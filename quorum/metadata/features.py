"""Levels of features: what the nodes of a cluster, perhaps of different versions, may rely on.

``metadata.version`` is the level of the metadata itself: a record is only written once the level
that brought it is finalized, which needs every node to know it. A cluster whose metadata does not
say has level 1.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from quorate.control.messages import SupportedFeature
from quorate.errors import QuorateError
from quorate.quorum.metadata import records as r

METADATA_VERSION: Final = "metadata.version"
FIRST_LEVEL: Final = 1

SUPPORTED: Final[Mapping[str, SupportedFeature]] = {
    METADATA_VERSION: SupportedFeature(METADATA_VERSION, FIRST_LEVEL, 2),
}
"""What this version of Quorate can work at."""

LEVELS: Final[Mapping[type[object], int]] = {
    r.AclAdded: 2,
    r.AclRemoved: 2,
    r.ScramCredentialSet: 2,
    r.ScramCredentialRemoved: 2,
    r.ClientQuotaSet: 2,
    r.ClientQuotaRemoved: 2,
}
"""The level of ``metadata.version`` that brought a record; those that are not here were always."""


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
        return level == 0 or (name == METADATA_VERSION and level == FIRST_LEVEL)
    return level == 0 or found.level_min <= level <= found.level_max


def metadata_level(features: Mapping[str, int]) -> int:
    """Return the level of the metadata, given the finalized features."""
    return features.get(METADATA_VERSION, FIRST_LEVEL)


def bootstrap_records(cluster_id: str, now_ms: int) -> tuple[r.MetadataRecord, ...]:
    """Return the first records of a new cluster, which works at the newest levels."""
    cause = "the cluster was formatted"
    levels = [
        r.FeatureLevelSet(cause, now_ms, feature.name, feature.level_max)
        for feature in SUPPORTED.values()
    ]
    return (r.ClusterFormatted(cause, now_ms, cluster_id), *levels)
