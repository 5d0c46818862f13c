"""What a file says about connectors, checked: every name, type, unit and range.

The file is TOML::

    bootstrap = "127.0.0.1:9092"

    [connectors.app-log]
    type = "file-source"
    path = "/var/log/app.log"
    topic = "app-log"
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.setting_fields import Kind, Setting
from quorate.setting_values import parse_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OFFSETS_TOPIC: Final = "quorate-connect-offsets"
NAME_CHARS_MAX: Final = 200
OFFSETS_TABLE: Final = "quorate_offsets"
TOPICS_TABLE: Final = "quorate_topics"


class ConfigError(QuorateError):
    """A file about connectors says something that makes no sense; the message says where."""


@dataclass(frozen=True, slots=True)
class Common:
    """What all connectors have.

    Attributes:
        name: Its name in the file, and in the cluster.
        retries: How often in a row it is started again after an error that may pass.
        retry_backoff_ms: How long to wait before that, the first time; twice as long each time.
    """

    name: str
    retries: int
    retry_backoff_ms: int


@dataclass(frozen=True, slots=True)
class FileSource:
    """Lines of a file into a topic.

    Attributes:
        common: What all connectors have.
        path: The file; it need not exist yet.
        topic: Where its lines go to.
        key: The key of all records, so that they are in one partition and in order; None: no key.
        start_at_end: Whether lines that are there at the first start are left out.
        poll_interval_ms: How often to look for more.
        batch_bytes: How much of the file is one transaction at most; but at least one line of
            ``line_bytes_max``.
        line_bytes_max: Longer lines become several records.
        rotation_wait_ms: How long a file that was renamed may still grow.
    """

    common: Common
    path: str
    topic: str
    key: bytes | None
    start_at_end: bool
    poll_interval_ms: int
    batch_bytes: int
    line_bytes_max: int
    rotation_wait_ms: int


@dataclass(frozen=True, slots=True)
class SqliteSink:
    """Records of topics into a table of SQLite.

    Attributes:
        common: What all connectors have.
        topics: Where records come from.
        database: The file.
        table: The table; it is created if it is not there.
        columns: From names of columns to where in a JSON value they come from (``address.city``);
            empty for the value as it is.
        skip_unreadable: Whether values without the JSON that columns need are left out.
        batch_records_max: How many records are one transaction at most.
    """

    common: Common
    topics: tuple[str, ...]
    database: str
    table: str
    columns: tuple[tuple[str, tuple[str, ...]], ...]
    skip_unreadable: bool
    batch_records_max: int


Connector: TypeAlias = FileSource | SqliteSink


@dataclass(frozen=True, slots=True)
class ConnectConfig:
    """All that a file says.

    Attributes:
        bootstrap: Where to find brokers; None if the file does not say.
        offsets_topic: The compacted topic in which sources remember how far they are.
        connectors: What to run, in the order of the file.
    """

    bootstrap: str | None
    offsets_topic: str
    connectors: tuple[Connector, ...]


def _text(name: str, meaning: str, default: str = "", choices: tuple[str, ...] = ()) -> Setting:
    return Setting(name, Kind.STRING, default, meaning, choices=choices)


def _number(
    name: str, default: int, meaning: str, *, unit: str = "", low: int = 1, high: int = 2**31 - 1
) -> Setting:
    return Setting(name, Kind.INT, default, meaning, low=low, high=high, unit=unit)


_TOP: Final = (
    _text("bootstrap", "Where to find brokers."),
    _text("offsets_topic", "Where sources remember how far they are.", OFFSETS_TOPIC),
)
_COMMON: Final = (
    _text("type", "What it is."),
    _number("retries", 10, "How often in a row to start it again.", low=0),
    _number("retry_backoff_ms", 500, "The first pause before that.", unit="ms"),
)
_FILE_SOURCE: Final = (
    *_COMMON,
    _text("path", "The file."),
    _text("topic", "Where lines go to."),
    _text("key", "The key of all records."),
    _text("start", "Where to begin the first time.", "beginning", ("beginning", "end")),
    _number("poll_interval_ms", 200, "How often to look.", unit="ms", high=3_600_000),
    _number("batch_bytes", 1 << 20, "How much is one transaction.", unit="bytes", high=1 << 26),
    _number("line_bytes_max", 1_000_000, "Where to cut lines.", unit="bytes", high=1 << 26),
    _number("rotation_wait_ms", 1_000, "How long an old file grows.", unit="ms", high=3_600_000),
)
_SQLITE_SINK: Final = (
    *_COMMON,
    Setting("topics", Kind.LIST, (), "Where records come from."),
    _text("database", "The file of the database."),
    _text("table", "The table."),
    _text("unreadable", "What to do with values that are no JSON.", "fail", ("fail", "skip")),
    _number("batch_records_max", 1_000, "How many are one transaction.", high=1_000_000),
)
_TABLES: Final = {"columns"}


def parse_config(document: Mapping[str, Any]) -> ConnectConfig:
    """Return what a document says.

    Args:
        document: As TOML has it: tables as mappings.

    Raises:
        ConfigError: What is wrong, and where; the nearest name for one that there is not.
    """
    top = {name: value for name, value in document.items() if name != "connectors"}
    values = _values("the file", _TOP, top, nouns=("connectors",))
    tables = document.get("connectors", {})
    if not isinstance(tables, dict) or not tables:
        raise ConfigError("the file has no connectors: write [connectors.NAME]")
    named = cast("dict[str, Any]", tables)
    connectors = tuple(_connector(name, table) for name, table in named.items())
    return ConnectConfig(values["bootstrap"] or None, values["offsets_topic"], connectors)


def _connector(name: str, table: object) -> Connector:
    place = f"connectors.{name}"
    if not isinstance(table, dict):
        raise ConfigError(f"{place} is no table: write [{place}]")
    if not name or len(name) > NAME_CHARS_MAX:
        raise ConfigError(f"{place}: a name has 1 to {NAME_CHARS_MAX} characters")
    given = cast("dict[str, Any]", table)
    kind = given.get("type")
    if kind is None:
        raise ConfigError(f"{place} has no type: {' or '.join(_KINDS)}")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ConfigError(f"{place}.type is {kind!r}, but must be {' or '.join(_KINDS)}")
    return _KINDS[kind](place, name, given)


def _file_source(place: str, name: str, given: dict[str, Any]) -> FileSource:
    values = _values(place, _FILE_SOURCE, given)
    _require(place, values, "path", "topic")
    return FileSource(
        _common(name, values),
        values["path"],
        values["topic"],
        values["key"].encode() or None,
        values["start"] == "end",
        values["poll_interval_ms"],
        values["batch_bytes"],
        values["line_bytes_max"],
        values["rotation_wait_ms"],
    )


def _sqlite_sink(place: str, name: str, given: dict[str, Any]) -> SqliteSink:
    rest = {key: value for key, value in given.items() if key not in _TABLES}
    values = _values(place, _SQLITE_SINK, rest, nouns=("columns",))
    _require(place, values, "topics", "database")
    columns = _columns(place, given.get("columns", {}))
    table = values["table"] or name
    if table.lower() in {OFFSETS_TABLE, TOPICS_TABLE}:
        raise ConfigError(f"{place}.table: another name, for {table!r} tells how far sinks are")
    return SqliteSink(
        _common(name, values),
        values["topics"],
        values["database"],
        table,
        columns,
        values["unreadable"] == "skip",
        values["batch_records_max"],
    )


_KINDS: Final[dict[str, Callable[[str, str, dict[str, Any]], Connector]]] = {
    "file-source": _file_source,
    "sqlite-sink": _sqlite_sink,
}
OWN_COLUMNS: Final = ("topic", "partition", "offset", "timestamp_ms", "key")
"""Columns that every table has."""


def _columns(place: str, given: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(given, dict):
        raise ConfigError(f"{place}.columns is no table: write [{place}.columns]")
    columns: list[tuple[str, tuple[str, ...]]] = []
    for name, path in cast("dict[str, object]", given).items():
        where = f"{place}.columns.{name}"
        if not isinstance(path, str) or not all(path.split(".")):
            raise ConfigError(f'{where} is {path!r}, but must be a path such as "address.city"')
        if not name or "\0" in name or name.lower() in OWN_COLUMNS:
            raise ConfigError(f"{where}: another name, for this one is taken")
        columns.append((name, tuple(path.split("."))))
    if len({name.lower() for name, _ in columns}) != len(columns):
        raise ConfigError(f"{place}.columns: SQLite takes names that differ in case as the same")
    return tuple(columns)


def _common(name: str, values: Mapping[str, Any]) -> Common:
    return Common(name, values["retries"], values["retry_backoff_ms"])


def _require(place: str, values: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if not values[name]:
            raise ConfigError(f"{place} has no {name}")


def _values(
    place: str,
    settings: tuple[Setting, ...],
    given: Mapping[str, Any],
    *,
    nouns: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return typed values by name, defaults included."""
    known = {setting.name: setting for setting in settings}
    values: dict[str, Any] = {setting.name: setting.default for setting in settings}
    for name, value in given.items():
        if name not in known:
            near = _hint(name, (*known, *nouns))
            raise ConfigError(f"{place} has {name!r}, which is no setting{near}")
        try:
            values[name] = parse_value(known[name], _as_text(known[name], value))
        except QuorateError as error:
            raise ConfigError(f"{place}.{name}: {error}") from error
    return values


def _as_text(setting: Setting, value: object) -> str:
    """Return a value of TOML as the text that settings are made of."""
    match value:
        case str() if setting.kind is not Kind.LIST or "," not in value:
            return value
        case int() if not isinstance(value, bool) and setting.kind is Kind.INT:
            return str(value)
        case list() if setting.kind is Kind.LIST:
            parts = cast("list[object]", value)
            if all(isinstance(part, str) and "," not in part for part in parts):
                return ",".join(cast("list[str]", parts))
        case _:
            pass
    wanted = {Kind.INT: "a number", Kind.LIST: "a list of texts"}.get(setting.kind, "a text")
    raise ConfigError(f"{value!r} is not {wanted}")


def _hint(name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
