"""Configurations are described with where each value comes from, and changed by the controller."""

from typing import Any

import pytest

from quorate.broker.handlers import configs
from quorate.broker.handlers.configs import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from quorate.control.messages import (
    DONE,
    AlterConfigs,
    AlterConfigsAnswer,
    ConfigChange,
    ConfigOperation,
    Failure,
    ResourceAlteration,
    ResourceChanges,
)
from quorate.errors import ErrorCode
from quorate.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)
from quorate.quorum.metadata import records as r
from quorate.setting_fields import Value
from quorate.setting_values import value_text
from quorate.settings import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS
from tests.unit.broker.harness import Node, codes, new_node, now, over, waits

CALLER = over(4)
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def describe(
    node: Node, kind: int, name: str, keys: list[str] | None = None, **options: bool
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(resources=[resource], **options)
    return describe_configs(node.broker, request, CALLER).results[0]


def entry(node: Node, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
    (found,) = describe(node, kind, name, [key], include_synonyms=True).configs
    return found


def synonyms(found: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in found.synonyms]


def test_a_topic_is_described_with_every_property_there_is() -> None:
    node = new_node()
    node.create_topic("appLogs")
    result = describe(node, TOPIC, "appLogs")
    assert [c.name for c in result.configs] == list(TOPIC_SETTINGS)
    assert (result.error_code, result.resource_type, result.resource_name) == (0, TOPIC, "appLogs")
    assert all(c.synonyms == [] and c.documentation is None for c in result.configs)
    documented = describe(node, TOPIC, "appLogs", ["segment.ms"], include_documentation=True)
    assert documented.configs[0].documentation == TOPIC_SETTINGS["segment.ms"].meaning
    assert len(describe(node, TOPIC, "appLogs", []).configs) == len(TOPIC_SETTINGS), (
        "none named: all"
    )


def test_a_value_comes_from_the_closest_place_that_has_one_and_the_others_are_synonyms() -> None:
    node = new_node({"log.retention.ms": "2h"})
    node.create_topic("appLogs")
    default = ("log.retention.ms", "604800000", 5)
    file = ("log.retention.ms", "7200000", 4)
    found = entry(node, TOPIC, "appLogs", "retention.ms")
    assert (found.value, found.config_source) == ("7200000", 4)
    assert synonyms(found) == [file, default]

    node.apply(r.ConfigSet("test", 0, "broker", "", "log.retention.ms", "300"))
    cluster = ("log.retention.ms", "300", 3)
    assert synonyms(entry(node, TOPIC, "appLogs", "retention.ms")) == [cluster, file, default]

    node.apply(r.ConfigSet("test", 0, "broker", "1", "log.retention.ms", "200"))
    broker = ("log.retention.ms", "200", 2)
    node.apply(r.ConfigSet("test", 0, "topic", "appLogs", "retention.ms", "100"))
    found = entry(node, TOPIC, "appLogs", "retention.ms")
    assert (found.value, found.config_source, found.read_only) == ("100", 1, False)
    assert synonyms(found) == [("retention.ms", "100", 1), broker, cluster, file, default]

    found = entry(node, BROKER, "1", "log.retention.ms")
    assert (found.value, found.config_source) == ("200", 2)
    assert synonyms(found) == [broker, cluster, file, default]


def test_a_broker_is_described_with_what_may_change_while_it_runs() -> None:
    node = new_node()
    result = describe(node, BROKER, "1")
    assert {c.name for c in result.configs} == set(BROKER_SETTINGS)
    assert {c.name for c in result.configs if not c.read_only} >= {"num.partitions"}
    assert entry(node, BROKER, "1", "node.id").read_only


def test_what_all_brokers_share_is_what_was_set_for_all() -> None:
    node = new_node({"log.retention.ms": "2h"})
    assert describe(node, BROKER, "").configs == []
    node.apply(r.ConfigSet("test", 0, "broker", "", "num.partitions", "3"))
    (shared,) = describe(node, BROKER, "").configs
    assert (shared.name, shared.value, shared.config_source) == ("num.partitions", "3", 3)


def test_a_group_is_described_whether_it_exists_or_not() -> None:
    node = new_node({"group.consumer.session.timeout.ms": "50s"})
    result = describe(node, GROUP, "billing")
    assert [c.name for c in result.configs] == list(GROUP_SETTINGS)
    name = "consumer.session.timeout.ms"
    default = (f"group.{name}", "45000", 5)
    file = (f"group.{name}", "50000", 4)
    assert synonyms(entry(node, GROUP, "billing", name)) == [file, default]
    node.apply(r.ConfigSet("test", 0, "group", "billing", name, "55000"))
    found = entry(node, GROUP, "billing", name)
    assert (found.value, found.config_source, found.read_only) == ("55000", 8, False)
    assert synonyms(found) == [(name, "55000", 8), file, default]


def listed(node: Node, *kinds: int, version: int = 1) -> list[tuple[int, str]]:
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    response = list_config_resources(node.broker, request, over(version))
    assert response.error_code == 0
    return [(one.resource_type, one.resource_name) for one in response.config_resources]


def test_what_has_settings_is_listed() -> None:
    node = new_node()
    node.create_topic("appLogs")
    name = "consumer.session.timeout.ms"
    node.apply(r.ConfigSet("test", 0, "group", "billing", name, "55000"))
    node.apply(r.ConfigSet("test", 0, "group", "before", name, "55000"))
    node.apply(r.ConfigDeleted("test", 0, "group", "before", name))
    assert listed(node) == [(TOPIC, "appLogs"), (GROUP, "billing")]
    node.join(2)
    assert listed(node, BROKER) == [(BROKER, "2")]
    assert listed(node, GROUP, GROUP) == [(GROUP, "billing")]
    assert listed(node, METRICS, LOGGER) == []
    assert listed(node, version=0) == []  # clients so old ask for metrics only
    request = ListConfigResourcesRequest(resource_types=[GROUP, 99])
    response = list_config_resources(node.broker, request, over(1))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_secrets_are_not_told() -> None:
    node = new_node({"ssl.key.password": "xyzzy"})
    secret = entry(node, BROKER, "1", "ssl.key.password")
    assert (secret.value, secret.is_sensitive, secret.synonyms) == (None, True, [])
    assert secret.config_type == configs.PASSWORD


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "no where", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_not_here_cannot_be_described(kind: int, name: str, code: ErrorCode) -> None:
    result = describe(new_node(), kind, name)
    assert codes([result]) == [code]
    assert result.error_message


# --- changing


def outcome(kind: str, name: str, failure: Failure = DONE) -> ResourceAlteration:
    return ResourceAlteration(kind, name, failure)


def replacing(*resources: tuple[int, str], **options: bool) -> AlterConfigsRequest:
    configs = [AlterableConfig(name="retention.ms", value="1000")]
    return AlterConfigsRequest(
        resources=[
            AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
            for kind, name in resources
        ],
        **options,
    )


def results(answer: Any) -> list[tuple[int, str, int]]:
    return [(one.resource_type, one.resource_name, one.error_code) for one in now(answer).responses]


def test_replacing_sets_what_is_named_and_nothing_else() -> None:
    node = new_node()
    answer = alter_configs(node.broker, replacing((TOPIC, "a"), validate_only=True), over(2))
    assert waits(answer)
    change = ConfigChange("retention.ms", ConfigOperation.SET, "1000")
    resources = (ResourceChanges("topic", "a", (change,), replace=True),)
    assert node.controller.requests == [
        AlterConfigs(resources, validate_only=True, principal="User:ANONYMOUS")
    ]
    node.controller.answer(AlterConfigsAnswer((outcome("topic", "a"),)))
    assert results(answer) == [(TOPIC, "a", 0)]
    assert now(answer).responses[0].error_message is None


def test_each_resource_is_answered_in_its_place_also_those_that_never_reach_the_controller() -> (
    None
):
    node = new_node()
    request = replacing((TOPIC, "a"), (LOGGER, "1"), (BROKER, ""))
    answer = alter_configs(node.broker, request, over(2))
    failure = Failure(int(ErrorCode.INVALID_CONFIG), "no")
    node.controller.answer(
        AlterConfigsAnswer((outcome("topic", "a", failure), outcome("broker", "")))
    )
    invalid, refused = int(ErrorCode.INVALID_CONFIG), int(ErrorCode.INVALID_REQUEST)
    assert results(answer) == [(TOPIC, "a", invalid), (LOGGER, "1", refused), (BROKER, "", 0)]
    assert [r.error_message for r in now(answer).responses][::2] == ["no", None]


def test_a_request_without_anything_to_change_does_not_bother_the_controller() -> None:
    node = new_node()
    answer = alter_configs(node.broker, replacing((LOGGER, "1")), over(2))
    assert results(answer) == [(LOGGER, "1", ErrorCode.INVALID_REQUEST)]
    assert results(alter_configs(node.broker, replacing(), over(2))) == []
    assert node.controller.requests == []


def test_a_resource_named_twice_is_answered_twice() -> None:
    node = new_node()
    answer = alter_configs(node.broker, replacing((TOPIC, "a"), (TOPIC, "a")), over(2))
    twice = Failure(int(ErrorCode.INVALID_REQUEST), "twice")
    node.controller.answer(
        AlterConfigsAnswer((outcome("topic", "a", twice), outcome("topic", "a", twice)))
    )
    assert results(answer) == [(TOPIC, "a", ErrorCode.INVALID_REQUEST)] * 2


def test_when_the_controller_is_away_every_change_that_needs_it_fails() -> None:
    node = new_node()
    answer = alter_configs(node.broker, replacing((TOPIC, "a"), (LOGGER, "1")), over(2))
    node.controller.fail(ErrorCode.NOT_CONTROLLER, "away")
    away, refused = int(ErrorCode.NOT_CONTROLLER), int(ErrorCode.INVALID_REQUEST)
    assert results(answer) == [(TOPIC, "a", away), (LOGGER, "1", refused)]


def incrementally(*changes: tuple[str, int, str | None]) -> IncrementalAlterConfigsRequest:
    configs = [
        IncrementalAlterableConfig(name=name, config_operation=operation, value=value)
        for name, operation, value in changes
    ]
    resource = IncrementalAlterConfigsResource(
        resource_type=TOPIC, resource_name="a", configs=configs
    )
    return IncrementalAlterConfigsRequest(resources=[resource])


def test_changes_are_handed_on_one_by_one() -> None:
    node = new_node()
    request = incrementally(
        ("retention.ms", 0, "5"),
        ("segment.ms", 1, None),
        ("cleanup.policy", 2, "delete"),
        ("cleanup.policy", 3, "compact"),
    )
    answer = incremental_alter_configs(node.broker, request, over(1))
    changes = (
        ConfigChange("retention.ms", ConfigOperation.SET, "5"),
        ConfigChange("segment.ms", ConfigOperation.DELETE, None),
        ConfigChange("cleanup.policy", ConfigOperation.APPEND, "delete"),
        ConfigChange("cleanup.policy", ConfigOperation.SUBTRACT, "compact"),
    )
    assert node.controller.requests[0].resources == (  # type: ignore[attr-defined]  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
        ResourceChanges("topic", "a", changes, replace=False),
    )
    node.controller.answer(AlterConfigsAnswer((outcome("topic", "a"),)))
    assert results(answer) == [(TOPIC, "a", 0)]


def test_an_unknown_operation_fails_its_resource() -> None:
    node = new_node()
    request = incrementally(("retention.ms", 0, "5"), ("segment.ms", 9, "1"))
    answer = incremental_alter_configs(node.broker, request, over(1))
    assert results(answer) == [(TOPIC, "a", ErrorCode.INVALID_REQUEST)]
    assert node.controller.requests == []


def test_a_question_is_answered_once_however_often_it_is_asked() -> None:
    node = new_node()
    node.create_topic("appLogs")
    asked = DescribeConfigsResource(
        resource_type=TOPIC, resource_name="appLogs", configuration_keys=None
    )
    other = DescribeConfigsResource(
        resource_type=TOPIC, resource_name="appLogs", configuration_keys=["segment.ms"]
    )
    request = DescribeConfigsRequest(resources=[asked, other, asked])
    results = describe_configs(node.broker, request, CALLER).results
    assert [len(result.configs) for result in results] == [len(TOPIC_SETTINGS), 1]


def test_only_what_is_asked_for_is_looked_up_and_once_for_all_who_say_nothing_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up = 0

    def counted(value: Value) -> str:
        nonlocal looked_up
        looked_up += 1
        return value_text(value)

    monkeypatch.setattr(configs, "value_text", counted)
    node = new_node()
    node.apply(r.ConfigSet("test", 0, "group", "own", "consumer.session.timeout.ms", "55000"))
    assert len(describe(node, BROKER, "1", ["num.partitions"]).configs) == 1
    assert looked_up == 1
    asked = [
        DescribeConfigsResource(resource_type=GROUP, resource_name=name, configuration_keys=None)
        for name in ("own", *map(str, range(1000)))
    ]
    results = describe_configs(node.broker, DescribeConfigsRequest(resources=asked), CALLER).results
    assert [len(result.configs) for result in results] == [len(GROUP_SETTINGS)] * 1001
    assert [result.configs[0].config_source for result in results[:3]] == [8, 5, 5]
    assert looked_up == 1 + 2 * len(GROUP_SETTINGS)


@pytest.mark.parametrize("name", ["min.insync.replicas", "unclean.leader.election.enable"])
def test_what_the_cluster_agrees_on_is_told_as_it_is_and_not_as_a_nodes_file_has_it(
    name: str,
) -> None:
    default = BROKER_SETTINGS[name].default
    node = new_node({name: "2" if name == "min.insync.replicas" else "true"})
    node.create_topic("appLogs")
    for kind, resource in ((TOPIC, "appLogs"), (BROKER, "1")):
        found = entry(node, kind, resource, name)
        assert (found.value, found.config_source) == (value_text(default), 5)
    assert node.leader().log.config.min_insync_replicas == 1
