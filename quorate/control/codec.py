"""Frozen dataclasses to CBOR and back, with limits: every CBOR byte of Quorate goes through here.

A dataclass becomes a map with integer keys; the keys are declared beside the fields::

    broker_id: Annotated[int, Key(1)]

Keys are never reused.  A reader ignores keys that it does not know, and a field with a default may
be absent, so both sides can be of different age.  Values come from peers and disks: whatever does
not fit raises :class:`DecodeError`, and nothing else does.
"""

import functools
import io
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import IntEnum
from typing import (
    Annotated,
    Any,
    Final,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import cbor2

from quorate.errors import QuorateError
from quorate.model import Endpoint

DEPTH_MAX: Final = 16
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

T = TypeVar("T")
Encode = Callable[[Any], Any]
Decode = Callable[[Any], Any]
Body = dict[int, Any]


class DecodeError(QuorateError, ValueError):
    """Bytes are not what they should be."""


@dataclass(frozen=True, slots=True)
class Key:
    """The integer that stands for a field in the CBOR map."""

    number: int


def _refuse(*_: object) -> Any:
    raise ValueError("CBOR tags are not used")


# What cbor2 would turn into objects by itself: dates, bignums, regular expressions, references, ...
_TAGS: Final = (0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 100, 256, 258, 260, 261, 1004)
_TAGS_REFUSED: Final[dict[int, Callable[..., Any]]] = dict.fromkeys((*_TAGS, 43000, 55799), _refuse)


def dump_cbor(value: object) -> bytes:
    """Return a value of plain types as CBOR."""
    return cbor2.dumps(value)


def load_cbor(data: bytes | bytearray | memoryview) -> Any:
    """Return the one value that is encoded in ``data``.

    Raises:
        DecodeError: not CBOR, nested too deeply, tagged, or followed by more bytes.
    """
    stream = io.BytesIO(data)
    decoder = cbor2.CBORDecoder(
        stream,
        tag_hook=_refuse,
        semantic_decoders=_TAGS_REFUSED,
        max_depth=DEPTH_MAX,
        allow_indefinite=False,
        allow_duplicate_keys=False,
    )
    try:
        value = decoder.decode()
    except (cbor2.CBORError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise DecodeError(f"not acceptable as CBOR: {error}") from error
    if stream.tell() != len(data):
        raise DecodeError("bytes after the end of the CBOR value")
    return value


@dataclass(frozen=True, slots=True)
class _Field:
    """How one field travels; ``default`` is ``MISSING`` where the field must be present."""

    key: int
    name: str
    encode: Encode
    decode: Decode
    default: Any


def encode_fields(value: Any) -> Body:
    """Return a declared dataclass as a map; fields that hold their default are left out."""
    body: Body = {}
    for field in _schema(type(value)):
        content = getattr(value, field.name)
        if content != field.default:
            body[field.key] = field.encode(content)
    return body


def decode_fields(cls: Callable[..., T], body: Any) -> T:
    """Return the dataclass that a map stands for.

    Raises:
        DecodeError: not a map, a field is missing, or one has the wrong type.
    """
    content = as_map(body)
    values: dict[str, Any] = {}
    for field in _schema(cls):
        if field.key in content:
            values[field.name] = field.decode(content[field.key])
        elif field.default is MISSING:
            raise DecodeError(f"{cls.__name__}.{field.name} is missing")
    try:
        return cls(**values)
    except (AssertionError, ValueError) as error:
        raise DecodeError(f"{cls.__name__}: {error}") from error


_schemas: Final[dict[Any, tuple[_Field, ...]]] = {}


def _schema(cls: Any) -> tuple[_Field, ...]:
    """Return how a class's fields travel, worked out once per class."""
    schema = _schemas.get(cls)
    if schema is None:
        schema = _schemas[cls] = _compile(cls)
    return schema


def _compile(cls: Any) -> tuple[_Field, ...]:
    """Return how a class's fields travel; a class declared wrongly is a bug and asserts."""
    assert is_dataclass(cls), f"{cls} is not a dataclass"
    hints = get_type_hints(cls, include_extras=True)
    schema: list[_Field] = []
    for field in fields(cls):
        kind, key = _split(hints[field.name])
        encode, decode = _converters(kind)
        schema.append(_Field(key, field.name, encode, decode, field.default))
    assert len({f.key for f in schema}) == len(schema), f"{cls} uses a key twice"
    return tuple(schema)


def _split(hint: Any) -> tuple[Any, int]:
    assert get_origin(hint) is Annotated, f"{hint} has no key"
    kind, key, *_ = get_args(hint)
    assert isinstance(key, Key)
    return kind, key.number


def as_map(value: Any) -> dict[Any, Any]:
    """Return a decoded value that must be a map."""
    _require(value, dict)
    return cast("dict[Any, Any]", value)


def as_array(value: Any) -> list[Any]:
    """Return a decoded value that must be an array."""
    _require(value, list)
    return cast("list[Any]", value)


def _require(value: object, expected: type) -> None:
    if type(value) is not expected:
        raise DecodeError(f"expected {expected.__name__}, got {type(value).__name__}")


def _same(value: Any) -> Any:
    return value


def _plain(expected: type) -> Decode:
    def decode(value: Any) -> Any:
        _require(value, expected)
        return value

    return decode


def _decode_int(value: Any) -> int:
    if type(value) is not int or not INT64_MIN <= value <= INT64_MAX:
        raise DecodeError(f"expected a 64-bit integer, got {type(value).__name__}")
    return value


def _decode_endpoint(value: Any) -> Endpoint:
    match value:
        case [str() as host, int() as port] if 0 <= port <= 65535:
            return Endpoint(host, port)
        case _:
            raise DecodeError("expected [host, port]")


def _encode_endpoint(value: Endpoint) -> list[Any]:
    return [value.host, value.port]


_PLAIN: Final[dict[Any, tuple[Encode, Decode]]] = {
    int: (_same, _decode_int),
    str: (_same, _plain(str)),
    bytes: (_same, _plain(bytes)),
    bool: (_same, _plain(bool)),
    Endpoint: (_encode_endpoint, _decode_endpoint),
}


def _converters(kind: Any) -> tuple[Encode, Decode]:
    """Return the functions that turn a value of a type into CBOR's types and back."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        return _tuple_converters(arguments[0])
    if origin is Mapping:
        return _map_converters(arguments[0], arguments[1])
    if origin in {Union, types.UnionType}:
        return _optional_converters(next(a for a in arguments if a is not types.NoneType))
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return int, functools.partial(_decode_enum, kind)
    _schema(kind)  # fails now, not at the first message, if it cannot travel
    return encode_fields, functools.partial(decode_fields, kind)


def _decode_enum(kind: type[IntEnum], value: Any) -> IntEnum:
    try:
        return kind(_decode_int(value))
    except ValueError as error:
        raise DecodeError(f"{value} is no {kind.__name__}") from error


def _tuple_converters(item: Any) -> tuple[Encode, Decode]:
    encode_item, decode_item = _converters(item)

    def encode(value: Any) -> list[Any]:
        return [encode_item(v) for v in value]

    def decode(value: Any) -> tuple[Any, ...]:
        return tuple([decode_item(v) for v in as_array(value)])

    return encode, decode


def _map_converters(key: Any, item: Any) -> tuple[Encode, Decode]:
    encode_key, decode_key = _converters(key)
    encode_item, decode_item = _converters(item)

    def encode(value: Any) -> dict[Any, Any]:
        return {encode_key(k): encode_item(v) for k, v in value.items()}

    def decode(value: Any) -> dict[Any, Any]:
        return {decode_key(k): decode_item(v) for k, v in as_map(value).items()}

    return encode, decode


def _optional_converters(kind: Any) -> tuple[Encode, Decode]:
    encode_some, decode_some = _converters(kind)

    def encode(value: Any) -> Any:
        return None if value is None else encode_some(value)

    def decode(value: Any) -> Any:
        return None if value is None else decode_some(value)

    return encode, decode
