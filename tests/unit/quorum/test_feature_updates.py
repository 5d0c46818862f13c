"""Levels go up when everybody can follow, and down when nothing is lost."""

from dataclasses import replace
from typing import Any

import pytest

from quorate.control.feature_messages import FeatureUpdate, UpdateFeatures, Upgrade
from quorate.control.messages import SupportedFeature
from quorate.errors import ErrorCode, InvalidRequestError, KafkaError
from quorate.quorum.control import features as decisions
from quorate.quorum.control.features import update_features
from quorate.quorum.metadata import features
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.features import METADATA_VERSION, NEWEST_LEVEL, metadata_level
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage

DOWN = Upgrade.SAFE_DOWNGRADE
OTHER = SupportedFeature("other.version", 2, 3)
ACL = r.AclAdded("c", 1, b"a", 2, "t", 3, "User:alice", "*", 3, 3)


@pytest.fixture(autouse=True)
def another_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, Any] = {**features.SUPPORTED, OTHER.name: OTHER}
    monkeypatch.setattr(features, "SUPPORTED", known)
    monkeypatch.setattr(decisions, "SUPPORTED", known)


def cluster(level: int, *supported: SupportedFeature) -> MetadataImage:
    broker = r.BrokerRegistered("c", 1, 1, 1, b"", b"", {}, None, fenced=False, features=supported)
    return apply_records(
        EMPTY_IMAGE, 1, [r.FeatureLevelSet("c", 1, METADATA_VERSION, level), broker]
    )


def update(
    image: MetadataImage, *updates: FeatureUpdate, validate_only: bool = False
) -> MetadataImage:
    decision = update_features(image, UpdateFeatures(updates, validate_only, "User:alice"), 77)
    for record in decision.records:
        assert (record.cause, record.time_ms) == ("UpdateFeatures by User:alice", 77)
    if not decision.records:
        return image
    return apply_records(image, image.version + 1, decision.records)


NEW = SupportedFeature(METADATA_VERSION, 1, 2)


def test_a_level_is_raised_once_every_broker_supports_it() -> None:
    raise_it = FeatureUpdate(METADATA_VERSION, 2)
    with pytest.raises(KafkaError, match="from 1 to 2: broker 1 does not support it") as caught:
        update(cluster(1), raise_it)
    assert caught.value.code == ErrorCode.INVALID_UPDATE_VERSION
    assert metadata_level(update(cluster(1, NEW), raise_it).features) == 2


def test_the_level_that_is_so_already_makes_no_record() -> None:
    image = cluster(2, NEW)
    assert update(image, FeatureUpdate(METADATA_VERSION, 2)) is image
    assert update(image, FeatureUpdate(METADATA_VERSION, 2, DOWN)) is image


def test_validate_only_changes_nothing() -> None:
    image = cluster(1, NEW)
    assert update(image, FeatureUpdate(METADATA_VERSION, 2), validate_only=True) is image


def test_a_level_is_not_lowered_while_a_broker_is_read_only_and_it_is_said_which() -> None:
    newest = SupportedFeature(METADATA_VERSION, 1, NEWEST_LEVEL)
    image = cluster(NEWEST_LEVEL, newest)
    full = r.BrokerChanged("c", 1, 1, image.brokers[1].broker_epoch, cannot_write=True)
    lower = FeatureUpdate(METADATA_VERSION, NEWEST_LEVEL - 1, DOWN)
    with pytest.raises(KafkaError, match="broker 1 is read-only: make room on its disk first"):
        update(apply_records(image, image.version + 1, [full]), lower)
    assert metadata_level(update(image, lower).features) == NEWEST_LEVEL - 1


def test_a_level_is_lowered_as_long_as_nothing_needs_it() -> None:
    image = cluster(2, NEW)
    lower = FeatureUpdate(METADATA_VERSION, 1, DOWN)
    assert metadata_level(update(image, lower).features) == 1
    with pytest.raises(KafkaError, match="records of a newer level: AclAdded"):
        update(apply_records(image, 2, [ACL]), lower)


@pytest.mark.parametrize(
    "extension",
    [
        {"elr": (2,)},
        {"adding_replicas": (2,)},
        {"removing_replicas": (2,)},
        {"last_known_leader": 2},
    ],
)
def test_older_nodes_would_not_know_who_may_lead_or_what_moves(extension: dict[str, Any]) -> None:
    image = cluster(3, SupportedFeature(METADATA_VERSION, 1, 3))
    plain = r.PartitionCreated("c", 1, b"t", 0, (1, 2), (1,), 1)
    topic = r.TopicCreated("c", 1, "t", b"t")
    lower = FeatureUpdate(METADATA_VERSION, 2, DOWN)
    assert metadata_level(update(apply_records(image, 2, [topic, plain]), lower).features) == 2
    extended = apply_records(image, 2, [topic, replace(plain, **extension)])
    with pytest.raises(KafkaError, match="eligible leader replicas, or are moved"):
        update(extended, lower)
    assert metadata_level(update(extended, FeatureUpdate(METADATA_VERSION, 3)).features) == 3


def test_other_features_are_switched_on_and_off() -> None:
    image = update(cluster(2, NEW, OTHER), FeatureUpdate(OTHER.name, 3))
    assert image.features[OTHER.name] == 3
    assert OTHER.name not in update(image, FeatureUpdate(OTHER.name, 0, DOWN)).features


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        (FeatureUpdate("unknown", 1), "does not know the feature"),
        (FeatureUpdate(METADATA_VERSION, 9), "the controller supports 1 to 4"),
        (FeatureUpdate(METADATA_VERSION, -1, DOWN), "the controller supports 1 to 4"),
        (FeatureUpdate(METADATA_VERSION, 0, DOWN), "metadata always has a level"),
        (FeatureUpdate(METADATA_VERSION, 1), "a downgrade lowers it"),
        (FeatureUpdate(OTHER.name, 2, DOWN), "an upgrade raises the level"),
        (FeatureUpdate(OTHER.name, 1), "the controller supports 2 to 3"),
    ],
)
def test_what_cannot_be_is_refused_with_everything_beside_it(
    wanted: FeatureUpdate, complaint: str
) -> None:
    image = cluster(2, NEW, OTHER)
    fine = FeatureUpdate(OTHER.name if wanted.name != OTHER.name else METADATA_VERSION, 2)
    with pytest.raises(KafkaError, match=complaint) as caught:
        update(image, fine, wanted)
    assert caught.value.code == ErrorCode.INVALID_UPDATE_VERSION


def test_a_feature_is_named_once() -> None:
    with pytest.raises(InvalidRequestError, match="twice"):
        update(
            cluster(1, NEW), FeatureUpdate(METADATA_VERSION, 2), FeatureUpdate(METADATA_VERSION, 1)
        )
