"""UpdateFeatures: raising and lowering the levels that the cluster works at."""

from quorate.control.feature_messages import (
    FeatureUpdate,
    UpdateFeatures,
    UpdateFeaturesAnswer,
    Upgrade,
)
from quorate.errors import ErrorCode, InvalidRequestError, KafkaError
from quorate.model import NO_LEADER
from quorate.quorum.control.decision import Decision, because
from quorate.quorum.metadata.features import (
    FIRST_LEVEL,
    METADATA_VERSION,
    REPLICATION_LEVEL,
    SUPPORTED,
    UNWRITABLE_LEVEL,
    level_in,
    level_of,
    public_name,
    supports,
)
from quorate.quorum.metadata.image import MetadataImage, TopicImage
from quorate.quorum.metadata.records import FeatureLevelSet
from quorate.quorum.metadata.snapshot import scarce_records


def update_features(
    image: MetadataImage, request: UpdateFeatures, now_ms: int
) -> Decision[UpdateFeaturesAnswer]:
    """Work at other levels, if every broker can; upgrade the controllers before.

    Raises:
        KafkaError: one of the updates is not possible; then none is made.
    """
    reason = because("UpdateFeatures", request.principal, now_ms)
    if len({update.name for update in request.updates}) != len(request.updates):
        raise InvalidRequestError("a feature is named twice")
    records: list[FeatureLevelSet] = []
    for update in request.updates:
        before = level_in(image.features, update.name)
        problem = _problem(image, update, before)
        if problem:
            message = (
                f"{public_name(update.name)} cannot go from {before} to {update.level}: {problem}"
            )
            raise KafkaError(message, code=ErrorCode.INVALID_UPDATE_VERSION)
        if update.level != before:
            records.append(FeatureLevelSet(reason.cause, reason.time_ms, update.name, update.level))
    return Decision(() if request.validate_only else tuple(records), UpdateFeaturesAnswer())


def _problem(image: MetadataImage, update: FeatureUpdate, before: int) -> str:
    """Return why a level cannot be; empty if it can."""
    known = SUPPORTED.get(update.name)
    if known is None:
        return "this version of Quorate does not know the feature"
    if not supports([known], update.name, update.level):
        return f"the controller supports {known.level_min} to {known.level_max}"
    if (update.level < before) == (update.upgrade is Upgrade.UPGRADE) and update.level != before:
        return "an upgrade raises the level, a downgrade lowers it"
    for broker in image.brokers.values():
        if not supports(broker.features, update.name, update.level):
            return f"broker {broker.broker_id} does not support it"
    return _metadata_problem(image, update.level) if update.name == METADATA_VERSION else ""


def _metadata_problem(image: MetadataImage, level: int) -> str:
    if level < FIRST_LEVEL:
        return "metadata always has a level"
    read_only = [str(each.broker_id) for each in image.brokers.values() if each.cannot_write]
    if level < UNWRITABLE_LEVEL and read_only:
        return f"broker {', '.join(read_only)} is read-only: make room on its disk first"
    newer = {type(each).__name__ for each in scarce_records(image) if level_of(each) > level}
    if newer:
        return f"there are records of a newer level: {', '.join(sorted(newer))}"
    if level < REPLICATION_LEVEL and any(map(_is_extended, image.topics.values())):
        return "partitions have eligible leader replicas, or are moved"
    return ""


def _is_extended(topic: TopicImage) -> bool:
    return any(
        state.elr or state.is_moving or state.last_known_leader != NO_LEADER
        for state in topic.partitions
    )
