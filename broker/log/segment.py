"""Segments: the files of a log, each with its sparse indexes, named by first offset as in Kafka."""

import struct
from typing import Final

from quorate.broker.log.files import File, Files
from quorate.broker.log.index import OFFSET_ENTRY, TIME_ENTRY, Index, count_entries
from quorate.broker.log.lookup import TimestampPlace, search_boundary, search_position
from quorate.model import NO_TIMESTAMP

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
SEGMENT_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX)
"""In the order of making them: a segment exists if its log file does, so that one comes last."""
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

    __slots__ = ("is_replaced", "largest", "size_bytes", "suffix")

    def __init__(self, suffix: str) -> None:
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

    def _index(self, suffix: str, entry: struct.Struct) -> Index:
        path = self.path(suffix)
        return Index(self._files, path, entry, count=count_entries(self._files.get(path), entry))


def closed_segment(files: Files, directory: str, base_offset: int, suffix: str = "") -> Segment:
    """Return a closed segment of which nothing is known yet."""
    return Segment(files, segment_stem(directory, base_offset), base_offset, Facts(suffix))
