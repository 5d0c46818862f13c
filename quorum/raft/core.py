"""The pure core of one controller's Raft node: PySyncObj's bookkeeping between our own parts.

Messages come in one by one and may lead to others in the outbox.  When they may leave, and when
those who asked may be told, is for :mod:`quorate.quorum.raft.rounds` to know.
"""

from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from quorate.errors import QuorateError
from quorate.quorum.raft.boxed import Hooks
from quorate.quorum.raft.changes import Changes
from quorate.quorum.raft.configurations import (
    Configurations,
    decode_voters_entry,
    encode_voters_command,
)
from quorate.quorum.raft.elections import Elections
from quorate.quorum.raft.engine import REGULAR, VOTERS, Engine, EngineError
from quorate.quorum.raft.journal import Flush, Journal, ReplaceFlush
from quorate.quorum.raft.journal_file import Entry, SnapshotEnd
from quorate.quorum.raft.messages import (
    Append,
    AppendAnswer,
    Heartbeat,
    NewerTerm,
    PreVote,
    PreVoteRequest,
    RaftMessage,
    ReadProbe,
    ReadProbeAnswer,
    SnapshotAnswer,
    SnapshotChunk,
    TimeoutNow,
    Vote,
    VoteRequest,
)
from quorate.quorum.raft.outcomes import VotersChanged
from quorate.quorum.raft.progress import ProgressBoard
from quorate.quorum.raft.proposals import NEVER, Proposals
from quorate.quorum.raft.reads import Reads
from quorate.quorum.raft.replication import Pacer, Receiver
from quorate.quorum.raft.rules import Rules
from quorate.quorum.raft.snapshots import (
    Configuration,
    InstallFlush,
    Snapshot,
    SnapshotFlush,
    SnapshotStore,
)
from quorate.quorum.raft.state_machine import StateMachine
from quorate.quorum.raft.streaming import ReceivedSnapshot, SnapshotReceiver, SnapshotSender
from quorate.quorum.raft.voters import ReplicaKey, VoterSet

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from quorate.quorum.raft.storage import Storage

JOURNAL_BYTES_MIN: Final = 4 * 2**20
"""A journal that has grown by more than this, and than the snapshot, is compacted.

So replaying it at a start takes little time, and writing snapshots costs no more than writing the
journal did.
"""

COMMIT_NEWS_S: Final = 0.005
"""So long followers wait to hear of a commit, unless the next entries tell them sooner.

A message of its own would cost both sides a round for each commit, beside those who wait for it.
"""

FIRST_SENT: Final = 2
"""The first entry that leaders send: that before is the same in every log."""

R = TypeVar("R")

_FROM_LEADERS_AND_CANDIDATES: Final = (Append, Heartbeat, VoteRequest)
_WANT_AN_ANSWER: Final = (
    Append,
    Heartbeat,
    VoteRequest,
    PreVoteRequest,
    ReadProbe,
    SnapshotChunk,
)


class CommandTooLargeError(QuorateError):
    """The command is larger than ``COMMAND_BYTES_MAX``."""


class Outgoing(NamedTuple):
    """A message, and for whom it is."""

    target: ReplicaKey
    message: RaftMessage


class _Install(NamedTuple):
    """A snapshot that has arrived and is to replace the log, and whose it is."""

    source: ReplicaKey
    term: int
    received: ReceivedSnapshot


