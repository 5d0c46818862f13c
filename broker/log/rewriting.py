"""Segments read whole and written anew, off the event loop, as fast as somebody lets them.

Names: a compacted segment's log file is ``.log.cleaned`` while it may still be given up, and
``.log.swap`` from then on until it takes the place of others (as in Kafka).  Its indexes are
``.swap`` from the beginning: they mean nothing without their log file.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from quorate.broker.log.aborted import AbortedEntries
from quorate.broker.log.files import File, FileSystem, OpenFiles
from quorate.broker.log.index import OFFSET_ENTRY, TIME_ENTRY, Index
from quorate.broker.log.lookup import Searchable
from quorate.broker.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from quorate.broker.log.transactions import AbortedTransaction
from quorate.errors import CorruptRecordError
from quorate.model import NO_TIMESTAMP
from quorate.records.batch import HEADER_BYTES, BatchHeader, check_header, crc_matches, parse_header

CLEANED_SUFFIX: Final = ".cleaned"

READ_BYTES: Final = 64 << 10
"""Between two charges as much is done as these take: the event loop waits no longer than that."""
SYNC_BYTES: Final = 8 << 20
"""Synced at once, so that the disk is never busy for long with what nobody waits for."""

OPEN_FILES_MAX: Final = 8

Charge = Callable[[int], None]
"""Called before so many bytes are read or written: waits for its turn, or raises to give up."""


class PlainBatch(NamedTuple):
    """A batch as it lies in a segment."""

    header: BatchHeader
    data: bytes


def read_batches(segment: Searchable, charge: Charge) -> Iterator[PlainBatch]:
    """Yield the batches of a segment, whole and checked.

    Raises:
        CorruptRecordError, InvalidRecordError: what comes next is no batch.
        OSError: the segment cannot be read.
    """
    window = Window(segment.file, segment.size_bytes, charge)
    position = 0
    while position < window.end:
        header = parse_header(window.read(position, HEADER_BYTES), 0)
        check_header(header, window.end - position)
        data = window.read(position, header.size_bytes)
        if len(data) < header.size_bytes or not crc_matches(memoryview(data), 0, header):
            raise CorruptRecordError(f"the checksum of the batch at byte {position} does not match")
        yield PlainBatch(header, data)
        position += header.size_bytes


class Window:
    """A part of a file in memory that moves on as it is read."""

    __slots__ = ("_at", "_charge", "_data", "_file", "end")

    def __init__(self, file: File, end: int, charge: Charge) -> None:
        self._file = file
        self._charge = charge
        self._data = b""
        self._at = 0
        self.end = end

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return so many bytes, or as many as there are; never from before what was read last."""
        at = position - self._at
        missing_bytes = at + size_bytes - len(self._data)
        if missing_bytes > 0:
            behind = self._at + len(self._data)
            wanted_bytes = min(max(missing_bytes, READ_BYTES), self.end - behind)
            self._charge(wanted_bytes)
            self._data = self._data[at:] + self._file.read_at(wanted_bytes, behind)
            self._at, at = position, 0
        return self._data[at : at + size_bytes]


class SegmentWriter:
    """Writes a compacted segment, with its indexes, under names that mean nothing yet.

    State: what was added, some of it in memory still.
    """

    def __init__(self, fs: FileSystem, stem: str, base_offset: int, interval_bytes: int) -> None:
        """Make the files.

        Raises:
            OSError: the disk refuses.
        """
        files = OpenFiles(fs, OPEN_FILES_MAX)
        suffixes = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
        index_paths = [stem + suffix + SWAP_SUFFIX for suffix in suffixes]
        self.path = stem + LOG_SUFFIX + CLEANED_SUFFIX
        for path in (self.path, *index_paths):
            files.put(path, fs.open(path, create=True))
        self._file = files.get(self.path)
        self._offsets = Index(files, index_paths[0], OFFSET_ENTRY, count=0)
        self._times = Index(files, index_paths[1], TIME_ENTRY, count=0)
        self._aborted_file = files.get(index_paths[2])
        self._aborted = AbortedEntries(b"", has_file=True)
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._since_entry = 0
        self._largest_ms = NO_TIMESTAMP
        self._largest_offset = base_offset
        self._pending = bytearray()
        self._written_bytes = 0
        self._synced_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of batches so far."""
        return self._written_bytes + len(self._pending)

    @property
    def txn_index_bytes(self) -> int:
        """Of the index of aborted transactions."""
        return self._aborted.size_bytes

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Note that a marker in the segment aborted records."""
        self._aborted.append(aborted)

    def add(self, batch: bytes, charge: Charge) -> None:
        """Write a batch behind the last one, and index it if it is time to."""
        header = parse_header(batch, 0)
        position = self.size_bytes
        if header.max_timestamp_ms > self._largest_ms:
            self._largest_ms, self._largest_offset = header.max_timestamp_ms, header.last_offset
        if self._since_entry > self._interval_bytes:
            self._offsets.append(header.last_offset - self._base_offset, position)
            self._note_largest()
            self._since_entry = 0
        self._since_entry += len(batch)
        self._pending += batch
        if len(self._pending) >= READ_BYTES:
            self._write_out(charge)

    def finish(self, charge: Charge) -> None:
        """Make the files durable, names excepted."""
        self._write_out(charge)
        self._note_largest()
        for index in (self._offsets, self._times):
            index.write_out()
            index.file.sync()
        self._aborted.write_out(self._aborted_file)
        self._aborted_file.sync()
        self._file.sync()

    def _write_out(self, charge: Charge) -> None:
        charge(len(self._pending))
        self._file.write_at(self._pending, self._written_bytes)
        self._written_bytes += len(self._pending)
        self._pending.clear()
        if self._written_bytes - self._synced_bytes >= SYNC_BYTES:
            self._file.sync()
            self._synced_bytes = self._written_bytes

    def _note_largest(self) -> None:
        last = self._times.last
        if self._largest_ms > (last.first if last else NO_TIMESTAMP):
            self._times.append(self._largest_ms, self._largest_offset - self._base_offset)


def discard(fs: FileSystem, stem: str) -> None:
    """Remove a compacted segment that will not take the place of any."""
    for path in (
        stem + INDEX_SUFFIX + SWAP_SUFFIX,
        stem + TIME_INDEX_SUFFIX + SWAP_SUFFIX,
        stem + TXN_INDEX_SUFFIX + SWAP_SUFFIX,
        stem + LOG_SUFFIX + CLEANED_SUFFIX,
    ):
        if fs.exists(path):
            fs.remove(path)
