"""The only importer of PySyncObj: its bookkeeping, without its sockets, threads, clock and disk.

What stays PySyncObj's is the bookkeeping of terms and votes, the election trigger, the commit rule,
the apply loop and the compaction trigger.  Journal, snapshots, time, chance and transport are ours.
The library is pinned to one audited version, because the boxing relies on its private names;
``tests/unit/quorum/test_engine.py`` fails when they change.
"""
# PySyncObj has no type hints.
# pyright: reportUnknownMemberType=false, reportUntypedBaseClass=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false, reportUnknownArgumentType=false, reportAttributeAccessIssue=false

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pysyncobj.syncobj as library
from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.config import SERIALIZER_STATE
from pysyncobj.node import Node
from pysyncobj.transport import Transport
from pysyncobj.version import VERSION

from quorate.quorum.raft.journal import Entry, Journal, SnapshotEnd
from quorate.quorum.raft.timing import PRODUCTION_TIMING as PRODUCTION_TIMING  # noqa: PLC0414
from quorate.quorum.raft.timing import Timing as Timing  # noqa: PLC0414

if TYPE_CHECKING:
    from random import Random

AUDITED_VERSION: Final = "0.3.17"
LIBRARY_SHA256: Final = "e8bdf06797085d734df86e24ab4802fe87893dff77268565ec036f7ad4a1cfe4"

PRIVATE_NAMES: Final = (
    "_SyncObj__raftState",
    "_SyncObj__raftElectionDeadline",
    "_SyncObj__serializer",
    "_SyncObj__needLoadDumpFile",
    "_SyncObj__loadDumpFile",
    "_SyncObj__doApplyCommand",
)
"""The private attributes of SyncObj that are used below."""

MODULE_NAMES: Final = (
    "pickle",
    "monotonicTime",
    "random",
    "createPoller",
    "createJournal",
    "PIPE_NOTIFIER_ENABLED",
)
"""The names in ``pysyncobj.syncobj`` that are replaced below."""

_LEADER: Final = 2
_REGULAR: Final = b"\x00"
_NO_OP: Final = b"\x01"
_APPEND_BATCH_BYTES: Final = 2**20
_NEVER_S: Final = 1e12
_AT_ONCE_S: Final = -1.0


class EngineError(Exception):
    """An invariant of Raft is broken on this node: stop it, and start again from disk."""


class _Surroundings:
    """The clock and the dice of whichever engine is running now; a process may have several."""

    now_s = 0.0
    rng: "Random | None" = None

    @classmethod
    def time(cls) -> float:
        return cls.now_s

    @classmethod
    def random(cls) -> float:
        assert cls.rng is not None
        return cls.rng.random()


class _NoPickle:
    """Stands where PySyncObj has pickle: on paths that are never taken here."""

    @staticmethod
    def dumps(*_: object) -> bytes:
        raise EngineError("PySyncObj wanted to pickle")

    @staticmethod
    def loads(*_: object) -> object:
        raise EngineError("PySyncObj wanted to unpickle")


class _NoPoller:
    """Stands where PySyncObj polls its sockets: it has none here."""

    def poll(self, timeout_s: float) -> None:
        assert timeout_s == 0.0, "ticks never wait"


def _no_poller(_kind: str) -> _NoPoller:
    return _NoPoller()


def _given_journal(journal: "_LibraryJournal") -> "_LibraryJournal":
    return journal


def _nothing(*_: object) -> None:
    """Stands where PySyncObj may have a function of ours."""


def _box_library() -> None:
    """Cut PySyncObj off from the world: this replaces names in its module, once per process."""
    if VERSION != AUDITED_VERSION:
        raise ImportError(f"PySyncObj {AUDITED_VERSION} is needed, the audited one, not {VERSION}")
    library.pickle = _NoPickle
    library.monotonicTime = _Surroundings.time
    library.random = _Surroundings
    library.createPoller = _no_poller
    library.createJournal = _given_journal
    library.PIPE_NOTIFIER_ENABLED = False


