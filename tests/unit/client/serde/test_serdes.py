"""What serdes write, what they read back, and what they refuse."""

import importlib
import json
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest
from cbor2 import CBORTag
from hypothesis import given
from hypothesis import strategies as st

from quorate.client.serde import (
    AvroSerde,
    BytesSerde,
    CborSerde,
    JsonSerde,
    SerdeError,
    StrSerde,
)
from quorate.client.serde.serdes import DEPTH_MAX

LOG = {
    "type": "record",
    "name": "Log",
    "fields": [
        {"name": "node", "type": "string"},
        {"name": "level", "type": {"type": "enum", "name": "Level", "symbols": ["INFO", "WARN"]}},
        {"name": "at_ms", "type": "long"},
        {"name": "text", "type": "string"},
    ],
}
ENTRY = {"node": "web-1", "level": "WARN", "at_ms": 1_700_000_000_000, "text": "disk is slow"}

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(PLAIN)
def test_what_json_can_say_comes_back_from_json_and_from_cbor(value: Any) -> None:
    for serde in (JsonSerde(), CborSerde()):
        assert serde.deserialize("t", serde.serialize("t", value)) == value


@given(st.binary())
def test_bytes_that_are_nothing_raise_serde_errors_and_nothing_else(data: bytes) -> None:
    for serde in (JsonSerde(), CborSerde(), StrSerde(), AvroSerde(LOG)):
        with suppress(SerdeError):
            serde.deserialize("t", data)


def test_bytes_and_text() -> None:
    assert BytesSerde().deserialize("t", BytesSerde().serialize("t", b"\0x")) == b"\0x"
    assert StrSerde().serialize("t", "é") == b"\xc3\xa9"
    assert StrSerde("latin-1").deserialize("t", b"\xe9") == "é"


def test_json_is_written_without_spaces_and_in_utf_8() -> None:
    assert JsonSerde().serialize("t", {"a": [1, "é"]}) == '{"a":[1,"é"]}'.encode()


def test_cbor_says_more_than_json() -> None:
    value = {1: b"bytes", "at": datetime(2026, 3, 1, tzinfo=UTC), "sum": Decimal("1.10")}
    assert CborSerde().deserialize("t", CborSerde().serialize("t", value)) == value


@pytest.mark.parametrize(
    ("serde", "value", "told"),
    [
        (BytesSerde(), "text", "a value for topic 'logs' is str, not bytes"),
        (StrSerde(), b"bytes", "a value for topic 'logs' is bytes, not str"),
        (StrSerde("ascii"), "é", "not writable as ascii"),
        (JsonSerde(), {"a": b"bytes"}, "has no JSON: .*bytes"),
        (JsonSerde(), float("nan"), "has no JSON"),
        (CborSerde(), object(), "has no CBOR"),
    ],
)
def test_what_cannot_be_written_is_told_with_its_topic(serde: Any, value: Any, told: str) -> None:
    with pytest.raises(SerdeError, match=told):
        serde.serialize("logs", value)


def nested(depth: int, wrap: Callable[[object], object]) -> object:
    value = wrap(1)
    for _ in range(depth - 1):
        value = wrap(value)
    return value


def list_of(inner: object) -> object:
    return [inner]


def tuple_of(inner: object) -> object:
    return (inner,)


def set_of(inner: object) -> object:
    return frozenset([inner])


def tagged(inner: object) -> object:
    return CBORTag(4_000, inner)


def in_mapping(inner: object) -> object:
    return {"a": inner, "b": "c"}


def in_proxy(inner: object) -> object:
    return MappingProxyType({1: inner})


