"""StoredLog: the parts of a log, how much of it is on disk for certain, and whether it failed."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from quorate.broker.log.cleaned import CleanedPart
from quorate.broker.log.context import LogContext
from quorate.broker.log.durability import Durability
from quorate.broker.log.files import FatalStorageError, storage_error
from quorate.broker.log.flush import Flush, FlushPart
from quorate.broker.log.naming import DirectoryMaker
from quorate.broker.log.reading import LogReader
from quorate.broker.log.recovery import LoadedLog
from quorate.broker.log.validation import AppendRules
from quorate.errors import StorageError
from quorate.model import TopicPartition
from quorate.settings import TopicConfig

Step: TypeAlias = Callable[[], object]
"""A part of a change of files; it can be done again if the disk refused to do it."""


class StoredLog(LogReader):
    """A log as it is stored.

    Invariants: ``flushed_offset <= log_end_offset``, and everything below it survives a power cut;
    after an error that could not be undone the log accepts nothing any more; while steps of a
    change are owed, nothing is written before they are done.
    """

    __slots__ = (
        "_config",
        "_durability",
        "_failure",
        "_leaving",
        "_maker",
        "_owed",
        "_rules",
        "_snapshots",
        "cleaned",
        "directory",
        "leader_epochs",
        "lost_from",
        "producers",
    )

    def __init__(
        self,
        context: LogContext,
        directory: str,
        topic_partition: TopicPartition,
        *,
        config: TopicConfig,
        loaded: LoadedLog,
        maker: DirectoryMaker | None,
    ) -> None:
        """Hold what was loaded; a log that has no files yet comes with who makes its directory."""
        start_offset, end_offset = loaded.log_start_offset, loaded.log_end_offset
        super().__init__(context, topic_partition, loaded.segments, start_offset, end_offset)
        self._maker = maker
        self.directory = directory
        self._snapshots = loaded.snapshots
        self.leader_epochs = loaded.leader_epochs
        self.producers = loaded.producers
        self._durability = Durability(
            loaded.flushed_offset,
            directory=directory,
            names_synced=loaded.names_synced,
            sealed=loaded.sealed,
            unsynced=loaded.unsynced,
            snapshots=loaded.snapshots,
        )
        cleaned = loaded.cleaned._replace(offset=min(loaded.cleaned.offset, end_offset))
        self.cleaned = CleanedPart(context.fs, directory, cleaned)
        self.lost_from: int | None = loaded.lost_from
        """Where the log began, if its first segments were missing when it was opened."""
        self._failure: StorageError | None = None
        self._owed: list[Step] = []
        self._leaving: list[Step] = []
        self._config = config
        self._rules = AppendRules(config)

    @property
    def config(self) -> TopicConfig:
        """The topic's settings; they may be replaced at any time."""
        return self._config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        self._config = config
        self._rules = AppendRules(config)
        self._segments.active.configure(config)

    @property
    def flushed_offset(self) -> int:
        """Everything below it survives a power cut."""
        return self._durability.flushed_offset

    @property
    def recovery_point(self) -> int:
        """Everything below it need not be looked at after a crash."""
        return self._durability.recovery_point

    @property
    def is_sealed(self) -> bool:
        """Whether the log is still there after a power cut, maybe without its newest records."""
        return self._durability.sealed

    @property
    def is_dirty(self) -> bool:
        """Whether something was written since the last checkpoint."""
        return self.has_files and self._durability.is_dirty(self.log_end_offset)

    @property
    def start_to_note(self) -> int:
        """Where checkpoints have the log begin: what is missing is missed again by who opens it.

        A broker may be started again before it had anybody to copy that from.
        """
        return self.log_start_offset if self.lost_from is None else self.lost_from

    @property
    def anew_from(self) -> int | None:
        """From where a follower has to fetch the log again; None if it goes on at its end."""
        if self.cleaned.lacks_records(self.log_end_offset):
            return self.log_start_offset
        return self.lost_from

    @property
    def failure(self) -> StorageError | None:
        """Why the log accepts nothing any more, or None."""
        return self._failure

    @property
    def is_given_up(self) -> bool:
        """Whether it never will again: it was deleted, or its directory failed."""
        return self._failure is not None and not self._owed

    @property
    def has_files(self) -> bool:
        """Whether there is anything on disk: the first record makes it so."""
        return self._maker is None

    @property
    def has_unsynced_segments(self) -> bool:
        """Whether closed segments wait to be synced."""
        return self._durability.has_unsynced_segments

    def _fail_if_fatal(self, error: StorageError) -> StorageError:
        if isinstance(error, FatalStorageError):
            self.fail(error)
        else:
            self._context.refusals.note()
        return error

    # Changes in several steps

    def _owe(self, *steps: Step) -> None:
        """Note what a change of the files has to do yet; nothing is written before that is done."""
        self._owed += steps
        self._failure = StorageError(f"{self.directory}: a change of its files is not finished")

    def _pay(self) -> None:
        """Do what is owed.

        Raises:
            OSError: of a step, which is still owed, and those behind it.
        """
        while self._owed:
            self._owed[0]()
            del self._owed[0]
        self._failure = None

    def _settle(self) -> None:
        """Do what is owed before anything else is done with the log.

        Raises:
            StorageError: it cannot be done for the moment; or the log accepts nothing any more.
        """
        if self._failure is None:
            return
        if not self._owed:
            raise self._failure
        try:
            self._pay()
        except OSError as error:
            raise self._fail_if_fatal(storage_error(error, self.directory)) from error

    def _leave(self) -> None:
        """Take the names of deleted segments away, the oldest first; until then nobody needs them.

        Unlike what is owed, nothing waits for it. A later one is not taken away before, or else a
        crash would find a hole in the log.

        Raises:
            OSError: of a name, which is still to be taken away, and those behind it.
        """
        while self._leaving:
            self._leaving[0]()
            del self._leaving[0]

    # Durability

    def flush_due(self, now_ms: int) -> bool:
        """Whether ``flush.messages`` or ``flush.ms`` asks for a flush."""
        return self._durability.flush_due(self.log_end_offset, self._config, now_ms)

    def start_flush(self) -> Flush:
        """Return a flush of what is in the log now; run it in any thread, then finish it here.

        Raises:
            FatalStorageError: the disk failed before, and what a sync says is not worth anything.
            StorageError: the log's file cannot be opened.
        """
        self._check_syncs()
        if not self.has_files:
            return self._flush({})
        try:
            part = self._durability.start(self._segments.active, self.log_end_offset)
        except OSError as error:
            raise self._fail_if_fatal(storage_error(error, self.directory)) from error
        return self._flush({self.topic_partition: part})

    def start_checkpoint(self) -> Flush:
        """Return a flush after which recovery can begin at what is the log's end now.

        Raises:
            FatalStorageError: as for ``start_flush``.
            StorageError: the index cannot be written.
        """
        self._check_syncs()
        index_mark = self._segments.active.index_mark
        snapshot = self._snapshots.take(self.producers, self.leader_epochs, index_mark)
        try:
            epochs_path = self.leader_epochs.write_out()
            part = self._durability.start_checkpoint(self._segments.active, snapshot)
        except OSError as error:
            raise self._fail_if_fatal(storage_error(error, self.directory)) from error
        if epochs_path is not None:
            part.paths.append(epochs_path)
            part.directories = [self.directory, *part.directories]
        return self._flush({self.topic_partition: part})

    def finish_flush(self, flush: Flush) -> None:
        """Take note of a flush that has run; ``flushed_offset`` moves.

        Raises:
            FatalStorageError: a sync failed, of this flush or another.  Nobody knows what is on
                disk now, so the log accepts nothing any more.
            StorageError: the disk is full; the records are safe, but the flush does not count.
        """
        self._check_syncs()
        error = flush.part_errors.get(self.topic_partition)
        if error is not None:
            raise self._fail_if_fatal(storage_error(error, self.directory)) from error
        part = flush.parts.get(self.topic_partition)
        if part is not None:
            self._durability.finish(part)

    def _flush(self, parts: Mapping[TopicPartition, FlushPart]) -> Flush:
        return Flush(self._context.fs, parts, self._context.sync_errors)

    def _check_syncs(self) -> None:
        """Refuse to believe any sync of a log that failed, or of a directory where one has failed.

        Raises:
            FatalStorageError: this is such a one.
        """
        if isinstance(self._failure, FatalStorageError):
            raise self._failure
        errors = self._context.sync_errors
        if errors:
            failure = FatalStorageError(f"{self.directory}: sync failed: {errors[0].strerror}")
            raise self._fail_if_fatal(failure) from errors[0]

    def started(self, flush: Flush) -> bool:
        """Whether the flush is this log's, and not that of a deleted one of the same name."""
        return flush.parts[self.topic_partition].owner is self._durability

    def fail(self, error: StorageError) -> None:
        """Accept nothing any more: the log was deleted, or its directory failed."""
        self._owed.clear()
        self._leaving.clear()  # another log of that name may have such files by then
        if not isinstance(self._failure, FatalStorageError):
            self._failure = error

    def park(self) -> None:
        """Close the active segment's file, all of which is synced, until it is used again."""
        self._segments.active.park()

    def complete(self) -> bool:
        """Leave files that open without recovery; return whether a checkpoint must follow for that.

        Raises:
            StorageError: the log cannot be closed cleanly.
        """
        self._settle()
        if not self.is_dirty and not self._segments.active.is_reserved:
            return False
        try:
            self._segments.active.complete()
        except OSError as error:
            raise self._fail_if_fatal(storage_error(error, self.directory)) from error
        return True
