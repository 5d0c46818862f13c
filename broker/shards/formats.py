"""Keys and values of internal topics as Kafka writes them: a version, then what is declared."""

from struct import Struct
from typing import Final, TypeVar

from quorate.errors import CorruptRecordError
from quorate.protocol.fields import layout_of
from quorate.protocol.message import decoder, encoder
from quorate.protocol.primitives import DecodeError, Part

T = TypeVar("T")

_VERSION: Final = Struct(">h")


def leading_number(data: bytes) -> int:
    """Return what a key or a value begins with: its type, or its version.

    Raises:
        CorruptRecordError: it is shorter than that.
    """
    if len(data) < _VERSION.size:
        raise CorruptRecordError("a key or a value without a type")
    number: int = _VERSION.unpack_from(data)[0]
    return number


def encode_value(value: object, version: int) -> bytes:
    """Return a declared value behind its version."""
    parts: list[Part] = [bytearray(_VERSION.pack(version))]
    encoder(type(value), version)(value, parts)
    (encoded,) = parts
    assert isinstance(encoded, bytearray), "values have no records in them"
    return bytes(encoded)


def decode_value(cls: type[T], value: bytes) -> T:
    """Return a declared value of whatever version it is.

    Raises:
        CorruptRecordError: it is none, or of a version not known here.
    """
    version = leading_number(value)
    if version not in layout_of(cls).versions:
        raise CorruptRecordError(f"{cls.__name__} has no version {version} here")
    try:
        decoded, _ = decoder(cls, version)(value, _VERSION.size, len(value))
    except DecodeError as error:
        raise CorruptRecordError(f"{cls.__name__}: {error}") from None
    return decoded
