"""ActiveSegment: the segment at the end of a log, the one that is appended to."""

from array import array
from bisect import bisect_left, bisect_right
from contextlib import suppress
from typing import Any, Final, NamedTuple, cast

from quorate.broker.log.aborted import AbortedEntries, IndexMark
from quorate.broker.log.files import FatalStorageError, File, Files, OpenFiles
from quorate.broker.log.index import (
    FIRST,
    OFFSET_ENTRY,
    RELATIVE_OFFSET_MAX,
    SECOND,
    TIME_ENTRY,
    Index,
    IndexEntry,
)
from quorate.broker.log.lookup import (
    LogSegment,
    TimestampPlace,
    batches_from,
    search_boundary,
    search_offset_behind,
    search_position,
)
from quorate.broker.log.scan import scan_headers
from quorate.broker.log.segment import (
    ALL_SUFFIXES,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_stem,
)
from quorate.broker.log.transactions import AbortedTransaction
from quorate.errors import CorruptRecordError, InvalidRecordError
from quorate.model import NO_TIMESTAMP
from quorate.records.batch import BatchHeader
from quorate.records.checksum import crc32c
from quorate.settings import TopicConfig

RECENT_BATCHES_MAX: Final = 512
"""Batches whose place is known without asking the index; consumers at the tail need no others."""

PENDING_INDEX_BYTES_MAX: Final = 4096


class EntryCounts(NamedTuple):
    """How many entries of a segment's two indexes hold."""

    offsets: int
    times: int


NO_ENTRIES: Final = EntryCounts(0, 0)


class ParkedFile:
    """In place of a segment's file that nobody has used for a while: any use opens it.

    State: the file once it was opened; the segment itself has it from then on.
    """

    __slots__ = ("_file", "_segment")

    def __init__(self, segment: "ActiveSegment") -> None:
        self._segment = segment
        self._file: File | None = None

    def __getattr__(self, name: str) -> Any:
        if self._file is None:
            self._file = self._segment.reopen()
        return getattr(self._file, name)


class RecentBatches:
    """Where the newest batches of the active segment lie.

    Invariant: all batches behind ``floor_offset`` (some batch's last offset) are here, in order,
    and at least the last RECENT_BATCHES_MAX that were added.
    """

    __slots__ = ("floor_offset", "last_offsets", "positions")

    def __init__(self, floor_offset: int) -> None:
        self.floor_offset = floor_offset
        self.last_offsets = array("q")
        self.positions = array("q")

    def forget(self) -> None:
        """Forget all but the last RECENT_BATCHES_MAX, because there are twice as many."""
        self.floor_offset = self.last_offsets[-RECENT_BATCHES_MAX - 1]
        del self.last_offsets[:-RECENT_BATCHES_MAX]
        del self.positions[:-RECENT_BATCHES_MAX]


