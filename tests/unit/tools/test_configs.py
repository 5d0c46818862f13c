"""Where configurations differ, from the defaults and from each other; names that there are not."""

from collections.abc import Sequence
from typing import Any

import pytest

from quorate.client import ConfigEntry, ConfigResource
from quorate.errors import InvalidConfigError, QuorateError
from quorate.settings import TOPIC_SETTINGS
from quorate.tools.configs import default_differences, pair_differences
from quorate.tools.topics import refuse_unknown

TOPIC, OTHER = ConfigResource.topic("a"), ConfigResource.topic("b")


def entry(name: str, value: str | None, source: int = 1, *, secret: bool = False) -> ConfigEntry:
    return ConfigEntry(name, value, source, False, secret, None)


def entries(*some: ConfigEntry) -> dict[str, ConfigEntry]:
    return {one.name: one for one in some}


def test_what_was_set_to_something_else_differs_from_the_defaults() -> None:
    table = default_differences(
        TOPIC,
        entries(
            entry("retention.ms", "1000"),
            entry("cleanup.policy", "delete"),
            entry("segment.bytes", "7", 5),
            entry("x.password", None, secret=True),
        ),
    )
    assert table.rows == (
        ("retention.ms", "604800000", "1000"),
        ("x.password", None, "(hidden)"),
    )
    assert [column.heading for column in table.columns] == ["NAME", "default", "topic/a"]


def test_two_differ_in_what_they_do_not_share() -> None:
    one = entries(entry("k", "1"), entry("same", "v"), entry("s", None, secret=True))
    other = entries(entry("k", "2"), entry("same", "v", 5), entry("s", None, secret=True))
    table = pair_differences((TOPIC, one), (OTHER, {**other, **entries(entry("more", "m"))}))
    assert table.rows == (("k", "1", "2"), ("more", None, "m"))
    assert table.items()[0] == {"name": "k", "before": "1", "after": "2"}


class Told:
    """An admin client whose cluster says this of every resource."""

    def __init__(self, told: dict[str, ConfigEntry] | QuorateError) -> None:
        self._told = told

    async def describe_configs(self, resources: Sequence[ConfigResource]) -> dict[Any, Any]:
        return dict.fromkeys(resources, self._told)


async def test_names_that_only_the_cluster_knows_may_be_taken_back() -> None:
    told: Any = Told(entries(entry("remote.storage.enable", "true")))
    names = ["retention.ms", "remote.storage.enable"]
    await refuse_unknown(told, TOPIC, names, TOPIC_SETTINGS)
    for wrong, near in (("retenton.ms", "retention.ms"), ("remote.storage", names[1])):
        with pytest.raises(InvalidConfigError, match=f"did you mean {near}"):
            await refuse_unknown(told, TOPIC, [wrong], TOPIC_SETTINGS)


async def test_a_cluster_is_asked_only_about_names_that_we_do_not_know() -> None:
    away: Any = Told(QuorateError("away"))
    await refuse_unknown(away, TOPIC, ["retention.ms"], TOPIC_SETTINGS)
    with pytest.raises(QuorateError, match="away"):
        await refuse_unknown(away, TOPIC, ["retenton.ms"], TOPIC_SETTINGS)