class RaftCore(Generic[R]):
    """Owns the log, the state machine and the Raft state of one replica."""

    def __init__(
        self,
        me: ReplicaKey,
        voters: VoterSet,
        storage: "Storage",
        machine: StateMachine[R],
        rules: Rules,
        rng: "Random",
    ) -> None:
        """Recover what the storage has.

        Raises:
            JournalDamagedError: the journal is not what was written.
            SnapshotDamagedError: the snapshot is not what was written.
        """
        self._me = me
        self._machine = machine
        self._rules = rules
        self.outbox: list[Outgoing] = []
        self.proposals = Proposals()
        self._compacted_bytes = 0
        self._commit_news_due_s = NEVER
        self._install: _Install | None = None
        self._snapshots = SnapshotStore(storage)
        found, self._snapshots.found = self._snapshots.found, None
        end = found.end if found else None
        retained, align = rules.timing.retained_entries, rules.hardening.align
        self._journal = Journal(storage, end, rng=rng, retained_entries=retained, align=align)
        if found is not None:
            machine.prepare(found.state)()
        self._engine = Engine(me, self._journal, end, self._hooks(), rules.timing, rng)
        first = _first_configuration(found, voters)
        self._configurations = Configurations(first, self._journal.entries)
        self._engine.set_voters(self._configurations.voters.keys)
        self._make_parts()

    def _hooks(self) -> Hooks:
        return Hooks(
            apply=self._apply,
            take_snapshot=self._take_snapshot,
            send=self._send_filtered,
            send_snapshot=self._send_snapshot,
            appended=self._appended,
            truncated=self._truncated,
        )

    def _make_parts(self) -> None:
        engine, journal, send = self._engine, self._journal, self.send
        configurations, rules = self._configurations, self._rules
        heartbeat_s = rules.timing.heartbeat_s
        self._elections = Elections(self._me, engine, journal, configurations, rules, send)
        self._receiver = Receiver(engine, journal, rules.hardening, send)
        self._pacer = Pacer(engine, journal, rules.hardening, heartbeat_s)
        self._streams = SnapshotSender(engine, self._snapshots, heartbeat_s, send)
        self._arriving = SnapshotReceiver(engine, send)
        self._progress = ProgressBoard(engine, journal, configurations)
        self.reads = Reads(self._me, engine, configurations, heartbeat_s, send)
        self.changes = Changes(self._me, engine, journal, configurations, rules, send)
        self._handlers: dict[type, Callable[[ReplicaKey, Any], None]] = {
            Append: self._receive_append,
            Heartbeat: self._receive_heartbeat,
            AppendAnswer: self._receive_append_answer,
            VoteRequest: self._elections.receive_vote_request,
            Vote: self._elections.receive_vote,
            PreVoteRequest: self._elections.receive_pre_vote_request,
            PreVote: self._elections.receive_pre_vote,
            NewerTerm: self._receive_newer_term,
            ReadProbe: self.reads.receive_probe,
            ReadProbeAnswer: self.reads.receive_answer,
            SnapshotChunk: self._receive_chunk,
            SnapshotAnswer: self._streams_receive_answer,
            TimeoutNow: self._elections.receive_timeout_now,
        }

    # --- what is known

    @property
    def engine(self) -> Engine:
        """The Raft state."""
        return self._engine

    @property
    def journal(self) -> Journal:
        """The log."""
        return self._journal

    @property
    def configurations(self) -> Configurations:
        """Who votes."""
        return self._configurations

    @property
    def snapshots(self) -> SnapshotStore:
        """The durable snapshot."""
        return self._snapshots

    @property
    def progress(self) -> ProgressBoard:
        """How far the followers are."""
        return self._progress

    @property
    def is_alone(self) -> bool:
        """Whether nobody else votes, so that only the own disk decides what is committed."""
        return self._configurations.voters.keys == (self._me,)

    @property
    def leader(self) -> ReplicaKey | None:
        """Who leads, if that one was heard lately."""
        return self._elections.leader

    @property
    def may_lead(self) -> bool:
        """Whether this replica may stand for election."""
        return self._elections.may_lead

    # --- messages out

    def send(self, target: ReplicaKey, message: RaftMessage) -> None:
        """Put a message in the outbox."""
        self.outbox.append(Outgoing(target, message))

    def _send_filtered(self, target: ReplicaKey, message: RaftMessage) -> None:
        """Send what the library wants to send, unless it is not its turn."""
        if type(message) is Append:
            if target in self._streams:
                self._send_snapshot(target)
                return
            if not self._pacer.may_send(target, message):
                return
        self.outbox.append(Outgoing(target, message))

    def _send_snapshot(self, target: ReplicaKey) -> None:
        self._streams.keep_going(target)
        guarded = self._rules.hardening.snap_commit_guard
        commit_index = 0 if guarded else self._engine.commit_index
        self.send(target, Heartbeat(self._engine.term, commit_index))

    # --- messages in

    def connected(self, key: ReplicaKey) -> None:
        """Messages to a replica have a chance."""
        if key != self._me:
            self._engine.connected(key)
            self._pacer.connected(key)

    def disconnected(self, key: ReplicaKey) -> None:
        """Messages to a replica have no chance."""
        if key != self._me:
            self._engine.disconnected(key)
            self._pacer.disconnected(key)
            self._streams.finish(key)  # it may never come back, and a stream holds a whole snapshot
            self._progress.forget(key)

    def receive(self, source: ReplicaKey, message: RaftMessage) -> None:
        """Take in a message, unless it is of the past.

        Raises:
            EngineError: two leaders in one term, or a leader that contradicts what is committed.
        """
        engine, hardening = self._engine, self._rules.hardening
        if (
            message.term > engine.term
            and hardening.nack
            and not isinstance(message, _FROM_LEADERS_AND_CANDIDATES)
        ):
            engine.adopt_term(source, message.term)
        if message.term < engine.term and hardening.term_filter:
            if hardening.nack and isinstance(message, _WANT_AN_ANSWER):
                self.send(source, NewerTerm(engine.term))
            return
        self._handlers[type(message)](source, message)

    def _heard_leader(self, term: int) -> None:
        if term == self._engine.term and self._engine.is_leader:
            raise EngineError(f"two leaders in term {term}")
        self._elections.heard_leader()

    def _receive_append(self, source: ReplicaKey, append: Append) -> None:
        if append.term >= self._engine.term:
            self._heard_leader(append.term)
            self._receiver.receive_append(source, append)

    def _receive_heartbeat(self, source: ReplicaKey, heartbeat: Heartbeat) -> None:
        if heartbeat.term >= self._engine.term:
            self._heard_leader(heartbeat.term)
            self._receiver.receive_heartbeat(source, heartbeat)

    def _receive_append_answer(self, source: ReplicaKey, answer: AppendAnswer) -> None:
        match = self._engine.match_index(source)
        if not self._engine.is_leader or match is None or answer.next_index < FIRST_SENT:
            return
        if answer.success:
            if answer.next_index - 1 > self._journal.last_index:
                if self._rules.hardening.term_filter:
                    raise EngineError(f"{source} has entries of this leader that it never sent")
                return
            if self._streams.finish(source):
                self._engine.set_next_index(source, answer.next_index)
        self._pacer.receive_answer(source, answer, match)
        self._progress.heard(source, self._engine.match_index(source) or 0)

    def _receive_newer_term(self, source: ReplicaKey, message: NewerTerm) -> None:
        """Do nothing: the term is taken note of, whatever the message."""

    def _streams_receive_answer(self, source: ReplicaKey, answer: SnapshotAnswer) -> None:
        if self._engine.is_leader:
            self._streams.receive_answer(source, answer)

    # --- a leader's snapshot

    def _receive_chunk(self, source: ReplicaKey, chunk: SnapshotChunk) -> None:
        self._heard_leader(chunk.term)
        if self._engine.leader != source:
            self._engine.receive_heartbeat(source, chunk.term, 0)
        if self._holds(chunk.last_index, chunk.last_term):
            self._confirm_snapshot(source, chunk.term, chunk.last_index)
            return
        received = self._arriving.receive_chunk(source, chunk)
        if received is not None and not self._snapshots.busy:
            self._install = _Install(source, chunk.term, received)

    def _holds(self, index: int, term: int) -> bool:
        """Return whether the log has everything that a snapshot covers: never roll back."""
        if not self._rules.hardening.snap_guard:
            return False
        entry = self._journal.entry_at(index)
        return self._engine.committed >= index or (entry is not None and entry.term == term)

    def _confirm_snapshot(self, source: ReplicaKey, term: int, last_index: int) -> None:
        """Tell the leader that the log is as good as its snapshot, all of which is committed."""
        self._engine.receive_heartbeat(source, term, last_index)
        answer = AppendAnswer(
            self._engine.term, last_index + 1, success=True, reset=False, rejected_index=0
        )
        self.send(source, answer)

    def _finish_install(self, flush: InstallFlush) -> None:
        assert self._install is not None, "an installation was started"
        source, term, _ = self._install
        self._install = None
        snapshot = flush.snapshot
        last = snapshot.end.last
        self._snapshots.finish_install(flush)
        self._engine.snapshot_forgotten()
        self._arriving.forget()
        if not self._holds(last.log_index, last.term):
            flush.take_over()
            self._engine.install(snapshot.end)
            self._configurations.replace(snapshot.configuration)
            self._engine.set_voters(self._configurations.voters.keys)
            self.proposals.jumped(last.log_index)
        self._confirm_snapshot(source, term, last.log_index)

    # --- ticks

    def tick(self) -> None:
        """Elect, commit, apply, replicate and compact as far as is possible now."""
        self._compact_by_size()
        self._elections.before_tick()
        engine = self._engine
        if engine.is_leader and self._configurations.newest.log_index == 0:
            self._log_bootstrap_voters()
        commit_index, heartbeat_due_s = engine.commit_index, engine.heartbeat_due_s
        engine.tick()
        if not engine.is_leader:
            self._streams.clear()
            return
        if engine.commit_index > commit_index and self._rules.hardening.eager_commit:
            self._commit_news_due_s = min(self._commit_news_due_s, engine.now_s + COMMIT_NEWS_S)
        if self._has_news() or self._commit_news_due_s <= engine.now_s:
            engine.send_appends()
        if engine.heartbeat_due_s != heartbeat_due_s:
            self._commit_news_due_s = NEVER
        self._pacer.rewind()
        self._leave_if_removed()

    @property
    def next_tick_s(self) -> float:
        """When something is to be done though nothing arrives; may be infinite."""
        engine = self._engine
        if engine.is_leader:
            due_s = min(engine.heartbeat_due_s, self._commit_news_due_s)
            return due_s if engine.followers else NEVER
        return engine.election_due_s if self.may_lead else NEVER

    def _has_news(self) -> bool:
        """Return whether a follower lacks entries that may be sent now."""
        engine, last_index = self._engine, self._journal.last_index
        return any(
            engine.next_index(key) <= last_index
            and engine.is_connected(key)
            and key not in self._streams
            and not self._pacer.holds(key)
            for key in engine.followers
        )

    def _log_bootstrap_voters(self) -> None:
        """Have the log say what until now only those know who were there at the start."""
        voters = self._configurations.voters
        if len(voters) > 1:
            self._engine.append(VOTERS, encode_voters_command(voters))

    def _leave_if_removed(self) -> None:
        newest = self._configurations.newest
        if self._me in newest.voters or newest.log_index > self._engine.commit_index:
            return
        self._engine.send_appends()
        self.lead_no_more()

    def lead_no_more(self) -> None:
        """Become a follower, and ask the best voter to take over."""
        successor = self.changes.best_successor()
        if successor is not None:
            self.changes.hand_over(successor)
        self._engine.step_down()

    def _apply(self, entry: Entry) -> None:
        sort = entry.command[:1]
        result: R | VotersChanged | None = None
        if sort == REGULAR:
            result = self._machine.apply(entry.log_index, entry.term, entry.command[1:])
        elif sort == VOTERS:
            result = VotersChanged(entry.log_index, decode_voters_entry(entry))
        self.proposals.applied(entry.log_index, entry.term, result)

    # --- who votes

    def _appended(self, entry: Entry) -> None:
        self._configurations.appended(entry)
        self._engine.set_voters(self._configurations.voters.keys)

    def _truncated(self, index: int) -> None:
        if self._configurations.truncated(index):
            self._engine.set_voters(self._configurations.voters.keys)

    # --- compaction

    def _compact_by_size(self) -> None:
        """Ask for a snapshot if the journal has grown by much since the last one."""
        durable = self._snapshots.durable
        growth_bytes_max = max(JOURNAL_BYTES_MIN, durable.size_bytes if durable else 0)
        grown_bytes = self._journal.size_bytes - self._compacted_bytes
        if grown_bytes > growth_bytes_max and not self._snapshots.pending:
            self._engine.compact_soon()

    def _take_snapshot(self, end: SnapshotEnd) -> None:
        configuration = self._configurations.at(end.last.log_index)
        self._snapshots.take(end, configuration, self._machine.freeze())

    def finish_snapshot(self, flush: SnapshotFlush) -> None:
        """Note that a snapshot of this node's own state is durable."""
        self._snapshots.finish_flush(flush)
        self._configurations.forget_before(flush.end.last.log_index)
        self._engine.snapshot_durable()
        # What is retained for slow followers is no reason for the next one.
        self._compacted_bytes = self._journal.size_bytes

    # --- durability

    def start_flush(self) -> Flush | InstallFlush | None:
        """Return the next work that makes what has changed durable."""
        if self._install is not None:
            received = self._install.received
            return self._snapshots.start_install(*received, self._machine.prepare)
        return self._journal.start_flush()

    def finish_flush(self, flush: Flush | InstallFlush) -> None:
        """Note that a flush has run."""
        if isinstance(flush, InstallFlush):
            self._finish_install(flush)
        else:
            self._journal.finish_flush(flush)
            if isinstance(flush, ReplaceFlush):
                # The one of a start leaves out nothing: what was there before counts as grown.
                self._compacted_bytes = min(self._compacted_bytes, self._journal.size_bytes)


def _first_configuration(found: Snapshot | None, bootstrap: VoterSet) -> Configuration:
    if found is None or not found.configuration.voters.voters:
        return Configuration(0, bootstrap)
    return found.configuration
