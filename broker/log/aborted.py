"""Which transactions were aborted: one index for each segment that holds markers of such.

The file ``.txnindex`` is Kafka's (classes ``TransactionIndex``, ``AbortedTxn``): 34 bytes for each
marker in the segment that aborted records, in the order of the log. A segment without any has none,
and most have none.  What is in it follows from the log: recovery makes anew what is newer than the
producer snapshot that it begins with.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final, NamedTuple

from quorate.broker.log.files import File
from quorate.broker.log.transactions import AbortedTransaction
from quorate.records.checksum import crc32c

ENTRY: Final = Struct(">hqqqq")
"""Version 0, producer id, first offset, last offset, last stable offset."""
READ_ENTRIES: Final = 64
"""Read at once."""

_VERSION: Final = 0
_LAST_OFFSET: Final = 3


class IndexMark(NamedTuple):
    """What the newest index held when a producer snapshot was made, all of it on disk by then."""

    base_offset: int
    """Of the segment that was active: the indexes of those before it are on disk as they are."""
    size_bytes: int
    checksum: int


NO_MARK: Final = IndexMark(-1, 0, 0)
"""Nothing is known to be on disk."""

Read = Callable[[int, int], bytes]
"""Returns so many bytes from a position."""


def pack_aborted(aborted: Iterable[AbortedTransaction]) -> bytes:
    """Return entries as they stand in the file."""
    return b"".join(ENTRY.pack(_VERSION, *each) for each in aborted)


def unpack_aborted(data: bytes | bytearray) -> list[AbortedTransaction]:
    """Return the whole entries of a file."""
    whole = data[: len(data) // ENTRY.size * ENTRY.size]
    return [AbortedTransaction._make(entry[1:]) for entry in ENTRY.iter_unpack(whole)]


def trusted_part(data: bytes, base_offset: int, mark: IndexMark, offset: int) -> bytes:
    """Return the entries that were there when a snapshot was made, of what is there now.

    What is behind them may be anything after a crash.

    Args:
        data: all of the file.
        base_offset: of its segment.
        mark: of the snapshot.
        offset: of the snapshot.
    """
    if base_offset > mark.base_offset:
        return b""
    part = data[: mark.size_bytes]
    if base_offset == mark.base_offset and (len(part), crc32c(part)) == mark[1:]:
        return part
    # The segment was closed before, or compaction has put another one in its place since.
    return pack_aborted(each for each in unpack_aborted(data) if each.last_offset < offset)


def find_aborted(
    read: Read, count: int, offset: int, limit_offset: int
) -> tuple[list[AbortedTransaction], bool]:
    """Look up transactions with records between two offsets, the second exclusive.

    Args:
        read: reads an index.
        count: its entries.
        offset: of the first record.
        limit_offset: behind the last record.

    Returns:
        The transactions, in the order of their markers; and whether the indexes of later segments
        have none.
    """
    size = ENTRY.size

    def last_offset_of(number: int) -> int:
        last_offset: int = ENTRY.unpack(read(size, number * size))[_LAST_OFFSET]
        return last_offset

    found: list[AbortedTransaction] = []
    number = bisect_left(range(count), offset, key=last_offset_of)
    while number < count:
        wanted = min(READ_ENTRIES, count - number)
        for entry in unpack_aborted(read(wanted * size, number * size)):
            if entry.first_offset < limit_offset:
                found.append(entry)
            if entry.last_stable_offset >= limit_offset:
                return found, True
        number += wanted
    return found, False


class AbortedEntries:
    """The index of a segment that grows: all of it in memory, maybe not all in its file yet."""

    __slots__ = ("_data", "_file_bytes", "_written_bytes", "has_file")

    def __init__(self, data: bytes, *, has_file: bool) -> None:
        """Go on with what a file holds."""
        self._data = bytearray(data[: len(data) // ENTRY.size * ENTRY.size])
        self._written_bytes = len(self._data)
        self._file_bytes = len(data)
        """What the file holds may be more: what was cut off, or the remains of a crash."""
        self.has_file = has_file

    @property
    def size_bytes(self) -> int:
        """Of all entries."""
        return len(self._data)

    def append(self, aborted: AbortedTransaction) -> None:
        """Add a transaction behind all others."""
        self._data += ENTRY.pack(_VERSION, *aborted)

    def keep_trusted(self, base_offset: int, mark: IndexMark, offset: int) -> None:
        """Drop all but what was there when a snapshot was made; see :func:`trusted_part`."""
        self._data = bytearray(trusted_part(bytes(self._data), base_offset, mark, offset))
        self._written_bytes = min(self._written_bytes, len(self._data))

    def mark(self, base_offset: int) -> IndexMark:
        """Return what a snapshot says of it that is made now."""
        return IndexMark(base_offset, len(self._data), crc32c(self._data))

    @property
    def all(self) -> list[AbortedTransaction]:
        """All entries."""
        return unpack_aborted(self._data)

    def between(self, offset: int, limit_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """See :func:`find_aborted`."""
        return find_aborted(self._read, len(self._data) // ENTRY.size, offset, limit_offset)

    def _read(self, size_bytes: int, position: int) -> bytes:
        return bytes(self._data[position : position + size_bytes])

    def write_out(self, file: File) -> None:
        """Bring the file up to date (not yet durably).

        Raises:
            OSError: any part of it may have been written.
        """
        if self._file_bytes > self._written_bytes:
            file.truncate(self._written_bytes)
        self._file_bytes = len(self._data)
        file.write_at(self._data[self._written_bytes :], self._written_bytes)
        self._written_bytes = len(self._data)

    @property
    def is_written(self) -> bool:
        """Whether the file holds all of it, and nothing else."""
        size_bytes = len(self._data)
        return self.has_file and size_bytes == self._written_bytes == self._file_bytes
