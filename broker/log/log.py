"""Log: the records of one partition; append, read, truncate, roll, flush."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter

from quorate.broker.log.active import ActiveSegment, create_segment, cut_segment
from quorate.broker.log.appended import AppendResult, new_append_result
from quorate.broker.log.cleaning import segments_expired
from quorate.broker.log.compacting import CompactedSegment
from quorate.broker.log.compaction import ClosedPart
from quorate.broker.log.context import paths_of
from quorate.broker.log.fates import AbortedSource
from quorate.broker.log.files import FatalStorageError, storage_error
from quorate.broker.log.lookup import LogSegment, batch_start
from quorate.broker.log.naming import PARTITION_NAME, DirectoryMaker
from quorate.broker.log.producers import ProducerStates, WrittenBatch
from quorate.broker.log.rebuilding import rebuild_producers
from quorate.broker.log.segment import LOG_SUFFIX, NO_TXN_INDEX, Segment, closed_segment
from quorate.broker.log.segments import Segments
from quorate.broker.log.stored import Step, StoredLog
from quorate.broker.log.swap import Swap
from quorate.broker.log.validation import check_markers, check_replicated, date_batch
from quorate.broker.log.verification import Guard
from quorate.errors import FencedLeaderEpochError, OffsetOutOfRangeError, StorageError
from quorate.model import NO_TIMESTAMP, UNKNOWN_EPOCH
from quorate.records.batch import BatchHeader, assign_offset, parse_header
from quorate.records.control import EndMarker, TransactionEnd, end_marker_batch


class Log(StoredLog):
    """The log of one partition.

    Invariants: those of StoredLog; ``log_start_offset <= log_end_offset``; offsets are dense
    between them.
    """

    __slots__ = ()

    def append(
        self,
        records: memoryview,
        leader_epoch: int,
        now_ms: int,
        header: BatchHeader | None = None,
        guard: Guard | None = None,
        *,
        by_coordinator: bool = False,
    ) -> AppendResult:
        """Append the batch that a client sent, as the partition's leader in that epoch.

        Args:
            records: one batch, writable: offset, epoch and append time are filled in there.
            leader_epoch: in which this broker leads.
            now_ms: the time.
            header: of the batch, if that is known to be sound.
            guard: if a transaction may begin with it.
            by_coordinator: whether a group's coordinator wrote it for a producer, unsequenced.

        Raises:
            KafkaError: the records are refused, nothing was written.
            StorageError: the disk is full (the next append may succeed) or failed; nothing counts
                as written.
        """
        if self._failure is not None:
            self._settle()
        rules, producers = self._rules, self.producers
        if header is None:
            header = rules.check(records, now_ms)
        else:
            rules.check_sound(records, header, now_ms)
        # Unpacked, because attributes of a named tuple cost more.
        _, _, _, _, _, _, last_delta, _, latest_ms, producer_id, _, _, _ = header
        if producer_id >= 0:
            if by_coordinator:
                producers.check_unsequenced(header, guard)
            elif (written := producers.check(header, guard)) is not None:
                return self._answer_duplicate(written)
        base_offset = self.log_end_offset
        if leader_epoch != self.leader_epochs.latest_epoch:
            self._begin_epoch(leader_epoch, base_offset, now_ms)
        append_time_ms = NO_TIMESTAMP
        if rules.append_time:
            header, append_time_ms, latest_ms = date_batch(records, header, now_ms), now_ms, now_ms
        assign_offset(records, 0, base_offset, leader_epoch)
        last_offset = base_offset + last_delta
        active = self._write(records, last_offset, latest_ms, now_ms)
        producers.note(header, base_offset)
        active.account(last_offset, latest_ms, len(records))
        self.log_end_offset = last_offset + 1
        placed = (base_offset, last_offset, append_time_ms, self.log_start_offset, False)
        return new_append_result(AppendResult, placed)

    def append_marker(self, end: TransactionEnd, leader_epoch: int, now_ms: int) -> AppendResult:
        """Append a control batch that ends a transaction, as the partition's leader.

        Args:
            end: of the transaction.
            leader_epoch: in which this broker leads.
            now_ms: the time.

        Raises:
            InvalidProducerEpochError, TransactionCoordinatorFencedError: it comes too late.
            StorageError: see :meth:`append`.
        """
        if self._failure is not None:
            self._settle()
        self.producers.check_marker(end)
        batch = memoryview(end_marker_batch(end, now_ms))
        header = parse_header(batch, 0)
        base_offset = self.log_end_offset
        if leader_epoch != self.leader_epochs.latest_epoch:
            self._begin_epoch(leader_epoch, base_offset, now_ms)
        append_time_ms = NO_TIMESTAMP
        if self._rules.append_time:
            header, append_time_ms = date_batch(batch, header, now_ms), now_ms
        assign_offset(batch, 0, base_offset, leader_epoch)
        active = self._write(batch, base_offset, header.max_timestamp_ms, now_ms)
        aborted = self.producers.note(header, base_offset, end.marker)
        if aborted is not None:
            active.note_aborted(aborted)
        active.account(base_offset, header.max_timestamp_ms, len(batch))
        self.log_end_offset = base_offset + 1
        start_offset = self.log_start_offset
        return AppendResult(base_offset, base_offset, append_time_ms, start_offset, False)  # noqa: FBT003

    def append_replicated(self, records: memoryview, *, now_ms: int) -> None:
        """Append what the leader sent, as a follower: offsets and epochs are in the batches.

        A batch that is cut off at the end is left out.

        Raises:
            CorruptRecordError: a checksum, or what offsets and epochs should continue, is wrong.
            StorageError: as ``append``.
        """
        if self._failure is not None:
            self._settle()
        headers = check_replicated(records, self.log_end_offset, self.leader_epochs.latest_epoch)
        markers = check_markers(records, headers)
        position = 0
        # One epoch after the other: none is noted before the records in front of it are written.
        for _, batches in groupby(headers, attrgetter("leader_epoch")):
            part = list(batches)
            end = position + sum(header.size_bytes for header in part)
            self._append_part(records[position:end], part, markers, now_ms)
            position = end

    def _append_part(
        self,
        records: memoryview,
        headers: Sequence[BatchHeader],
        markers: Mapping[int, EndMarker],
        now_ms: int,
    ) -> None:
        """Append what a leader sent, batches of one epoch that continue the log."""
        first, last = headers[0], headers[-1]
        if first.leader_epoch != self.leader_epochs.latest_epoch:
            self._begin_epoch(first.leader_epoch, first.base_offset, now_ms)
        active = self._write(records, last.last_offset, last.max_timestamp_ms, now_ms)
        for header in headers:
            marker = markers.get(header.base_offset)
            aborted = self.producers.note(header, header.base_offset, marker)
            if aborted is not None:
                active.note_aborted(aborted)
            active.account_batch(header)
        self.log_end_offset = last.next_offset

    def _write(
        self, records: memoryview, last_offset: int, latest_ms: int, now_ms: int
    ) -> ActiveSegment:
        """Write batches that continue the log; return the segment that is to count them in."""
        active = self._segments.active
        try:
            if active.must_roll(len(records), last_offset, latest_ms, now_ms):
                active = self.roll(now_ms)
            active.write(records)
        except OSError as error:
            raise self._undo(active, error) from error
        return active

    def _answer_duplicate(self, written: WrittenBatch) -> AppendResult:
        append_time_ms = written.max_timestamp_ms if self._rules.append_time else NO_TIMESTAMP
        return AppendResult(
            written.base_offset,
            written.last_offset,
            append_time_ms,
            self.log_start_offset,
            True,  # noqa: FBT003
        )

    def _begin_epoch(self, leader_epoch: int, start_offset: int, now_ms: int) -> None:
        latest_epoch = self.leader_epochs.latest_epoch
        if leader_epoch < latest_epoch:
            message = f"epoch {leader_epoch} is older than the log's latest, {latest_epoch}"
            raise FencedLeaderEpochError(message)
        try:
            if self._maker is None:
                self.leader_epochs.assign(leader_epoch, start_offset)
            else:
                self._make_files(self._maker, leader_epoch, now_ms)
                self.leader_epochs.begin(leader_epoch)
        except OSError as error:
            raise self._fail_if_fatal(storage_error(error, self.directory)) from error

    def _make_files(self, maker: DirectoryMaker, leader_epoch: int, now_ms: int) -> None:
        """Make the files of a log that has none; before its first epoch nothing was written."""
        if self._context.promised(self.topic_partition) is not None:
            self._context.save_checkpoints()  # what is promised is of a deleted log of that name
        files = self._context.files
        try:
            maker.make(leader_epoch)
            active = create_segment(files, self.directory, 0, config=self._config, now_ms=now_ms)
        except OSError:
            files.forget_directory(self.directory)
            maker.unmake()
            raise
        self._segments = Segments([], active)
        self._maker = None

    def _undo(self, active: ActiveSegment, error: OSError) -> StorageError:
        """Take a failed write back."""
        try:
            active.cut_back()
        except OSError as second:
            message = f"{active.stem}: a failed write could not be taken back: {second.strerror}"
            return self._fail_if_fatal(FatalStorageError(message))
        return self._fail_if_fatal(storage_error(error, active.stem))

    def roll(self, now_ms: int) -> ActiveSegment:
        """Close the active segment and begin another one at the log's end.

        Raises:
            StorageError: nothing changed.
        """
        active = self._segments.active
        if active.size_bytes == 0:
            return active
        try:
            active.complete()
            fresh = create_segment(
                self._context.files,
                self.directory,
                self.log_end_offset,
                config=self._config,
                now_ms=now_ms,
            )
        except OSError as error:
            raise self._fail_if_fatal(storage_error(error, self.directory)) from error
        aborted = NO_TXN_INDEX if active.aborted is None else active.aborted.size_bytes
        closed = closed_segment(
            self._context.files, self.directory, active.base_offset, txn_index_bytes=aborted
        )
        self._segments.roll(closed, fresh)
        snapshot = self._snapshots.take(self.producers, self.leader_epochs, fresh.index_mark)
        self._durability.rolled(closed, snapshot)
        return fresh

    # Shortening

    def truncate_to(self, offset: int, *, now_ms: int) -> None:
        """Remove, durably, all batches that reach beyond the offset; perhaps more if compacted.

        Raises:
            StorageError: the disk failed, or refuses for the moment: then the records are there
                still, or are not and the next use of the log brings what is left to do to its end.
        """
        self._settle()
        try:
            if not self.cleaned.cut(offset):
                offset = self.log_start_offset
                self._restart_at(offset, now_ms)
            elif offset <= self._segments.first_offset and offset < self.log_end_offset:
                self._restart_at(offset, now_ms)
            elif offset < self.log_end_offset:
                self._cut_at(offset, now_ms)
            epochs, end_offset = self.leader_epochs, min(offset, self.log_end_offset)
            self._owe(
                partial(epochs.truncate_from_end, end_offset),
                partial(epochs.truncate_from_start, self.log_start_offset),
            )
            self._pay()
        except OSError as error:
            raise self._fail_if_fatal(storage_error(error, self.directory)) from error

    def reset_to(self, offset: int, *, now_ms: int) -> None:
        """Remove everything, durably, and go on at the offset (for a follower too far behind).

        Raises:
            StorageError: see :meth:`truncate_to`.
        """
        self._settle()
        try:
            self.cleaned.cut(0)
            self._restart_at(offset, now_ms)
            self._owe(
                partial(self.leader_epochs.replace, []),
                partial(self.leader_epochs.truncate_from_start, offset),
            )
            self._pay()
        except OSError as error:
            raise self._fail_if_fatal(storage_error(error, self.directory)) from error

    def delete_records_before(self, offset: int) -> int:
        """Make the offset the first one that can be read; return how many segments were removed.

        What lies before the start as it is goes in any case: a crash, or a disk that refused, may
        have left it.

        Raises:
            OffsetOutOfRangeError: the offset lies behind the log's end.
            StorageError: the disk failed, or refuses for the moment: then the offset is the first,
                and the files of what was removed go with the next attempt.
        """
        self._settle()
        if offset > self.log_end_offset:
            message = f"{offset} lies behind the log's end {self.log_end_offset}"
            raise OffsetOutOfRangeError(message)
        offset = max(offset, self.log_start_offset)
        count = self._segments.number_of(offset)
        try:
            if count or offset > self.log_start_offset:
                self.cleaned.settle()
                self.log_start_offset = offset
                self.leader_epochs.truncate_from_start(offset)
                self._drop_oldest(count)
            self._leave()
        except OSError as error:
            raise self._fail_if_fatal(storage_error(error, self.directory)) from error
        return count

    def apply_retention(self, *, high_watermark: int, now_ms: int) -> int:
        """Remove the oldest segments by ``retention.ms`` and ``retention.bytes``; return how many.

        Nothing at or behind the high watermark, or of a log that is only compacted, is removed. A
        segment of which DeleteRecords has left nothing is, be it the one that is appended to: who
        deletes all records wants the space (Kafka keeps that one until it is too old).

        Raises:
            StorageError: the disk failed.
        """
        self._settle()
        segments = self._segments
        deletable = segments.number_of(max(high_watermark, self.log_start_offset))
        if high_watermark == self.log_end_offset and segments.active.size_bytes:
            deletable += 1
        expired = segments_expired(segments, self._config, deletable, now_ms)
        if self.log_start_offset == self.log_end_offset:
            expired = deletable
        closed = min(expired, len(segments) - 1)
        count = self.delete_records_before(segments.base_of(closed))
        if expired > closed:  # last, because a full disk may have no room for another one
            self.roll(now_ms)
            count += self.delete_records_before(self.log_end_offset)
        return count

    def changed_path(self) -> str | None:
        """Return a file of ours that somebody else took away or shortened, of the first and last.

        A log may have ten thousand others; who makes room by hand begins with the oldest.
        """
        if not self.has_files or self.failure or self._owed or self.cleaned.swap is not None:
            return None  # we are at it ourselves, or deleted it
        oldest, newest = next(iter(self._segments)), self._segments.active
        for segment, size_bytes in ((oldest, 0), (newest, newest.size_bytes)):
            path = segment.stem + LOG_SUFFIX
            try:
                is_changed = self._context.fs.size_bytes(path) < size_bytes
            except FileNotFoundError:
                is_changed = True
            if is_changed:
                return path
        return None

    def _cut_at(self, offset: int, now_ms: int) -> None:
        """Cut the records off; what else that changes is owed."""
        segments = self._segments
        number = segments.number_of(offset - 1)
        segment, *later = list(segments)[number:]
        end_offset = batch_start(segment, offset)
        start_offset = self.log_start_offset
        self.log_start_offset = min(start_offset, end_offset)
        try:
            self._promise_less(end_offset)
            if later:
                # One made when they began says that the segment before is closed: not any more.
                self._snapshots.truncate_from_end(end_offset - 1)
            active = cut_segment(
                self._context.files,
                self.directory,
                segment,
                end_offset,
                config=self._config,
                now_ms=now_ms,
            )
        except OSError:
            self.log_start_offset = start_offset  # everything is there still
            raise
        except FatalStorageError as error:
            self.fail(error)
            raise
        self._segments = Segments(segments.closed[:number], active)
        self.log_end_offset = end_offset
        self._durability.cut(active.base_offset)
        self.leader_epochs.forget_from(end_offset)
        self.producers.hold_back(self.log_start_offset)
        self._owe(*self._removal_of(later), self._rebuild_producers)

    def _rebuild_producers(self) -> None:
        self.producers, _ = rebuild_producers(
            self._context.files,
            self._snapshots,
            self._segments,
            self.leader_epochs,
            self.log_end_offset,
        )

    def _restart_at(self, offset: int, now_ms: int) -> None:
        """Let the log be empty, and begin at the offset; that its files say so, too, is owed."""
        fs = self._context.fs
        if self._maker is not None:
            self._make_files(self._maker, UNKNOWN_EPOCH, now_ms)
        if not self.is_sealed:
            fs.sync_files([], [f"{self.directory}/{PARTITION_NAME}"], hurry=True)
            fs.sync_directory(self.directory)
            self._durability.sealed = True
        self._durability.emptied(offset)
        self.log_start_offset = self.log_end_offset = offset
        self.lost_from = None
        self.leader_epochs.forget_from(offset)
        self.producers = ProducerStates(offset)
        self._owe(
            # Without a file to tell, a crash has only the checkpoint to know where the log goes on.
            self._context.save_checkpoints,
            *self._removal_of(list(self._segments)),
            partial(self._begin_segment, offset, now_ms),
            partial(fs.sync_directory, self.directory),
            partial(self._durability.restarted, offset),
            self.cleaned.restarted,
            partial(self._snapshots.truncate_from_end, -1),
        )

    def _begin_segment(self, offset: int, now_ms: int) -> None:
        active = create_segment(
            self._context.files, self.directory, offset, config=self._config, now_ms=now_ms
        )
        self._segments = Segments([], active)

    def _promise_less(self, offset: int) -> None:
        """See to it that nothing that was promised about what will be removed outlives it.

        Raises:
            OSError: it could not be written down.
        """
        self._durability.promise_less(offset)
        promised = self._context.promised(self.topic_partition)
        if promised is not None and promised > offset:
            self._context.save_checkpoints()

    def _drop_oldest(self, count: int) -> None:
        dropped = self._segments.drop_oldest(count)
        self._durability.deleted(dropped)
        self._leaving += self._steps_aside(dropped, self._config.file_delete_delay_ms)

    def _steps_aside(self, segments: Iterable[LogSegment], delay_ms: int) -> list[Step]:
        paths = [path for segment in segments for path in paths_of(segment)]
        return [partial(self._context.set_aside, path, delay_ms) for path in paths]

    def _removal_of(self, segments: Sequence[LogSegment]) -> list[Step]:
        """Remove segments from the end backwards, so that a crash leaves the log's beginning.

        Deleted ones go before: none of theirs may be in front of one that is to be the first.
        """
        if not segments:
            return []
        sync = partial(self._context.fs.sync_directory, self.directory)
        return [self._leave, *self._steps_aside(reversed(segments), 0), sync]

    # Compaction

    def closed_part(self, high_watermark: int) -> ClosedPart:
        """Return what may be compacted: the closed segments that are stable and synced."""
        if self.producers.transactions is not None:
            self.producers.transactions.replicated(high_watermark)
        stable_offset = self.producers.last_stable_offset(high_watermark)
        segments, limit = self._segments, min(stable_offset, self._durability.recovery_point)
        number = segments.number_of(max(limit, segments.first_offset))
        closed, end_offset = segments.closed[:number], segments.base_of(number)
        newest = [] if segments.active.aborted is None else segments.active.aborted.all
        aborted = AbortedSource([*segments.with_aborted(segments.first_offset)], newest)
        return ClosedPart(closed, end_offset, self.cleaned.offset, self._config, aborted)

    def has(self, segments: Sequence[Segment]) -> bool:
        """Whether these are closed segments of the log still, and its neighbours."""
        return self._failure is None and self._segments.holds(segments)

    def begin_swap(self, compacted: CompactedSegment) -> Swap:
        """Read from a compacted segment from now on; its sources must be there still.

        Raises:
            StorageError: the disk failed.
        """
        try:
            self.cleaned.settle()
            swap = Swap(self._context, self.directory, compacted)
        except OSError as error:
            raise self._fail_if_fatal(storage_error(error, self.directory)) from error
        self._segments.replace(compacted.sources, swap.segment)
        self.cleaned.swap = swap
        return swap
