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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from quorate.promise import Promise
from quorate.quorum.raft.messages import RaftMessage
from quorate.quorum.raft.outcomes import (
    ChangeOutcome,
    NotDone,
    ReadOutcome,
    TransferOutcome,
)
from quorate.quorum.raft.voters import ReplicaKey, Voter, VoterSet

if TYPE_CHECKING:
    from random import Random

    from quorate.quorum.raft.rules import Rules
    from quorate.quorum.raft.state_machine import StateMachine
    from quorate.quorum.raft.storage import Storage

R = TypeVar("R")


class Outgoing(NamedTuple):
    """A message, and for whom it is."""

    target: ReplicaKey
    message: RaftMessage


class Flush(Protocol):
    """Blocking work that makes something durable; after a ``StorageFullError`` run it again."""

    def run(self) -> None:
        """Do it."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a replica is, as its leader sees it."""

    match_index: int
    """Its log is known to match that far."""

    last_contact_s: float
    """When it was heard last."""

    caught_up_s: float
    """When it was last known to hold everything that the leader held."""

    is_voter: bool


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
        raise NotImplementedError

    # --- between rounds

    def receive(self, source: ReplicaKey, message: RaftMessage) -> None:
        """Take a message; dropped if too many wait already (Raft sends again)."""
        raise NotImplementedError

    def peer_connected(self, key: ReplicaKey) -> None:
        """Messages to this replica have a chance. One that does not vote becomes an observer."""
        raise NotImplementedError

    def peer_disconnected(self, key: ReplicaKey) -> None:
        """Messages to this replica have no chance."""
        raise NotImplementedError

    def propose(self, command: bytes, deadline_s: float) -> Promise[R | NotDone]:
        """Commit a command; ``NotLeader`` at once if this node does not lead.

        Raises:
            CommandTooLargeError: larger than ``COMMAND_BYTES_MAX``; nothing was proposed.
        """
        raise NotImplementedError

    def read(self, deadline_s: float) -> Promise[ReadOutcome]:
        """Wait until the state machine holds everything acknowledged before this call.

        ReadIndex: a majority confirms the leader. Clocks play no part in it.
        """
        raise NotImplementedError

    def add_voter(self, voter: Voter, deadline_s: float) -> Promise[ChangeOutcome]:
        """Let a connected observer vote, once it has caught up."""
        raise NotImplementedError

    def remove_voter(self, key: ReplicaKey, deadline_s: float) -> Promise[ChangeOutcome]:
        """Let a voter vote no more; the leader may remove itself."""
        raise NotImplementedError

    def transfer_leadership(
        self, target: ReplicaKey | None, deadline_s: float
    ) -> Promise[TransferOutcome]:
        """Hand over to a voter, or to the one that is furthest; meanwhile nothing is accepted."""
        raise NotImplementedError

    def abandon_expired(self, now_s: float) -> None:
        """Resolve what has passed its deadline; rounds do so too."""
        raise NotImplementedError

    def storage_full(self) -> list[Outgoing]:
        """Lead no more: the flush that is under way cannot be written now."""
        raise NotImplementedError

    def stop(self) -> None:
        """Resolve every open promise. Nothing may be called afterwards."""
        raise NotImplementedError

    # --- a round

    def start(self, now_s: float) -> list[Outgoing]:
        """Take in what arrived, tick, and return what may leave before the flush."""
        raise NotImplementedError

    def start_flush(self) -> Flush | None:
        """Return the next work that makes this round durable, or ``None`` if that is all."""
        raise NotImplementedError

    def finish_flush(self, flush: Flush) -> None:
        """Note that a flush has run."""
        raise NotImplementedError

    def finish(self) -> list[Outgoing]:
        """End the round and return what may leave after its flushes."""
        raise NotImplementedError

    # --- beside the rounds

    def start_snapshot(self) -> Flush | None:
        """Return the work that writes a snapshot, if one is due and none is being written."""
        raise NotImplementedError

    def finish_snapshot(self, flush: Flush) -> None:
        """Note that it has run."""
        raise NotImplementedError

    # --- what is known

    @property
    def next_deadline_s(self) -> float:
        """When the next round is due if nothing arrives; may be infinite."""
        raise NotImplementedError

    @property
    def is_leader(self) -> bool:
        """Whether this node leads and knows everything that was ever committed."""
        raise NotImplementedError

    @property
    def leader(self) -> ReplicaKey | None:
        """Who leads, as far as this node knows."""
        raise NotImplementedError

    @property
    def term(self) -> int:
        """The current term; Kafka's leader epoch."""
        raise NotImplementedError

    @property
    def voters(self) -> VoterSet:
        """The newest voter set in the log, committed or not."""
        raise NotImplementedError

    @property
    def commit_index(self) -> int:
        """The last index known to be committed."""
        raise NotImplementedError

    @property
    def applied_index(self) -> int:
        """The last index that the state machine has seen."""
        raise NotImplementedError

    @property
    def last_index(self) -> int:
        """The last index of this node's log."""
        raise NotImplementedError

    @property
    def snapshot_index(self) -> int:
        """The last index that the durable snapshot covers; 0 without one."""
        raise NotImplementedError

    @property
    def progress(self) -> Mapping[ReplicaKey, Progress]:
        """The other replicas, voters and observers; empty unless this node leads."""
        raise NotImplementedError

    @property
    def journal_bytes(self) -> int:
        """How large the journal is."""
        raise NotImplementedError

    @property
    def snapshot_bytes(self) -> int:
        """How large the durable snapshot is; 0 without one."""
        raise NotImplementedError
