"""Features: the levels that a broker offers, and those that the cluster works at (KIP-584)."""

from collections.abc import Iterable

from quorate.broker.handlers.context import ANONYMOUS, Broker, Caller
from quorate.control.feature_messages import (
    FeatureUpdate,
    UpdateFeatures,
    UpdateFeaturesAnswer,
    Upgrade,
)
from quorate.errors import ErrorCode, KafkaError
from quorate.promise import Promise
from quorate.protocol.messages.features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from quorate.protocol.messages.session import FinalizedFeatureKey, SupportedFeatureKey
from quorate.quorum.metadata.features import (
    GROUP_VERSION,
    PUBLIC_NAMES,
    SUPPORTED,
    level_in,
    public_name,
)
from quorate.quorum.metadata.image import MetadataImage


def supported_features(*, with_zero: bool) -> list[SupportedFeatureKey]:
    """Return what this broker could work at; those that can be off only for who knows of it."""
    return [
        SupportedFeatureKey(
            name=public_name(feature.name),
            min_version=feature.level_min,
            max_version=feature.level_max,
        )
        for feature in SUPPORTED.values()
        if with_zero or feature.level_min
    ]


def finalized_features(image: MetadataImage) -> list[FinalizedFeatureKey]:
    """Return what the cluster works at; not what is switched off."""
    levels = {name: level_in(image.features, name) for name in SUPPORTED}
    return [
        FinalizedFeatureKey(
            name=public_name(name), min_version_level=level, max_version_level=level
        )
        for name, level in levels.items()
        if level
    ]


def check_consumer_protocol(image: MetadataImage) -> None:
    """Refuse what ``group.version`` 0 has switched off.

    Raises:
        KafkaError: groups use the classic protocol only.
    """
    if not level_in(image.features, GROUP_VERSION):
        raise KafkaError(code=ErrorCode.UNSUPPORTED_VERSION)


def update_features(
    broker: Broker, request: UpdateFeaturesRequest, caller: Caller
) -> UpdateFeaturesResponse | Promise[UpdateFeaturesResponse]:
    """Have the controller change the levels that the cluster works at: all of them or none."""
    names = [update.feature for update in request.feature_updates]
    try:
        updates = tuple(_update(key, caller.api_version) for key in request.feature_updates)
    except KafkaError as error:
        return _response(names, error.code, error.message)
    promise: Promise[UpdateFeaturesResponse] = Promise()

    def answered(_answer: UpdateFeaturesAnswer) -> None:
        promise.resolve(_response(names, ErrorCode.NONE, None))

    def failed(code: ErrorCode, message: str) -> None:
        promise.resolve(_response(names, code, message))

    wanted = UpdateFeatures(updates, request.validate_only, ANONYMOUS)
    broker.ask(wanted, answered, failed, request.timeout_ms)
    return promise


def _update(key: FeatureUpdateKey, api_version: int) -> FeatureUpdate:
    """Return an update as the controller understands it.

    Raises:
        KafkaError: it makes no sense, or means a feature of Kafka's that only has its name here.
    """
    if key.feature in PUBLIC_NAMES:
        raise _invalid(
            key,
            f"its levels are releases of Kafka; what Quorate's controllers write has"
            f" {public_name(key.feature)}",
        )
    inner = {public: name for name, public in PUBLIC_NAMES.items()}
    name = inner.get(key.feature, key.feature)
    if api_version == 0:
        way = Upgrade.SAFE_DOWNGRADE if key.allow_downgrade else Upgrade.UPGRADE
    elif key.upgrade_type in list(Upgrade):
        way = Upgrade(key.upgrade_type)
    else:
        raise _invalid(key, f"there is no upgrade of type {key.upgrade_type}")
    return FeatureUpdate(name, key.max_version_level, way)


def _invalid(key: FeatureUpdateKey, why: str) -> KafkaError:
    message = f"{key.feature} cannot go to {key.max_version_level}: {why}"
    return KafkaError(message, code=ErrorCode.INVALID_UPDATE_VERSION)


def _response(names: Iterable[str], code: ErrorCode, message: str | None) -> UpdateFeaturesResponse:
    """Return an answer: all updates are made or none, and a refusal is told once, as in Kafka."""
    made: Iterable[str] = () if code else names
    return UpdateFeaturesResponse(
        error_code=int(code),
        error_message=message,
        results=[UpdatableFeatureResult(feature=name) for name in made],
    )
