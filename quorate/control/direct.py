"""Declared dataclasses straight to bytes: what ``dump_cbor(encode_fields(value))`` returns, sooner.

Most messages are small, and an encoder of CBOR spends most of its time on beginning containers. So
each class gets code of its own that writes its map as bytes; whatever is neither a number, text,
bytes, a declared class nor a tuple of such goes through the encoder as always.
"""

from collections.abc import Callable
from dataclasses import MISSING
from enum import IntEnum
from typing import Any, Final, get_args, get_origin

from quorate.control.codec import converters_of, declared_fields, dump_cbor, is_declared
from quorate.protocol.source import Source

Dump = Callable[[Any], bytes]

SMALL_MAX: Final = 256
"""Numbers and lengths below this are in tables."""

_NUMBERS: Final = tuple(dump_cbor(number) for number in range(SMALL_MAX))
# CBOR writes a length like a number, with another major type in its upper three bits.
_BYTES, _TEXT, _ARRAY, _MAP = (
    tuple(bytes([head[0] | major << 5]) + head[1:] for head in _NUMBERS) for major in (2, 3, 4, 5)
)

_dumpers: Final[dict[Any, Dump]] = {}


def dumper_of(cls: Any) -> Dump:
    """Return the function that makes bytes of a class's values, worked out once per class."""
    dump = _dumpers.get(cls)
    if dump is None:
        dump = _dumpers[cls] = _compiled(cls)
    return dump


def dump_number(value: int) -> bytes:
    """Return a whole number as CBOR."""
    return _NUMBERS[value] if 0 <= value < SMALL_MAX else dump_cbor(int(value))


def dump_bytes(value: bytes) -> bytes:
    """Return bytes as CBOR."""
    return _BYTES[len(value)] + value if len(value) < SMALL_MAX else dump_cbor(value)


def _dump_text(value: str) -> bytes:
    data = value.encode()
    return _TEXT[len(data)] + data if len(data) < SMALL_MAX else dump_cbor(value)


def map_head(count: int) -> bytes:
    """Return how a map of so many entries begins, fewer than ``SMALL_MAX``."""
    return _MAP[count]


def _compiled(cls: Any) -> Dump:
    """Write the function of one class: what is always there, then what differs from its default."""
    source = Source()
    declared = declared_fields(cls)
    always = [field for field in declared if field.default is MISSING]
    for field in declared:
        source.constant(f"key{field.key}", dump_cbor(field.key))
        source.constant(f"dump{field.key}", _dumper_of_kind(field.kind))
        source.constant(f"default{field.key}", field.default)
    parts = [f"key{field.key}, dump{field.key}(o.{field.name})" for field in always]
    source.constant("heads", _MAP)
    source.constant("join", b"".join)
    with source.block("def dump(o):"):
        source.line(f"count, more = {len(always)}, b''")
        for field in declared:
            if field.default is not MISSING:
                default = f"default{field.key}"
                source.line(f"v = o.{field.name}")
                with source.block(f"if v is not {default} and v != {default}:"):
                    source.line("count += 1")
                    source.line(f"more += key{field.key} + dump{field.key}(v)")
        source.line(f"return join(({', '.join(['heads[count]', *parts, 'more'])}))")
    return source.function("dump", f"dump {cls.__name__}")


def _dumper_of_kind(kind: Any) -> Dump:
    if kind in _KNOWN:
        return _KNOWN[kind]
    if get_origin(kind) is tuple:
        return _tuple_dumper(_dumper_of_kind(get_args(kind)[0]))
    if is_declared(kind):
        return dumper_of(kind)
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return dump_number
    encode, _ = converters_of(kind)
    return lambda value: dump_cbor(encode(value))


def _tuple_dumper(dump_item: Dump) -> Dump:
    def dump(value: Any) -> bytes:
        if len(value) < SMALL_MAX:
            return b"".join((_ARRAY[len(value)], *map(dump_item, value)))
        head = dump_cbor([None] * len(value))[: -len(value)]
        return b"".join((head, *map(dump_item, value)))

    return dump


_KNOWN: Final[dict[Any, Dump]] = {int: dump_number, str: _dump_text, bytes: dump_bytes}
