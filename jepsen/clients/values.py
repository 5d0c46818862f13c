"""The values of records: each is sent once, says who sent it, and is known again byte by byte."""

from typing import Final, NamedTuple

PRODUCER_SHIFT: Final = 32
NUMBER_MASK: Final = (1 << PRODUCER_SHIFT) - 1
SIZE_BYTES: Final = 100
DAMAGED: Final = -1
"""What a record is taken for whose bytes nobody sent."""


class Value(NamedTuple):
    """Who sent a record, and how many it had sent before."""

    producer: int
    number: int


def value_of(producer: int, number: int) -> int:
    """Return the one integer that stands for a value in histories."""
    return producer << PRODUCER_SHIFT | number


def parts_of(value: int) -> Value:
    """Return what a value in a history is made of."""
    return Value(value >> PRODUCER_SHIFT, value & NUMBER_MASK)


def encode(value: int, size_bytes: int = SIZE_BYTES) -> bytes:
    """Return the bytes of a value; numbers first, for those who look into logs."""
    producer, number = parts_of(value)
    return f"{producer} {number} ".encode().ljust(size_bytes, b"x")


def decode(data: bytes | None) -> int:
    """Return the value in these bytes; DAMAGED if not every byte is as it was sent."""
    data = data or b""
    words = data.split(b" ", 2)
    if len(words) != 3 or not (words[0].isdigit() and words[1].isdigit()):
        return DAMAGED
    value = value_of(int(words[0]), int(words[1]))
    return value if data == encode(value, len(data)) else DAMAGED


def key_of(value: int, keys: int) -> bytes:
    """Return the key of a value where there are so many; its producer's own."""
    producer, number = parts_of(value)
    return b"%d-%d" % (producer, number % keys)