class RollRules:
    """When a segment is full or too old, taken out of a topic's settings once."""

    __slots__ = (
        "index_interval_bytes",
        "offset_entries_max",
        "segment_bytes",
        "segment_ms",
        "time_entries_max",
    )

    def __init__(self, config: TopicConfig, stem: str) -> None:
        self.index_interval_bytes = config.index_interval_bytes
        self.segment_bytes = config.segment_bytes
        # The jitter comes from the name, so that a replay rolls where the first run did.
        jitter_ms = crc32c(stem.encode()) % (config.segment_jitter_ms + 1)
        segment_ms = max(config.segment_ms - jitter_ms, 0)
        # What is to be compacted in time must not be in the active segment by then.
        self.segment_ms = (
            min(segment_ms, config.max_compaction_lag_ms) if config.compacts else segment_ms
        )
        self.offset_entries_max = config.segment_index_bytes // OFFSET_ENTRY.size
        # One entry stays free for the largest timestamp, which is added on closing.
        self.time_entries_max = max(config.segment_index_bytes // TIME_ENTRY.size - 1, 1)


class ActiveSegment:
    """A segment that grows.

    Its file is opened when it is used, because there are thousands of partitions, most of them idle
    and many of them without a record, and hence without a file.

    Invariant: the batches that ``account`` was told of lie in the file up to ``size_bytes``; what
    may be behind that is the remains of a failed write, and will be cut or written over.
    """

    __slots__ = (
        "_bytes_since_entry",
        "_created_ms",
        "_files",
        "_first_timestamp_ms",
        "_indexes_due",
        "_indexes_full",
        "_largest_offset",
        "_largest_timestamp_ms",
        "_recent",
        "_rules",
        "aborted",
        "base_offset",
        "file",
        "is_reserved",
        "offset_index",
        "size_bytes",
        "stem",
        "time_index",
    )

    def __init__(
        self,
        files: OpenFiles,
        directory: str,
        base_offset: int,
        *,
        entries: EntryCounts,
        config: TopicConfig,
        now_ms: int,
    ) -> None:
        """Go on behind the last of so many index entries."""
        self._files = files
        self.base_offset = base_offset
        self.stem = stem = segment_stem(directory, base_offset)
        self.file: File = cast("File", ParkedFile(self))
        self.offset_index = Index(files, stem + INDEX_SUFFIX, OFFSET_ENTRY, count=entries.offsets)
        self.time_index = Index(files, stem + TIME_INDEX_SUFFIX, TIME_ENTRY, count=entries.times)
        last_offset, self.size_bytes = self.offset_index.last or (-1, 0)
        last_time = self.time_index.last or IndexEntry(NO_TIMESTAMP, 0)
        self._largest_timestamp_ms = last_time.first
        self._largest_offset = base_offset + last_time.second
        self._created_ms = now_ms
        self._first_timestamp_ms: int | None = None
        self._bytes_since_entry = 0
        self._indexes_due = False
        """Whether many index entries wait in memory to be written."""
        self._recent = RecentBatches(base_offset + last_offset)
        self.aborted: AbortedEntries | None = None
        """The transactions that were aborted by markers in the segment; None if there is none."""
        self.is_reserved = False
        """Whether the file may be longer than what was written, because space was reserved."""
        self.configure(config)

    def configure(self, config: TopicConfig) -> None:
        """Take over changed settings."""
        self._rules = RollRules(config, self.stem)
        self._note_index_space()

    @property
    def largest(self) -> TimestampPlace:
        """The largest timestamp, NO_TIMESTAMP if no record has one."""
        return TimestampPlace(self._largest_timestamp_ms, self._largest_offset)

    @property
    def modified_ms(self) -> int:
        """When the file was last written."""
        return self._files.fs.modified_ms(self.stem + LOG_SUFFIX)

    @property
    def is_parked(self) -> bool:
        """Whether the file is closed until somebody uses it."""
        return isinstance(self.file, ParkedFile)

    def park(self) -> None:
        """Close the file, all of which is synced, until somebody uses it."""
        if not self.is_parked:
            self.file = cast("File", ParkedFile(self))

    def reopen(self) -> File:
        """Open the file.

        Raises:
            OSError: it cannot be opened; the next use tries again.
        """
        self.file = self._files.get(self.stem + LOG_SUFFIX)
        return self.file

    def remembers(self, offset: int) -> bool:
        """Whether the batches from that one on are found without looking into a file."""
        return offset > self._recent.floor_offset and not self.is_parked

    def through(self, files: Files) -> "FrozenSegment":
        """Return the segment as it is now, to be read from these files, maybe elsewhere."""
        return FrozenSegment(files, self)

    def must_roll(
        self, size_bytes: int, last_offset: int, max_timestamp_ms: int, now_ms: int
    ) -> bool:
        """Whether so many bytes more belong into a new segment (Kafka: LogSegment.shouldRoll)."""
        rules = self._rules
        if self.size_bytes == 0:
            return False
        first_ms = self._first_timestamp_ms
        if first_ms is None:
            first_ms = self._read_first_timestamp()
        # Time passes as the records have it; without timestamps, as the clock has it.
        waited_ms = max_timestamp_ms - first_ms if first_ms >= 0 else now_ms - self._created_ms
        return (
            self.size_bytes + size_bytes > rules.segment_bytes
            or self._indexes_full
            or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
            or waited_ms > rules.segment_ms
        )

    def write(self, records: memoryview) -> None:
        """Write batches behind the last one; they do not count before they are accounted for.

        Raises:
            OSError: any part of them may have been written.
        """
        if self._indexes_due:
            self.write_out_indexes()
        self.file.write_at(records, self.size_bytes)

    def account(self, last_offset: int, max_timestamp_ms: int, size_bytes: int) -> None:
        """Count in the batch that lies behind the last one, and index it if it is time to."""
        position = self.size_bytes
        self.size_bytes = position + size_bytes
        if max_timestamp_ms > self._largest_timestamp_ms:
            self._largest_timestamp_ms = max_timestamp_ms
            self._largest_offset = last_offset
        if self._bytes_since_entry > self._rules.index_interval_bytes:
            self._add_entries(last_offset, position)
        self._bytes_since_entry += size_bytes
        recent = self._recent
        recent.last_offsets.append(last_offset)
        recent.positions.append(position)
        if len(recent.positions) >= 2 * RECENT_BATCHES_MAX:
            recent.forget()

    def account_batch(self, header: BatchHeader) -> None:
        """Count in, and index, a batch by its header."""
        self.account(header.last_offset, header.max_timestamp_ms, header.size_bytes)

    def recount(self, header: BatchHeader) -> None:
        """Count in a batch that was there before, behind the last one that is indexed.

        It is not indexed even if it is time to: what the index files say of synced batches is
        synced, too, and must not be mixed with what is not.
        """
        since_entry = self._bytes_since_entry
        self._bytes_since_entry = 0
        self.account(header.last_offset, header.max_timestamp_ms, header.size_bytes)
        self._bytes_since_entry += since_entry

    def cut_back(self) -> None:
        """Remove, durably, what lies behind the last batch."""
        if self.is_parked:
            return  # nothing was written, because the file could not even be opened
        self.file.truncate(self.size_bytes)
        self.file.sync()

    def write_out_indexes(self) -> None:
        """Hand the index entries in memory to the file system."""
        self.offset_index.write_out()
        self.time_index.write_out()
        self._indexes_due = False

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        """Take note of a marker in the segment that aborted records."""
        if self.aborted is None:
            self.aborted = AbortedEntries(b"", has_file=False)
        self.aborted.append(aborted)

    def write_out_aborted(self) -> bool:
        """Hand the index of aborted transactions to the file system; return whether it is new."""
        aborted = self.aborted
        if aborted is None or aborted.is_written:
            return False
        path = self.stem + TXN_INDEX_SUFFIX
        is_new = not aborted.has_file
        if is_new:
            self._files.put(path, self._files.fs.open(path, create=True))
            aborted.has_file = True
        aborted.write_out(self._files.get(path))
        return is_new

    @property
    def index_mark(self) -> IndexMark:
        """What a snapshot of producers says of the index of aborted transactions."""
        if self.aborted is None:
            return IndexMark(self.base_offset, 0, 0)
        return self.aborted.mark(self.base_offset)

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Of its files, in the order of making them."""
        has_aborted = self.aborted is not None and self.aborted.has_file
        return ALL_SUFFIXES if has_aborted else SEGMENT_SUFFIXES

    def sync_indexes(self) -> None:
        """Make the indexes durable, here and now."""
        self.write_out_indexes()
        self.offset_index.file.sync()
        self.time_index.file.sync()

    def complete(self) -> None:
        """Bring the files into the state that a closed segment's files have."""
        self.note_largest()
        self.write_out_indexes()
        self.write_out_aborted()
        if self.is_reserved:
            self.file.truncate(self.size_bytes)
            self.is_reserved = False

    def note_largest(self) -> None:
        """Index the largest timestamp, so that it need not be searched for on opening."""
        last = self.time_index.last or IndexEntry(NO_TIMESTAMP, 0)
        if self._largest_timestamp_ms > last.first:
            relative = self._largest_offset - self.base_offset
            self.time_index.append(self._largest_timestamp_ms, relative)

    def position_of(self, offset: int) -> int:
        """Return where the first batch begins whose last offset is at least ``offset``."""
        recent = self._recent
        if offset <= recent.floor_offset:
            return search_position(self, offset)
        number = bisect_left(recent.last_offsets, offset)
        return recent.positions[number] if number < len(recent.positions) else self.size_bytes

    def boundary_before(self, target: int, start: int) -> int:
        """Return the last batch boundary at or before ``target``, given one at or before it."""
        positions = self._recent.positions
        if not positions or target < positions[0]:
            return search_boundary(self, target, start)
        return positions[bisect_right(positions, target) - 1]

    def offset_behind(self, position: int, end_offset: int) -> int:
        """Return an offset at or behind all batches that begin before the position."""
        recent = self._recent
        number = bisect_left(recent.positions, position)
        if number == 0:
            return search_offset_behind(self, position, end_offset)
        return recent.last_offsets[number - 1] + 1

    def _read_first_timestamp(self) -> int:
        first_ms = NO_TIMESTAMP
        with suppress(CorruptRecordError, InvalidRecordError):  # damaged; what comes is not
            first_ms = next(batches_from(self, 0)).header.max_timestamp_ms
        self._first_timestamp_ms = first_ms
        return first_ms

    def _add_entries(self, last_offset: int, position: int) -> None:
        self.offset_index.append(last_offset - self.base_offset, position)
        self.note_largest()
        self._bytes_since_entry = 0
        self._indexes_due = self.offset_index.pending_bytes > PENDING_INDEX_BYTES_MAX
        self._note_index_space()

    def _note_index_space(self) -> None:
        self._indexes_full = (
            len(self.offset_index) >= self._rules.offset_entries_max
            or len(self.time_index) >= self._rules.time_entries_max
        )


class FrozenSegment:
    """An active segment as it was at a moment; what is appended since is not part of it."""

    __slots__ = (
        "_files",
        "base_offset",
        "largest",
        "offset_index",
        "size_bytes",
        "stem",
        "time_index",
    )

    def __init__(self, files: Files, active: ActiveSegment) -> None:
        self._files = files
        self.base_offset = active.base_offset
        self.stem = active.stem
        self.size_bytes = active.size_bytes
        self.largest = active.largest
        self.offset_index = active.offset_index.through(files)
        self.time_index = active.time_index.through(files)

    @property
    def file(self) -> File:
        """The file of batches."""
        return self._files.get(self.stem + LOG_SUFFIX)

    def position_of(self, offset: int) -> int:
        """Return where the first batch begins whose last offset is at least ``offset``."""
        return search_position(self, offset)

    def boundary_before(self, target: int, start: int) -> int:
        """Return the last batch boundary at or before ``target``, given one at or before it."""
        return search_boundary(self, target, start)

    def offset_behind(self, position: int, end_offset: int) -> int:
        """Return an offset at or behind all batches that begin before the position."""
        return search_offset_behind(self, position, end_offset)


def create_segment(
    files: OpenFiles, directory: str, base_offset: int, *, config: TopicConfig, now_ms: int
) -> ActiveSegment:
    """Make an empty segment and its files.

    Raises:
        OSError: there is no segment then, at most files that mean nothing.
    """
    stem = segment_stem(directory, base_offset)
    for suffix in SEGMENT_SUFFIXES:
        files.put(stem + suffix, files.fs.open(stem + suffix, create=True))
    segment = ActiveSegment(
        files, directory, base_offset, entries=NO_ENTRIES, config=config, now_ms=now_ms
    )
    segment.reopen()
    if config.preallocate:
        segment.is_reserved = _reserve(segment.file, config.segment_bytes)
    return segment


def resume_segment(
    files: OpenFiles,
    directory: str,
    base_offset: int,
    *,
    kept: EntryCounts,
    config: TopicConfig,
    now_ms: int,
) -> ActiveSegment:
    """Open a segment to go on with it at its last index entry kept.

    The batches from there on lie in the file, and are to be accounted for.
    """
    stem = segment_stem(directory, base_offset)
    _keep_entries(files, stem + INDEX_SUFFIX, kept.offsets * OFFSET_ENTRY.size)
    _keep_entries(files, stem + TIME_INDEX_SUFFIX, kept.times * TIME_ENTRY.size)
    segment = ActiveSegment(
        files, directory, base_offset, entries=kept, config=config, now_ms=now_ms
    )
    segment.reopen()
    if files.fs.exists(stem + TXN_INDEX_SUFFIX):
        file = files.get(stem + TXN_INDEX_SUFFIX)
        segment.aborted = AbortedEntries(file.read_at(file.size_bytes(), 0), has_file=True)
    return segment


def cut_segment(
    files: OpenFiles,
    directory: str,
    segment: LogSegment,
    end_offset: int,
    *,
    config: TopicConfig,
    now_ms: int,
) -> ActiveSegment:
    """Remove, durably, the batches from the one that begins at the offset, and go on with the rest.

    Raises:
        FatalStorageError: nobody knows how much of it is there.
        OSError: all of it is.
    """
    position = segment.position_of(end_offset)
    offsets, times = segment.offset_index, segment.time_index
    # What can be lacking for a while, space and file descriptors, is asked for first.
    for index in (offsets, times):
        index.write_out()
    for suffix in segment.suffixes:
        files.get(segment.stem + suffix)
    try:
        for index, column in ((offsets, FIRST), (times, SECOND)):
            index.truncate_before(end_offset - segment.base_offset, column)
            index.file.sync()  # below the recovery point, recovery relies on the indexes
        file = files.get(segment.stem + LOG_SUFFIX)
        file.truncate(position)
        file.sync()
        kept = EntryCounts(len(offsets), len(times))
        resumed = resume_segment(
            files, directory, segment.base_offset, kept=kept, config=config, now_ms=now_ms
        )
        for batch in scan_headers(resumed.file, resumed.size_bytes, position):
            resumed.recount(batch.header)
    except OSError as error:
        message = f"{segment.stem}: a cut could not be finished: {error.strerror}"
        raise FatalStorageError(message) from error
    return resumed


def _reserve(file: File, size_bytes: int) -> bool:
    """Reserve space if there is any: it makes syncs quicker, nothing depends on it.

    Return whether there was.
    """
    try:
        file.allocate(size_bytes)
    except OSError:
        file.truncate(0)
        return False
    return True


def _keep_entries(files: OpenFiles, path: str, size_bytes: int) -> None:
    """Drop what is in an index behind so many bytes; without an index, make an empty one."""
    if not files.fs.exists(path):
        files.put(path, files.fs.open(path, create=True))
    file = files.get(path)
    if file.size_bytes() != size_bytes:
        file.truncate(size_bytes)
