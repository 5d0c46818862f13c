"""Everything a controller's Raft node does, in the one order that is safe.

A shell (Trio, or a simulator) only carries out what this hands to it, in rounds::

    leaving = rounds.start(now_s)            # deliver, tick; send these at once
    while flush := rounds.start_flush():
        flush.run()                          # may block, may be in another thread
        rounds.finish_flush(flush)
    leaving = rounds.finish()                # send these now that all is durable

A round is due when something has arrived, and at ``next_deadline_s``.  Between rounds, and while a
flush runs, everything else may be called, from the thread that drives the rounds: it is queued.

Snapshots of the node's own state are written beside the rounds, because that may take long::

    if flush := rounds.start_snapshot():     # after finish()
        flush.run()                          # in another thread, while rounds go on
        rounds.finish_snapshot(flush)        # between two rounds

If ``run`` raises :class:`StorageFullError`, tell ``storage_full``, send what it returns, wait, and
run the same flush again.  Any other exception, from here or from ``run``, ends the process: it must
start again from what is on the disk.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from quorate.promise import Promise
from quorate.quorum.raft.core import CommandTooLargeError as CommandTooLargeError  # noqa: PLC0414
from quorate.quorum.raft.core import Outgoing as Outgoing  # noqa: PLC0414
from quorate.quorum.raft.core import RaftCore
from quorate.quorum.raft.engine import REGULAR
from quorate.quorum.raft.messages import (
    COMMAND_BYTES_MAX,
    Append,
    Heartbeat,
    RaftMessage,
    ReadProbe,
    SnapshotChunk,
    TimeoutNow,
)
from quorate.quorum.raft.outcomes import (
    ChangeOutcome,
    NotDone,
    NotLeader,
    ReadOutcome,
    TransferOutcome,
)
from quorate.quorum.raft.progress import Progress as Progress  # noqa: PLC0414
from quorate.quorum.raft.snapshots import SnapshotFlush
from quorate.quorum.raft.voters import ReplicaKey, Voter, VoterSet

if TYPE_CHECKING:
    from random import Random

    from quorate.quorum.raft.rules import Rules
    from quorate.quorum.raft.state_machine import StateMachine
    from quorate.quorum.raft.storage import Storage

INBOX_MESSAGES_MAX: Final = 4096
INBOX_BYTES_MAX: Final = 16 * 2**20
"""Between two rounds no more than this much is kept; the rest is as if it were lost."""

_DUE_MARGIN_S: Final = 0.001
_NEVER: Final = float("inf")
_MAY_LEAVE_EARLY: Final = (Append, Heartbeat, ReadProbe, SnapshotChunk, TimeoutNow)

R = TypeVar("R")


class Flush(Protocol):
    """Blocking work that makes something durable; after a ``StorageFullError`` run it again."""

    def run(self) -> None:
        """Do it."""
        ...


class _Asked(NamedTuple):
    """A command that is not in the log yet."""

    command: bytes
    deadline_s: float
    promise: Promise[Any]


class Rounds(Generic[R]):
    """Owns one replica: its log, state machine, and what was asked of it.

    Invariants: what leaves, and what is told to those who asked, rests on what is durable; every
    promise resolves exactly once.
    """

    def __init__(
        self,
        me: ReplicaKey,
        voters: VoterSet,
        storage: "Storage",
        machine: "StateMachine[R]",
        rules: "Rules",
        rng: "Random",
    ) -> None:
        """Recover what the storage has.

        Args:
            me: this replica.
            voters: the bootstrap set, used for as long as journal and snapshot know none; empty for
                an observer, which votes once it has been added.
            storage: journal and snapshots.
            machine: what is replicated; only called in rounds.
            rules: timers and hardenings.
            rng: all chance there is.

        Raises:
            JournalDamagedError: the journal is not what was written.
            SnapshotDamagedError: the snapshot is not what was written.
        """
        self._core = RaftCore[R](me, voters, storage, machine, rules, rng)
        self._barrier = rules.hardening.barrier
        self._now_s = 0.0
        self._begun = False
        self._ticked = False
        self._inbox: list[tuple[ReplicaKey, RaftMessage]] = []
        self._inbox_bytes = 0
        self._connections: dict[ReplicaKey, bool] = {}
        self._asked: list[_Asked] = []

    # --- between rounds

    def receive(self, source: ReplicaKey, message: RaftMessage) -> None:
        """Take a message; dropped if too many wait already (Raft sends again)."""
        self._inbox_bytes += _size_bytes(message)
        if len(self._inbox) < INBOX_MESSAGES_MAX and self._inbox_bytes <= INBOX_BYTES_MAX:
            self._inbox.append((source, message))

    def peer_connected(self, key: ReplicaKey) -> None:
        """Messages to this replica have a chance. One that does not vote becomes an observer."""
        self._connections.pop(key, None)
        self._connections[key] = True

    def peer_disconnected(self, key: ReplicaKey) -> None:
        """Messages to this replica have no chance."""
        self._connections.pop(key, None)
        self._connections[key] = False

    def propose(self, command: bytes, deadline_s: float) -> Promise[R | NotDone]:
        """Commit a command; ``NotLeader`` at once if this node does not lead.

        Raises:
            CommandTooLargeError: larger than ``COMMAND_BYTES_MAX``; nothing was proposed.
        """
        if len(command) >= COMMAND_BYTES_MAX:
            raise CommandTooLargeError(f"{len(command)} bytes; less than {COMMAND_BYTES_MAX}")
        promise: Promise[R | NotDone] = Promise()
        if self._accepts():
            self._asked.append(_Asked(command, deadline_s, promise))
        else:
            promise.resolve(self._not_leader())
        return promise

    def _accepts(self) -> bool:
        return self._core.engine.is_leader and self._core.changes.successor is None

    def _not_leader(self) -> NotLeader:
        return NotLeader(self._core.changes.successor or self._core.engine.leader)

    def read(self, deadline_s: float) -> Promise[ReadOutcome]:
        """Wait until the state machine holds everything acknowledged before this call.

        ReadIndex: a majority confirms the leader. Clocks play no part in it.
        """
        return self._core.reads.ask(deadline_s)

    def add_voter(self, voter: Voter, deadline_s: float) -> Promise[ChangeOutcome]:
        """Let a connected observer vote, once it has caught up."""
        return self._core.changes.add(voter, deadline_s)

    def remove_voter(self, key: ReplicaKey, deadline_s: float) -> Promise[ChangeOutcome]:
        """Let a voter vote no more; the leader may remove itself."""
        return self._core.changes.remove(key, deadline_s)

    def transfer_leadership(
        self, target: ReplicaKey | None, deadline_s: float
    ) -> Promise[TransferOutcome]:
        """Hand over to a voter, or to the one that is furthest; meanwhile nothing is accepted."""
        return self._core.changes.transfer(target, deadline_s)

    def abandon_expired(self, now_s: float) -> None:
        """Resolve what has passed its deadline; rounds do so too."""
        self._abandon_expired(now_s)
        self._core.changes.abandon_expired(now_s)

    def _abandon_expired(self, now_s: float) -> None:
        self._core.proposals.abandon_expired(now_s)
        self._core.reads.abandon_expired(now_s)
        if any(asked.deadline_s <= now_s for asked in self._asked):
            expired = [asked for asked in self._asked if asked.deadline_s <= now_s]
            self._asked = [asked for asked in self._asked if asked.deadline_s > now_s]
            for asked in expired:
                asked.promise.resolve(self._not_leader())

    def storage_full(self) -> list[Outgoing]:
        """Lead no more: the flush that is under way cannot be written now.

        Those who ask meanwhile learn that this node does not lead. Proposals that are in the log
        may still be committed: by the leader to come, or when there is space.
        """
        self._core.engine.enter(self._now_s)
        leaving: list[Outgoing] = []
        if self._core.engine.is_leader:
            before = len(self._core.outbox)
            self._core.lead_no_more()
            if not self._core.journal.term_dirty:
                leaving = self._core.outbox[before:]
            del self._core.outbox[before:]
        self._core.reads.probe()
        asked, self._asked = self._asked, []
        for each in asked:
            each.promise.resolve(self._not_leader())
        return leaving

    def stop(self) -> None:
        """Resolve every open promise. Nothing may be called afterwards."""
        self.abandon_expired(_NEVER)
        self._core.proposals.abandon()

    # --- a round

    def start(self, now_s: float) -> list[Outgoing]:
        """Take in what arrived, tick, and return what may leave before the flush."""
        core = self._core
        core.engine.enter(now_s)
        self._now_s = now_s
        if not self._begun:
            self._begun = True
            core.engine.postpone_election()
        self._take_in()
        self._abandon_expired(now_s)
        core.changes.step(core.proposals)
        core.changes.step_transfer()
        core.reads.probe()
        # Alone, what counts as committed is what this disk has: tick only after the flush.
        self._ticked = not core.is_alone
        if self._ticked:
            self._tick()
        return self._leaving_early()

    def _take_in(self) -> None:
        connections, self._connections = self._connections, {}
        for key, connected in connections.items():
            if connected:
                self._core.connected(key)
            else:
                self._core.disconnected(key)
        inbox, self._inbox, self._inbox_bytes = self._inbox, [], 0
        for source, message in inbox:
            self._core.receive(source, message)
        asked, self._asked = self._asked, []
        leads = self._core.engine.is_leader
        for command, deadline_s, promise in asked:
            if leads:
                entry = self._core.engine.append(REGULAR, command)
                self._core.proposals.add(entry.log_index, entry.term, deadline_s, promise)
            else:
                promise.resolve(self._not_leader())

    def _tick(self) -> None:
        self._core.tick()
        self._core.proposals.settle()
        self._core.reads.settle()

    def _leaving_early(self) -> list[Outgoing]:
        """Return what a leader may send while its own disk is still writing."""
        outbox = self._core.outbox
        if not self._barrier:
            self._core.outbox = []
            return outbox
        if self._core.journal.term_dirty or not self._ticked:
            return []
        self._core.outbox = [o for o in outbox if not isinstance(o.message, _MAY_LEAVE_EARLY)]
        return [o for o in outbox if isinstance(o.message, _MAY_LEAVE_EARLY)]

    def start_flush(self) -> Flush | None:
        """Return the next work that makes this round durable, or ``None`` if that is all."""
        flush = self._core.start_flush()
        if flush is None and not self._ticked:
            self._ticked = True
            self._core.engine.enter(self._now_s)
            self._tick()
            flush = self._core.start_flush()
        return flush

    def finish_flush(self, flush: Flush) -> None:
        """Note that a flush has run."""
        self._core.engine.enter(self._now_s)
        self._core.finish_flush(cast("Any", flush))

    def finish(self) -> list[Outgoing]:
        """End the round and return what may leave after its flushes."""
        self._core.proposals.settle()
        leaving, self._core.outbox = self._core.outbox, []
        return leaving

    # --- beside the rounds

    def start_snapshot(self) -> Flush | None:
        """Return the work that writes a snapshot, if one is due and none is being written."""
        return self._core.snapshots.start_flush()

    def finish_snapshot(self, flush: Flush) -> None:
        """Note that it has run."""
        assert isinstance(flush, SnapshotFlush), "what start_snapshot returned"
        self._core.finish_snapshot(flush)

    # --- what is known

    @property
    def next_deadline_s(self) -> float:
        """When the next round is due if nothing arrives; may be infinite."""
        core = self._core
        if not self._begun:
            return -_NEVER
        asked = min([a.deadline_s for a in self._asked], default=_NEVER)
        return min(
            core.next_tick_s + _DUE_MARGIN_S,
            core.proposals.next_deadline_s,
            core.reads.next_deadline_s,
            core.changes.next_deadline_s,
            asked,
        )

    @property
    def is_leader(self) -> bool:
        """Whether this node leads and knows everything that was ever committed."""
        engine = self._core.engine
        return engine.is_leader and engine.term_committed()

    @property
    def leader(self) -> ReplicaKey | None:
        """Who leads, as far as this node knows; nobody, once that one has long been silent."""
        return self._core.leader

    @property
    def term(self) -> int:
        """The current term; Kafka's leader epoch."""
        return self._core.engine.term

    @property
    def voters(self) -> VoterSet:
        """The newest voter set in the log, committed or not."""
        return self._core.configurations.voters

    @property
    def commit_index(self) -> int:
        """The last index known to be committed."""
        return self._core.engine.commit_index

    @property
    def applied_index(self) -> int:
        """The last index that the state machine has seen."""
        return self._core.engine.last_applied

    @property
    def last_index(self) -> int:
        """The last index of this node's log."""
        return self._core.journal.last_index

    @property
    def snapshot_index(self) -> int:
        """The last index that the durable snapshot covers; 0 without one."""
        durable = self._core.snapshots.durable
        return durable.end.last.log_index if durable else 0

    @property
    def progress(self) -> Mapping[ReplicaKey, Progress]:
        """The other replicas, voters and observers; empty unless this node leads."""
        return self._core.progress.report()

    @property
    def journal_bytes(self) -> int:
        """How large the journal is."""
        return self._core.journal.size_bytes

    @property
    def snapshot_bytes(self) -> int:
        """How large the durable snapshot is; 0 without one."""
        durable = self._core.snapshots.durable
        return durable.size_bytes if durable else 0


def _size_bytes(message: RaftMessage) -> int:
    """Return about how much memory a message holds."""
    if isinstance(message, Append):
        return sum([len(entry.command) for entry in message.entries])
    return len(message.data) if isinstance(message, SnapshotChunk) else 0
