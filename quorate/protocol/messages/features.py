"""UpdateFeatures: the levels that the cluster works at (KIP-584)."""

from quorate.protocol.fields import array, boolean, int8, int16, int32, string
from quorate.protocol.message import message, nested


@nested
class FeatureUpdateKey:
    """A feature shall work at a level; 0 switches it off.

    Until version 0, it may be lowered or not; later, the way it may go has a number.
    """

    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean("0")
    upgrade_type: int = int8("1+", default=1)


@message(versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    """Changes levels, or asks whether they could be changed."""

    timeout_ms: int = int32(default=60_000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean("1+")


@nested
class UpdatableFeatureResult:
    """What became of one update."""

    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    """Answers an UpdateFeaturesRequest; all are made or none, so that the newest says it once."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1")
