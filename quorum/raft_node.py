"""Trio shell around the Raft rounds: proposals in, durable rounds, applied facts out.

One task drives the rounds.  What blocks (writes, fsync) runs in that task where a process is only a
controller, and in a worker thread where it is a broker too, so that the data plane goes on
meanwhile; proposals that arrive during an fsync share the next one.
"""

import _socket
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from quorate.dataclass import dataclass
from quorate.net.bell import Bell
from quorate.promise import Promise
from quorate.quorum.metadata.image import MetadataImage
from quorate.quorum.metadata.machine import MetadataMachine, Result, encode_command
from quorate.quorum.metadata.records import MetadataRecord
from quorate.quorum.raft.messages import RaftMessage
from quorate.quorum.raft.outcomes import (
    ChangeOutcome,
    NotDone,
    NotLeader,
    ReadOutcome,
    TransferOutcome,
)
from quorate.quorum.raft.room import Room
from quorate.quorum.raft.rounds import Flush, Outgoing, Rounds
from quorate.quorum.raft.rules import Rules
from quorate.quorum.raft.snapshots import InstallFlush
from quorate.quorum.raft.storage import StorageFullError
from quorate.quorum.raft.voters import ReplicaKey, Voter, VoterSet

if TYPE_CHECKING:
    from random import Random

    from quorate.quorum.raft.storage import Storage

# PySyncObj puts one for Windows in its place, for the whole process and on all systems.
socket.inet_ntop = _socket.inet_ntop

logger: Final = logging.getLogger(__name__)

FULL_RETRY_S: Final = 0.5

Outcome = Result | NotDone
RunBlocking = Callable[[Callable[[], None]], Awaitable[None]]
Send = Callable[[Iterable[Outgoing]], None]

T = TypeVar("T")


# Of our own, so that a data plane whose threads are all busy does not hold up metadata.
_THREADS: Final = trio.CapacityLimiter(4)


async def in_thread(work: Callable[[], None]) -> None:
    """Run blocking work in a worker thread; it is seen through even if the caller is cancelled."""
    await trio.to_thread.run_sync(work, limiter=_THREADS)


async def inline(work: Callable[[], None]) -> None:
    """Run blocking work in the loop: for a process that has nothing else to do meanwhile.

    What was queued before is on its way first: it takes the writers two turns to wake and to send.
    """
    await trio.lowlevel.checkpoint()
    await trio.lowlevel.checkpoint()
    work()


@dataclass(frozen=True, slots=True)
class RaftPlan:
    """What a Raft node is started with; ``voters`` hold until its log knows better."""

    key: ReplicaKey
    voters: VoterSet
    rules: Rules
    run_blocking: RunBlocking


@dataclass(frozen=True, slots=True)
class Standing:
    """What others wait for: how far the facts are, who leads, who votes."""

    version: int
    term: int
    leader: ReplicaKey | None
    is_leader: bool
    voters: VoterSet