@pytest.mark.parametrize(
    ("wrap", "levels"),
    [(list_of, 1), (tuple_of, 1), (in_mapping, 1), (in_proxy, 1), (tagged, 1), (set_of, 2)],
)
def test_cbor_is_written_as_deep_as_it_is_read_and_no_deeper(
    wrap: Callable[[object], object], levels: int
) -> None:
    serde = CborSerde()
    deepest = nested(DEPTH_MAX // levels, wrap)
    serde.deserialize("t", serde.serialize("t", deepest))
    with pytest.raises(SerdeError, match="topic 't' nests more than 256 levels deep"):
        serde.serialize("t", wrap(deepest))


def test_a_value_that_nests_however_deep_or_is_in_itself_has_no_cbor() -> None:
    endless: list[Any] = []
    endless += [endless, endless, 1]
    for value in (endless, nested(100_000, list_of), {nested(300, tuple_of): 1}):
        with pytest.raises(SerdeError, match="nests more than 256 levels deep"):
            CborSerde().serialize("t", value)


@pytest.mark.parametrize(
    ("serde", "data", "told"),
    [
        (StrSerde(), b"\xff", "are no utf-8"),
        (JsonSerde(), b"{", "are no JSON"),
        (JsonSerde(), b"\xff", "are no JSON"),
        (CborSerde(), b"", "are no CBOR"),
        (CborSerde(), b"\x81" * 999, "are no CBOR"),
        (CborSerde(), b"\1\2", "go on behind their CBOR"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_topic(serde: Any, data: bytes, told: str) -> None:
    with pytest.raises(SerdeError, match=told):
        serde.deserialize("logs", data)


def test_an_error_can_be_copied() -> None:
    copied = copy(SerdeError("why", topic="t"))
    assert (str(copied), copied.topic) == ("why", "t")


def test_avro_comes_back_and_is_shorter_than_json() -> None:
    serde = AvroSerde(json.dumps(LOG))
    data = serde.serialize("t", ENTRY)
    assert serde.deserialize("t", data) == ENTRY
    assert len(data) * 2 < len(JsonSerde().serialize("t", ENTRY))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"at_ms": "now"}, "Log.at_ms"),
        ({"level": "LOUD"}, "Log.level"),
        ({"text": None}, "Log.text"),
        ({"more": 1}, "more"),
    ],
)
def test_what_the_schema_does_not_allow_is_refused_by_field(
    change: dict[str, Any], told: str
) -> None:
    with pytest.raises(SerdeError, match=told) as error:
        AvroSerde(LOG).serialize("logs", {**ENTRY, **change})
    assert "a value for topic 'logs' is not as schema 'Log' has it" in str(error.value)
    assert error.value.topic == "logs"


def test_a_missing_field_without_default_is_refused() -> None:
    with pytest.raises(SerdeError, match="text"):
        AvroSerde(LOG).serialize("logs", {k: v for k, v in ENTRY.items() if k != "text"})


def test_schemas_evolve_by_avros_rules() -> None:
    newer = {**LOG, "fields": [*LOG["fields"], {"name": "zone", "type": "string", "default": "-"}]}
    data = AvroSerde(LOG).serialize("t", ENTRY)
    reader = AvroSerde(newer, written_with=LOG)
    assert reader.deserialize("t", data) == {**ENTRY, "zone": "-"}


def test_bytes_behind_a_record_are_refused() -> None:
    serde = AvroSerde(LOG)
    with pytest.raises(SerdeError, match="1 bytes of topic 't' stand behind"):
        serde.deserialize("t", serde.serialize("t", ENTRY) + b"x")


@pytest.mark.parametrize("schema", ["{", "[1]", {"type": "nothing"}, {"type": "record"}])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match="no Avro schema"):
        AvroSerde(schema)


@pytest.mark.parametrize(
    ("schema", "value"),
    [('"string"', "é"), ('["null", "long"]', 7), ('{"type": "array", "items": "int"}', [1, 2])],
)
def test_a_schema_need_not_be_a_record(schema: str, value: object) -> None:
    serde = AvroSerde(schema)
    assert serde.deserialize("t", serde.serialize("t", value)) == value
    with pytest.raises(SerdeError, match="is not as schema"):
        serde.serialize("t", 1.5)


NESTED = {
    "type": "record",
    "name": "Nested",
    "fields": [{"name": "in", "type": ["null", "Nested"]}],
}


def test_what_is_nested_too_deep_for_avro_is_refused_and_crashes_nobody() -> None:
    serde = AvroSerde(NESTED)
    shallow = {"in": {"in": {"in": None}}}
    assert serde.deserialize("t", serde.serialize("t", shallow)) == shallow
    with pytest.raises(SerdeError, match="are not of schema 'Nested'"):
        serde.deserialize("t", b"\x02" * 100_000 + b"\x00")
    deep: dict[str, object] = {"in": None}
    for _ in range(5_000):
        deep = {"in": deep}
    with pytest.raises(SerdeError, match="is not as schema 'Nested' has it"):
        serde.serialize("t", deep)


def test_without_fastavro_avro_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"quorate\[avro\]"):
        AvroSerde(LOG)
