"""Opens a log's directory, and after a crash finds out what of it is whole.

Everything below the recovery point was synced, indexes included; from there on every batch is
checked: its checksum, that its offset continues the one before, and that its leader epoch is the
one that the epochs file has for it (offset and epoch lie outside the checksum).  The first batch
that fails ends the log; what is behind it is cut off.  The indexes are built anew on the way.
"""

from collections.abc import Iterator, Sequence
from dataclasses import field

from quorate.broker.log.active import (
    NO_ENTRIES,
    ActiveSegment,
    EntryCounts,
    create_segment,
    resume_segment,
)
from quorate.broker.log.checkpoints import NO_CHECKPOINT, LogCheckpoint
from quorate.broker.log.cleaned import FILE_NAME as CLEANER_OFFSET_NAME
from quorate.broker.log.cleaned import NOT_CLEANED, Cleaned, load_cleaned
from quorate.broker.log.context import LogContext
from quorate.broker.log.directory import Left
from quorate.broker.log.documents import CorruptDocumentError
from quorate.broker.log.epochs import FILE_NAME, EpochStart, LeaderEpochs, load_epochs
from quorate.broker.log.files import TEMPORARY_SUFFIX
from quorate.broker.log.index import (
    FIRST,
    OFFSET_ENTRY,
    TIME_ENTRY,
    count_entries,
    count_sound_offset_entries,
    count_sound_time_entries,
)
from quorate.broker.log.lookup import batches_from
from quorate.broker.log.naming import Birth
from quorate.broker.log.producers import ProducerStates
from quorate.broker.log.rebuilding import rebuild_producers
from quorate.broker.log.rewriting import CLEANED_SUFFIX
from quorate.broker.log.scan import PlacedBatch, crc_in_file, is_cut_short, scan_headers
from quorate.broker.log.segment import (
    ALL_SUFFIXES,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    NO_TXN_INDEX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
    closed_segment,
    segment_stem,
)
from quorate.broker.log.segments import Segments
from quorate.broker.log.snapshots import SNAPSHOT_SUFFIX, Snapshots
from quorate.broker.log.swap import recover_swaps
from quorate.broker.log.trash import DELETED_SUFFIX
from quorate.dataclass import dataclass
from quorate.errors import CorruptRecordError, InvalidRecordError
from quorate.model import UNKNOWN_EPOCH
from quorate.records.batch import BatchHeader
from quorate.settings import TopicConfig


@dataclass(slots=True)
class LoadedLog:
    """A log's parts, consistent with each other."""

    segments: Segments
    leader_epochs: LeaderEpochs
    producers: ProducerStates
    snapshots: Snapshots
    log_start_offset: int
    log_end_offset: int
    flushed_offset: int
    unsynced: list[Segment] = field(default_factory=list[Segment])
    """Closed segments that may not be on disk as they are."""
    names_synced: bool = True
    """Whether the files' names are on disk for certain."""
    sealed: bool = True
    """Whether the directory is on disk for certain, and can say whose it is."""
    cleaned: Cleaned = NOT_CLEANED
    """How far the log was compacted."""
    whole: bool = True
    """Whether nothing that had been written whole was cut off, or is missing."""
    lost_from: int | None = None
    """Where the log began, if its first segments are missing."""


def planned_log(
    context: LogContext, directory: str, topic_id: bytes, *, config: TopicConfig, now_ms: int
) -> LoadedLog:
    """Return the parts of an empty log that has no files yet."""
    active = ActiveSegment(
        context.files, directory, 0, entries=NO_ENTRIES, config=config, now_ms=now_ms
    )
    return LoadedLog(
        segments=Segments([], active),
        leader_epochs=LeaderEpochs(context.fs, f"{directory}/{FILE_NAME}", []),
        producers=ProducerStates(0),
        snapshots=Snapshots(context.fs, directory, topic_id, []),
        log_start_offset=0,
        log_end_offset=0,
        flushed_offset=0,
        names_synced=False,
        sealed=False,
    )


@dataclass(slots=True)
class Directory:
    """The files of a log's directory, by what they are."""

    bases: list[int] = field(default_factory=list[int])
    snapshots: list[int] = field(default_factory=list[int])
    leftovers: list[str] = field(default_factory=list[str])
    deleted: bool = False
    """Whether segments were deleted not long ago."""
    first_without_index: int | None = None
    """The first segment that lost an index, which is the first that must be read whole."""