class RaftNode:
    """Owns the rounds of this controller.

    What it tells (outcomes, the image, versions) is durable and committed. Once :meth:`run` has
    ended, for whatever reason, everything that was asked of it is answered.
    """

    def __init__(self, plan: RaftPlan, storage: "Storage", send: Send, rng: "Random") -> None:
        """Recover from the storage.

        Raises:
            JournalDamagedError: the journal is not what was written.
            SnapshotDamagedError: the snapshot is not what was written.
        """
        self._machine = MetadataMachine()
        self._rounds = Rounds[Result](
            plan.key, plan.voters, storage, self._machine, plan.rules, rng
        )
        self._run_blocking = plan.run_blocking
        self.flush_count = 0
        self.flush_s = 0.0
        """How often something was made durable in a round, and how long that took in all."""

        self._send = send
        self._woken = Bell()
        self._running = False
        self._ready = trio.Event()
        self._standing = self._look()
        self._changed = trio.Event()
        self._snapshot_written: Flush | None = None
        self._log_room, self._snapshot_room = Room(), Room()

    @property
    def disk_full(self) -> bool:
        """Whether the log or a snapshot waits for space on the disk."""
        return self.log_full or self._snapshot_room.is_missing

    @property
    def log_full(self) -> bool:
        """Whether the log does: then it acknowledges nothing, and cannot lead."""
        return self._log_room.is_missing

    @property
    def rounds(self) -> Rounds[Result]:
        """What is driven, to look at."""
        return self._rounds

    @property
    def machine(self) -> MetadataMachine:
        """The facts, and the newest records that led to them."""
        return self._machine

    @property
    def image(self) -> MetadataImage:
        """The facts as of the last committed command."""
        return self._machine.image

    @property
    def standing(self) -> Standing:
        """What others wait for, as of the last round."""
        return self._standing

    @property
    def is_leader(self) -> bool:
        """Whether this node leads, and its image holds everything that was ever committed."""
        return self._running and self._rounds.is_leader

    @property
    def term(self) -> int:
        """The current term."""
        return self._rounds.term

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Drive the rounds until cancelled; started once this node is ready to lead or follow.

        That is after the first round, or when its disk turns out to be full: it goes on by itself.

        Raises:
            OSError: the disk failed. Nobody knows what is on it: end the process.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._running = True
                nursery.start_soon(self._drive, nursery)
                await self._ready.wait()
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._running = False
            self._rounds.stop()
            self._tell()

    # --- what others ask of it

    async def propose(
        self,
        expected_version: int,
        records: Sequence[MetadataRecord],
        deadline_s: float,
        after: MetadataImage | None = None,
    ) -> Outcome:
        """Commit records if the image still has the version that they were decided on.

        ``after`` is what they make of it, if that is known. If the caller is cancelled, the command
        may still take effect.

        Raises:
            CommandTooLargeError: nothing was proposed.
        """
        command = encode_command(expected_version, records)
        if after is not None:
            self._machine.expect(command, after)
        return await self._ask(lambda: self._rounds.propose(command, deadline_s))

    async def read(self, deadline_s: float) -> ReadOutcome:
        """Wait until the image holds everything that was acknowledged before the call."""
        return await self._ask(lambda: self._rounds.read(deadline_s))

    async def add_voter(self, voter: Voter, deadline_s: float) -> ChangeOutcome:
        """Let an observer vote, once it has caught up."""
        return await self._ask(lambda: self._rounds.add_voter(voter, deadline_s))

    async def remove_voter(self, key: ReplicaKey, deadline_s: float) -> ChangeOutcome:
        """Let a voter vote no more."""
        return await self._ask(lambda: self._rounds.remove_voter(key, deadline_s))

    async def transfer_leadership(
        self, target: ReplicaKey | None, deadline_s: float
    ) -> TransferOutcome:
        """Hand leadership over: to a certain voter, or to the one that is furthest."""
        return await self._ask(lambda: self._rounds.transfer_leadership(target, deadline_s))

    async def wait_for_version_after(self, version: int) -> None:
        """Wait until the image's version is greater than this one."""
        await self.wait_until(lambda standing: standing.version > version)

    async def wait_until(self, holds: Callable[[Standing], bool]) -> Standing:
        """Wait until something holds, looking whenever anything has changed."""
        while not holds(self._standing):
            await self._changed.wait()
        return self._standing

    def wake_waiting(self) -> None:
        """Let those who wait look again, because something that they look at has changed."""
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def _ask(self, ask: Callable[[], Promise[T]]) -> T | NotLeader:
        """Ask the rounds for something, and return what becomes of it."""
        if not self._running:
            await trio.lowlevel.checkpoint()
            return NotLeader()
        promise = ask()
        self._woken.ring()
        known = trio.Event()
        promise.when_resolved(lambda _: known.set())
        await known.wait()
        return promise.value

    # --- what the mesh tells it

    def receive(self, source: ReplicaKey, message: RaftMessage) -> None:
        """Take a message of another controller."""
        if self._running:
            self._rounds.receive(source, message)
            self._woken.ring()

    def peer_connected(self, key: ReplicaKey) -> None:
        """Messages to this controller have a chance."""
        if self._running:
            self._rounds.peer_connected(key)
            self._woken.ring()

    def peer_disconnected(self, key: ReplicaKey) -> None:
        """Messages to this controller have none."""
        if self._running:
            self._rounds.peer_disconnected(key)
            self._woken.ring()

    # --- rounds

    async def _drive(self, nursery: trio.Nursery) -> None:
        while True:
            await self._round(nursery)
            self._ready.set()
            await self._woken.wait_until(self._rounds.next_deadline_s)

    async def _round(self, nursery: trio.Nursery) -> None:
        """Take in what arrived, make it durable, and say what follows, in that order."""
        rounds = self._rounds
        written, self._snapshot_written = self._snapshot_written, None
        if written is not None:
            rounds.finish_snapshot(written)
        self._send(rounds.start(trio.current_time()))
        while (flush := rounds.start_flush()) is not None:
            await self._make_durable(flush)
            rounds.finish_flush(flush)
        self._send(rounds.finish())
        snapshot = rounds.start_snapshot()
        if snapshot is not None:
            nursery.start_soon(self._write_snapshot, snapshot)
        self._tell()
        # Readers that have frames already get their turn, so that a round takes in many.
        await trio.lowlevel.checkpoint()

    async def _make_durable(self, flush: Flush) -> None:
        # To read a large snapshot takes long, wherever the disk is not waited for.
        wait = in_thread if isinstance(flush, InstallFlush) else self._run_blocking

        async def write() -> None:
            begin_s = trio.current_time()
            await wait(flush.run)
            self.flush_count += 1
            self.flush_s += trio.current_time() - begin_s

        def give_way() -> None:
            self._send(self._rounds.storage_full())
            self._rounds.abandon_expired(trio.current_time())
            self._tell()
            self._ready.set()

        await _until_there_is_space(self._log_room, "metadata", write, give_way)

    async def _write_snapshot(self, flush: Flush) -> None:
        """Write a snapshot beside the rounds; the next round notes that it is there."""

        async def write() -> None:
            await in_thread(flush.run)

        await _until_there_is_space(self._snapshot_room, "a snapshot", write, lambda: None)
        self._snapshot_written = flush
        self._woken.ring()

    def _look(self) -> Standing:
        rounds = self._rounds
        return Standing(
            self.image.version, rounds.term, rounds.leader, self.is_leader, rounds.voters
        )

    def _tell(self) -> None:
        """Wake those who wait, if there is something new for any of them."""
        standing = self._look()
        if standing != self._standing:
            self._standing = standing
            self.wake_waiting()


async def _until_there_is_space(
    room: Room, what: str, write: Callable[[], Awaitable[None]], give_way: Callable[[], None]
) -> None:
    """Write; while the disk is full, say so, ``give_way``, and try again."""
    while True:
        try:
            await write()
        except StorageFullError as error:
            if room.refused(trio.current_time()):
                logger.error("%s cannot be written, waiting for space: %s", what, error)  # noqa: TRY400
            give_way()
            await trio.sleep(FULL_RETRY_S)
        else:
            break
    waited_s = room.found(trio.current_time())
    if waited_s is not None:
        logger.warning("%s can be written again, after %.0f s without space", what, waited_s)
