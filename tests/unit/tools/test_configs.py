"""Where configurations differ: from the defaults, and from each other."""

from quorate.client import ConfigEntry, ConfigResource
from quorate.tools.configs import default_differences, pair_differences

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