class LogLoader:
    """Loads one log.  State: how far it has come; the result is consistent at every step."""

    def __init__(
        self, context: LogContext, directory: str, birth: Birth, *, config: TopicConfig, now_ms: int
    ) -> None:
        self._context = context
        self._directory = directory
        self._birth = birth
        self._config = config
        self._now_ms = now_ms
        self._epochs = LeaderEpochs(context.fs, self._epochs_path, [])
        self._epochs_known = True
        self._cleaned = NOT_CLEANED
        self._whole = True

    def load(self, checkpoint: LogCheckpoint, *, left: Left) -> LoadedLog:
        """Return the log.

        Args:
            checkpoint: as last written down.
            left: how the last process left it; if it closed it, it need not be checked.

        Raises:
            OSError: the disk fails.
        """
        found = self._sort_files()
        self._load_epochs(found.bases)
        if not self._epochs_known and checkpoint.recovery_point == 0 <= self._birth.leader_epoch:
            # There was no checkpoint yet, which would have written the epochs out.
            self._epochs.begin(self._birth.leader_epoch)
        if not found.bases:
            self._whole = checkpoint is NO_CHECKPOINT  # else something was there
            return self._load_empty(found, checkpoint.log_start_offset)
        loaded = (
            self._resume_clean(found, checkpoint.recovery_point) if left is Left.CLOSED else None
        )
        if loaded is None:
            loaded = self._recover(found, checkpoint.recovery_point)
        # What was deleted since the checkpoint has its files still: they wait for the next one.
        exact = left is Left.CLOSED or (left is Left.ENDED and not found.deleted)
        noted = checkpoint is not NO_CHECKPOINT  # else all may have been damaged
        if exact and noted and found.bases[0] > checkpoint.log_start_offset:
            self._whole = False
            loaded.lost_from = checkpoint.log_start_offset
        loaded.log_start_offset = max(checkpoint.log_start_offset, found.bases[0])
        if loaded.log_start_offset > loaded.log_end_offset:
            self._whole = False
            self._discard([segment.base_offset for segment in loaded.segments])
            return self._load_empty(found, loaded.log_start_offset)
        self._epochs.truncate_from_end(loaded.log_end_offset + 1)
        if not self._epochs_known or self._epochs.latest_epoch == UNKNOWN_EPOCH:
            self._rebuild_epochs(loaded)
        self._epochs.truncate_from_start(loaded.log_start_offset)
        self._epochs.forget_deleted()
        loaded.snapshots.truncate_from_end(loaded.log_end_offset)
        loaded.producers, all_read = rebuild_producers(
            self._context.files,
            loaded.snapshots,
            loaded.segments,
            self._epochs,
            loaded.log_end_offset,
        )
        loaded.whole = self._whole and all_read
        return loaded

    def _load_empty(self, found: Directory, start_offset: int) -> LoadedLog:
        """Begin a log that has no records, or none left, at its start offset."""
        found.bases = [start_offset]
        self._epochs.truncate_from_end(start_offset)
        segments = Segments([], self._create(start_offset))
        loaded = self._loaded(found, segments, start_offset, start_offset)
        loaded.snapshots.truncate_from_end(-1)
        loaded.names_synced = False
        return loaded

    @property
    def _epochs_path(self) -> str:
        return f"{self._directory}/{FILE_NAME}"

    def _sort_files(self) -> Directory:
        """Say what each file is; remove those that a crash left half way."""
        fs = self._context.fs
        found = Directory()
        names = self._settled_names()
        for name in names:
            stem, dot, suffix = name.partition(".")
            if dot and stem.isdigit() and len(stem) == 20:
                if f".{suffix}" == LOG_SUFFIX:
                    found.bases.append(int(stem))
                elif f".{suffix}" == SNAPSHOT_SUFFIX:
                    found.snapshots.append(int(stem))
                elif f".{suffix}" not in ALL_SUFFIXES or stem + LOG_SUFFIX not in names:
                    found.leftovers.append(name)
            elif name.endswith(TEMPORARY_SUFFIX):
                found.leftovers.append(name)
        found.bases.sort()
        found.first_without_index = next(
            (
                base
                for base in found.bases
                if not all(f"{base:020d}{suffix}" in names for suffix in SEGMENT_SUFFIXES)
            ),
            None,
        )
        for name in found.leftovers:
            if name.endswith(DELETED_SUFFIX):
                found.deleted = True
                self._context.trash.add([f"{self._directory}/{name}"], 0)
            else:
                fs.remove(f"{self._directory}/{name}")
        return found

    def _settled_names(self) -> set[str]:
        """Return the names of all files, after what compaction left half way is put right."""
        fs = self._context.fs
        names = set(fs.list_directory(self._directory))
        if any(name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) for name in names):
            recover_swaps(fs, self._directory)
            names = set(fs.list_directory(self._directory))
        if CLEANER_OFFSET_NAME in names:
            self._cleaned = load_cleaned(fs, self._directory)
        return names

    def _load_epochs(self, bases: Sequence[int]) -> None:
        try:
            self._epochs = load_epochs(self._context.fs, self._epochs_path)
        except CorruptDocumentError:
            self._epochs_known = False
        # A log with records has epochs; if their file is gone, the log has to tell them.
        if self._epochs.latest_epoch == UNKNOWN_EPOCH:
            self._epochs_known = not any(self._size_of(base) for base in bases)

    def _resume_clean(self, found: Directory, closed_at: int) -> LoadedLog | None:
        """Open the log as it was closed, or say that it cannot have been closed so."""
        if found.first_without_index is not None:
            return None
        base = found.bases[-1]
        end_offset = base
        segment = self._resume(base, self._entry_counts(base))
        size_bytes = self._size_of(base)
        for header in self._whole_batches(segment, size_bytes, closed_at):
            segment.recount(header)
            end_offset = header.next_offset
        if segment.size_bytes != size_bytes or end_offset != closed_at:
            return None
        closed = [self._closed(base) for base in found.bases[:-1]]
        return self._loaded(found, Segments(closed, segment), end_offset, end_offset)

    def _recover(self, found: Directory, recovery_point: int) -> LoadedLog:
        """Check the log from the recovery point on, and cut it where it ends."""
        if found.first_without_index is not None:
            recovery_point = min(recovery_point, found.first_without_index)
        # A segment that ends just at the recovery point was the active one when that was noted, and
        # its indexes may have been reopened since.
        first = max(sum(base < recovery_point for base in found.bases) - 1, 0)
        closed = [self._closed(base) for base in found.bases[:first]]
        unsynced: list[Segment] = []
        expected = found.bases[first]
        segment: ActiveSegment | None = None
        for number in range(first, len(found.bases)):
            base = found.bases[number]
            if base != expected:
                break
            if segment is not None:
                segment.complete()
                unsynced.append(self._closed(segment.base_offset))
            segment, expected = self._recover_segment(base, recovery_point)
        assert segment is not None, "the first segment is always recovered"
        behind = [base for base in found.bases if base > segment.base_offset]
        self._whole = self._whole and not behind
        self._discard(behind)
        found.bases = [base for base in found.bases if base <= segment.base_offset]
        loaded = self._loaded(
            found, Segments([*closed, *unsynced], segment), expected, min(recovery_point, expected)
        )
        loaded.unsynced = unsynced
        loaded.names_synced = False
        return loaded

    def _recover_segment(self, base: int, recovery_point: int) -> tuple[ActiveSegment, int]:
        """Return the segment with all its whole batches, and the offset behind them."""
        if recovery_point <= base:
            return self._check(base, base)
        segment, end_offset = self._check(base, recovery_point)
        if end_offset < recovery_point:
            # Less is there than was synced: trust nothing of this segment.
            self._whole = False
            segment, end_offset = self._check(base, base)
            segment.sync_indexes()
        return segment, end_offset

    def _check(self, base: int, trusted_end: int) -> tuple[ActiveSegment, int]:
        """Walk over the segment from the last index entry below ``trusted_end`` to its end.

        Its indexes are relied on, and its batches not checked, below that offset.
        """
        kept = self._sound_entries(base, trusted_end) if trusted_end > base else NO_ENTRIES
        segment = self._resume(base, kept)
        size_bytes = self._size_of(base)
        if not _is_dated(segment, size_bytes):
            segment = self._resume(base, EntryCounts(kept.offsets, kept.times - 1))
        end_offset = base
        for header in self._whole_batches(segment, size_bytes, trusted_end):
            end_offset = header.next_offset
            if end_offset <= trusted_end:
                segment.recount(header)
            else:
                segment.account_batch(header)
        if segment.size_bytes < size_bytes and end_offset >= trusted_end:
            self._whole = self._whole and is_cut_short(segment.file, segment.size_bytes, size_bytes)
            segment.cut_back()
        return segment, end_offset

    def _whole_batches(
        self, segment: ActiveSegment, size_bytes: int, trusted_end: int
    ) -> Iterator[BatchHeader]:
        """Yield the batches that continue the segment, up to the first that does not."""
        expected = segment.base_offset if segment.size_bytes == 0 else None
        try:
            for batch in scan_headers(segment.file, segment.size_bytes, size_bytes):
                if expected is None and _is_indexed(segment, batch):
                    expected = batch.header.base_offset
                if expected is None or not self._is_whole(segment, batch, expected, trusted_end):
                    return
                yield batch.header
                expected = batch.header.next_offset
        except (CorruptRecordError, InvalidRecordError):
            return

    def _is_whole(
        self, segment: ActiveSegment, batch: PlacedBatch, expected: int, trusted_end: int
    ) -> bool:
        header = batch.header
        if header.base_offset != expected:
            return False
        if header.next_offset <= trusted_end:
            return True
        known_epoch = self._epochs.epoch_for(expected)
        if self._epochs_known and known_epoch not in {UNKNOWN_EPOCH, header.leader_epoch}:
            return False
        return crc_in_file(segment.file, batch) == header.crc

    def _discard(self, bases: Sequence[int]) -> None:
        """Remove segments that continue nothing."""
        for base in bases:
            for suffix in reversed(ALL_SUFFIXES):
                path = segment_stem(self._directory, base) + suffix
                self._context.files.forget(path)
                if self._context.fs.exists(path):
                    self._context.fs.remove(path)
        if bases:
            self._context.fs.sync_directory(self._directory)

    def _rebuild_epochs(self, loaded: LoadedLog) -> None:
        """Have the log tell its epochs, as far as it can be read."""
        entries: list[EpochStart] = []
        for segment in loaded.segments:
            try:
                for batch in batches_from(segment, 0):
                    leader_epoch = batch.header.leader_epoch
                    if not entries or leader_epoch > entries[-1].leader_epoch:
                        entries.append(EpochStart(leader_epoch, batch.header.base_offset))
            except (CorruptRecordError, InvalidRecordError):
                self._whole = False
        if entries and tuple(entries) != self._epochs.entries:
            self._epochs.replace(entries)

    def _loaded(
        self, found: Directory, segments: Segments, end_offset: int, flushed_offset: int
    ) -> LoadedLog:
        return LoadedLog(
            segments=segments,
            leader_epochs=self._epochs,
            producers=ProducerStates(end_offset),
            snapshots=Snapshots(
                self._context.fs, self._directory, self._birth.topic_id, found.snapshots
            ),
            log_start_offset=found.bases[0],
            log_end_offset=end_offset,
            flushed_offset=flushed_offset,
            cleaned=self._cleaned,
            whole=self._whole,
        )

    def _create(self, base: int) -> ActiveSegment:
        return create_segment(
            self._context.files, self._directory, base, config=self._config, now_ms=self._now_ms
        )

    def _closed(self, base: int) -> Segment:
        path = segment_stem(self._directory, base) + TXN_INDEX_SUFFIX
        fs = self._context.fs
        size_bytes = fs.size_bytes(path) if fs.exists(path) else NO_TXN_INDEX
        return closed_segment(
            self._context.files, self._directory, base, txn_index_bytes=size_bytes
        )

    def _resume(self, base: int, kept: EntryCounts) -> ActiveSegment:
        return resume_segment(
            self._context.files,
            self._directory,
            base,
            kept=kept,
            config=self._config,
            now_ms=self._now_ms,
        )

    def _size_of(self, base: int) -> int:
        return self._context.fs.size_bytes(segment_stem(self._directory, base) + LOG_SUFFIX)

    def _entry_counts(self, base: int) -> EntryCounts:
        stem = segment_stem(self._directory, base)
        return EntryCounts(
            count_entries(self._context.files.get(stem + INDEX_SUFFIX), OFFSET_ENTRY),
            count_entries(self._context.files.get(stem + TIME_INDEX_SUFFIX), TIME_ENTRY),
        )

    def _sound_entries(self, base: int, trusted_end: int) -> EntryCounts:
        """How many index entries of a segment are about synced batches and can be relied on."""
        stem = segment_stem(self._directory, base)
        offset_end = trusted_end - base
        return EntryCounts(
            count_sound_offset_entries(
                self._context.files.get(stem + INDEX_SUFFIX),
                offset_end=offset_end,
                position_end=self._size_of(base),
            ),
            count_sound_time_entries(
                self._context.files.get(stem + TIME_INDEX_SUFFIX), offset_end=offset_end
            ),
        )


def _is_indexed(segment: ActiveSegment, batch: PlacedBatch) -> bool:
    """Whether the batch is the one that the last index entry says is there."""
    last = segment.offset_index.last
    return last is None or batch.header.last_offset == segment.base_offset + last.first


def _is_dated(segment: ActiveSegment, size_bytes: int) -> bool:
    """Whether the last entry of the time index is about a batch; one torn in writing may not be.

    Only the last one can be torn and look sound: what is behind a torn entry was not written.
    """
    last = segment.time_index.last
    if last is None:
        return True
    offset = segment.base_offset + last.second
    indexed = segment.offset_index.floor(last.second, FIRST)
    try:
        for batch in scan_headers(segment.file, indexed.second if indexed else 0, size_bytes):
            header = batch.header
            if header.last_offset >= offset:
                return header.last_offset == offset and header.max_timestamp_ms == last.first
    except (CorruptRecordError, InvalidRecordError):
        return False
    return False
