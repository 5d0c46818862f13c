"""Trio shell around the Raft core: proposals in, durable rounds, applied facts out.

One task drives the core.  What blocks (writes, fsync) runs in a worker thread, so that in a process
that is a broker too the data plane goes on meanwhile; proposals that arrive during an fsync share
the next one.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import trio

from quorate.promise import Promise
from quorate.quorum.metadata.image import MetadataImage
from quorate.quorum.metadata.machine import MetadataMachine, Result, encode_command
from quorate.quorum.metadata.records import MetadataRecord
from quorate.quorum.raft.core import COMMAND_BYTES_MAX, CommandTooLargeError, RaftCore
from quorate.quorum.raft.engine import PRODUCTION_TIMING, Timing
from quorate.quorum.raft.proposals import NotDone, NotLeader, Proposals
from quorate.quorum.raft.storage import Storage, StorageFullError

if TYPE_CHECKING:
    from random import Random

logger: Final = logging.getLogger(__name__)

FULL_RETRY_S: Final = 1.0

Outcome = Result | NotDone
RunBlocking = Callable[[Callable[[], None]], Awaitable[None]]


# Of our own, so that a data plane whose threads are all busy does not hold up metadata.
_THREADS: Final = trio.CapacityLimiter(4)


async def in_thread(work: Callable[[], None]) -> None:
    """Run blocking work in a worker thread; it is seen through even if the caller is cancelled."""
    await trio.to_thread.run_sync(work, limiter=_THREADS)


async def inline(work: Callable[[], None]) -> None:
    """Run blocking work in the loop: for a process that has nothing else to do meanwhile."""
    work()
    await trio.lowlevel.checkpoint()


class RaftNode:
    """Owns the Raft core of this controller.

    What it tells (outcomes, the image, versions) is durable and committed. Once :meth:`run` has
    ended, for whatever reason, every proposal is answered.
    """

    def __init__(
        self,
        node_id: int,
        storage: Storage,
        *,
        rng: "Random",
        timing: Timing = PRODUCTION_TIMING,
        run_blocking: RunBlocking = in_thread,
    ) -> None:
        """Recover from the storage.

        Raises:
            JournalDamagedError: the journal is not what was written.
            SnapshotDamagedError: the snapshot is not what was written.
        """
        self._machine = MetadataMachine()
        self._core = RaftCore[Result](str(node_id), storage, self._machine, timing, rng)
        self._run_blocking = run_blocking
        self._arrived: list[tuple[bytes, Promise[Outcome]]] = []
        self._proposals = Proposals[Result]()
        self._woken = trio.Event()
        self._applied = trio.Condition()
        self._running = False

    @property
    def machine(self) -> MetadataMachine:
        """The facts, and the newest records that led to them."""
        return self._machine

    @property
    def image(self) -> MetadataImage:
        """The facts as of the last committed command."""
        return self._machine.image

    @property
    def is_leader(self) -> bool:
        """Whether this node leads, and its image holds everything that was ever committed."""
        return self._running and self._core.is_leader

    @property
    def term(self) -> int:
        """The current term."""
        return self._core.term

    @property
    def commit_index(self) -> int:
        """The last committed index."""
        return self._core.commit_index

    @property
    def last_index(self) -> int:
        """The last index of this node's log."""
        return self._core.last_index

    @property
    def snapshot_index(self) -> int:
        """The last index that the durable snapshot covers; 0 without one."""
        return self._core.snapshot_index

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Drive the core until cancelled; started once this node is ready to lead or follow.

        Raises:
            OSError: the disk failed. Nobody knows what is on it: end the process.
        """
        try:
            await self._round()
            self._running = True
            task_status.started()
            while True:
                await self._woken.wait()
                self._woken = trio.Event()
                await self._round()
        finally:
            self._running = False
            self._abandon()

    async def propose(self, expected_version: int, records: Sequence[MetadataRecord]) -> Outcome:
        """Commit records if the image still has the version that they were decided on.

        If the caller is cancelled, the command may still take effect.

        Raises:
            CommandTooLargeError: nothing was proposed.
        """
        command = encode_command(expected_version, records)
        if len(command) > COMMAND_BYTES_MAX:
            raise CommandTooLargeError(f"{len(command)} bytes; at most {COMMAND_BYTES_MAX}")
        if not self.is_leader:
            return NotLeader()
        promise: Promise[Outcome] = Promise()
        known = trio.Event()
        promise.when_resolved(lambda _: known.set())
        self._arrived.append((command, promise))
        self._woken.set()
        await known.wait()
        return promise.value

    async def read_barrier(self) -> bool:
        """Wait until the image holds everything acknowledged before the call.

        Returns whether it does: not, if this node does not lead. A voter that is alone needs
        nobody's consent.
        """
        await trio.lowlevel.checkpoint()
        return self.is_leader

    async def wait_for_version_after(self, version: int) -> None:
        """Wait until the image's version is greater than this one."""
        async with self._applied:
            while self.image.version <= version:
                await self._applied.wait()

    async def _round(self) -> None:
        """Make what arrived durable, apply it, make what followed durable, tell the results."""
        arrived, self._arrived = self._arrived, []
        for command, promise in arrived:
            index, term = self._core.propose(command)
            self._proposals.add(index, term, promise)
        await self._flush()
        applied = self._core.tick(trio.current_time())
        await self._flush()
        self._proposals.settle(applied)
        if applied:
            async with self._applied:
                self._applied.notify_all()

    async def _flush(self) -> None:
        while flush := self._core.start_flush():
            await self._run_until_there_is_space(flush.run)
            self._core.finish_flush(flush)

    async def _run_until_there_is_space(self, work: Callable[[], None]) -> None:
        while True:
            try:
                await self._run_blocking(work)
            except StorageFullError as error:
                logger.error("metadata cannot be written, waiting for space: %s", error)  # noqa: TRY400
                await trio.sleep(FULL_RETRY_S)
            else:
                return

    def _abandon(self) -> None:
        self._proposals.abandon()
        arrived, self._arrived = self._arrived, []
        for _, promise in arrived:
            promise.resolve(NotLeader())
