"""Configurations of topics, brokers and groups: shown and changed."""

from collections.abc import Mapping, Sequence
from typing import Final

from quorate.client.admin import Admin, raise_first
from quorate.client.admin_results import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ResourceType,
)
from quorate.errors import InvalidConfigError, QuorateError
from quorate.setting_fields import Setting
from quorate.setting_values import value_text
from quorate.settings import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS
from quorate.tools.arguments import GlobalOptions
from quorate.tools.output import Column, Table
from quorate.tools.problems import CommandError, UsageError
from quorate.tools.session import print_table, say
from quorate.tools.topics import Client, refuse_unknown

SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "node's file",
    5: "default",
    8: "group",
}
"""The protocol's numbers of where a value comes from."""


SETTINGS: Final[Mapping[ResourceType, Mapping[str, Setting]]] = {
    ResourceType.TOPIC: TOPIC_SETTINGS,
    ResourceType.BROKER: BROKER_SETTINGS,
    ResourceType.GROUP: GROUP_SETTINGS,
}


def parse_resource(text: str) -> ConfigResource:
    """Return the resource of ``topic/NAME``, ``group/NAME``, ``broker/ID`` or ``broker/default``.

    Raises:
        UsageError: it is none of them.
    """
    kind, _, name = text.partition("/")
    match kind.rstrip("s"), name:
        case "topic", str(topic) if topic:
            return ConfigResource.topic(topic)
        case "group", str(group) if group:
            return ConfigResource.group(group)
        case "broker", "default" | "":
            return ConfigResource.broker(None)
        case "broker", str(number) if number.isdecimal():
            return ConfigResource.broker(int(number))
        case _:
            raise UsageError(
                f"{text!r} names nothing that has a configuration",
                why="there are topic/NAME, group/NAME, broker/ID and broker/default",
                hint="quorate configs describe topic/appLogs",
            )


async def entries_of(client: Client, resource: ConfigResource) -> dict[str, ConfigEntry]:
    """Return a resource's settings.

    Raises:
        QuorateError: there is no such resource.
    """
    async with client.admin() as admin:
        if resource.type is ResourceType.BROKER and resource.name:
            await _check_alive(admin, int(resource.name))
        found = (await admin.describe_configs([resource]))[resource]
    if isinstance(found, QuorateError):
        raise found
    return found


async def _check_alive(admin: Admin, broker_id: int) -> None:
    """Say at once that a broker is not there, which alone knows its settings.

    Raises:
        CommandError: it is not.
    """
    alive = [broker.broker_id for broker in (await admin.describe_cluster()).brokers]
    if broker_id not in alive:
        raise CommandError(
            f"the cluster has no broker {broker_id} that is alive",
            why=f"alive are {', '.join(map(str, alive)) or 'none'}",
            hint="quorate brokers list",
        )


async def describe(
    options: GlobalOptions, client: Client, resource: ConfigResource, *, everything: bool
) -> None:
    """Print what was set, or everything with defaults."""
    entries = await entries_of(client, resource)
    columns = (
        Column("name"), Column("value"), Column("source"), Column("read_only", wide_only=True),
        Column("meaning", wide_only=True),
    )  # fmt: skip
    rows = tuple(
        (
            entry.name,
            _shown(entry),
            SOURCES.get(entry.source, str(entry.source)),
            entry.is_read_only,
            entry.documentation,
        )
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
        if everything or not entry.is_default
    )
    print_table(options, Table("configs", columns, rows))
    if not rows:
        say(options, "all values are defaults; --all shows them")


async def differences(client: Client, one: ConfigResource, other: ConfigResource | None) -> Table:
    """Return where two resources differ, or without another, one from the defaults.

    Raises:
        UsageError: they are not of one kind.
        QuorateError: there is no such resource.
    """
    if other is None:
        return default_differences(one, await entries_of(client, one))
    if other.type is not one.type:
        raise UsageError(
            f"{one} and {other} are not to be compared",
            why="they have other settings",
            hint="quorate configs diff topic/a topic/b",
        )
    return pair_differences(
        (one, await entries_of(client, one)), (other, await entries_of(client, other))
    )