_box_library()


class _Peer(Node):  # type: ignore[misc]
    """A node whose hash does not depend on PYTHONHASHSEED, so that runs can be repeated."""

    def __hash__(self) -> int:
        return zlib.crc32(str(self.id).encode())


class _NoTransport(Transport):  # type: ignore[misc]
    """A transport for a node without peers."""

    def send(self, node: Any, message: Any) -> bool:
        raise EngineError(f"a single voter has nobody to send {message!r} to, but tried {node}")


class _LibraryJournal:
    """Our journal as PySyncObj wants to see it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def add(self, command: bytes, idx: int, term: int) -> None:
        self._journal.append(Entry(bytes(command), idx, term))

    def clear(self) -> None:
        self._journal.clear()

    def deleteEntriesFrom(self, entryFrom: int) -> None:  # noqa: N802, N803
        self._journal.truncate_from(entryFrom)

    def deleteEntriesTo(self, entryTo: int) -> None:  # noqa: N802, N803
        self._journal.trim_to(entryTo)

    def __getitem__(self, item: Any) -> Any:
        return self._journal.entries[item]

    def __len__(self) -> int:
        return len(self._journal.entries)

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:  # noqa: N802, N803
        """Do nothing: on disk it could be ahead of the entries, so it is never read back."""

    def getRaftCommitIndex(self) -> int:  # noqa: N802
        return self._journal.start_index

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:  # noqa: N802, N803
        self._journal.set_term(term, votedForNodeId)

    def getCurrentTerm(self) -> int:  # noqa: N802
        return self._journal.term

    def getVotedForNodeId(self) -> str | None:  # noqa: N802
        return self._journal.vote

    def onOneSecondTimer(self) -> None:  # noqa: N802
        """Do nothing."""


class _LibrarySerializer:
    """Stands where PySyncObj dumps its state to a file: asks us to take a snapshot instead."""

    def __init__(self, take_snapshot: Callable[[SnapshotEnd], None]) -> None:
        self._take_snapshot = take_snapshot
        self._state = SERIALIZER_STATE.NOT_SERIALIZING
        self._id: int | None = None
        self.loaded: SnapshotEnd | None = None

    def serialize(self, data: Any, id_: int) -> None:
        _, last, previous, _ = data
        self._state, self._id = SERIALIZER_STATE.SERIALIZING, id_
        self._take_snapshot(SnapshotEnd(Entry(*previous), Entry(*last)))

    def finish(self) -> None:
        """Tell PySyncObj, at its next tick, that the snapshot is durable."""
        self._state = SERIALIZER_STATE.SUCCESS

    def checkSerializing(self) -> tuple[int, int | None]:  # noqa: N802
        state = self._state
        if state == SERIALIZER_STATE.SUCCESS:
            self._state = SERIALIZER_STATE.NOT_SERIALIZING
        return state, self._id

    def deserialize(self) -> tuple[None, Entry, Entry, set[Any]]:
        assert self.loaded is not None
        return None, self.loaded.last, self.loaded.previous, set()


class _Hardened(SyncObj):  # type: ignore[misc]
    """PySyncObj's state machine with our apply step."""

    def __init__(self, apply: Callable[[int, bytes], None], **library_arguments: Any) -> None:
        self._apply_entry = apply
        super().__init__(**library_arguments)

    def _SyncObj__doApplyCommand(self, command: bytes) -> None:  # noqa: N802 - overrides a private
        if command[:1] == _REGULAR:
            self._apply_entry(self.raftLastApplied + 1, command[1:])
        elif command[:1] != _NO_OP:
            raise EngineError(f"the log holds a command of unknown type {command[:1]!r}")


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the engine asks of its owner, always from within :meth:`Engine.tick`."""

    apply: Callable[[int, bytes], None]
    take_snapshot: Callable[[SnapshotEnd], None]


class Engine:
    """Owns the Raft state of one node; does no I/O and waits for nothing."""

    def __init__(
        self,
        node_id: str,
        journal: Journal,
        snapshot_end: SnapshotEnd | None,
        hooks: Hooks,
        timing: Timing,
        rng: "Random",
    ) -> None:
        self._rng = rng
        self._journal = journal
        self._enter(0.0)
        self._serializer = _LibrarySerializer(hooks.take_snapshot)
        self._library = _Hardened(
            hooks.apply,
            selfNode=_Peer(node_id),
            otherNodes=[],
            conf=_library_settings(_LibraryJournal(journal), timing),
            transport=_NoTransport(None, None, None),
        )
        self._private("serializer", self._serializer)
        # Loaded here and not at the first tick, before which messages could come.
        self._private("needLoadDumpFile", value=False)
        if snapshot_end is not None:
            self._load(snapshot_end)
        # Nobody else can be elected, so there is nothing to wait for.
        self._private("raftElectionDeadline", _AT_ONCE_S)

    def _private(self, name: str, value: object) -> None:
        assert f"_SyncObj__{name}" in PRIVATE_NAMES
        setattr(self._library, f"_SyncObj__{name}", value)

    def _load(self, snapshot_end: SnapshotEnd) -> None:
        self._serializer.loaded = snapshot_end
        self._library._SyncObj__loadDumpFile(clearJournal=False)  # noqa: SLF001
        # PySyncObj only logs the errors of this step.
        if self.last_applied != snapshot_end.last.log_index:
            raise EngineError("the snapshot did not load")

    def _enter(self, now_s: float) -> None:
        _Surroundings.now_s = now_s
        _Surroundings.rng = self._rng

    @property
    def is_leader(self) -> bool:
        """Whether this node leads, as far as it knows."""
        return bool(self._library._SyncObj__raftState == _LEADER)  # noqa: SLF001

    @property
    def term(self) -> int:
        """The current term."""
        return int(self._library.raftCurrentTerm)

    @property
    def commit_index(self) -> int:
        """The last index known to be committed."""
        return int(self._library.raftCommitIndex)

    @property
    def last_applied(self) -> int:
        """The last index whose command the state machine has seen."""
        return int(self._library.raftLastApplied)

    def term_committed(self) -> bool:
        """Whether an entry of the current term is committed, so that reads know all commits."""
        entry = self._journal.entry_at(self.commit_index)
        return entry is not None and entry.term == self.term

    def append(self, command: bytes) -> Entry:
        """Add a command to the leader's log."""
        assert self.is_leader, "only leaders append"
        entry = Entry(_REGULAR + command, self._journal.last_index + 1, self.term)
        self._journal.append(entry)
        return entry

    def tick(self, now_s: float) -> None:
        """Elect, commit, apply and compact as far as is possible now."""
        self._enter(now_s)
        self._library.doTick(0.0)

    def snapshot_durable(self) -> None:
        """Note that the snapshot asked for last is durable: the next tick trims the journal."""
        self._serializer.finish()

    def compact_soon(self) -> None:
        """Take a snapshot at the next tick, however few entries there are."""
        self._library.forceLogCompaction()


def _library_settings(journal: _LibraryJournal, timing: Timing) -> Any:
    return SyncObjConf(
        autoTick=False,
        appendEntriesPeriod=timing.heartbeat_s,
        raftMinTimeout=timing.election_min_s,
        raftMaxTimeout=timing.election_max_s,
        connectionTimeout=4 * timing.election_max_s,
        leaderFallbackTimeout=timing.election_max_s,
        appendEntriesUseBatch=True,
        appendEntriesBatchSizeBytes=_APPEND_BATCH_BYTES,
        commandsWaitLeader=False,
        dynamicMembershipChange=False,
        useFork=False,
        logCompactionMinEntries=timing.snapshot_entries,
        logCompactionMinTime=_NEVER_S,
        # A serializer keeps PySyncObj from collecting its own attributes as the state to dump.
        serializer=_nothing,
        deserializer=_nothing,
        fullDumpFile="unused",
        journalFile=journal,
    )
