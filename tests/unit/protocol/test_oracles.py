"""Two independent implementations of the protocol agree with ours, byte for byte.

kio and kafka-python are oracles: they get bytes of our own making only. For every message and every
version they have, a random instance is built as our message and as kio's entity side by side, field
by field and by name, so that two fields of one type cannot be mistaken for each other.
"""

import dataclasses
import datetime as dt
import importlib
import io
import random
import typing
import uuid
from collections.abc import Iterator
from typing import Any

import kio.index
import pytest
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer

from quorate.protocol.apis import APIS, Api, ApiKey
from quorate.protocol.fields import FIXED, OWN_TAG, Field, Layout, layout_of
from quorate.protocol.message import decoder, encoder
from quorate.protocol.primitives import ZERO_UUID

INSTANCES = 3
EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)
KIO_KINDS = {
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
}
STRINGS = ("", "a", "topic-é", "x" * 126, "x" * 127, "x" * 128, "x" * 200)
SIZES = (0, 1, 5, 126, 127, 128, 300)
COUNTS = (0, 1, 2, 3)
MANY = 40

everywhere = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)


def class_of(instance: Any) -> type[Any]:
    found: type[Any] = instance.__class__
    return found


def encode(message: Any, version: int) -> bytes:
    parts: list[Any] = []
    encoder(class_of(message), version)(message, parts)
    return b"".join(parts)


class Twins:
    """Makes random values in pairs: ours, and kio's of the same meaning."""

    def __init__(self, version: int, seed: str) -> None:
        self._version = version
        self._random = random.Random(seed)

    def struct(self, cls: type[Any], entity: type[Any]) -> tuple[Any, Any]:
        ours: dict[str, Any] = {}
        theirs: dict[str, Any] = {}
        for field, kio_field in paired_fields(layout_of(cls), entity, self._version):
            if field.tag is not None and self._random.random() < 0.5:
                continue
            ours[field.name], theirs[kio_field.name] = self.field(field, kio_field)
        return cls(**ours), entity(**theirs)

    def field(self, field: Field, kio_field: Any) -> tuple[Any, Any]:
        if self._version in field.nullable and self._random.random() < 0.25:
            return None, None
        if not field.is_array:
            return self.value(field, kio_field)
        counts = (*COUNTS, MANY) if field.kind in FIXED else COUNTS
        pairs = [self.value(field, kio_field) for _ in range(self._random.choice(counts))]
        return [ours for ours, _ in pairs], tuple(theirs for _, theirs in pairs)

    def value(self, field: Field, kio_field: Any) -> tuple[Any, Any]:
        if field.struct is not None:
            return self.struct(field.struct, struct_type(kio_field))
        kind = kio_field.metadata["kafka_type"]
        assert KIO_KINDS.get(kind, kind) == field.kind, field
        return self.primitive(kind)

    def primitive(self, kind: str) -> tuple[Any, Any]:
        rng = self._random
        if kind == "uuid":
            number = uuid.UUID(int=rng.getrandbits(128))
            return (ZERO_UUID, None) if rng.random() < 0.25 else (number.bytes, number)
        if kind == "error_code":
            code = rng.choice(list(ErrorCode))
            return int(code), code
        if kind == "datetime_i64":
            ms = rng.randrange(2**40)
            return ms, EPOCH + dt.timedelta(milliseconds=ms)
        if kind.startswith("timedelta"):
            ms = rng.randrange(10**6)
            return ms, dt.timedelta(milliseconds=ms)
        value = self.plain(kind)
        return value, value

    def plain(self, kind: str) -> Any:
        rng = self._random
        if kind == "string":
            return rng.choice(STRINGS)
        if kind in {"bytes", "records"}:
            return rng.randbytes(rng.choice(SIZES))
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "float64":
            return rng.uniform(-1e6, 1e6)
        bits = 8 * FIXED[kind].size_bytes
        return rng.getrandbits(bits) - (0 if kind.startswith("u") else 1 << (bits - 1))


def paired_fields(layout: Layout, entity: type[Any], version: int) -> Iterator[tuple[Field, Any]]:
    """Yields our fields of one version with kio's of the same name; kio drops the unit of times."""
    present = {f.name: f for f in layout.fields if version in f.versions and not is_own(f)}
    theirs = {kio_name(f): f for f in dataclasses.fields(entity)}
    assert theirs.keys() == present.keys(), (layout.name, version)
    for name, field in present.items():
        assert theirs[name].metadata.get("tag") == field.tag, (layout.name, version, name)
        yield field, theirs[name]


def is_own(field: Field) -> bool:
    """Whether a field is of our making, and Kafka's messages lack it."""
    return field.tag is not None and field.tag >= OWN_TAG


def kio_name(field: Any) -> str:
    kind = field.metadata.get("kafka_type", "")
    name: str = field.name
    return f"{name}_ms" if kind.startswith(("timedelta", "datetime")) else name


