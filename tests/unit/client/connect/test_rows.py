"""Records become rows, whatever is in them."""

import sqlite3

import pytest

from quorate.client.connect.config import Common, SqliteSink
from quorate.client.connect.rows import (
    UnreadableError,
    column_names,
    create_statements,
    row_of,
    upsert_statement,
)
from quorate.model import TopicPartition
from quorate.records.record import Record


def sink(**columns: str) -> SqliteSink:
    paths = tuple((name, tuple(path.split("."))) for name, path in columns.items())
    return SqliteSink(Common("c", 1, 1), ("t",), "d", 'a "b"; drop', paths, False, 1)


def record(value: bytes | None, key: bytes | None = b"k", offset: int = 3) -> Record:
    return Record(TopicPartition("t", 1), offset, 99, key, value, ())


def test_raw_values_are_text_where_they_can() -> None:
    assert row_of(sink(), record("é".encode())) == ("t", 1, 3, 99, "k", "é")
    assert row_of(sink(), record(b"\xff", key=b"\xfe")) == ("t", 1, 3, 99, b"\xfe", b"\xff")
    assert row_of(sink(), record(None, key=None)) == ("t", 1, 3, 99, None, None)


@pytest.mark.parametrize(
    ("json", "cell"),
    [
        ("1", 1),
        ("1.5", 1.5),
        ("true", 1),
        ("null", None),
        ('"x"', "x"),
        ("[1, {}]", "[1,{}]"),
        ('{"é": 1}', '{"é":1}'),
        ("9223372036854775808", "9223372036854775808"),
    ],
)
def test_what_json_has_becomes_what_sqlite_has(json: str, cell: object) -> None:
    assert row_of(sink(c="a.b"), record(b'{"a": {"b": %s}}' % json.encode()))[-1] == cell


@pytest.mark.parametrize("value", [b"{}", b'{"a": 1}', b'{"a": {"c": 1}}', None])
def test_what_is_not_there_is_null(value: bytes | None) -> None:
    assert row_of(sink(c="a.b"), record(value))[-1] is None


@pytest.mark.parametrize("value", [b'{"a": "\\ud800"}', b'{"a": {"\\udc00": 1}}'])
def test_what_is_no_text_in_any_encoding_is_refused_with_its_place(value: bytes) -> None:
    with pytest.raises(UnreadableError, match=r"t-1 at offset 3: .* half of a character"):
        row_of(sink(c="a"), record(value))


@pytest.mark.parametrize("value", [b"x", b"\xff", b"[1]", b"1", b"[" * 100_000])
def test_what_is_no_object_is_refused_with_its_place(value: bytes) -> None:
    with pytest.raises(UnreadableError, match="t-1 at offset 3"):
        row_of(sink(c="a"), record(value))


def test_sqlite_takes_the_statements_with_any_names() -> None:
    table = sink(**{'x"y': "a", "select": "b"})
    database = sqlite3.connect(":memory:")
    for statement in create_statements(table) * 2:
        database.execute(statement)
    for value in (b'{"a": 1, "b": 2}', b'{"a": 3, "b": 4}'):
        database.execute(upsert_statement(table), row_of(table, record(value)))
    rows = database.execute('SELECT * FROM "a ""b""; drop"').fetchall()
    database.close()
    assert rows == [("t", 1, 3, 99, "k", 3, 4)], "the same record has one row"
    assert column_names(table)[-2:] == ('x"y', "select")
