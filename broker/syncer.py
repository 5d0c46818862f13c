"""Shell: the thread that syncs logs before what is in them is acknowledged."""

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import trio

from quorate.broker.handlers.context import Broker
from quorate.broker.log.files import FatalStorageError
from quorate.broker.log.flush import Flush
from quorate.broker.replication.leader import LeaderReplica
from quorate.dataclass import dataclass
from quorate.errors import StorageError
from quorate.net.bell import Bell

logger = logging.getLogger(__name__)

RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Round:
    """What the thread is at: the sync that these have asked for."""

    replicas: Sequence[LeaderReplica]
    flush: Flush
    begun_s: float
    future: Future[None]


class Syncer:
    """Owns a thread that syncs the logs that ask for it, in one round after the other.

    What asks while a round is under way goes into the next one together (group commit). A round
    begins at the end of the turn that asked for it, and whoever finds ``done_fd`` readable ends it
    in a turn of the loop. No task runs for that: where each record is synced, to wake one up takes
    as long as the disk.

    Invariant: after a failure no round begins until :meth:`run` has dealt with it.
    """

    def __init__(
        self, broker: Broker, begin_turn: Callable[[], int], end_turn: Callable[[], None]
    ) -> None:
        self._broker = broker
        self._begin_turn = begin_turn
        self._end_turn = end_turn
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sync")
        self.done_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """Readable once a round has run: then :meth:`end_round` is due."""
        self._round: _Round | None = None
        self._failure: StorageError | None = None
        self._failed: Sequence[LeaderReplica] = ()
        self._failed_bell = Bell()
        broker.replicas.on_unsynced = self._begin_round

    async def run(self) -> None:
        """Try again what failed, until cancelled; then bring the round under way to its end.

        Raises:
            FatalStorageError: the disk failed to sync; nothing more may be acknowledged.
        """
        try:
            while True:
                await self._failed_bell.wait()
                if isinstance(self._failure, FatalStorageError):
                    raise self._failure
                logger.warning("cannot finish syncing, trying again: %s", self._failure)
                await trio.sleep(RETRY_S)
                self._try_again()
        finally:
            with trio.CancelScope(shield=True):
                await self._close()

    def _begin_round(self) -> None:
        """Have those synced who ask for it, unless a round is under way: then it is followed."""
        if self._round is not None or self._failure is not None:
            return
        broker = self._broker
        unsynced, store = broker.replicas.news.unsynced, broker.replicas.store
        replicas = [replica for replica in unsynced if broker.replicas.hosts(replica)]
        unsynced.clear()
        try:
            flush = store.start_flush([replica.log for replica in replicas])
        except StorageError as error:
            self._fail(error, replicas)
            return
        future = self._executor.submit(flush.run)
        self._round = _Round(replicas, flush, trio.current_time(), future)
        future.add_done_callback(self._tell)

    def _tell(self, _: Future[None]) -> None:
        os.eventfd_write(self.done_fd, 1)

    def end_round(self) -> None:
        """Let count what was synced; within a turn of the loop, whose end begins the next round.

        What fails is for :meth:`run` to deal with.
        """
        for replica in filter(self._broker.replicas.hosts, self._finish()):
            replica.advance()

    def _finish(self) -> Sequence[LeaderReplica]:
        """Take note of what was synced, or why not; return whose records may count now."""
        os.eventfd_read(self.done_fd)
        ended, self._round = self._round, None
        assert ended is not None, "told once, when it has run"
        ended.future.result()
        broker = self._broker
        broker.sync_count += 1
        broker.sync_s += trio.current_time() - ended.begun_s
        try:
            broker.replicas.store.finish_flush(ended.flush)
        except StorageError as error:
            self._fail(error, ended.replicas)
            if isinstance(error, FatalStorageError):
                return ()
        return ended.replicas

    def _fail(self, error: StorageError, replicas: Sequence[LeaderReplica]) -> None:
        self._failure, self._failed = error, replicas
        self._failed_bell.ring()

    def _try_again(self) -> None:
        self._begin_turn()
        self._failure = None
        self._broker.replicas.news.unsynced.update(dict.fromkeys(self._failed))
        self._end_turn()

    async def _close(self) -> None:
        self._broker.replicas.on_unsynced = None
        await trio.to_thread.run_sync(self._executor.shutdown)
        if self._round is not None:
            self._finish()  # without answers: nobody is there who could act on them
        os.close(self.done_fd)
        if isinstance(self._failure, FatalStorageError):
            raise self._failure
