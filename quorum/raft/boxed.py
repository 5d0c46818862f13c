"""The only importer of PySyncObj: it, without its sockets, threads, clock, disk and pickle.

What stays PySyncObj's is the bookkeeping of terms and votes, the election trigger, next and match
indexes, the commit rule, the apply loop and the compaction trigger.  Journal, snapshots, time,
chance, messages and membership are ours.  The library is pinned to one audited version, because the
boxing relies on its private names; ``tests/unit/quorum/test_engine.py`` fails when they change.
"""
# PySyncObj has no type hints.
# pyright: reportUnknownMemberType=false, reportUntypedBaseClass=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false, reportUnknownArgumentType=false, reportAttributeAccessIssue=false

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pysyncobj.syncobj as library
from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.config import SERIALIZER_STATE
from pysyncobj.node import Node
from pysyncobj.transport import Transport
from pysyncobj.version import VERSION

from quorate.dataclass import dataclass
from quorate.quorum.raft.journal import Journal
from quorate.quorum.raft.journal_file import Entry, SnapshotEnd
from quorate.quorum.raft.messages import (
    APPEND_BYTES_TARGET,
    Append,
    AppendAnswer,
    RaftMessage,
    Vote,
    VoteRequest,
)
from quorate.quorum.raft.voters import ReplicaKey

if TYPE_CHECKING:
    from random import Random

    from quorate.quorum.raft.timing import Timing

AUDITED_VERSION: Final = "0.3.17"
LIBRARY_SHA256: Final = "e8bdf06797085d734df86e24ab4802fe87893dff77268565ec036f7ad4a1cfe4"

