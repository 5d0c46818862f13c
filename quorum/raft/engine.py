"""The only importer of PySyncObj: its bookkeeping, without its sockets, threads, clock and disk.

What stays PySyncObj's is the bookkeeping of terms and votes, the election trigger, next and match
indexes, the commit rule, the apply loop and the compaction trigger.  Journal, snapshots, time,
chance, messages and membership are ours.  The library is pinned to one audited version, because the
boxing relies on its private names; ``tests/unit/quorum/test_engine.py`` fails when they change.
"""
# PySyncObj has no type hints.
# pyright: reportUnknownMemberType=false, reportUntypedBaseClass=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false, reportUnknownArgumentType=false, reportAttributeAccessIssue=false

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pysyncobj.syncobj as library
from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.config import SERIALIZER_STATE
from pysyncobj.node import Node
from pysyncobj.transport import Transport
from pysyncobj.version import VERSION

from quorate.quorum.raft.journal import Entry, Journal, SnapshotEnd
from quorate.quorum.raft.messages import (
    APPEND_BYTES_TARGET,
    Append,
    AppendAnswer,
    RaftMessage,
    Vote,
    VoteRequest,
)
from quorate.quorum.raft.timing import PRODUCTION_TIMING as PRODUCTION_TIMING  # noqa: PLC0414
from quorate.quorum.raft.timing import Timing as Timing  # noqa: PLC0414
from quorate.quorum.raft.voters import ReplicaKey

if TYPE_CHECKING:
    from random import Random

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

NEVER_S: Final = -1e12
_NOWHERE: Final = 2**62
_FOLLOWER: Final = 0
_LEADER: Final = 2
_UNLIMITED_BYTES: Final = 2**60
_UNLIMITED_S: Final = 1e12
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
    """An entry is in the log."""

    truncated: Callable[[int], None]
    """The entries from an index on are in the log no more."""


class _Peer(Node):  # type: ignore[misc]
    """A node whose hash does not depend on PYTHONHASHSEED, so that runs can be repeated."""

    def __init__(self, key: ReplicaKey) -> None:
        super().__init__(str(key))
        self.key = key
        self.number = zlib.crc32(str(key).encode())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Peer) and self.key == other.key

    def __hash__(self) -> int:
        return self.number


_SILENT: Final = _Peer(ReplicaKey(-1, b""))
"""A voter that never answers: outweighs that PySyncObj counts itself, when it does not vote."""


class _HookedTransport(Transport):  # type: ignore[misc]
    """Hands what PySyncObj sends to the owner of the engine."""

    def __init__(self, hooks: Hooks, journal: Journal) -> None:
        super().__init__(None, None, None)
        self._hooks = hooks
        self._journal = journal

    def send(self, node: Any, message: Any) -> bool:
        kind = message["type"]
        if node is _SILENT:
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


class _LibraryJournal:
    """Our journal as PySyncObj wants to see it."""

    def __init__(self, journal: Journal, hooks: Hooks) -> None:
        self._journal = journal
        self._hooks = hooks

    def add(self, command: bytes, idx: int, term: int) -> None:
        entry = Entry(command, idx, term)
        self._journal.append(entry)
        if command[:1] == VOTERS:
            self._hooks.appended(entry)

    def clear(self) -> None:
        self._journal.clear()

    def deleteEntriesFrom(self, entryFrom: int) -> None:  # noqa: N802, N803
        if entryFrom < len(self._journal.entries):
            index = self._journal.entries[entryFrom].log_index
            self._journal.truncate_from(entryFrom)
            self._hooks.truncated(index)

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

    def forget(self) -> None:
        """Tell PySyncObj that there will be no snapshot this time."""
        self._state = SERIALIZER_STATE.NOT_SERIALIZING

    def checkSerializing(self) -> tuple[int, int | None]:  # noqa: N802
        state = self._state
        if state == SERIALIZER_STATE.SUCCESS:
            self._state = SERIALIZER_STATE.NOT_SERIALIZING
        return state, self._id

    def deserialize(self) -> tuple[None, Entry, Entry, set[Any]]:
        assert self.loaded is not None
        return None, self.loaded.last, self.loaded.previous, set()

    def getTransmissionData(self, _node: Any) -> tuple[bytes, bool, bool]:  # noqa: N802
        """Have PySyncObj believe that all is sent; snapshots are streamed by us."""
        return b"", True, True

    def cancelTransmisstion(self, _node: Any) -> None:  # noqa: N802 - PySyncObj's spelling
        """Do nothing."""