def struct_type(kio_field: Any) -> type[Any]:
    """Finds X in X, X | None, tuple[X, ...] and tuple[X, ...] | None."""
    found = kio_field.type
    while arguments := typing.get_args(found):
        found = arguments[0]
    assert dataclasses.is_dataclass(found), kio_field
    return typing.cast("type[Any]", found)


def pairs_of(api: Api) -> Iterator[tuple[type[Any], type[Any], int]]:
    for version in range(api.min_version, api.max_version + 1):
        yield api.request, kio.index.load_request_schema(api.key, version), version
        yield api.response, kio.index.load_response_schema(api.key, version), version


def instances(api: Api) -> Iterator[tuple[Any, Any, int]]:
    for cls, entity, version in pairs_of(api):
        twins = Twins(version, f"{cls.__name__} {version}")
        for _ in range(INSTANCES):
            yield *twins.struct(cls, entity), version


@everywhere
def test_we_have_the_same_versions_as_kio(api: Api) -> None:
    versions = sorted(schema_name_map[api_key_map[api.key]])
    assert [api.min_version, api.max_version] == [versions[0], versions[-1]]
    for cls, entity, version in pairs_of(api):
        assert cls.__name__ == entity.__name__
        assert (version in layout_of(cls).flexible) == entity.__flexible__


@everywhere
def test_kio_writes_the_same_bytes(api: Api) -> None:
    for ours, theirs, version in instances(api):
        written = io.BytesIO()
        entity_writer(class_of(theirs))(written, theirs)
        assert encode(ours, version).hex() == written.getvalue().hex(), (ours, version)


@everywhere
def test_kio_reads_what_we_write(api: Api) -> None:
    for ours, theirs, version in instances(api):
        encoded = encode(ours, version)
        assert entity_reader(class_of(theirs))(encoded, 0) == (theirs, len(encoded)), (
            ours,
            version,
        )


@everywhere
def test_we_read_what_we_write_from_bytes_and_from_bytearrays(api: Api) -> None:
    for ours, _, version in instances(api):
        encoded = encode(ours, version)
        read = decoder(class_of(ours), version)
        assert read(encoded, 0, len(encoded)) == (ours, len(encoded))
        shifted = bytearray(b"before" + encoded + b"after")
        end = len(b"before") + len(encoded)
        assert read(shifted, len(b"before"), end) == (ours, end)


@everywhere
def test_what_was_read_is_written_as_it_was(api: Api) -> None:
    for ours, _, version in instances(api):
        encoded = encode(ours, version)
        message, _ = decoder(class_of(ours), version)(encoded, 0, len(encoded))
        assert encode(message, version) == encoded


@everywhere
def test_defaults_are_those_of_kio_or_null_instead_of_empty(api: Api) -> None:
    for cls, entity, version in pairs_of(api):
        check_defaults(cls, entity, version)


def check_defaults(cls: type[Any], entity: type[Any], version: int) -> None:
    fresh = cls()
    for field, kio_field in paired_fields(layout_of(cls), entity, version):
        if field.struct is not None:
            check_defaults(field.struct, struct_type(kio_field), version)
        default = kio_field.default
        is_given = default is not dataclasses.MISSING
        if is_given and field.struct is None and isinstance(default, int | str | bool | None):
            nothing = (ZERO_UUID, -1) if field.kind in {"uuid", "int64"} else ()
            value = getattr(fresh, field.name)
            assert value == default or (default is None and value in nothing), (cls, field.name)


# --- kafka-python ------------------------------------------------------------

KAFKA_PYTHON_MODULES = ("metadata", "admin", "consumer", "producer", "sasl")
KNOWN_DIFFERENCES = {
    # Whatever follows an error is decoded as version 0, by design.
    ("ApiVersionsResponse", "an error"),
    # Fails with an AttributeError when it encodes what it decoded.
    ("DeleteTopicsRequest", "any"),
}
NOT_IN_KAFKA_PYTHON = {
    ApiKey.UNREGISTER_BROKER,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
}


def kafka_python_messages() -> dict[str, Any]:
    for module in KAFKA_PYTHON_MODULES:
        importlib.import_module(f"kafka.protocol.{module}")
    found = importlib.import_module("kafka.protocol.api_message").ApiMessage
    return {cls.name: cls for cls in subclasses(found) if cls._class_version is None}


def subclasses(cls: Any) -> Iterator[Any]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from subclasses(subclass)


@pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")
@everywhere
def test_kafka_python_reads_what_we_write_and_writes_it_again(api: Api) -> None:
    messages = kafka_python_messages()
    compared = 0
    for ours, _, version in instances(api):
        name = type(ours).__name__
        oracle = messages.get(name)
        if oracle is None or (name, "any") in KNOWN_DIFFERENCES:
            continue
        if (name, "an error") in KNOWN_DIFFERENCES:
            ours.error_code = 0
        encoded = encode(ours, version)
        decoded = oracle.decode(encoded, version=version)
        assert bytes(decoded.encode()).hex() == encoded.hex(), (ours, version)
        compared += 1
    assert compared or api.key in NOT_IN_KAFKA_PYTHON