PRIVATE_NAMES: Final = (
    "_SyncObj__raftState",
    "_SyncObj__raftLeader",
    "_SyncObj__raftElectionDeadline",
    "_SyncObj__generateRaftTimeout",
    "_SyncObj__transferInProgress",
    "_SyncObj__raftNextIndex",
    "_SyncObj__raftMatchIndex",
    "_SyncObj__connectedNodes",
    "_SyncObj__otherNodes",
    "_SyncObj__readonlyNodes",
    "_SyncObj__lastResponseTime",
    "_SyncObj__newAppendEntriesTime",
    "_SyncObj__sendAppendEntries",
    "_SyncObj__getEntries",
    "_SyncObj__setState",
    "_SyncObj__serializer",
    "_SyncObj__needLoadDumpFile",
    "_SyncObj__loadDumpFile",
    "_SyncObj__doApplyCommand",
    "_SyncObj__onMessageReceived",
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

REGULAR: Final = b"\x00"
NO_OP: Final = b"\x01"
VOTERS: Final = b"\x10"
"""First byte of a command in the log: what sort it is."""

_NOWHERE: Final = 2**62
FOLLOWER: Final = 0
LEADER: Final = 2
_UNLIMITED_BYTES: Final = 2**60
UNLIMITED_S: Final = 1e12


class EngineError(Exception):
    """An invariant of Raft is broken on this node: stop it, and start again from disk."""


class Surroundings:
    """The clock and the dice of whichever engine is running now; a process may have several."""

    now_s = 0.0
    rng: "Random | None" = None

    @classmethod
    def time(cls) -> float:
        """Return the time, in seconds."""
        return cls.now_s

    @classmethod
    def random(cls) -> float:
        """Return a random number below 1."""
        assert cls.rng is not None
        return cls.rng.random()


class NoPickle:
    """Stands where PySyncObj has pickle: on paths that are never taken here."""

    @staticmethod
    def dumps(*_: object) -> bytes:
        """Refuse."""
        raise EngineError("PySyncObj wanted to pickle")

    @staticmethod
    def loads(*_: object) -> object:
        """Refuse."""
        raise EngineError("PySyncObj wanted to unpickle")


class _NoPoller:
    """Stands where PySyncObj polls its sockets: it has none here."""

    def poll(self, timeout_s: float) -> None:
        assert timeout_s == 0.0, "ticks never wait"


def _no_poller(_kind: str) -> _NoPoller:
    return _NoPoller()


def _given_journal(journal: "LibraryJournal") -> "LibraryJournal":
    return journal


def _nothing(*_: object) -> None:
    """Stands where PySyncObj may have a function of ours."""


def box_library() -> None:
    """Cut PySyncObj off from the world: this replaces names in its module, once per process."""
    if VERSION != AUDITED_VERSION:
        raise ImportError(f"PySyncObj {AUDITED_VERSION} is needed, the audited one, not {VERSION}")
    library.pickle = NoPickle
    library.monotonicTime = Surroundings.time
    library.random = Surroundings
    library.createPoller = _no_poller
    library.createJournal = _given_journal
    library.PIPE_NOTIFIER_ENABLED = False


box_library()


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the engine asks of its owner, from within its methods."""

    apply: Callable[[Entry], None]
    """A committed entry; its command begins with its sort."""

    take_snapshot: Callable[[SnapshotEnd], None]
    """The state is now as of that end."""

    send: Callable[[ReplicaKey, RaftMessage], None]
    """A message leaves, unless the owner knows better."""

    send_snapshot: Callable[[ReplicaKey], None]
    """A follower needs what the log has no more; asked for with every heartbeat."""

    appended: Callable[[Entry], None]
    """An entry that says who votes is in the log."""

    truncated: Callable[[int], None]
    """The entries from an index on are in the log no more."""


class Peer(Node):  # type: ignore[misc]
    """A node whose hash does not depend on PYTHONHASHSEED, so that runs can be repeated."""

    def __init__(self, key: ReplicaKey) -> None:
        super().__init__(str(key))
        self.key = key
        self.number = zlib.crc32(str(key).encode())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Peer) and self.key == other.key

    def __hash__(self) -> int:
        return self.number


SILENT: Final = Peer(ReplicaKey(-1, b""))
"""A voter that never answers: outweighs that PySyncObj counts itself, when it does not vote."""


class HookedTransport(Transport):  # type: ignore[misc]
    """Hands what PySyncObj sends to the owner of the engine."""

    def __init__(self, hooks: Hooks, journal: Journal) -> None:
        super().__init__(None, None, None)
        self._hooks = hooks
        self._journal = journal

    def send(self, node: Any, message: Any) -> bool:
        """Translate a message, and hand it over."""
        kind = message["type"]
        if node is SILENT:
            return True
        if kind == "append_entries":
            self._send_append(node.key, message)
        elif kind == "next_node_idx":
            how = message["success"], message["reset"]
            answer = AppendAnswer(self._journal.term, message["next_node_idx"], *how, 0)
            self._hooks.send(node.key, answer)
        elif kind == "request_vote":
            last = message["last_log_index"], message["last_log_term"]
            self._hooks.send(node.key, VoteRequest(message["term"], *last))
        elif kind == "response_vote":
            self._hooks.send(node.key, Vote(message["term"]))
        else:
            raise EngineError(f"PySyncObj wanted to send {kind!r}")
        return True

    def _send_append(self, key: ReplicaKey, message: Any) -> None:
        if "serialized" in message:
            self._hooks.send_snapshot(key)
            return
        if "transmission" in message:
            raise EngineError("PySyncObj wanted to send a command in pieces")
        previous_index, previous_term = message["prevLogIdx"], message["prevLogTerm"]
        if previous_index is None:  # it thinks that the follower is ahead of us
            previous_index, previous_term = _NOWHERE, 0
        append = Append(
            message["term"],
            previous_index,
            previous_term,
            message["commit_index"],
            message["entries"],
        )
        self._hooks.send(key, append)


class LibraryJournal:
    """Our journal as PySyncObj wants to see it."""

    def __init__(self, journal: Journal, hooks: Hooks) -> None:
        self._journal = journal
        self._hooks = hooks

    def add(self, command: bytes, idx: int, term: int) -> None:
        """Add the next entry."""
        entry = Entry(command, idx, term)
        self._journal.append(entry)
        if command[:1] == VOTERS:
            self._hooks.appended(entry)

    def clear(self) -> None:
        """Drop all entries."""
        self._journal.clear()

    def deleteEntriesFrom(self, entryFrom: int) -> None:  # noqa: N802, N803
        """Drop the entries from a place on."""
        if entryFrom < len(self._journal.entries):
            index = self._journal.entries[entryFrom].log_index
            self._journal.truncate_from(entryFrom)
            self._hooks.truncated(index)

    def deleteEntriesTo(self, entryTo: int) -> None:  # noqa: N802, N803
        """Drop the entries before a place."""
        self._journal.trim_to(entryTo)

    def __getitem__(self, item: Any) -> Any:
        return self._journal.entries[item]

    def __len__(self) -> int:
        return len(self._journal.entries)

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:  # noqa: N802, N803
        """Do nothing: on disk it could be ahead of the entries, so it is never read back."""

    def getRaftCommitIndex(self) -> int:  # noqa: N802
        """Return what a durable snapshot covers, which is committed."""
        return self._journal.start_index

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:  # noqa: N802, N803
        """Begin a term, or vote in it."""
        self._journal.set_term(term, votedForNodeId)

    def getCurrentTerm(self) -> int:  # noqa: N802
        """Return the term."""
        return self._journal.term

    def getVotedForNodeId(self) -> str | None:  # noqa: N802
        """Return who was voted for."""
        return self._journal.vote

    def onOneSecondTimer(self) -> None:  # noqa: N802
        """Do nothing."""


class LibrarySerializer:
    """Stands where PySyncObj dumps its state to a file: asks us to take a snapshot instead."""

    def __init__(self, take_snapshot: Callable[[SnapshotEnd], None]) -> None:
        self._take_snapshot = take_snapshot
        self._state = SERIALIZER_STATE.NOT_SERIALIZING
        self._id: int | None = None
        self.loaded: SnapshotEnd | None = None

    def serialize(self, data: Any, id_: int) -> None:
        """Have a snapshot taken."""
        _, last, previous, _ = data
        self._state, self._id = SERIALIZER_STATE.SERIALIZING, id_
        self._take_snapshot(SnapshotEnd(Entry(*previous), Entry(*last)))

    def finish(self) -> None:
        """Tell PySyncObj, at its next tick, that the snapshot is durable."""
        self._state = SERIALIZER_STATE.SUCCESS

    def forget(self) -> None:
        """Tell PySyncObj that there will be no snapshot this time."""
        self._state = SERIALIZER_STATE.NOT_SERIALIZING

    def checkSerializing(self) -> tuple[int, int | None]:  # noqa: N802
        """Return how far the snapshot is."""
        state = self._state
        if state == SERIALIZER_STATE.SUCCESS:
            self._state = SERIALIZER_STATE.NOT_SERIALIZING
        return state, self._id

    def deserialize(self) -> tuple[None, Entry, Entry, set[Any]]:
        """Return the end of the snapshot; the state is none of its business."""
        assert self.loaded is not None
        return None, self.loaded.last, self.loaded.previous, set()

    def getTransmissionData(self, _node: Any) -> tuple[bytes, bool, bool]:  # noqa: N802
        """Have PySyncObj believe that all is sent; snapshots are streamed by us."""
        return b"", True, True

    def cancelTransmisstion(self, _node: Any) -> None:  # noqa: N802 - PySyncObj's spelling
        """Do nothing."""


class Hardened(SyncObj):  # type: ignore[misc]
    """PySyncObj's state machine with our apply step, and without its copies of the log's tail."""

    def __init__(
        self, journal: Journal, apply: Callable[[Entry], None], **library_arguments: Any
    ) -> None:
        self._journal = journal
        self._apply_entry = apply
        super().__init__(**library_arguments)

    def _SyncObj__doApplyCommand(self, _command: bytes) -> None:  # noqa: N802 - overrides a private
        entry = self._journal.entry_at(self.raftLastApplied + 1)
        assert entry is not None, "applied entries are in the log"
        if entry.command[:1] not in {REGULAR, NO_OP, VOTERS}:
            raise EngineError(f"the log holds a command of unknown type {entry.command[:1]!r}")
        self._apply_entry(entry)

    def _SyncObj__getEntries(  # noqa: N802 - overrides a private
        self,
        fromIDx: int | None,  # noqa: N803
        count: int | None = None,
        maxSizeBytes: int | None = None,  # noqa: N803
    ) -> list[Entry]:
        if maxSizeBytes is not None and fromIDx is not None:
            return self._journal.batch_from(fromIDx, APPEND_BYTES_TARGET)
        if count == 1 and fromIDx is not None:
            entry = self._journal.entry_at(fromIDx)
            return [] if entry is None else [entry]
        found: list[Entry] = super()._SyncObj__getEntries(fromIDx, count)
        return found


def library_settings(journal: LibraryJournal, timing: "Timing") -> Any:
    """Return settings under which PySyncObj does nothing on its own."""
    return SyncObjConf(
        autoTick=False,
        appendEntriesPeriod=timing.heartbeat_s,
        raftMinTimeout=timing.election_min_s,
        raftMaxTimeout=timing.election_max_s,
        connectionTimeout=4 * timing.election_max_s,
        leaderFallbackTimeout=timing.election_max_s,
        appendEntriesUseBatch=True,
        appendEntriesBatchSizeBytes=_UNLIMITED_BYTES,  # we limit batches ourselves
        commandsWaitLeader=False,
        dynamicMembershipChange=False,
        useFork=False,
        logCompactionMinEntries=timing.snapshot_entries + timing.retained_entries,
        logCompactionMinTime=UNLIMITED_S,
        # A serializer keeps PySyncObj from collecting its own attributes as the state to dump.
        serializer=_nothing,
        deserializer=_nothing,
        fullDumpFile="unused",
        journalFile=journal,
    )
