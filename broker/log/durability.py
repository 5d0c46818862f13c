"""Durability: how much of a log is on disk for certain, and what a flush has to do for the rest."""

from quorate.broker.log.active import ActiveSegment
from quorate.broker.log.flush import FlushPart
from quorate.broker.log.naming import PARTITION_NAME
from quorate.broker.log.segment import LOG_SUFFIX, Segment
from quorate.broker.log.snapshots import Snapshot, Snapshots
from quorate.settings import TopicConfig


class Durability:
    """What a log may promise.

    Invariants: ``recovery_point <= flushed_offset``; all records below ``flushed_offset`` survive
    a power cut; below ``recovery_point`` the indexes and a producer snapshot do, too, so that
    recovery need not look there.
    """

    __slots__ = (
        "_directory",
        "_indexes_cut",
        "_names_changed",
        "_names_synced",
        "_parent",
        "_snapshot_due",
        "_snapshots",
        "_truncations",
        "_unflushed_since_ms",
        "_unsynced",
        "flushed_offset",
        "recovery_point",
        "sealed",
    )

    def __init__(
        self,
        flushed_offset: int,
        *,
        directory: str,
        names_synced: bool,
        sealed: bool,
        unsynced: list[Segment],
        snapshots: Snapshots,
    ) -> None:
        self.flushed_offset = flushed_offset
        self.recovery_point = flushed_offset
        self._directory = directory
        self._parent = None if names_synced else directory.rpartition("/")[0]
        self.sealed = sealed
        self._indexes_cut = not names_synced
        self._names_changed = 0
        self._names_synced = 0 if names_synced else -1
        self._unsynced = {segment.base_offset: segment for segment in unsynced}
        self._snapshots = snapshots
        self._snapshot_due: Snapshot | None = None
        self._truncations = 0
        self._unflushed_since_ms: int | None = None

    @property
    def has_unsynced_segments(self) -> bool:
        """Whether closed segments wait to be synced."""
        return bool(self._unsynced)

    def rolled(self, closed: Segment, snapshot: Snapshot) -> None:
        """A segment was closed and another begun: the next flush has to see to both."""
        self._unsynced[closed.base_offset] = closed
        self._snapshot_due = snapshot
        self._names_changed += 1

    def flush_due(self, log_end_offset: int, config: TopicConfig, now_ms: int) -> bool:
        """Whether ``flush.messages`` or ``flush.ms`` asks for a flush.

        Time counts from the first call that sees unflushed records, so appends need no clock for
        it.
        """
        if log_end_offset == self.flushed_offset:
            self._unflushed_since_ms = None
            return False
        if self._unflushed_since_ms is None:
            self._unflushed_since_ms = now_ms
        return (
            log_end_offset - self.flushed_offset >= config.flush_messages
            or now_ms - self._unflushed_since_ms >= config.flush_ms
        )

    def is_dirty(self, log_end_offset: int) -> bool:
        """Whether a checkpoint would find something to make durable."""
        return self._indexes_cut or self.recovery_point < log_end_offset or bool(self._unsynced)

    def start(self, active: ActiveSegment, log_end_offset: int) -> FlushPart:
        """Return what makes the records up to the log's end durable, and no more than that.

        Raises:
            OSError: the log's file cannot be opened now; nothing changed.
        """
        part = FlushPart(
            self,
            target_offset=log_end_offset,
            recovery_point=active.base_offset,
            truncations=self._truncations,
            names_changed=self._names_changed,
        )
        part.closed_segments = list(self._unsynced.values())
        part.paths = [
            segment.stem + suffix for segment in part.closed_segments for suffix in segment.suffixes
        ]
        if not self.sealed:
            part.paths.append(f"{self._directory}/{PARTITION_NAME}")
        # To be used in a worker thread, which must not open it in the loop's stead.
        part.files.append(active.reopen() if active.is_parked else active.file)
        part.snapshot = self._snapshot_due
        if self._names_synced < self._names_changed:
            part.directories.append(self._directory)
        if self._parent is not None:
            part.directories.append(self._parent)
        return part

    def start_checkpoint(self, active: ActiveSegment, snapshot: Snapshot) -> FlushPart:
        """Return what lets recovery begin at the log's end: indexes and a snapshot, too.

        Raises:
            OSError: the index entries cannot be written, or no file opened; nothing changed.
        """
        active.note_largest()
        active.write_out_indexes()
        if active.write_out_aborted():
            self._names_changed += 1
        part = self.start(active, snapshot.end_offset)
        part.recovery_point = snapshot.end_offset
        part.paths += [active.stem + each for each in active.suffixes if each != LOG_SUFFIX]
        part.snapshot = snapshot
        part.is_checkpoint = True
        return part

    def finish(self, part: FlushPart) -> None:
        """Take note of a flush that succeeded."""
        if part.truncations != self._truncations:
            return  # what it made durable is no longer the log
        self.flushed_offset = max(self.flushed_offset, part.target_offset)
        for segment in part.closed_segments:
            self._unsynced.pop(segment.base_offset, None)
        self._names_synced = max(self._names_synced, part.names_changed)
        self._parent = None
        self.sealed = True
        self._indexes_cut &= not part.is_checkpoint
        self._unflushed_since_ms = None
        if part.snapshot_error is None:
            self._finish_snapshot(part)

    def _finish_snapshot(self, part: FlushPart) -> None:
        self.recovery_point = max(self.recovery_point, part.recovery_point)
        if part.snapshot is not None:
            self._snapshots.note(part.snapshot.end_offset)
        if self._snapshot_due is part.snapshot:
            self._snapshot_due = None

    def promise_less(self, offset: int) -> None:
        """The log may be cut at the offset: promise nothing behind it."""
        self._truncations += 1
        self.flushed_offset = min(self.flushed_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self._snapshot_due = None
        self._snapshots.truncate_from_end(offset)

    def cut(self, active_offset: int) -> None:
        """The log was cut, in the segment that begins at the offset: that one is closed no more.

        Nor do those behind it wait to be synced.  Left here, it would be struck off by a flush of
        what it was, once it has been closed again with other files.
        """
        for base_offset in [base for base in self._unsynced if base >= active_offset]:
            del self._unsynced[base_offset]

    def emptied(self, offset: int) -> None:
        """The log goes on at the offset, without a record: nothing below it can be lost."""
        self.promise_less(offset)
        self.flushed_offset = offset
        self._unsynced.clear()

    def restarted(self, offset: int) -> None:
        """The files say so, too, durably."""
        self.recovery_point = offset

    def deleted(self, segments: list[Segment]) -> None:
        """Segments were deleted: they need not be synced any more."""
        for segment in segments:
            self._unsynced.pop(segment.base_offset, None)
