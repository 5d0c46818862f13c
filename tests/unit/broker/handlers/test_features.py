"""The levels of features as Kafka's clients see and change them."""

import pytest

from quorate.broker.handlers.features import update_features
from quorate.broker.handlers.table import API_VERSIONS_HANDLER
from quorate.control.feature_messages import (
    FeatureUpdate,
    UpdateFeatures,
    UpdateFeaturesAnswer,
    Upgrade,
)
from quorate.errors import ErrorCode
from quorate.protocol.messages.features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from quorate.protocol.messages.session import ApiVersionsRequest, ApiVersionsResponse
from quorate.quorum.metadata import records as r
from tests.unit.broker.harness import Node, codes, new_node, now, over

OURS = "quorate.metadata.version"
TOLD = {OURS: (1, 4), "group.version": (0, 1), "transaction.version": (0, 2)}


def told(node: Node, version: int = 4) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    return API_VERSIONS_HANDLER(node.broker, request, over(version))


def finalized(node: Node) -> dict[str, int]:
    levels = told(node).finalized_features
    assert all(level.min_version_level == level.max_version_level for level in levels)
    return {level.name: level.max_version_level for level in levels}


def test_clients_are_told_what_can_be_and_what_is() -> None:
    node = new_node()
    found = {f.name: (f.min_version, f.max_version) for f in told(node).supported_features}
    assert found == TOLD
    assert told(node).finalized_features_epoch == node.replicas.image.version


def test_clients_that_do_not_know_of_zero_are_not_told_what_can_be_off() -> None:
    assert [f.name for f in told(new_node(), 3).supported_features] == [OURS]


def test_a_cluster_that_does_not_say_works_as_all_did_before() -> None:
    node = new_node()
    assert finalized(node) == {OURS: 1, "group.version": 1, "transaction.version": 2}


def test_what_is_lowered_or_off_is_told_so() -> None:
    node = new_node()
    node.apply(
        r.FeatureLevelSet("test", 0, "transaction.version", 1),
        r.FeatureLevelSet("test", 0, "group.version", 0),
    )
    assert finalized(node) == {OURS: 1, "transaction.version": 1}


def ask(node: Node, *updates: FeatureUpdateKey, version: int = 2) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest(timeout_ms=5000, feature_updates=list(updates))
    answer = update_features(node.broker, request, over(version))
    if node.controller.requests:
        node.controller.answer(UpdateFeaturesAnswer())
    response: UpdateFeaturesResponse = now(answer)
    return response


def test_the_controller_changes_levels_in_the_way_that_was_said() -> None:
    node = new_node()
    keys = [
        FeatureUpdateKey(feature="group.version", max_version_level=1),
        FeatureUpdateKey(feature=OURS, max_version_level=2, upgrade_type=3),
    ]
    response = ask(node, *keys)
    assert codes([response, *response.results]) == [ErrorCode.NONE] * 3
    updates = (
        FeatureUpdate("group.version", 1),
        FeatureUpdate("metadata.version", 2, Upgrade.UNSAFE_DOWNGRADE),
    )
    assert node.controller.requests == [UpdateFeatures(updates, False, "User:ANONYMOUS")]
    assert node.controller.timeouts_ms == [5000]


@pytest.mark.parametrize("down", [True, False])
def test_the_oldest_clients_say_whether_a_level_may_go_down(*, down: bool) -> None:
    node = new_node()
    ask(node, FeatureUpdateKey(feature="f", max_version_level=1, allow_downgrade=down), version=0)
    way = Upgrade.SAFE_DOWNGRADE if down else Upgrade.UPGRADE
    wanted = UpdateFeatures((FeatureUpdate("f", 1, way),), False, "User:ANONYMOUS")
    assert node.controller.requests == [wanted]


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        (FeatureUpdateKey(feature="metadata.version", max_version_level=27), "releases of Kafka"),
        (
            FeatureUpdateKey(feature="group.version", max_version_level=1, upgrade_type=0),
            "no upgrade of type 0",
        ),
    ],
)
def test_what_makes_no_sense_here_is_refused_with_words(
    key: FeatureUpdateKey, complaint: str
) -> None:
    node = new_node()
    response = ask(node, FeatureUpdateKey(feature="group.version", max_version_level=1), key)
    assert (codes([response]), response.results) == ([ErrorCode.INVALID_UPDATE_VERSION], [])
    assert complaint in (response.error_message or "")
    assert not node.controller.requests


def test_what_the_controller_refuses_is_told_once_as_nothing_is_done() -> None:
    node = new_node()
    request = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="f", max_version_level=9)], validate_only=True
    )
    answer = update_features(node.broker, request, over(1))
    node.controller.fail(ErrorCode.INVALID_UPDATE_VERSION, "no such level")
    response = now(answer)
    assert (codes([response]), response.results) == ([ErrorCode.INVALID_UPDATE_VERSION], [])
    assert response.error_message == "no such level"
    wanted = UpdateFeatures((FeatureUpdate("f", 9),), True, "User:ANONYMOUS")
    assert node.controller.requests == [wanted]
