"""Settings of topics and groups are set to values at and beyond their bounds: told alike.

What differs on purpose is in ``differs``; whatever else does fails the test with its seed, the
request and both answers.
"""

import time
from random import Random
from typing import Any, Final

import pytest

from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from quorate.setting_fields import INT_MAX, LONG_MAX, Kind, Setting
from quorate.settings import GROUP_SETTINGS, TOPIC_SETTINGS
from tests.compat.asking import MISSING, Session, new_topics
from tests.compat.clients.ours import Ours
from tests.compat.serving import Broker
from tests.compat.twins import Twins, alike

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.client("Quorate")]

STEPS: Final = 120
LOOKS_S: Final = 10.0
TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
TABLES: Final = {TOPIC: TOPIC_SETTINGS, GROUP: GROUP_SETTINGS}
LOWER_BOUNDS: Final = frozenset({"retention.bytes", "segment.bytes", "segment.index.bytes"})
"""Ours are others."""
LISTED: Final = (
    "", ",", "delete", "compact", "compact,delete", "delete,delete", " compact , delete ",
    "delete,", "DELETE", "none", "0:1", "0:1, 1:1", "*", "*,0:1", "0:-1",
)  # fmt: skip
TEXTS: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.BOOL: ("true", "false", "TRUE", " true ", "yes", "1", ""),
    Kind.DOUBLE: ("0", "1", "0.5", "1e-1", "-0.1", "1.1", "x", ".5", "0.50", "", "1."),
    Kind.LIST: LISTED,
}
NUMBERS: Final = (-3, -2, -1, 0, 1, 9, 10, 17, 18, 22, 23, 1023, 2**20, INT_MAX, INT_MAX + 1)


def value_of(setting: Setting, rng: Random) -> str:
    if setting.kind is Kind.STRING:
        known = rng.choice(setting.choices)
        return rng.choice([known, known, f" {known} ", known.swapcase(), "x", ""])
    if setting.kind in TEXTS:
        return rng.choice(TEXTS[setting.kind])
    odd = ["x", "", "1.5", "+5", "007", " 60000 ", "1e3", "1_000", "-0", "0x10", str(LONG_MAX + 1)]
    return rng.choice([*map(str, NUMBERS), str(LONG_MAX), *odd])


def differs(name: str, value: str, kafka: str, ours: str) -> bool:
    """Whether Quorate takes or refuses a value on purpose."""
    if value == "," and name.endswith(".throttled.replicas"):  # none, in other words
        return True
    return name in LOWER_BOUNDS and {kafka, ours} == {"NONE", "INVALID_CONFIG"}


class Configs(Session):
    """Sets one property at a time, and takes it back."""

    def change(self, kind: int, name: str, setting: str, operation: int, value: str | None) -> Any:
        config = IncrementalAlterableConfig(name=setting, config_operation=operation, value=value)
        resource = IncrementalAlterConfigsResource(
            resource_type=kind, resource_name=name, configs=[config]
        )
        body = IncrementalAlterConfigsRequest(resources=[resource])
        told = self.twins.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, alike(body))
        return [one["responses"][0]["error_code"] for one in told]

    def value(self, kind: int, name: str, setting: str) -> list[tuple[str, int]]:
        asked = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=[setting]
        )
        body = DescribeConfigsRequest(resources=[asked])
        told = self.twins.ask(ApiKey.DESCRIBE_CONFIGS, 1, alike(body))
        found = [one["results"][0]["configs"][0] for one in told]
        return [(one["value"], one["config_source"]) for one in found]

    def value_in_time(self, kind: int, name: str, setting: str) -> list[tuple[str, int]]:
        """Look until both tell the same: Kafka's broker knows it some time after the answer."""
        until_s = time.monotonic() + LOOKS_S
        while True:
            told, own = self.value(kind, name, setting)
            if told == own or time.monotonic() > until_s:
                return [told, own]
            time.sleep(0.05)

    def step(self) -> None:
        rng = self.rng
        kind = rng.choice([TOPIC] * 6 + [GROUP])
        names = [self.topics[0]] * 12 + [MISSING, "a b", ""] if kind == TOPIC else self.groups
        name = rng.choice(names)
        setting = rng.choice(list(TABLES[kind].values()))
        operation = rng.choice([SET, SET, APPEND, SUBTRACT] if setting.kind is Kind.LIST else [SET])
        # One fault at a time: of two, each may tell another one.
        value = value_of(setting, rng) if name in (*self.topics, *self.groups) else "1"
        if name not in (*self.topics, *self.groups):
            setting = TOPIC_SETTINGS["flush.messages"]
            operation = SET
        kafka, ours = self.change(kind, name, setting.name, operation, value)
        said = (f"seed {self.seed}", name, setting.name, operation, value)
        if differs(setting.name, value, kafka, ours):
            self.change(kind, name, setting.name, DELETE, None)
            return
        assert kafka == ours, (*said, kafka, ours)
        if kafka == "NONE":
            told, own = self.value_in_time(kind, name, setting.name)
            assert told == own, (*said, told, own)
            kafka, ours = self.change(kind, name, setting.name, DELETE, None)
            assert kafka == ours, (*said, kafka, ours)


@pytest.mark.feature("a setting that there is not is taken back in peace, as by Kafka")
def test_what_there_is_not_is_taken_back_in_peace(
    twins: Twins, apache_kafka: Broker, broker: Broker, ours: Ours
) -> None:
    servers = apache_kafka.server, broker.server
    session = Configs(twins, new_topics(twins, servers, ours, "unheard"), 0)
    for kind, name in ((TOPIC, session.topics[0]), (GROUP, session.groups[0]), (BROKER, "1")):
        assert session.change(kind, name, "unheard.of", DELETE, None) == ["NONE", "NONE"]


@pytest.mark.feature("settings with random values: taken and refused as by Kafka")
@pytest.mark.parametrize("seed", range(4))
def test_both_take_and_refuse_the_same_values(
    twins: Twins, apache_kafka: Broker, broker: Broker, ours: Ours, seed: int
) -> None:
    servers = apache_kafka.server, broker.server
    session = Configs(twins, new_topics(twins, servers, ours, "configs"), seed)
    for _ in range(STEPS):
        session.step()
