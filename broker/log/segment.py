"""Segments: the files of a log, each with its sparse indexes, named by first offset as in Kafka."""

import struct
from typing import Final

from quorate.broker.log.aborted import ENTRY, find_aborted
from quorate.broker.log.files import File, Files, OpenFiles, read_file, replace_file
from quorate.broker.log.index import OFFSET_ENTRY, TIME_ENTRY, Index, count_entries
from quorate.broker.log.lookup import (
    TimestampPlace,
    search_boundary,
    search_offset_behind,
    search_position,
)
from quorate.broker.log.transactions import AbortedTransaction
from quorate.model import NO_TIMESTAMP

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
"""Of a file that only segments with aborted transactions have (see ``aborted``)."""
SEGMENT_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX)
"""In the order of making them: a segment exists if its log file does, so that one comes last."""
NO_TXN_INDEX: Final = -1
"""In place of the size of the file that is not there."""
ALL_SUFFIXES: Final = (TXN_INDEX_SUFFIX, *SEGMENT_SUFFIXES)
SWAP_SUFFIX: Final = ".swap"
"""Of the files of a compacted segment that is about to take the place of others (as in Kafka)."""


def segment_stem(directory: str, base_offset: int) -> str:
    """Return the path of a segment's files without their suffix."""
    return f"{directory}/{base_offset:020d}"


class Facts:
    """What is found out about a closed segment once, by whoever needs it first, in any thread.

    And what only the loop changes: how its files are called beside their usual names, and whether
    compaction has put another segment in its place.
    """

    __slots__ = ("is_replaced", "largest", "size_bytes", "suffix", "txn_index_bytes")

    def __init__(self, suffix: str, txn_index_bytes: int) -> None:
        self.txn_index_bytes = txn_index_bytes
        self.size_bytes = -1
        self.largest: TimestampPlace | None = None
        self.suffix = suffix
        self.is_replaced = False


class Segment:
    """A closed segment.

    It holds no file open and no byte of an index in memory, because a log may have ten thousand of
    them.  Invariant: its files never change any more.
    """

    __slots__ = ("_facts", "_files", "base_offset", "stem")

    def __init__(self, files: Files, stem: str, base_offset: int, facts: Facts) -> None:
        self._files = files
        self.base_offset = base_offset
        self.stem = stem
        self._facts = facts

    def through(self, files: Files) -> "Segment":
        """Return the same segment, to be read from these files."""
        return Segment(files, self.stem, self.base_offset, self._facts)

    def remembers(self, offset: int) -> bool:  # noqa: ARG002 - none is as good as another
        """Whether the batches from that one on are found without looking into a file."""
        return False

    @property
    def size_bytes(self) -> int:
        """Bytes of batches; asked of the file system once."""
        facts = self._facts
        if facts.size_bytes < 0:
            facts.size_bytes = self._files.size_bytes(self.path(LOG_SUFFIX))
        return facts.size_bytes

    @property
    def file(self) -> File:
        """The file of batches."""
        return self._files.get(self.path(LOG_SUFFIX))

    @property
    def offset_index(self) -> Index:
        """From last offsets of batches to their positions."""
        return self._index(INDEX_SUFFIX, OFFSET_ENTRY)

    @property
    def time_index(self) -> Index:
        """From timestamps to offsets."""
        return self._index(TIME_INDEX_SUFFIX, TIME_ENTRY)

    @property
    def largest(self) -> TimestampPlace:
        """The largest timestamp: the last entry of a closed segment's time index."""
        largest = self._facts.largest
        if largest is None:
            last = self.time_index.last
            timestamp_ms, relative = last or (NO_TIMESTAMP, 0)
            largest = TimestampPlace(timestamp_ms, self.base_offset + relative)
            self._facts.largest = largest
        return largest

    @property
    def modified_ms(self) -> int:
        """When the file was last written."""
        return self._files.modified_ms(self.path(LOG_SUFFIX))

    @property
    def has_aborted(self) -> bool:
        """Whether there are markers in it that aborted records."""
        return self._facts.txn_index_bytes > 0

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Of its files, in the order of making them."""
        return SEGMENT_SUFFIXES if self._facts.txn_index_bytes < 0 else ALL_SUFFIXES

    def aborted_between(
        self, offset: int, limit_offset: int
    ) -> tuple[list[AbortedTransaction], bool]:
        """See :func:`find_aborted`."""
        file = self._files.get(self.path(TXN_INDEX_SUFFIX))
        count = self._facts.txn_index_bytes // ENTRY.size
        return find_aborted(file.read_at, count, offset, limit_offset)

    def read_aborted(self, files: OpenFiles) -> bytes:
        """Return all of the index of aborted transactions.

        Raises:
            OSError: the disk fails.
        """
        if not self.has_aborted:
            return b""
        return read_file(files.fs, self.path(TXN_INDEX_SUFFIX))

    def rewrite_aborted(self, files: OpenFiles, data: bytes) -> None:
        """Have the index say, durably, what the log says, if it does not.

        Args:
            files: those of the log.
            data: what the log says.

        Raises:
            OSError: the disk fails.
        """
        path = self.path(TXN_INDEX_SUFFIX)
        if data != self.read_aborted(files):
            # As a whole: the part that a snapshot vouches for must not be lost with the rest.
            replace_file(files.fs, path, data)
            files.forget(path)
            self._facts.txn_index_bytes = len(data)

    @property
    def index_sizes(self) -> tuple[int, int]:
        """Bytes of the offset index and of the time index."""
        size_of = self._files.size_bytes
        return size_of(self.path(INDEX_SUFFIX)), size_of(self.path(TIME_INDEX_SUFFIX))

    @property
    def is_replaced(self) -> bool:
        """Whether its files may be gone, or be another segment's by now."""
        return self._facts.is_replaced

    def path(self, suffix: str) -> str:
        """Return where one of its files is."""
        return self.stem + suffix + self._facts.suffix

    def call_files(self, suffix: str) -> None:
        """Take note that the files were renamed."""
        self._facts.suffix = suffix

    def replace(self) -> None:
        """Take note that another segment has its place."""
        self._facts.is_replaced = True

    def position_of(self, offset: int) -> int:
        """Return where the first batch begins whose last offset is at least ``offset``."""
        return search_position(self, offset)

    def boundary_before(self, target: int, start: int) -> int:
        """Return the last batch boundary at or before ``target``, given one at or before it."""
        return search_boundary(self, target, start)

    def offset_behind(self, position: int, end_offset: int) -> int:
        """Return an offset at or behind all batches that begin before the position."""
        return search_offset_behind(self, position, end_offset)

    def _index(self, suffix: str, entry: struct.Struct) -> Index:
        path = self.path(suffix)
        return Index(self._files, path, entry, count=count_entries(self._files.get(path), entry))


def closed_segment(
    files: Files,
    directory: str,
    base_offset: int,
    suffix: str = "",
    *,
    txn_index_bytes: int = NO_TXN_INDEX,
) -> Segment:
    """Return a closed segment of which nothing else is known yet."""
    facts = Facts(suffix, txn_index_bytes)
    return Segment(files, segment_stem(directory, base_offset), base_offset, facts)