class _Hardened(SyncObj):  # type: ignore[misc]
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


class Engine:
    """Owns the Raft state of one replica; does no I/O and waits for nothing.

    Call :meth:`enter` before anything else whenever time has passed, or another engine was used.
    """

    def __init__(
        self,
        me: ReplicaKey,
        journal: Journal,
        snapshot_end: SnapshotEnd | None,
        hooks: Hooks,
        timing: Timing,
        rng: "Random",
    ) -> None:
        self._me = _Peer(me)
        self._rng = rng
        self._journal = journal
        self._peers: dict[ReplicaKey, _Peer] = {me: self._me}
        self.enter(0.0)
        self._serializer = _LibrarySerializer(hooks.take_snapshot)
        self._log = _LibraryJournal(journal, hooks)
        self._library = _Hardened(
            journal,
            hooks.apply,
            selfNode=self._me,
            otherNodes=[],
            conf=_library_settings(self._log, timing),
            transport=_HookedTransport(hooks, journal),
        )
        self._set("serializer", self._serializer)
        # Loaded here and not at the first tick, before which messages could come.
        self._set("needLoadDumpFile", value=False)
        if snapshot_end is not None:
            self._load(snapshot_end, clear=False)

    def _set(self, name: str, value: object) -> None:
        assert f"_SyncObj__{name}" in PRIVATE_NAMES
        setattr(self._library, f"_SyncObj__{name}", value)

    def _get(self, name: str) -> Any:
        assert f"_SyncObj__{name}" in PRIVATE_NAMES
        return getattr(self._library, f"_SyncObj__{name}")

    def _load(self, snapshot_end: SnapshotEnd, *, clear: bool) -> None:
        self._serializer.loaded = snapshot_end
        self._library._SyncObj__loadDumpFile(clearJournal=clear)  # noqa: SLF001
        # PySyncObj only logs the errors of this step.
        if self.last_applied != snapshot_end.last.log_index:
            raise EngineError("the snapshot did not load")

    def _peer(self, key: ReplicaKey) -> _Peer:
        return self._peers.get(key) or _Peer(key)

    def _known_peer(self, key: ReplicaKey) -> _Peer:
        return self._peers.setdefault(key, self._peer(key))

    def enter(self, now_s: float) -> None:
        """Make this engine's clock and dice the library's."""
        _Surroundings.now_s = now_s
        _Surroundings.rng = self._rng

    # --- what is known

    @property
    def now_s(self) -> float:
        """The time of the last :meth:`enter`."""
        return _Surroundings.now_s

    @property
    def is_leader(self) -> bool:
        """Whether this node leads, as far as it knows."""
        return bool(self._library._SyncObj__raftState == _LEADER)  # noqa: SLF001

    @property
    def leader(self) -> ReplicaKey | None:
        """Who leads, as far as this node knows."""
        peer: _Peer | None = self._library._SyncObj__raftLeader  # noqa: SLF001
        return None if peer is None else peer.key

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

    @property
    def committed(self) -> int:
        """The last index that can never change: committed, or covered by a snapshot."""
        return max(self.commit_index, self.last_applied)

    def term_committed(self) -> bool:
        """Whether an entry of the current term is committed, so that reads know all commits."""
        entry = self._journal.entry_at(self.commit_index)
        return entry is not None and entry.term == self.term

    # --- timers

    @property
    def heartbeat_due_s(self) -> float:
        """When a leader sends next if nothing happens."""
        return float(self._library._SyncObj__newAppendEntriesTime)  # noqa: SLF001

    @property
    def election_due_s(self) -> float:
        """When a follower runs out of patience."""
        return float(self._library._SyncObj__raftElectionDeadline)  # noqa: SLF001

    @property
    def transferring(self) -> bool:
        """Whether the leader asked this node to stand for election."""
        return bool(self._library._SyncObj__transferInProgress)  # noqa: SLF001

    def postpone_election(self) -> None:
        """Be patient for another random time."""
        patience_s: float = self._library._SyncObj__generateRaftTimeout()  # noqa: SLF001
        self._set("raftElectionDeadline", self.now_s + patience_s)

    def forget_election(self) -> None:
        """Never stand for election, until the next message says otherwise."""
        self._set("raftElectionDeadline", self.now_s + _UNLIMITED_S)
        self._set("transferInProgress", value=False)

    def elect_at_once(self) -> None:
        """Stand for election at the next tick."""
        self._set("raftElectionDeadline", _AT_ONCE_S)

    # --- replicas

    def set_voters(self, keys: Iterable[ReplicaKey]) -> None:
        """Count the votes and acknowledgements of these."""
        voters = {self._known_peer(key) for key in keys}
        others = voters - {self._me}
        if self._me not in voters:
            others.add(_SILENT)
        known: set[_Peer] = self._get("otherNodes")
        self._set("otherNodes", others)
        observers: set[_Peer] = self._get("readonlyNodes")
        for peer in sorted(others - known, key=lambda p: p.key):
            if peer not in observers:
                self._begin_progress(peer)
            observers.discard(peer)
            self._get("lastResponseTime")[peer] = NEVER_S if peer is _SILENT else self.now_s
        for peer in sorted(known - others, key=lambda p: p.key):
            if peer in self._get("connectedNodes"):
                observers.add(peer)
            else:
                self._end_progress(peer)

    def connected(self, key: ReplicaKey) -> None:
        """Send to a replica from now on; if it does not vote, it is an observer."""
        peer = self._known_peer(key)
        self._get("connectedNodes").add(peer)
        if peer not in self._get("otherNodes") and peer not in self._get("readonlyNodes"):
            self._get("readonlyNodes").add(peer)
            self._begin_progress(peer)

    def disconnected(self, key: ReplicaKey) -> None:
        """Send nothing to a replica for now."""
        peer = self._peer(key)
        self._get("connectedNodes").discard(peer)
        if peer in self._get("readonlyNodes"):
            self._get("readonlyNodes").discard(peer)
            self._end_progress(peer)

    def _begin_progress(self, peer: _Peer) -> None:
        self._get("raftNextIndex")[peer] = self._journal.last_index + 1
        self._get("raftMatchIndex")[peer] = 0

    def _end_progress(self, peer: _Peer) -> None:
        self._get("raftNextIndex").pop(peer, None)
        self._get("raftMatchIndex").pop(peer, None)
        if peer not in self._get("connectedNodes"):
            self._peers.pop(peer.key, None)

    def is_connected(self, key: ReplicaKey) -> bool:
        """Whether messages to a replica have a chance."""
        return self._peer(key) in self._get("connectedNodes")

    @property
    def followers(self) -> list[ReplicaKey]:
        """All others that a leader sends to: voters, and observers that are connected."""
        peers = (self._get("otherNodes") | self._get("readonlyNodes")) - {_SILENT}
        return sorted(peer.key for peer in peers)

    def match_index(self, key: ReplicaKey) -> int | None:
        """How far a follower's log is known to match; ``None`` if there is no such follower."""
        matches: dict[_Peer, int] = self._library._SyncObj__raftMatchIndex  # noqa: SLF001
        return matches.get(self._peer(key))

    def next_index(self, key: ReplicaKey) -> int:
        """From where on a follower is sent the log next."""
        return int(self._library._SyncObj__raftNextIndex[self._peer(key)])  # noqa: SLF001

    def set_next_index(self, key: ReplicaKey, index: int) -> None:
        """Send a follower the log from there on."""
        self._library._SyncObj__raftNextIndex[self._peer(key)] = index  # noqa: SLF001

    def last_contact_s(self, key: ReplicaKey) -> float:
        """When the leader heard a follower last."""
        return float(self._get("lastResponseTime").get(self._peer(key), NEVER_S))

    # --- what happens

    def append(self, sort: bytes, command: bytes) -> Entry:
        """Add a command to the leader's log."""
        assert self.is_leader, "only leaders append"
        entry = Entry(sort + command, self._journal.last_index + 1, self.term)
        self._log.add(*entry)
        return entry

    def tick(self) -> None:
        """Elect, commit, apply and compact as far as is possible now."""
        self._library.doTick(0.0)

    def send_appends(self) -> None:
        """Send followers what they lack, and the commit index."""
        self._library._SyncObj__sendAppendEntries()  # noqa: SLF001

    def step_down(self) -> None:
        """Lead no more, without anybody having asked for it."""
        self._library._SyncObj__setState(_FOLLOWER)  # noqa: SLF001
        self._set("raftLeader", None)
        self.postpone_election()

    def adopt_term(self, source: ReplicaKey, term: int) -> None:
        """Follow in a newer term, whoever leads in it."""
        led = self.is_leader
        # A vote that can never be granted.
        self.receive_vote_request(source, VoteRequest(term, -1, -1))
        if led:
            self.postpone_election()

    def receive_append(self, source: ReplicaKey, append: Append) -> None:
        """Take over entries, from behind the previous one on, and the commit index."""
        self._receive(
            source,
            {
                "type": "append_entries",
                "term": append.term,
                "commit_index": append.commit_index,
                "prevLogIdx": append.previous_index,
                "prevLogTerm": append.previous_term,
                "entries": append.entries,
            },
        )

    def receive_heartbeat(self, source: ReplicaKey, term: int, commit_index: int) -> None:
        """Follow a leader, and advance the commit index."""
        self._receive(
            source, {"type": "append_entries", "term": term, "commit_index": commit_index}
        )

    def receive_answer(self, source: ReplicaKey, answer: AppendAnswer) -> None:
        """Note how far a follower is."""
        self._receive(
            source,
            {
                "type": "next_node_idx",
                "next_node_idx": answer.next_index,
                "reset": answer.reset,
                "success": answer.success,
            },
        )

    def receive_vote_request(self, source: ReplicaKey, request: VoteRequest) -> None:
        """Vote or do not."""
        self._receive(
            source,
            {
                "type": "request_vote",
                "term": request.term,
                "last_log_index": request.last_index,
                "last_log_term": request.last_term,
            },
        )

    def receive_vote(self, source: ReplicaKey, term: int) -> None:
        """Count a vote."""
        self._receive(source, {"type": "response_vote", "term": term})

    def receive_timeout_now(self, source: ReplicaKey, term: int) -> None:
        """Stand for election at the next tick, if it is the leader who asks for it."""
        self._receive(source, {"type": "timeout_now", "term": term})

    def _receive(self, source: ReplicaKey, message: dict[str, Any]) -> None:
        self._library._SyncObj__onMessageReceived(self._peer(source), message)  # noqa: SLF001

    # --- snapshots

    def install(self, snapshot_end: SnapshotEnd) -> None:
        """Replace the whole log by the end of a durable snapshot, whose state is loaded."""
        self._load(snapshot_end, clear=True)

    def snapshot_durable(self) -> None:
        """Note that the snapshot asked for last is durable: the next tick trims the journal."""
        self._serializer.finish()

    def snapshot_forgotten(self) -> None:
        """Note that there will be no snapshot this time."""
        self._serializer.forget()

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
        appendEntriesBatchSizeBytes=_UNLIMITED_BYTES,  # we limit batches ourselves
        commandsWaitLeader=False,
        dynamicMembershipChange=False,
        useFork=False,
        logCompactionMinEntries=timing.snapshot_entries + timing.retained_entries,
        logCompactionMinTime=_UNLIMITED_S,
        # A serializer keeps PySyncObj from collecting its own attributes as the state to dump.
        serializer=_nothing,
        deserializer=_nothing,
        fullDumpFile="unused",
        journalFile=journal,
    )
