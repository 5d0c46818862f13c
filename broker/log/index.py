"""Sparse offset and time indexes, in Kafka's format (classes ``OffsetIndex``, ``TimeIndex``).

An index is a file of fixed-size entries of two numbers, both of which only grow.  That is why one
bisection serves for offsets, positions and timestamps alike.

========== ======================== ==================================================
file       first number             second number
========== ======================== ==================================================
.index     last offset of a batch,  position of that batch in the segment (4 bytes)
           relative (4 bytes)
.timeindex largest timestamp so far last offset of the batch that has it, relative (4)
           in ms (8 bytes)
========== ======================== ==================================================

An index is rebuilt from the log where in doubt, so its newest entries wait in memory and are
written together.
"""

import struct
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from quorate.broker.log.files import File, Files

OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")
RELATIVE_OFFSET_MAX: Final = 2**31 - 1

FIRST: Final = 0
SECOND: Final = 1

BLOCK_BYTES: Final = 4096
"""Read at once: to read an entry costs as much as to read so many around it."""


class IndexEntry(NamedTuple):
    """Two numbers; what they are depends on the index."""

    first: int
    second: int


class Index:
    """The entries of one index file: the older ones in the file, the newest in memory.

    Invariant: neither number ever decreases from one entry to the next.
    """

    __slots__ = ("_files", "_in_file", "_last", "_path", "_pending", "entry")

    def __init__(self, files: Files, path: str, entry: struct.Struct, *, count: int) -> None:
        self._files = files
        self._path = path
        self.entry = entry
        self._in_file = count
        self._pending = bytearray()
        self._last: IndexEntry | None = None

    def __len__(self) -> int:
        return self._in_file + len(self._pending) // self.entry.size

    def __getitem__(self, number: int) -> IndexEntry:
        return _Search(self, FIRST).entry(number)

    def read_block(self, number: int) -> tuple[int, bytes | bytearray]:
        """Return entries around that one, and the number of the first of them."""
        in_file = self._in_file
        if number >= in_file:
            return in_file, self._pending
        size = self.entry.size
        first = number - number % (BLOCK_BYTES // size)
        size_bytes = min(BLOCK_BYTES // size, in_file - first) * size
        return first, self._files.get(self._path).read_at(size_bytes, first * size)

    def through(self, files: Files) -> "Index":
        """Return the entries there are now, to be read from these files, maybe elsewhere."""
        index = Index(files, self._path, self.entry, count=0)
        index._in_file = self._in_file
        index._pending = self._pending.copy()
        index._last = self._last
        return index

    @property
    def last(self) -> IndexEntry | None:
        """The newest entry; None if there is none."""
        if self._last is None and len(self):
            self._last = self[len(self) - 1]
        return self._last

    @property
    def file(self) -> File:
        """The file, for syncing."""
        return self._files.get(self._path)

    @property
    def pending_bytes(self) -> int:
        """Bytes of entries that wait to be written."""
        return len(self._pending)

    def append(self, first: int, second: int) -> None:
        """Add an entry behind the last one."""
        self._pending += self.entry.pack(first, second)
        self._last = IndexEntry(first, second)

    def floor(self, key: int, column: int) -> IndexEntry | None:
        """Return the last entry whose number in the column is at most ``key``."""
        search = _Search(self, column)
        found = bisect_right(range(len(self)), key, key=search.number)
        return search.entry(found - 1) if found else None

    def ceiling(self, key: int, column: int) -> IndexEntry | None:
        """Return the first entry whose number in the column is at least ``key``."""
        search, count = _Search(self, column), len(self)
        found = bisect_left(range(count), key, key=search.number)
        return search.entry(found) if found < count else None

    def truncate_before(self, key: int, column: int) -> None:
        """Drop all entries whose number in the column is at least ``key``."""
        search = _Search(self, column)
        self.keep(bisect_left(range(len(self)), key, key=search.number))

    def keep(self, count: int) -> None:
        """Keep the first so many entries."""
        assert count <= len(self)
        in_file = min(count, self._in_file)
        if in_file < self._in_file:
            self.file.truncate(in_file * self.entry.size)
            self._in_file = in_file
        del self._pending[(count - in_file) * self.entry.size :]
        self._last = None

    def write_out(self) -> None:
        """Write what waits in memory to the file (not yet durably)."""
        if self._pending:
            size = self.entry.size
            self.file.write_at(self._pending, self._in_file * size)
            self._in_file += len(self._pending) // size
            self._pending.clear()


class _Search:
    """Reads the entries of an index for one search, by the block: most of it stays within one."""

    __slots__ = ("_block", "_column", "_entry", "_first", "_index")

    def __init__(self, index: Index, column: int) -> None:
        self._index = index
        self._entry = index.entry
        self._column = column
        self._first = 0
        self._block: bytes | bytearray = b""

    def number(self, entry: int) -> int:
        """Return the number in the column of that entry."""
        at = (entry - self._first) * self._entry.size
        if not 0 <= at < len(self._block):
            self._first, self._block = self._index.read_block(entry)
            at = (entry - self._first) * self._entry.size
        found: int = self._entry.unpack_from(self._block, at)[self._column]
        return found

    def entry(self, number: int) -> IndexEntry:
        """Return that entry."""
        self.number(number)  # has it read
        at = (number - self._first) * self._entry.size
        return IndexEntry._make(self._entry.unpack_from(self._block, at))


def count_entries(file: File, entry: struct.Struct) -> int:
    """Return how many whole entries the file holds."""
    return file.size_bytes() // entry.size


def count_sound_offset_entries(file: File, *, offset_end: int, position_end: int) -> int:
    """Return how many leading entries are in order and point below both ends.

    After a crash the rest of the file may be anything, so bisecting it would be guessing.

    Args:
        file: an offset index.
        offset_end: relative, exclusive.
        position_end: exclusive.
    """
    count = 0
    before = IndexEntry(-1, 0)  # the batch at position 0 is never indexed: zeros are no entry
    for first, second in OFFSET_ENTRY.iter_unpack(_whole_entries(file, OFFSET_ENTRY)):
        if not (before.first < first < offset_end and before.second < second < position_end):
            break
        before = IndexEntry(first, second)
        count += 1
    return count


def count_sound_time_entries(file: File, *, offset_end: int) -> int:
    """Return how many leading entries of a time index are in order and below the end."""
    count = 0
    before = IndexEntry(0, -1)
    for first, second in TIME_ENTRY.iter_unpack(_whole_entries(file, TIME_ENTRY)):
        if not (before.first < first and before.second < second < offset_end):
            break
        before = IndexEntry(first, second)
        count += 1
    return count


def _whole_entries(file: File, entry: struct.Struct) -> bytes:
    data = file.read_at(file.size_bytes(), 0)
    return data[: len(data) // entry.size * entry.size]
