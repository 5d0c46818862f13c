"""What all messages are made of: varints, skipping of unknown tags, the one decoding error."""

from collections.abc import Sized
from struct import Struct
from typing import Final, TypeAlias

Part: TypeAlias = Sized
"""One piece of an encoded message: a bytearray, or an opaque records object with a length."""

ZERO_UUID: Final = bytes(16)
"""Kafka's wire value for an id that is not known."""

UVARINT_BYTES_MAX: Final = 5


class DecodeError(ValueError):
    """The bytes are not what the protocol says they should be; whoever sent them is cut off."""


def read_uvarint(buffer: bytes | bytearray, pos: int) -> tuple[int, int]:
    """Returns the unsigned varint at `pos`, and the position after it.

    Raises:
        DecodeError: It has more than five bytes.
        IndexError: The buffer ends first. (Compiled readers turn it into a DecodeError.)
    """
    value = 0
    for index in range(UVARINT_BYTES_MAX):
        byte = buffer[pos + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, pos + index + 1
    raise DecodeError("a varint has more than 5 bytes")


def uvarint(value: int) -> bytes:
    """Returns `value` as an unsigned varint."""
    assert value >= 0
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def skip_tags(buffer: bytes | bytearray, pos: int, end: int) -> int:
    """Returns the position after the tag section at `pos`, whatever the section holds.

    Raises:
        DecodeError: A tag claims more bytes than there are.
        IndexError: The buffer ends first.
    """
    count, pos = read_uvarint(buffer, pos)
    for _ in range(count):
        _, pos = read_uvarint(buffer, pos)
        size_bytes, pos = read_uvarint(buffer, pos)
        pos += size_bytes
        if pos > end:
            raise DecodeError("a tagged field is longer than what holds it")
    return pos


def structs_by_count(character: str, counts: int) -> list[Struct]:
    """Returns structs for 0, 1, ... `counts - 1` numbers: parsing formats costs time."""
    return [Struct(f">{count}{character}") for count in range(counts)]
