"""Frozen dataclasses to CBOR and back, with limits: every CBOR byte of Quorate goes through here.

A dataclass becomes a map with integer keys; the keys are declared beside the fields::

    broker_id: Annotated[int, Key(1)]

Keys are never reused.  A reader ignores keys that it does not know, and a field with a default may
be absent, so both sides can be of different age.  Values come from peers and disks: whatever does
not fit raises :class:`DecodeError`, and nothing else does.

Each class gets straight-line code of its own, made once from its declaration: metadata has hundreds
of thousands of records.
"""

import io
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import IntEnum
from typing import (
    Annotated,
    Any,
    Final,
    NoReturn,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import cbor2

from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.model import Endpoint
from quorate.protocol.source import Source

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
    """How one field travels; ``default`` is ``MISSING`` where the field must be present.

    ``encode`` and ``decode`` are expressions of generated code, with ``{}`` for the value.
    """

    key: int
    name: str
    encode: str
    decode: str
    default: Any


@dataclass(frozen=True, slots=True)
class _Travel:
    """How the values of one class become maps, and maps become values."""

    encode: Callable[[Any], Body]
    decode: Callable[[Any], Any]


_travels: Final[dict[Any, _Travel]] = {}


def _travel(cls: Any) -> _Travel:
    """Return how a class travels, worked out once per class."""
    travel = _travels.get(cls)
    if travel is None:
        travel = _travels[cls] = _Compiler(cls).compile()
    return travel


def encode_fields(value: Any) -> Body:
    """Return a declared dataclass as a map; fields that hold their default are left out."""
    return _travel(type(value)).encode(value)


def decode_fields(cls: Callable[..., T], body: Any) -> T:
    """Return the dataclass that a map stands for.

    Raises:
        DecodeError: not a map, a field is missing, or one has the wrong type.
    """
    return decoder_of(cls)(body)


def decoder_of(cls: Callable[..., T]) -> Callable[[Any], T]:
    """Return :func:`decode_fields` of one class, for who decodes many of it."""
    return _travel(cls).decode


class Decoders(dict[int, Callable[[Any], Any]]):
    """The decoders of classes by number, each made when it is asked for: few are, of many."""

    def __init__(self, classes: Mapping[int, Any]) -> None:
        super().__init__()
        self._classes = classes

    def __missing__(self, number: int) -> Callable[[Any], Any]:
        """Make the decoder."""
        decode = self[number] = decoder_of(self._classes[number])
        return decode


@dataclass(frozen=True, slots=True)
class DeclaredField:
    """A field as its class declares it; ``default`` is ``MISSING`` where it must be present."""

    key: int
    name: str
    kind: Any
    default: Any


def declared_fields(cls: Any) -> list[DeclaredField]:
    """Return the fields of a class; one that is declared wrongly is a bug and asserts."""
    assert is_dataclass(cls), f"{cls} is not a dataclass"
    hints = get_type_hints(cls, include_extras=True)
    found: list[DeclaredField] = []
    for field in fields(cls):
        kind, key = _split(hints[field.name])
        found.append(DeclaredField(key, field.name, kind, field.default))
    assert len({field.key for field in found}) == len(found), f"{cls} uses a key twice"
    return found


def is_declared(kind: Any) -> bool:
    """Return whether the values of a type travel as maps of their fields."""
    return is_dataclass(kind) and kind not in _KNOWN


class _Compiler:
    """Writes the two functions of one class; a class declared wrongly is a bug and asserts."""

    def __init__(self, cls: Any) -> None:
        self._name: str = cls.__name__
        self._constants: dict[str, Any] = {
            "new": cls,
            "wrong": _wrong,
            "not_int": _not_int,
            "Refusal": DecodeError,
            "INT64_MIN": INT64_MIN,
            "INT64_MAX": INT64_MAX,
        }
        self._fields = [self._field(field) for field in declared_fields(cls)]

    def compile(self) -> _Travel:
        """Return the functions."""
        return _Travel(self._encoder(), self._decoder())

    def _field(self, field: DeclaredField) -> _Field:
        name, kind, key, default = field.name, field.kind, field.key, field.default
        if kind in _PLAIN:
            return _Field(key, name, "{0}", _PLAIN[kind], default)
        encode, decode = map(self._constant, converters_of(kind))
        return _Field(key, name, f"{encode}({{0}})", f"{decode}({{0}})", default)

    def _constant(self, value: object) -> str:
        name = f"c{len(self._constants)}"
        self._constants[name] = value
        return name

    def _function(self, source: Source, name: str) -> Callable[..., Any]:
        for constant, value in self._constants.items():
            source.constant(constant, value)
        return source.function(name, f"{name} {self._name}")

    def _encoder(self) -> Callable[[Any], Body]:
        source = Source()
        always = [f for f in self._fields if f.default is MISSING]
        items = [f"{f.key}: {f.encode.format('o.' + f.name)}" for f in always]
        with source.block("def encode(o):"):
            source.line(f"body = {{{', '.join(items)}}}")
            for field in self._fields:
                if field.default is not MISSING:
                    default = self._constant(field.default)
                    source.line(f"v = o.{field.name}")
                    content = field.encode.format("v")
                    differs = f"v is not {default} and v != {default}"
                    source.line(f"if {differs}: body[{field.key}] = {content}")
            source.line("return body")
        return self._function(source, "encode")

    def _decoder(self) -> Callable[[Any], Any]:
        source = Source()
        absent = self._constant(MISSING)
        with source.block("def decode(body):"):
            source.line("if type(body) is not dict: wrong(body, 'dict')")
            source.line("get = body.get")
            for field in self._fields:
                target = f"f{field.key}"
                source.line(f"v = get({field.key}, {absent})")
                source.line(f"if v is not {absent}: {target} = {field.decode.format('v')}")
                if field.default is MISSING:
                    reason = f"{self._name}.{field.name} is missing"
                    source.line(f"else: raise Refusal({reason!r})")
                else:
                    source.line(f"else: {target} = {self._constant(field.default)}")
            arguments = ", ".join(f"f{field.key}" for field in self._fields)
            with source.block("try:"):
                source.line(f"return new({arguments})")
            with source.block("except (AssertionError, ValueError) as error:"):
                source.line(f"raise Refusal({self._name + ': '!r} + str(error)) from error")
        return self._function(source, "decode")


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
        _wrong(value, expected.__name__)


def _wrong(value: object, expected: str) -> NoReturn:
    raise DecodeError(f"expected {expected}, got {type(value).__name__}")


def _not_int(value: object) -> NoReturn:
    _wrong(value, "a 64-bit integer")


# Expressions of generated code that are a value of that type, or raise.
_PLAIN: Final[dict[Any, str]] = {
    int: "({0} if type({0}) is int and INT64_MIN <= {0} <= INT64_MAX else not_int({0}))",
    str: "({0} if type({0}) is str else wrong({0}, 'str'))",
    bytes: "({0} if type({0}) is bytes else wrong({0}, 'bytes'))",
    bool: "({0} if type({0}) is bool else wrong({0}, 'bool'))",
}


def _same(value: Any) -> Any:
    return value


def _plain(kind: type) -> Decode:
    def decode(value: Any) -> Any:
        _require(value, kind)
        return value

    return decode


def _decode_int(value: Any) -> int:
    if type(value) is not int or not INT64_MIN <= value <= INT64_MAX:
        _not_int(value)
    return value


def _decode_float(value: Any) -> float:
    if type(value) is not float or not math.isfinite(value):
        _wrong(value, "a finite float")
    return value


def _decode_ints(value: Any) -> tuple[int, ...]:
    numbers = as_array(value)
    for number in numbers:
        if type(number) is not int or not INT64_MIN <= number <= INT64_MAX:
            _not_int(number)
    return tuple(numbers)


def _decode_endpoint(value: Any) -> Endpoint:
    match value:
        case [str() as host, int() as port] if 0 <= port <= 65535:
            return Endpoint(host, port)
        case _:
            raise DecodeError("expected [host, port]")


def _encode_endpoint(value: Endpoint) -> list[Any]:
    return [value.host, value.port]


_KNOWN: Final[dict[Any, tuple[Encode, Decode]]] = {
    int: (_same, _decode_int),
    str: (_same, _plain(str)),
    bytes: (_same, _plain(bytes)),
    bool: (_same, _plain(bool)),
    float: (_same, _decode_float),
    Endpoint: (_encode_endpoint, _decode_endpoint),
    tuple[int, ...]: (list, _decode_ints),
}


def converters_of(kind: Any) -> tuple[Encode, Decode]:
    """Return the functions that turn a value of a type into CBOR's types and back."""
    if kind in _KNOWN:
        return _KNOWN[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        return _tuple_converters(arguments[0])
    if origin is Mapping:
        return _map_converters(arguments[0], arguments[1])
    if origin in {Union, types.UnionType}:
        return _optional_converters(next(a for a in arguments if a is not types.NoneType))
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return int, _enum_decoder(kind)
    travel = _travel(kind)  # fails now, not at the first message, if it cannot travel
    return travel.encode, travel.decode


def _enum_decoder(kind: type[IntEnum]) -> Decode:
    members = {member.value: member for member in kind}

    def decode(value: Any) -> IntEnum:
        member = members.get(_decode_int(value))
        if member is None:
            raise DecodeError(f"{value} is no {kind.__name__}")
        return member

    return decode


def _tuple_converters(item: Any) -> tuple[Encode, Decode]:
    encode_item, decode_item = converters_of(item)

    def encode(value: Any) -> list[Any]:
        return [encode_item(v) for v in value]

    def decode(value: Any) -> tuple[Any, ...]:
        return tuple([decode_item(v) for v in as_array(value)])

    return encode, decode


def _map_converters(key: Any, item: Any) -> tuple[Encode, Decode]:
    encode_key, decode_key = converters_of(key)
    encode_item, decode_item = converters_of(item)

    def encode(value: Any) -> dict[Any, Any]:
        return {encode_key(k): encode_item(v) for k, v in value.items()}

    def decode(value: Any) -> dict[Any, Any]:
        return {decode_key(k): decode_item(v) for k, v in as_map(value).items()}

    return encode, decode


def _optional_converters(kind: Any) -> tuple[Encode, Decode]:
    encode_some, decode_some = converters_of(kind)

    def encode(value: Any) -> Any:
        return None if value is None else encode_some(value)

    def decode(value: Any) -> Any:
        return None if value is None else decode_some(value)

    return encode, decode
