"""LogStore: all logs of a broker's data directory.

::

    meta.json      whose directory it is
    .lock          held by the process that uses it
    .clean         there while everything is synced and closed
    checkpoints    per log: recovery point, log start offset, high watermark
    checkpoints-urgent    the same, if a log had to take something back since
    <topic>-<partition>/                 a log; partition.json says of which topic id.  A log that
                                         never had a record has no directory
    <topic>-<partition>.<id>-delete/     a deleted log, waiting to be removed; .<id>.2-delete/ if
                                         there is one already
    <topic>-<partition>.<id>-stray/      a log of a topic that the metadata did not know: kept until
                                         somebody removes it
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Final, NamedTuple

from quorate.broker.log.checkpoints import (
    FILE_NAME,
    NO_CHECKPOINT,
    URGENT_NAME,
    LogCheckpoint,
    SavedCheckpoints,
    encode_checkpoints,
    load_checkpoints,
    promises_of,
)
from quorate.broker.log.context import DiskRefusals, LogContext
from quorate.broker.log.directory import (
    UNKNOWN_BROKER_EPOCH,
    DirectoryError,
    Left,
    Meta,
    claim_directory,
    leave_clean_marker,
    leave_running_marker,
    lock_directory,
    take_clean_marker,
    take_running_marker,
)
from quorate.broker.log.files import (
    TEMPORARY_SUFFIX,
    FatalStorageError,
    FileSystem,
    Lock,
    OpenFiles,
    Space,
    remove_tree,
    replace_file,
    storage_error,
)
from quorate.broker.log.flush import Flush, FlushPart
from quorate.broker.log.log import Log
from quorate.broker.log.naming import (
    DELETE_SUFFIX,
    STRAY_SUFFIX,
    DirectoryMaker,
    check_claimed,
    has_segments,
    parse_name,
    path_beside,
    read_birth,
)
from quorate.broker.log.opening import open_log, plan_log
from quorate.broker.log.trash import Trash, remove_paths
from quorate.errors import StorageError
from quorate.model import TopicPartition
from quorate.settings import TopicConfig

logger: Final = logging.getLogger(__name__)

OPEN_FILES_MAX: Final = 256
"""Files of closed segments and of indexes kept open, beside one for every log."""

NAMES_TOLD: Final = 10

LOGS_AT_ONCE: Final = 100
"""Logs of which one flush makes a checkpoint: what the event loop does for it takes some 5 ms."""


class CheckpointWrite:
    """The checkpoints as they are to be written; ``run`` may happen in a worker thread."""

    __slots__ = ("_fs", "_path", "_saved", "error")

    def __init__(self, fs: FileSystem, path: str, saved: SavedCheckpoints) -> None:
        self._fs = fs
        self._path = path
        self._saved = saved
        self.error: OSError | None = None

    def run(self) -> None:
        """Replace the file durably."""
        try:
            replace_file(self._fs, self._path, encode_checkpoints(self._saved))
        except OSError as error:
            self.error = error


class Leaving(NamedTuple):
    """A log that is let go of, whose directory has its name still."""

    topic_partition: TopicPartition
    topic_id: bytes
    directory: str
    delay_ms: int | None
    """Until it is removed, once it has another name; None: it is kept."""


class LogStore:
    """The logs of one directory, by topic and partition.

    Invariants: one process has the directory; a log's directory exists whole or not at all; what
    the checkpoints say of a log is true of it at any moment from then on.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        *,
        lock: Lock,
        meta: Meta,
        checkpoints: SavedCheckpoints,
    ) -> None:
        self.directory = directory
        self.meta = meta
        self.logs: dict[TopicPartition, Log] = {}
        self.topic_ids: dict[TopicPartition, bytes] = {}
        self._leaving: list[Leaving] = []
        self.was_clean = False
        """Whether the directory had been closed cleanly; if not, its logs were recovered."""
        self.previous_broker_epoch = UNKNOWN_BROKER_EPOCH
        """The registration in which it was used last, if nothing was lost since (KIP-966); else -1.

        Nothing is lost where it was closed cleanly, or where just a process ended while the machine
        ran on (Kafka knows the former only).
        """
        self._lock = lock
        self._checkpoints = dict(checkpoints.logs)
        self._checkpoints_number = checkpoints.number
        self._promised = promises_of(checkpoints.logs)
        """The most that any checkpoint says of a log that may be on disk and be believed."""
        self._context = LogContext(
            directory,
            fs,
            OpenFiles(fs, OPEN_FILES_MAX),
            Trash(),
            DiskRefusals(fs, directory),
            self._save_now,
            self._promised_of,
        )

    @property
    def fs(self) -> FileSystem:
        """The disk."""
        return self._context.fs

    def space(self) -> Space:
        """Return the space on the disk that holds the directory; raises OSError."""
        return self.fs.space(self.directory)

    @property
    def trash(self) -> Trash:
        """Deleted files that wait to be removed."""
        return self._context.trash

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """Return the log of a partition, if there is one."""
        return self.logs.get(topic_partition)

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """Return the high watermark as last written down; 0 if never."""
        return self._checkpoints.get(topic_partition, NO_CHECKPOINT).high_watermark

    def create(
        self, topic_partition: TopicPartition, topic_id: bytes, config: TopicConfig, *, now_ms: int
    ) -> Log:
        """Return the log of a partition; if it is new, its first record will make its files.

        A log of the same name that belongs to another topic id is a deleted topic's: it is deleted.

        Raises:
            StorageError: that one could not be deleted, or one that is kept has this name still.
        """
        log = self.logs.get(topic_partition)
        if log is not None:
            if self.topic_ids[topic_partition] == topic_id:
                log.config = config
                return log
            self.delete(topic_partition)
        if any(
            each.delay_ms is None and each.topic_partition == topic_partition
            for each in self._leaving
        ):
            self._rename_kept()
        maker = DirectoryMaker(self._context.fs, self.directory, topic_partition, topic_id)
        log = plan_log(self._context, topic_partition, maker, config=config, now_ms=now_ms)
        self.logs[topic_partition] = log
        self.topic_ids[topic_partition] = topic_id
        return log

    def delete(self, topic_partition: TopicPartition) -> None:
        """Delete a log, see ``delete_all``."""
        for _ in self.delete_all([topic_partition]):
            pass

    def delete_all(self, topic_partitions: Iterable[TopicPartition]) -> Iterator[None]:
        """Delete logs: their directories are renamed, durably, and removed later.

        Yields after every few, so that others can be served meanwhile.

        Raises:
            StorageError: the disk failed, maybe for some of them only.
        """
        return self._let_go(topic_partitions, kept=False)

    def keep_aside(self, topic_partitions: Iterable[TopicPartition]) -> Iterator[None]:
        """Let go of logs, but keep their files: like ``delete_all``, and nothing is removed."""
        return self._let_go(topic_partitions, kept=True)

    def _let_go(self, topic_partitions: Iterable[TopicPartition], *, kept: bool) -> Iterator[None]:
        doomed = [self.logs.pop(topic_partition) for topic_partition in topic_partitions]
        for log in doomed:
            log.fail(StorageError(f"{log.topic_partition} was deleted"))
        if any(log.topic_partition in self._checkpoints for log in doomed):
            self._forget_checkpoints()
        failure: StorageError | None = None
        for few in _few(doomed):
            try:
                self._set_aside(few, kept=kept)
            except OSError as error:
                failure = storage_error(error, self.directory)
            yield
        if failure is not None:
            raise failure

    def _forget_checkpoints(self) -> None:
        """Write the checkpoints without those of logs that are let go of.

        After a crash they would be believed of the next topics of the same names. On a full disk
        they are forgotten later: what is deleted gives space back, and no log makes its files
        before that.
        """
        try:
            self._save_now()
        except OSError as error:
            logger.warning("%s: checkpoints not written: %s", self.directory, error.strerror)

    def _set_aside(self, doomed: Iterable[Log], *, kept: bool) -> None:
        """Give the directories of logs other names, as far as they have any.

        Raises:
            OSError: see :meth:`_rename_leaving`.
        """
        for log in doomed:
            topic_id = self.topic_ids.pop(log.topic_partition)
            if log.has_files:
                self._context.files.forget_directory(log.directory)
                delay_ms = None if kept else log.config.file_delete_delay_ms
                self._leaving.append(
                    Leaving(log.topic_partition, topic_id, log.directory, delay_ms)
                )
        self._rename_leaving()

    def _rename_leaving(self) -> None:
        """Give the directories of logs that are let go of other names.

        Raises:
            OSError: the disk failed, maybe for some of them only, which are tried again later.
        """
        renamed = False
        failure: OSError | None = None
        leaving, self._leaving = self._leaving, []
        for each in leaving:
            log = self.logs.get(each.topic_partition)
            if log is not None and log.has_files:
                continue  # to make them, it removed the other's
            path = self._path_aside(each)
            try:
                self._context.fs.rename(each.directory, path)
            except FileNotFoundError:
                continue  # a later log of that name removed it, and is gone itself
            except OSError as error:
                failure = error
                self._leaving.append(each)
                continue
            if each.delay_ms is None:
                logger.warning(
                    "%s: the metadata do not know its topic; it is kept as %s until you remove it",
                    each.topic_partition,
                    path,
                )
            else:
                self._context.trash.add([path], each.delay_ms)
            renamed = True
        if renamed:
            self._context.fs.sync_directory(self.directory)
        if failure is not None:
            raise failure

    def _rename_kept(self) -> None:
        """Give kept directories other names before others take theirs.

        Raises:
            StorageError: the disk failed.
        """
        try:
            self._rename_leaving()
        except OSError as error:
            raise storage_error(error, self.directory) from error

    def _path_aside(self, leaving: Leaving) -> str:
        """Return where a log waits to be removed: another one of it may, if it moved here again."""
        suffix = STRAY_SUFFIX if leaving.delay_ms is None else DELETE_SUFFIX
        endings = (f".{again}{suffix}" if again > 1 else suffix for again in count(1))
        topic_id = leaving.topic_id.hex()
        paths = (
            path_beside(self.directory, leaving.topic_partition, f".{topic_id}{ending}")
            for ending in endings
        )
        return next(path for path in paths if not self._context.fs.exists(path))

    @property
    def refusals(self) -> DiskRefusals:
        """How often logs could not be written to for now, and whether that goes on."""
        return self._context.refusals

    def start_flush(self, logs: Iterable[Log]) -> Flush:
        """Return one flush for several logs (group commit).

        Raises:
            StorageError: a log's file cannot be opened.
        """
        return self._join(log.start_flush() for log in logs)

    def take_dirty(self) -> list[list[Log]]:
        """Return the logs that have changed since their last checkpoint, not too many at once.

        The others have been idle since: their files are closed until they are used again.
        """
        dirty: list[Log] = []
        for log in self.logs.values():
            if log.is_dirty:
                dirty.append(log)
            else:
                log.park()
        return _few(dirty)

    def start_checkpoint(self, logs: Iterable[Log]) -> Flush:
        """Return a flush after which recovery need look at nothing that is in these logs now.

        Finish it, then write the checkpoints.

        Raises:
            StorageError: an index cannot be written.
        """
        return self._join(log.start_checkpoint() for log in logs if log.failure is None)

    def finish_flush(self, flush: Flush) -> None:
        """Take note of a flush that has run, in all its logs that still exist.

        Raises:
            FatalStorageError: it failed, or another one did; all logs accept nothing any more.
            StorageError: there is no space, or no file descriptor, to finish that of some logs.
        """
        errors = self._context.sync_errors
        if errors:
            raise self._give_up(
                FatalStorageError(f"{self.directory}: {errors[0].strerror}")
            ) from errors[0]
        failure: StorageError | None = None
        for topic_partition in flush.parts:
            log = self.logs.get(topic_partition)
            if log is None or not log.started(flush):
                continue
            try:
                log.finish_flush(flush)
            except FatalStorageError as error:
                raise self._give_up(error) from error
            except StorageError as error:
                failure = error
        if failure is not None:
            raise failure

    def prepare_checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> CheckpointWrite:
        """Return what writes the checkpoints as of now; high watermarks not given stay."""
        return self._prepare(FILE_NAME, high_watermarks)

    def _prepare(self, name: str, high_watermarks: Mapping[TopicPartition, int]) -> CheckpointWrite:
        self._checkpoints = {
            topic_partition: LogCheckpoint(
                log.recovery_point,
                log.start_to_note,
                high_watermarks.get(topic_partition, self.high_watermark(topic_partition)),
            )
            for topic_partition, log in self.logs.items()
            if log.is_sealed
        }
        for topic_partition, promise in promises_of(self._checkpoints).items():
            self._promised[topic_partition] = max(self._promised.get(topic_partition, 0), promise)
        self._checkpoints_number += 1
        saved = SavedCheckpoints(self._checkpoints_number, self._checkpoints)
        return CheckpointWrite(self._context.fs, f"{self.directory}/{name}", saved)

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the checkpoints durably, here and now.

        Raises:
            StorageError: they could not be written; the old ones stand.
        """
        write = self.prepare_checkpoint(high_watermarks)
        write.run()
        if write.error is not None:
            raise storage_error(write.error, self.directory) from write.error

    def _give_up(self, failure: FatalStorageError) -> FatalStorageError:
        """Give the directory up: every log refuses appends from now on."""
        for log in self.logs.values():
            log.fail(failure)
        return failure

    def empty_trash(self, now_ms: int) -> list[str]:
        """Return paths whose time has come, for ``remove_paths`` in a worker thread."""
        with suppress(OSError):  # it was told when they were deleted
            self._rename_leaving()
        return self._context.trash.take_due(now_ms)

    def has_moved_starts(self) -> bool:
        """Whether a log begins later than is noted: files from before are missed after a kill."""
        noted, logs = self._checkpoints, self.logs.items()
        return any(p in noted and log.start_to_note > noted[p].log_start_offset for p, log in logs)

    def remove_paths(self, paths: list[str]) -> None:
        """Remove what ``empty_trash`` gave, and close what was removed; may run in a worker thread.

        Call it even if nothing is due: readers may have let go of what was removed earlier.
        """
        remove_paths(self._context.fs, paths)

    def registered(self, broker_epoch: int) -> None:
        """Note in which registration the logs are used from now on.

        A full or failing disk is no reason to stop: a crash then counts as one that may lose
        something.
        """
        try:
            leave_running_marker(self._context.fs, self.directory, broker_epoch)
        except OSError as error:
            logger.warning("%s: %s", self.directory, error.strerror)

    def close(
        self,
        *,
        clean: bool,
        now_ms: int,
        high_watermarks: Mapping[TopicPartition, int] | None = None,
        broker_epoch: int | None = None,
    ) -> None:
        """Close all logs and let go of the directory.

        Args:
            clean: whether to sync everything, so that opening needs no recovery.
            now_ms: the time.
            high_watermarks: as of now; those not given stay.
            broker_epoch: of the broker's registration; that of the last time if it had none.

        Raises:
            StorageError: something could not be synced; the next opening recovers.
        """
        try:
            if clean:
                for logs in _few([log for log in self.logs.values() if log.complete()]):
                    flush = self.start_checkpoint(logs)
                    flush.run()
                    self.finish_flush(flush)
                self.checkpoint(high_watermarks or {})
                epoch = self.previous_broker_epoch if broker_epoch is None else broker_epoch
                leave_clean_marker(self._context.fs, self.directory, now_ms, epoch)
            elif any(log.failure for log in self.logs.values()):
                take_running_marker(self._context.fs, self.directory)
        except OSError as error:
            raise storage_error(error, self.directory) from error
        finally:
            self._lock.release()

    def load(self, left: Left, now_ms: int) -> None:
        """Open every log that is in the directory."""
        self.was_clean = left is Left.CLOSED
        strays = 0
        for name in sorted(self._context.fs.list_directory(self.directory)):
            path = f"{self.directory}/{name}"
            if name.endswith(TEMPORARY_SUFFIX):
                self._context.fs.remove(path)
            elif name.endswith(DELETE_SUFFIX):
                self._context.trash.add([path], 0)
            elif name.endswith(STRAY_SUFFIX):
                strays += 1
            else:
                topic_partition = parse_name(name)
                if topic_partition is not None:
                    self._load_log(topic_partition, path, left, now_ms)
        self._miss()
        if strays:
            logger.warning(
                "%s: %d logs (*%s) of topics that the metadata did not know are kept",
                self.directory,
                strays,
                STRAY_SUFFIX,
            )

    def _load_log(
        self, topic_partition: TopicPartition, path: str, left: Left, now_ms: int
    ) -> None:
        checkpoint = self._checkpoints.get(topic_partition)
        try:
            birth = read_birth(self._context.fs, path)
        except DirectoryError as error:
            if checkpoint is not None and has_segments(self._context.fs, path):
                raise
            logger.warning("removing a log without files that count: %s", error)
            remove_tree(self._context.fs, path)
            return
        self.logs[topic_partition], whole = open_log(
            self._context,
            topic_partition,
            birth,
            checkpoint=checkpoint,
            left=left,
            now_ms=now_ms,
        )
        self.topic_ids[topic_partition] = birth.topic_id
        if not whole:
            logger.warning("%s: damaged records were cut off, or some are missing", path)
            self.previous_broker_epoch = UNKNOWN_BROKER_EPOCH

    def _miss(self) -> None:
        """See which logs are gone of which something was promised: their records are lost here."""
        gone = sorted(str(p) for p, end in self._promised.items() if end and p not in self.logs)
        if gone:
            told = ", ".join(gone[:NAMES_TOLD]) + (", ..." if gone[NAMES_TOLD:] else "")
            logger.warning("%s: the files of %d logs are gone: %s", self.directory, len(gone), told)
            self.previous_broker_epoch = UNKNOWN_BROKER_EPOCH

    def _join(self, flushes: Iterable[Flush]) -> Flush:
        parts: dict[TopicPartition, FlushPart] = {}
        for flush in flushes:
            parts.update(flush.parts)
        return Flush(self._context.fs, parts, self._context.sync_errors)

    def _save_now(self) -> None:
        """Write the checkpoints before a log breaks a promise that stands in them."""
        write = self._prepare(URGENT_NAME, {})
        write.run()
        if write.error is not None:
            raise write.error
        # Others may be on their way to the disk, but were decided on earlier.
        self._promised = promises_of(self._checkpoints)

    def _promised_of(self, topic_partition: TopicPartition) -> int | None:
        return self._promised.get(topic_partition)


def _few(logs: Sequence[Log]) -> list[list[Log]]:
    return [list(logs[start : start + LOGS_AT_ONCE]) for start in range(0, len(logs), LOGS_AT_ONCE)]


def open_store(
    fs: FileSystem, directory: str, *, cluster_id: str, node_id: int, now_ms: int
) -> LogStore:
    """Open a data directory: take its lock, check whose it is, load its logs.

    Raises:
        DirectoryError: it cannot be used, and why, in one line.
    """
    lock = lock_directory(fs, directory)
    try:
        check_claimed(fs, directory)
        meta = claim_directory(fs, directory, cluster_id=cluster_id, node_id=node_id)
        checkpoints = load_checkpoints(fs, directory)
        marker, running_epoch = take_clean_marker(fs, directory), take_running_marker(fs, directory)
        store = LogStore(fs, directory, lock=lock, meta=meta, checkpoints=checkpoints)
        store.previous_broker_epoch = marker.broker_epoch if marker else running_epoch
        ended = Left.UNKNOWN if running_epoch == UNKNOWN_BROKER_EPOCH else Left.ENDED
        store.load(Left.CLOSED if marker else ended, now_ms)
    except OSError as error:
        lock.release()
        raise DirectoryError(f"{error.filename or directory}: {error.strerror}") from error
    except DirectoryError:
        lock.release()
        raise
    return store
