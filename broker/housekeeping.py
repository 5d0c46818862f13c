"""Trio shell: what a broker does by the clock: deadlines, syncing, retention, checkpoints."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from quorate.broker.aside import sync_logs
from quorate.broker.handlers.context import Broker
from quorate.broker.log.files import FatalStorageError, storage_error
from quorate.broker.log.log import Log
from quorate.broker.replication.replica import Replica
from quorate.errors import StorageError
from quorate.model import TopicPartition
from quorate.net.bell import Bell
from quorate.setting_fields import LONG_MAX

logger = logging.getLogger(__name__)

SYNC_CHECK_MAX_S: Final = 1.0
SYNC_CHECK_MIN_S: Final = 0.01
TRASH_CHECK_S: Final = 1.0
DISK_CHECK_S: Final = 1.0


class Housekeeping:
    """The timed tasks of a broker.

    ``begin_turn`` and ``end_turn`` enclose what makes client answers ready.
    """

    def __init__(
        self, broker: Broker, begin_turn: Callable[[], int], end_turn: Callable[[], None]
    ) -> None:
        self._broker = broker
        self._begin_turn = begin_turn
        self._end_turn = end_turn
        self._earlier_deadline = Bell()
        self._writing_checkpoints = trio.Lock()
        broker.deadlines.on_earlier = self._earlier_deadline.ring

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            FatalStorageError: the disk failed to sync; nothing more may be acknowledged.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._meet_deadlines)
            nursery.start_soon(self._sync_by_age)
            nursery.start_soon(self._retain)
            nursery.start_soon(self._empty_trash)
            nursery.start_soon(self._checkpoint)
            nursery.start_soon(self._watch_disk)
            nursery.start_soon(self._expire_groups)

    async def _meet_deadlines(self) -> None:
        deadlines = self._broker.deadlines
        while True:
            next_ms = deadlines.next_ms()
            # Half a millisecond later, so that the time, cut to ms, is never a ms short of it.
            at_s = math.inf if next_ms is None else (next_ms + 0.5) / 1000
            with trio.move_on_at(at_s):
                await self._earlier_deadline.wait()
                continue
            self._begin_turn()
            deadlines.fire()
            self._end_turn()

    # --- syncing --------------------------------------------------------------

    async def _sync_by_age(self) -> None:
        """Sync the logs of topics with a ``flush.ms`` when it has passed."""
        while True:
            aged = [r for r in self._broker.replicas.hosted() if r.log.config.flush_ms < LONG_MAX]
            shortest_s = min((r.log.config.flush_ms / 4000 for r in aged), default=math.inf)
            await trio.sleep(min(SYNC_CHECK_MAX_S, max(shortest_s, SYNC_CHECK_MIN_S)))
            self._begin_turn()
            there = filter(self._broker.replicas.hosts, aged)  # some may have been deleted since
            due = [replica for replica in there if replica.log.flush_due(self._broker.now_ms)]
            if due:
                await self._sync(due)

    async def _sync(self, replicas: Sequence[Replica]) -> None:
        """Sync logs for which nobody waits, so not in the thread that syncs the others."""
        store = self._broker.replicas.store
        try:
            await sync_logs(store, [replica.log for replica in replicas])
        except FatalStorageError:
            raise
        except StorageError as error:
            logger.warning("cannot finish syncing, trying again: %s", error)
            await trio.sleep(DISK_CHECK_S)
        self._begin_turn()
        for replica in filter(self._broker.replicas.hosts, replicas):
            replica.advance()
        self._end_turn()

    # --- retention and checkpoints --------------------------------------------

    async def _retain(self) -> None:
        interval_s = self._broker.config.log_retention_check_interval_ms / 1000
        while True:
            await trio.sleep(interval_s)
            self._begin_turn()
            for replica in list(self._broker.replicas.hosted()):
                if self._broker.replicas.hosts(replica):
                    self._retain_one(replica)
                await trio.lowlevel.checkpoint()
            self._end_turn()

    def _retain_one(self, replica: Replica) -> None:
        broker, log = self._broker, replica.log
        try:
            deleted = log.apply_retention(
                high_watermark=replica.high_watermark, now_ms=broker.now_ms
            )
        except StorageError as error:
            logger.warning("cannot delete old segments of %s: %s", replica.topic_partition, error)
            return
        log.producers.expire(broker.now_ms, broker.config.producer_id_expiration_ms)
        if deleted:
            logger.info("deleted %d old segments of %s", deleted, replica.topic_partition)

    async def _empty_trash(self) -> None:
        """Remove the files of deleted segments and topics when their time has come.

        Where logs begin is noted first: after a kill, files that are gone without a note count as
        lost. A disk that is too full for the note needs the space all the more.
        """
        store = self._broker.replicas.store
        while True:
            await trio.sleep(TRASH_CHECK_S)
            self._begin_turn()
            paths = store.empty_trash(self._broker.now_ms)
            if paths and store.has_moved_starts():
                await self._write_checkpoints({})
            await trio.to_thread.run_sync(store.remove_paths, paths)

    async def _checkpoint(self) -> None:
        """Sync what is dirty now and then, and note from where a recovery would have to read."""
        interval_s = self._broker.config.log_flush_offset_checkpoint_interval_ms / 1000
        while True:
            await trio.sleep(interval_s)
            try:
                await self._checkpoint_once()
            except FatalStorageError:
                raise
            except StorageError as error:
                logger.warning("cannot write checkpoints, trying again later: %s", error)

    async def _checkpoint_once(self) -> None:
        replicas = self._broker.replicas
        store = replicas.store
        for logs in store.take_dirty():
            self._look_at(logs)
            flush = store.start_checkpoint(logs)
            await trio.to_thread.run_sync(flush.run)
            store.finish_flush(flush)
        error = await self._write_checkpoints(replicas.high_watermarks())
        if error is not None:
            raise storage_error(error, store.directory) from error

    async def _write_checkpoints(
        self, high_watermarks: Mapping[TopicPartition, int]
    ) -> OSError | None:
        """Write the checkpoints as of now, one after the other; return why that failed."""
        async with self._writing_checkpoints:
            write = self._broker.replicas.store.prepare_checkpoint(high_watermarks)
            await trio.to_thread.run_sync(write.run)
        return write.error

    def _look_at(self, logs: Sequence[Log]) -> None:
        """Tell of files that are not as we left them.

        The broker goes on: who still has a removed file open may be the last one who can read it.
        """
        for log in logs:
            changed = log.changed_path()
            if changed is not None:
                logger.error(
                    "%s is gone or too short, somebody else changed it: copy what no other replica"
                    " has while this broker runs, and then start it again",
                    changed,
                )

    async def _watch_disk(self) -> None:
        """End a broker whose disk failed under a log.

        A log that failed stays so until it is recovered, which is done by a start.
        """
        replicas = self._broker.replicas
        while True:
            await trio.sleep(DISK_CHECK_S)
            for replica in replicas.hosted():
                failure = replica.log.failure
                if isinstance(failure, FatalStorageError):
                    raise failure

    # --- groups ---------------------------------------------------------------

    async def _expire_groups(self) -> None:
        """Forget what groups have read that nobody wants to know any more, and empty groups."""
        interval_s = self._broker.config.offsets_retention_check_interval_ms / 1000
        while True:
            await trio.sleep(interval_s)
            for coordinator in self._broker.coordinators:
                self._begin_turn()
                for _ in coordinator.expire():
                    self._end_turn()
                    await trio.lowlevel.checkpoint()
                    self._begin_turn()
                self._end_turn()
