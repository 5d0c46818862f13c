"""Records as rows of a table: statements of SQLite, and values for them (pure)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from quorate.client.connect.config import OFFSETS_TABLE, OWN_COLUMNS, TOPICS_TABLE
from quorate.errors import QuorateError

if TYPE_CHECKING:
    from quorate.client.connect.config import SqliteSink
    from quorate.records.record import Record

Cell: TypeAlias = str | bytes | int | float | None

INT64_MAX: Final = 2**63 - 1
_OFFSETS: Final = f"""\
CREATE TABLE IF NOT EXISTS {OFFSETS_TABLE} (
  connector TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL,
  next_offset INTEGER NOT NULL, PRIMARY KEY (connector, topic, partition))"""
_TOPICS: Final = f"""\
CREATE TABLE IF NOT EXISTS {TOPICS_TABLE} (
  connector TEXT NOT NULL, topic TEXT NOT NULL, topic_id TEXT NOT NULL,
  PRIMARY KEY (connector, topic))"""


class UnreadableError(QuorateError):
    """A record's value is not the JSON that columns are to be made of."""


def quoted(name: str) -> str:
    """Return a name as SQL takes it, whatever it is made of."""
    return '"' + name.replace('"', '""') + '"'


def column_names(sink: SqliteSink) -> tuple[str, ...]:
    """Return the columns of a sink's table."""
    own = tuple(name for name, _ in sink.columns)
    return (*OWN_COLUMNS, *(own or ("value",)))


def create_statements(sink: SqliteSink) -> tuple[str, ...]:
    """Return what creates the tables, unless they are there.

    Columns of values have no type, so that SQLite keeps what it is given.
    """
    types = {
        "topic": "TEXT NOT NULL",
        "partition": "INTEGER NOT NULL",
        "offset": "INTEGER NOT NULL",
        "timestamp_ms": "INTEGER",
    }
    columns = ", ".join(f"{quoted(n)} {types.get(n, '')}".rstrip() for n in column_names(sink))
    key = 'PRIMARY KEY ("topic", "partition", "offset")'
    rows = f"CREATE TABLE IF NOT EXISTS {quoted(sink.table)} ({columns}, {key})"
    return rows, _OFFSETS, _TOPICS


def upsert_statement(sink: SqliteSink) -> str:
    """Return what writes a row: a new one, or over the one of the same record."""
    names = column_names(sink)
    listed = ", ".join(map(quoted, names))
    marks = ", ".join("?" * len(names))
    changed = ", ".join(f"{quoted(n)} = excluded.{quoted(n)}" for n in names[3:])
    return (
        f"INSERT INTO {quoted(sink.table)} ({listed}) VALUES ({marks})"  # noqa: S608 - quoted
        f' ON CONFLICT ("topic", "partition", "offset") DO UPDATE SET {changed}'
    )


def row_of(sink: SqliteSink, record: Record) -> tuple[Cell, ...]:
    """Return the values of a record's row.

    Raises:
        UnreadableError: There is no JSON object in it, and columns need one; or what a column needs
            of it is no text in any encoding.
    """
    where = (record.topic, record.partition, record.offset, record.timestamp_ms)
    own = (*where, text_or_bytes(record.key))
    if not sink.columns:
        return (*own, text_or_bytes(record.value))
    value = _object_of(record)
    try:
        return (*own, *(_cell(_at(value, path)) for _, path in sink.columns))
    except UnicodeEncodeError as error:
        message = f"{_place_of(record)}: its value has half of a character: {error}"
        raise UnreadableError(message) from error


def text_or_bytes(data: bytes | None) -> Cell:
    """Return text where bytes are UTF-8, else the bytes."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _object_of(record: Record) -> dict[str, Any]:
    """Return the JSON object in a record; an empty one for a null."""
    if record.value is None:
        return {}
    try:
        value: Any = json.loads(record.value)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"{_place_of(record)}: its value is no JSON: {error}") from error
    if not isinstance(value, dict):
        message = f"{_place_of(record)}: its value is JSON, but no object with names"
        raise UnreadableError(message)
    return cast("dict[str, Any]", value)


def _place_of(record: Record) -> str:
    return f"{record.topic_partition} at offset {record.offset}"


def _at(value: Any, path: tuple[str, ...]) -> Any:
    """Return what is at a path; None where nothing is."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, Any]", value).get(name)
    return value


def _cell(value: Any) -> Cell:
    match value:
        case None | float():
            return value
        case str():
            return _encodable(value)
        case int():  # true and false are 1 and 0, as SQLite has them
            return int(value) if -INT64_MAX <= value <= INT64_MAX else str(value)
        case _:
            return _encodable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _encodable(text: str) -> str:
    r"""Return a text, which SQLite keeps as UTF-8.

    Raises:
        UnicodeEncodeError: JSON may have half of a character, such as ``"\ud800"``: it cannot.
    """
    text.encode()
    return text
