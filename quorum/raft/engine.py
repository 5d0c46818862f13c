"""The Raft state of one replica: PySyncObj's bookkeeping, with types and without surprises.

What stays PySyncObj's is the bookkeeping of terms and votes, the election trigger, next and match
indexes, the commit rule, the apply loop and the compaction trigger.
"""
# PySyncObj has no type hints.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from quorate.quorum.raft.boxed import (
    FOLLOWER,
    LEADER,
    PRIVATE_NAMES,
    SILENT,
    UNLIMITED_S,
    Hardened,
    HookedTransport,
    Hooks,
    LibraryJournal,
    LibrarySerializer,
    Peer,
    Surroundings,
    library_settings,
)
from quorate.quorum.raft.boxed import REGULAR as REGULAR  # noqa: PLC0414
from quorate.quorum.raft.boxed import VOTERS as VOTERS  # noqa: PLC0414
from quorate.quorum.raft.boxed import EngineError as EngineError  # noqa: PLC0414
from quorate.quorum.raft.journal import Journal
from quorate.quorum.raft.journal_file import Entry, SnapshotEnd
from quorate.quorum.raft.messages import Append, AppendAnswer, VoteRequest
from quorate.quorum.raft.voters import ReplicaKey

if TYPE_CHECKING:
    from random import Random

    from quorate.quorum.raft.timing import Timing

NEVER_S: Final = -1e12
_AT_ONCE_S: Final = -1.0


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
        timing: "Timing",
        rng: "Random",
    ) -> None:
        self._me = Peer(me)
        self._rng = rng
        self._journal = journal
        self._peers: dict[ReplicaKey, Peer] = {me: self._me}
        self._followers: tuple[ReplicaKey, ...] | None = None
        self.enter(0.0)
        self._serializer = LibrarySerializer(hooks.take_snapshot)
        self._log = LibraryJournal(journal, hooks)
        self._library = Hardened(
            journal,
            hooks.apply,
            selfNode=self._me,
            otherNodes=[],
            conf=library_settings(self._log, timing),
            transport=HookedTransport(hooks, journal),
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
        self._followers = None
        self._serializer.loaded = snapshot_end
        self._library._SyncObj__loadDumpFile(clearJournal=clear)  # noqa: SLF001
        # PySyncObj only logs the errors of this step.
        if self.last_applied != snapshot_end.last.log_index:
            raise EngineError("the snapshot did not load")

    def _peer(self, key: ReplicaKey) -> Peer:
        return self._peers.get(key) or Peer(key)

    def _known_peer(self, key: ReplicaKey) -> Peer:
        return self._peers.setdefault(key, self._peer(key))

    def enter(self, now_s: float) -> None:
        """Make this engine's clock and dice the library's."""
        Surroundings.now_s = now_s
        Surroundings.rng = self._rng

    # --- what is known

    @property
    def now_s(self) -> float:
        """The time of the last :meth:`enter`."""
        return Surroundings.now_s

    @property
    def is_leader(self) -> bool:
        """Whether this node leads, as far as it knows."""
        return bool(self._library._SyncObj__raftState == LEADER)  # noqa: SLF001

    @property
    def leader(self) -> ReplicaKey | None:
        """Who leads, as far as this node knows."""
        peer: Peer | None = self._library._SyncObj__raftLeader  # noqa: SLF001
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
        self._set("raftElectionDeadline", self.now_s + UNLIMITED_S)
        self._set("transferInProgress", value=False)

    def elect_at_once(self) -> None:
        """Stand for election at the next tick."""
        self._set("raftElectionDeadline", _AT_ONCE_S)

    # --- replicas

    def set_voters(self, keys: Iterable[ReplicaKey]) -> None:
        """Count the votes and acknowledgements of these."""
        self._followers = None
        voters = {self._known_peer(key) for key in keys}
        others = voters - {self._me}
        if self._me not in voters:
            others.add(SILENT)
        known: set[Peer] = self._get("otherNodes")
        self._set("otherNodes", others)
        observers: set[Peer] = self._get("readonlyNodes")
        for peer in sorted(others - known, key=lambda p: p.key):
            if peer not in observers:
                self._begin_progress(peer)
            observers.discard(peer)
            self._get("lastResponseTime")[peer] = NEVER_S if peer is SILENT else self.now_s
        for peer in sorted(known - others, key=lambda p: p.key):
            if peer in self._get("connectedNodes"):
                observers.add(peer)
            else:
                self._end_progress(peer)

    def connected(self, key: ReplicaKey) -> None:
        """Send to a replica from now on; if it does not vote, it is an observer."""
        self._followers = None
        peer = self._known_peer(key)
        self._get("connectedNodes").add(peer)
        if peer not in self._get("otherNodes") and peer not in self._get("readonlyNodes"):
            self._get("readonlyNodes").add(peer)
            self._begin_progress(peer)

    def disconnected(self, key: ReplicaKey) -> None:
        """Send nothing to a replica for now."""
        self._followers = None
        peer = self._peer(key)
        self._get("connectedNodes").discard(peer)
        if peer in self._get("readonlyNodes"):
            self._get("readonlyNodes").discard(peer)
            self._end_progress(peer)

    def _begin_progress(self, peer: Peer) -> None:
        self._get("raftNextIndex")[peer] = self._journal.last_index + 1
        self._get("raftMatchIndex")[peer] = 0

    def _end_progress(self, peer: Peer) -> None:
        self._get("raftNextIndex").pop(peer, None)
        self._get("raftMatchIndex").pop(peer, None)
        self._peers.pop(peer.key, None)

    def is_connected(self, key: ReplicaKey) -> bool:
        """Whether messages to a replica have a chance."""
        return self._peer(key) in self._library._SyncObj__connectedNodes  # noqa: SLF001

    @property
    def followers(self) -> tuple[ReplicaKey, ...]:
        """All others that a leader sends to: voters, and observers that are connected; sorted."""
        if self._followers is None:
            peers = (self._get("otherNodes") | self._get("readonlyNodes")) - {SILENT}
            self._followers = tuple(sorted(peer.key for peer in peers))
        return self._followers

    def match_index(self, key: ReplicaKey) -> int | None:
        """How far a follower's log is known to match; ``None`` if there is no such follower."""
        matches: dict[Peer, int] = self._library._SyncObj__raftMatchIndex  # noqa: SLF001
        return matches.get(self._peer(key))

    def next_index(self, key: ReplicaKey) -> int:
        """From where on a follower is sent the log next."""
        return int(self._library._SyncObj__raftNextIndex[self._peer(key)])  # noqa: SLF001

    def set_next_index(self, key: ReplicaKey, index: int) -> None:
        """Send a follower the log from there on."""
        self._library._SyncObj__raftNextIndex[self._peer(key)] = index  # noqa: SLF001

    def forget_match(self, key: ReplicaKey) -> None:
        """Take nothing of a follower's log for known, until it answers."""
        self._library._SyncObj__raftMatchIndex[self._peer(key)] = 0  # noqa: SLF001

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
        self._library._SyncObj__setState(FOLLOWER)  # noqa: SLF001
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
