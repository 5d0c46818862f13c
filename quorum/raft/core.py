"""The pure core of one controller's Raft node: journal, snapshots, engine and state machine.

The owner drives it in rounds, and never lets anybody see a result before the round is durable::

    propose (any number) -> flush -> tick -> flush -> tell the results
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from quorate.errors import QuorateError
from quorate.quorum.raft.engine import Engine, Hooks, Timing
from quorate.quorum.raft.journal import Flush, Journal, ReplaceFlush, SnapshotEnd
from quorate.quorum.raft.snapshots import Snapshot, SnapshotFlush, SnapshotStore

if TYPE_CHECKING:
    from random import Random

    from quorate.quorum.raft.storage import Storage

COMMAND_BYTES_MAX: Final = 4 * 2**20
JOURNAL_BYTES_MIN: Final = 256 * 2**10
"""A journal that is larger than this, and than the snapshot, is compacted.

So replaying it at a start takes little time, and writing snapshots costs no more than writing the
journal did.
"""

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class CommandTooLargeError(QuorateError):
    """The command is larger than :data:`COMMAND_BYTES_MAX`."""


class StateMachine(Protocol[R_co]):
    """What is replicated: equal on every node after the same commands.

    ``apply`` is total: whatever may be wrong with a command is a result. If it raises, the node
    stops.
    """

    def apply(self, index: int, command: bytes) -> R_co:
        """Carry out a committed command."""
        ...

    def dump(self) -> bytes:
        """Return the state as bytes."""
        ...

    def load(self, data: bytes) -> None:
        """Take over a dumped state."""
        ...


@dataclass(frozen=True, slots=True)
class Applied(Generic[R]):
    """What the state machine said to the entry of an index and term."""

    index: int
    term: int
    result: R


class RaftCore(Generic[R]):
    """Owns the durable log and the state machine of a voter that is alone in its quorum.

    Commands count as committed only once they are durable: :meth:`tick` refuses to run while the
    journal has changes that no flush has written.
    """

    def __init__(
        self,
        node_id: str,
        storage: "Storage",
        machine: StateMachine[R],
        timing: Timing,
        rng: "Random",
    ) -> None:
        """Recover what the storage has.

        Raises:
            JournalDamagedError: the journal is not what was written.
            SnapshotDamagedError: the snapshot is not what was written.
        """
        self._voters = (node_id,)
        self._machine = machine
        self._applied: list[Applied[R]] = []
        self._snapshots = SnapshotStore(storage)
        durable = self._snapshots.durable
        end = durable.end if durable else None
        self._journal = Journal(storage, end, rng=rng, retained_entries=0)
        if durable is not None:
            machine.load(durable.state)
        hooks = Hooks(self._apply, self._take_snapshot)
        self._engine = Engine(node_id, self._journal, end, hooks, timing, rng)
        self._compacting = False

    @property
    def is_leader(self) -> bool:
        """Whether this node leads and knows everything that was ever committed."""
        return self._engine.is_leader and self._engine.term_committed()

    @property
    def term(self) -> int:
        """The current term."""
        return self._engine.term

    @property
    def commit_index(self) -> int:
        """The last committed index."""
        return self._engine.commit_index

    @property
    def last_index(self) -> int:
        """The last index of the log."""
        return self._journal.last_index

    @property
    def snapshot_index(self) -> int:
        """The last index that the durable snapshot covers; 0 without one."""
        durable = self._snapshots.durable
        return durable.end.last.log_index if durable else 0

    def propose(self, command: bytes) -> tuple[int, int]:
        """Append a command to the leader's log; return the index and term to look out for.

        Raises:
            CommandTooLargeError: nothing was appended.
        """
        if len(command) > COMMAND_BYTES_MAX:
            raise CommandTooLargeError(f"{len(command)} bytes; at most {COMMAND_BYTES_MAX}")
        entry = self._engine.append(command)
        return entry.log_index, entry.term

    def tick(self, now_s: float) -> list[Applied[R]]:
        """Elect, commit, apply and compact as far as is possible; return what was applied."""
        assert not self._journal.dirty, "what counts as committed is durable"
        if self._journal.size_bytes > self._compact_above_bytes() and not self._compacting:
            self._compacting = True
            self._engine.compact_soon()
        self._engine.tick(now_s)
        applied, self._applied = self._applied, []
        return applied

    def _compact_above_bytes(self) -> int:
        durable = self._snapshots.durable
        return max(JOURNAL_BYTES_MIN, len(durable.state) if durable else 0)

    def start_flush(self) -> Flush | SnapshotFlush | None:
        """Return the next work that must be done for durability, or ``None`` if there is none.

        ``run`` may be called in another thread; :meth:`finish_flush` must follow.
        """
        return self._snapshots.start_flush() or self._journal.start_flush()

    def finish_flush(self, flush: Flush | SnapshotFlush) -> None:
        """Note that a flush has run."""
        if isinstance(flush, SnapshotFlush):
            self._snapshots.finish_flush(flush)
        else:
            self._journal.finish_flush(flush)
            self._compacting = self._compacting and not isinstance(flush, ReplaceFlush)

    def _apply(self, index: int, command: bytes) -> None:
        entry = self._journal.entry_at(index)
        assert entry is not None, "applied entries are in the log"
        self._applied.append(Applied(index, entry.term, self._machine.apply(index, command)))

    def _take_snapshot(self, end: SnapshotEnd) -> None:
        snapshot = Snapshot(end, self._voters, self._machine.dump())
        self._snapshots.take(snapshot, self._engine.snapshot_durable)