Entries = Mapping[str, ConfigEntry]


def default_differences(resource: ConfigResource, entries: Entries) -> Table:
    """Return a row for each value that is not the default of this version."""
    known = SETTINGS[resource.type]
    rows: list[tuple[str, str | None, str | None]] = []
    for name, entry in sorted(entries.items()):
        setting = known.get(name)
        default = None if setting is None else value_text(setting.default)
        if not entry.is_default and (entry.is_sensitive or entry.value != default):
            rows.append((name, default, _shown(entry)))
    return _differences("default", _path(resource), rows)


def pair_differences(
    one: tuple[ConfigResource, Entries], other: tuple[ConfigResource, Entries]
) -> Table:
    """Return a row for each value that two resources do not share; hidden ones are not compared."""
    (first, before), (second, after) = one, other
    rows: list[tuple[str, str | None, str | None]] = []
    for name in sorted({*before, *after}):
        values = [_shown(entries.get(name)) for entries in (before, after)]
        if values[0] != values[1]:
            rows.append((name, values[0], values[1]))
    return _differences(_path(first), _path(second), rows)


def _path(resource: ConfigResource) -> str:
    return f"{resource.type.name.lower()}/{resource.name or 'default'}"


def _shown(entry: ConfigEntry | None) -> str | None:
    if entry is None:
        return None
    return "(hidden)" if entry.is_sensitive else entry.value


def _differences(
    first: str, second: str, rows: Sequence[tuple[str, str | None, str | None]]
) -> Table:
    columns = (Column("name"), Column("before", title=first), Column("after", title=second))
    return Table("config_differences", columns, tuple(rows))


async def get(client: Client, resource: ConfigResource, name: str) -> str:
    """Return one value as text.

    Raises:
        InvalidConfigError: there is no setting of that name.
    """
    entry = (await entries_of(client, resource)).get(name)
    if entry is None:
        raise InvalidConfigError(f"{resource} has no setting {name!r}")
    return entry.value or ""


async def change(
    options: GlobalOptions,
    client: Client,
    resource: ConfigResource,
    values: Mapping[str, str | None],
    *,
    dry_run: bool,
) -> None:
    """Set values; None goes back to the default.

    Raises:
        QuorateError: nothing was changed, and why.
    """
    changes = [
        ConfigChange(name, value)
        if value is not None
        else ConfigChange(name, None, ConfigOperation.DELETE)
        for name, value in values.items()
    ]
    unset = [name for name, value in values.items() if value is None]
    async with client.admin() as admin:
        await refuse_unknown(admin, resource, unset, SETTINGS[resource.type])
        raise_first(await admin.alter_configs({resource: changes}, validate_only=dry_run))
    changed = "Would change" if dry_run else "Changed"
    of_all = resource == ConfigResource.broker(None)
    say(options, f"{changed} {'all brokers' if of_all else resource}: {', '.join(values)}.")


def known_settings(*, node: bool = False, group: bool = False) -> Table:
    """Return every setting of topics, or else of nodes or groups, with its range and default."""
    table = BROKER_SETTINGS if node else GROUP_SETTINGS if group else TOPIC_SETTINGS
    settings: Sequence[Setting] = list(table.values())
    columns = (
        Column("name"), Column("default"), Column("range"), Column("unit"), Column("meaning"),
    )  # fmt: skip
    rows = tuple(
        (s.name, value_text(s.default), _range_text(s), s.unit or None, s.meaning)
        for s in sorted(settings, key=lambda s: s.name)
    )
    return Table("settings", columns, rows)


def _range_text(setting: Setting) -> str | None:
    if setting.choices:
        return "|".join(setting.choices)
    if setting.low is None:
        return None
    return f"{setting.low}..{'' if setting.high is None else setting.high}"
