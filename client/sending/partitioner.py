"""Which partition a record goes to: murmur2 of the key, or sticky without a key.

The hash and its use are those of Kafka's Java clients (class ``BuiltInPartitioner``), so that the
same key goes to the same partition whichever client writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from random import Random

Partitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, int], int]
"""``(topic, key, value, partition count) -> partition``."""

STICKY_BYTES: Final = 16 * 1024
"""How much goes to one partition before the next one's turn comes."""

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_WORD: Final = Struct("<I")
_HASHES_KEPT: Final = 1 << 16


@lru_cache(maxsize=_HASHES_KEPT)
def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 hash with Kafka's seed, as an unsigned number.

    Hashes are kept, because keys tend to come back and this costs microseconds.
    """
    size = len(data)
    whole = size & ~3
    state = _SEED ^ size
    for (word,) in _WORD.iter_unpack(data[:whole]):
        mixed = word * _FACTOR & _MASK
        mixed = (mixed ^ mixed >> 24) * _FACTOR & _MASK
        state = state * _FACTOR & _MASK ^ mixed
    if size > whole:
        state = (state ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    state = (state ^ state >> 13) * _FACTOR & _MASK
    return state ^ state >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key: its hash without the sign bit, modulo the count."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyTurns:
    """Whose turn it is to get the records without a key, for one topic.

    Partitions take turns, so that they get the same share; where the turns begin is chance, so that
    many producers that start together do not all begin with the same partition.
    """

    __slots__ = ("_turn",)

    def __init__(self, rng: Random) -> None:
        self._turn = rng.randrange(1 << 30)

    def next(self, partitions: Sequence[int]) -> int:
        """Return the next partition of those that may be chosen; there must be one."""
        assert partitions
        self._turn += 1
        return partitions[self._turn % len(partitions)]
