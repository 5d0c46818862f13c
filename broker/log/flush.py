"""Flush: making a part of one or more logs durable, in three steps on two threads.

``log.start_flush()`` on the loop says what to sync, ``flush.run()`` in a worker thread syncs, and
``log.finish_flush(flush)`` on the loop takes note of it.  Appends go on meanwhile: a flush promises
what was in the log when it was started, no more.  Several logs share one flush (group commit).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from quorate.broker.log.files import OUT_OF_DESCRIPTORS, PASSING, File, FileSystem, replace_files
from quorate.model import TopicPartition

if TYPE_CHECKING:
    from quorate.broker.log.segment import Segment
    from quorate.broker.log.snapshots import Snapshot


class FlushPart:
    """What a flush does for one log, and what is true of that log afterwards."""

    __slots__ = (
        "closed_segments",
        "directories",
        "files",
        "is_checkpoint",
        "names_changed",
        "owner",
        "paths",
        "recovery_point",
        "snapshot",
        "snapshot_error",
        "target_offset",
        "truncations",
    )

    def __init__(
        self,
        owner: object,
        *,
        target_offset: int,
        recovery_point: int,
        truncations: int,
        names_changed: int,
    ) -> None:
        self.owner = owner
        self.target_offset = target_offset
        self.recovery_point = recovery_point
        self.truncations = truncations
        self.names_changed = names_changed
        self.is_checkpoint = False
        """Whether the indexes become durable, too."""
        self.files: list[File] = []
        self.paths: list[str] = []
        """Files to sync that are not kept open: there may be thousands of them."""
        self.snapshot: Snapshot | None = None
        self.snapshot_error: OSError | None = None
        """Why there was no space for the snapshot; everything else was done."""
        self.directories: list[str] = []
        self.closed_segments: list[Segment] = []


class Flush:
    """A flush of one or more logs; run once."""

    __slots__ = ("_fs", "_sync_errors", "part_errors", "parts")

    def __init__(
        self,
        fs: FileSystem,
        parts: Mapping[TopicPartition, FlushPart],
        sync_errors: list[OSError],
    ) -> None:
        """Plan a flush.  If a sync fails, its error is added to those of the directory."""
        self._fs = fs
        self._sync_errors = sync_errors
        self.parts = parts
        self.part_errors: dict[TopicPartition, OSError] = {}
        """Why nothing counts that was done for a log, such as that it was deleted meanwhile."""

    def run(self) -> None:
        """Sync everything.  Touches nothing that the loop touches, so any thread may do it."""
        try:
            self._fs.sync_files(
                [file for part in self.parts.values() for file in part.files],
                [path for part in self.parts.values() for path in part.paths],
                hurry=not all(part.is_checkpoint for part in self.parts.values()),
            )
        except OSError as error:
            if error.errno in OUT_OF_DESCRIPTORS:  # so a file was not opened: no sync has failed
                self.part_errors = dict.fromkeys(self.parts, error)
            else:
                self._sync_errors.append(error)
            return
        directories = {d: None for part in self.parts.values() for d in part.directories}
        errors = self._fs.sync_directories(list(directories))
        for topic_partition, part in self.parts.items():
            for directory in part.directories:
                if directory in errors:
                    self.part_errors[topic_partition] = errors[directory]
        # A snapshot describes the log up to some offset: the log must be there first.
        self._write_snapshots()

    def _write_snapshots(self) -> None:
        snapshots = {
            topic_partition: part.snapshot
            for topic_partition, part in self.parts.items()
            if part.snapshot is not None and topic_partition not in self.part_errors
        }
        errors = replace_files(self._fs, {s.path: s.data for s in snapshots.values()})
        for topic_partition, snapshot in snapshots.items():
            error = errors.get(snapshot.path)
            if error is not None and error.errno in PASSING:
                # The records are safe, and those who wait for that need not wait for space.
                self.parts[topic_partition].snapshot_error = error
            elif error is not None:
                self.part_errors[topic_partition] = error
