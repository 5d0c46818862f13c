"""KeyOffsets: of each key the last offset, in bounded memory (Kafka: ``SkimpyOffsetMap``).

A key is known by 16 bytes of a keyed hash.  Nobody who does not know the secret can make two keys
that are taken for one, and by chance it happens once in 2^64 pairs.  An entry takes 24 bytes; in a
dict of Python it would take some 180.
"""

import hashlib
import struct
from mmap import mmap
from typing import Final

ENTRY_BYTES: Final = 24
FILLED_MAX: Final = 0.75
"""Of the entries; beyond that a look-up probes too many."""

SECRET_BYTES: Final = 16
ENTRIES_MIN: Final = 2

_HASH_BYTES: Final = 16
_HALVES: Final = struct.Struct("<QQ")
_FREE: Final = 0


class KeyOffsets:
    """A hash table with open addressing.

    State: three numbers for each entry, two halves of a hash and an offset; the first half is never
    zero, so that zero says that the entry is free.
    Invariant: at most FILLED_MAX of the entries are taken.
    """

    __slots__ = ("_secret", "_size", "_table", "count", "count_max")

    def __init__(self, secret: bytes, *, buffer_bytes: int, keys_max: int) -> None:
        """Make room for so many keys, or as many as fit into so many bytes.

        Args:
            secret: SECRET_BYTES that nobody else knows.
            buffer_bytes: of memory at most.
            keys_max: how many there can be.
        """
        wanted = min(buffer_bytes // ENTRY_BYTES, int(keys_max / FILLED_MAX) + 1)
        entries = max(wanted, ENTRIES_MIN)
        self._secret = secret
        # Anonymous pages are zero when they are first touched: nobody waits for them to be cleared.
        self._table = memoryview(mmap(-1, ENTRY_BYTES * entries)).cast("B").cast("Q")
        self._size = 3 * entries
        self.count = 0
        self.count_max = int(entries * FILLED_MAX)

    @property
    def is_full(self) -> bool:
        """Whether no other key can be added."""
        return self.count >= self.count_max

    def put(self, key: bytes, offset: int) -> None:
        """Note the offset for the key, which must not be a new one if the table is full."""
        at, first, second = self._find(key)
        table = self._table
        if table[at] == _FREE:
            assert not self.is_full, "the caller looks before adding"
            table[at], table[at + 1] = first, second
            self.count += 1
        table[at + 2] = offset

    def get(self, key: bytes) -> int | None:
        """Return the offset noted last for the key."""
        at, _, _ = self._find(key)
        return self._table[at + 2] if self._table[at] != _FREE else None

    def _find(self, key: bytes) -> tuple[int, int, int]:
        """Return where the key's entry is, or is to be, and the halves of its hash."""
        digest = hashlib.blake2b(key, digest_size=_HASH_BYTES, salt=self._secret).digest()
        first, second = _HALVES.unpack(digest)
        first = first or 1
        table, size = self._table, self._size
        at = second % (size // 3) * 3
        while table[at] != first or table[at + 1] != second:
            if table[at] == _FREE:
                break
            at += 3
            if at == size:
                at = 0
        return at, first, second
