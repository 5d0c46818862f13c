"""What must hold after every event, whatever the network, the disks and the clocks do.

Each method named in docs/invariants.md is an invariant; the name comes with the violation.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from zlib import crc32

from quorate.quorum.raft.messages import Append, Heartbeat, SnapshotChunk, Vote, VoteRequest
from quorate.quorum.raft.outcomes import Lost, NotLeader
from quorate.quorum.raft.rounds import Outgoing
from quorate.quorum.raft.voters import ReplicaKey, VoterSet
from tests.simulation.quorum import inside
from tests.simulation.quorum.process import Process
from tests.simulation.quorum.registers import Answer
from tests.simulation.trace import Trace

LEADERS_SAY = (Append, Heartbeat, SnapshotChunk)

SENT_MAX = 40
"""So often a leader sends a follower the same entries, in a tenth of a second, and no more."""

FIRST_INDEX = 1
"""The entry that every log begins with: there is nothing to commit about it."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry that some log had: what it says, and the term of the one before it, if seen."""

    crc: int
    previous_term: int | None


@dataclass(frozen=True, slots=True)
class _Commit:
    """An entry that is committed, and the term of the leader that committed it."""

    entry: inside.EntryId
    term: int


@dataclass(slots=True)
class _Seen:
    """What a process has shown so far."""

    term: int = 0
    commit_index: int = 0
    led_term: int = 0
    terms: dict[int, int] = field(default_factory=dict[int, int])


@dataclass(slots=True)
class _Durable:
    """What is certainly on the disk of a replica: terms by index, and what its snapshot covers."""

    terms: dict[int, int] = field(default_factory=dict[int, int])
    snapshot_index: int = 0

    def holds(self, index: int, term: int) -> bool:
        return self.snapshot_index >= index or self.terms.get(index) == term


@dataclass(slots=True)
class _Sent:
    """With which entries the appends of a leader to a follower began, in a tenth of a second."""

    tenth: int = -1
    first: Counter[int] = field(default_factory=Counter[int])


class Invariants:
    """Owns what is known about the run as a whole: who led, who voted, what is committed."""

    def __init__(self, trace: Trace, processes: Callable[[], Iterable[Process]]) -> None:
        self._trace = trace
        self._processes = processes
        self._seen = dict[Process, _Seen]()
        self._durable = dict[ReplicaKey, _Durable]()
        self._said_term = dict[ReplicaKey, int]()
        self._leaders = dict[int, ReplicaKey]()
        self._votes = dict[tuple[ReplicaKey, int], ReplicaKey]()
        self._entries = dict[tuple[int, int], _Entry]()
        self._commits = dict[int, _Commit]()
        self._states = dict[int, bytes]({0: bytes(8)})
        self._index_of = dict[int, int]()
        self._never = set[int]()
        self._sent = dict[tuple[ReplicaKey, ReplicaKey], _Sent]()

    @property
    def commits(self) -> int:
        return len(self._commits)

    # --- what happens

    def started(self, process: Process) -> None:
        """A process has recovered."""
        rounds = process.rounds
        seen = self._seen[process] = _Seen(term=self._said_term.get(process.key, 0))
        seen.commit_index = max(FIRST_INDEX, rounds.snapshot_index)
        if rounds.commit_index > seen.commit_index:
            text = f"{process.key} starts with {rounds.commit_index}, got {seen.commit_index}"
            raise self._trace.violated("commits_are_heard_of_anew", text)
        self.flushed(process)
        self.stepped(process)

    def ended(self, process: Process) -> None:
        self._seen.pop(process, None)

    def stepped(self, process: Process) -> None:
        """Look at a process after part of a round."""
        seen, rounds = self._seen[process], process.rounds
        self.terms_never_go_back(process, seen)
        self.logs_match(process, seen)
        if inside.leads(rounds) and seen.led_term != rounds.term:
            seen.led_term = rounds.term
            self._trace.note("LEADER", f"{process.key.node_id} term {rounds.term}")
            self.one_leader_per_term(process.key, rounds.term)
            self.leaders_hold_all_commits(process)
        self._look_at_commits(process, seen)

    def flushed(self, process: Process) -> None:
        """Something may have become durable: take note of it if it is the whole log."""
        if not inside.all_is_durable(process.rounds):
            return
        durable = self._durable.setdefault(process.key, _Durable())
        inside.follow(process.rounds, durable.terms)
        durable.snapshot_index = process.rounds.snapshot_index

    def leaves(self, source: ReplicaKey, outgoing: Outgoing, now_s: float) -> None:
        """A message leaves."""
        message = outgoing.message
        self._said_term[source] = max(self._said_term.get(source, 0), message.term)
        if isinstance(message, Append) and message.entries:
            first = message.entries[0].log_index
            self.entries_are_not_sent_over_and_over((source, outgoing.target), first, now_s)
        if isinstance(message, LEADERS_SAY):
            self.one_leader_per_term(source, message.term)
        elif isinstance(message, Vote):
            self.one_vote_per_term(source, message.term, outgoing.target)
        elif isinstance(message, VoteRequest):
            self.one_vote_per_term(source, message.term, source)

    def applied(self, process: Process, index: int, number: int, state_hash: bytes) -> None:
        """A state machine has carried out a command."""
        entry = inside.entry_id(process.rounds, index)
        if entry is None:
            raise self._trace.violated("logs_hold_what_is_applied", f"{process.key} lacks {index}")
        self.committed(process, index, entry)
        self.outcomes_are_exactly_once(number, index)
        self.state_machines_agree(process, index, state_hash)

    def loaded(self, process: Process, index: int, state_hash: bytes) -> None:
        """A state machine has taken over a snapshot."""
        self._trace.counts["loads"] += 1
        self.state_machines_agree(process, index, state_hash)

    # --- the invariants

    def one_leader_per_term(self, key: ReplicaKey, term: int) -> None:
        """Election safety."""
        if self._leaders.setdefault(term, key) != key:
            text = f"{self._leaders[term]} and {key} lead in term {term}"
            raise self._trace.violated("one_leader_per_term", text)

    def entries_are_not_sent_over_and_over(
        self, link: tuple[ReplicaKey, ReplicaKey], first: int, now_s: float
    ) -> None:
        """Rejections of many appends do not have all of them sent again for each."""
        sent, tenth = self._sent.setdefault(link, _Sent()), int(now_s * 10)
        if sent.tenth != tenth:
            self._sent[link] = sent = _Sent(tenth)
        sent.first[first] += 1
        if sent.first[first] > SENT_MAX:
            text = f"{link[0]} sends {link[1]} the entries from {first} on {SENT_MAX} times"
            raise self._trace.violated("entries_are_not_sent_over_and_over", text)

    def one_vote_per_term(self, voter: ReplicaKey, term: int, candidate: ReplicaKey) -> None:
        """Also after crashes, also when the disk was wiped: that is another voter."""
        if self._votes.setdefault((voter, term), candidate) != candidate:
            text = f"{voter} votes for {self._votes[voter, term]} and {candidate} in term {term}"
            raise self._trace.violated("one_vote_per_term", text)

    def terms_never_go_back(self, process: Process, seen: _Seen) -> None:
        """Not in a process, and not behind what a replica ever said in a message."""
        term, commit_index = process.rounds.term, process.rounds.commit_index
        if term < seen.term:
            text = f"{process.key} is in term {term} after {seen.term}"
            raise self._trace.violated("terms_never_go_back", text)
        if commit_index < seen.commit_index:
            text = f"{process.key} commits up to {commit_index} after {seen.commit_index}"
            raise self._trace.violated("commits_never_go_back", text)
        seen.term = term

    def logs_match(self, process: Process, seen: _Seen) -> None:
        """Entries of equal index and term are equal, and so is all that precedes them."""
        for entry in inside.follow(process.rounds, seen.terms):
            known = self._entries.get((entry.log_index, entry.term))
            here = _Entry(crc32(entry.command), seen.terms.get(entry.log_index - 1))
            if known is None or known.previous_term is None:
                self._entries[entry.log_index, entry.term] = here
            if known is not None and (
                known.crc != here.crc
                or (
                    None not in (known.previous_term, here.previous_term)
                    and known.previous_term != here.previous_term
                )
            ):
                text = f"{process.key} at {entry.log_index} of term {entry.term}: {here}, {known}"
                raise self._trace.violated("logs_match", text)

    def leaders_hold_all_commits(self, process: Process) -> None:
        """Leader completeness: a leader has every entry that was committed in an older term.

        Not those that a newer leader committed, whatever the term of the entry: votes may arrive
        when others have long gone on without this one.
        """
        first = inside.first_index(process.rounds)
        for index, commit in self._commits.items():
            if index < first or commit.term >= process.rounds.term:
                continue
            if inside.entry_id(process.rounds, index) != commit.entry:
                text = f"{process.key} leads term {process.rounds.term} without {index}: {commit}"
                raise self._trace.violated("leaders_hold_all_commits", text)

    def committed(self, process: Process, index: int, entry: "inside.EntryId") -> None:
        """Nothing that is committed ever changes; what is new must be safe on a majority."""
        committed = self._commits.get(index)
        if committed is None:
            self.commits_are_durable_on_a_majority(process, index, entry)
            # The leader is the first to know; a follower only of what its leader has said.
            self._commits[index] = _Commit(entry, process.rounds.term)
        elif committed.entry != entry:
            text = f"{process.key} commits {entry} at {index} after {committed}"
            raise self._trace.violated("commits_never_change", text)

    def commits_are_durable_on_a_majority(
        self, process: Process, index: int, entry: "inside.EntryId"
    ) -> None:
        """At the first commit of an index, on whatever node, a majority has it on disk."""
        rounds = process.rounds
        holders = {k for k, disk in self._durable.items() if disk.holds(index, entry.term)}
        # What comes before a change of voters may have been committed by the voters before it.
        possible = inside.newest_voter_sets(rounds)
        if not inside.leads(rounds):
            possible = [v for p in self._processes() for v in inside.newest_voter_sets(p.rounds)]
        if not any(_majority(voters, holders) for voters in possible):
            on = sorted(key.node_id for key in holders)
            text = f"{process.key} commits {index} ({entry}), which is durable on {on} only"
            raise self._trace.violated("commits_are_durable_on_a_majority", text)

    def state_machines_agree(self, process: Process, index: int, state_hash: bytes) -> None:
        """State-machine safety: equal states at equal indexes, by snapshots and restarts too."""
        if self._states.setdefault(index, state_hash) != state_hash:
            text = f"{process.key} has another state at {index}"
            raise self._trace.violated("state_machines_agree", text)

    def outcomes_are_exactly_once(self, number: int, index: int) -> None:
        """A command takes effect at one place at most, and never if that was said."""
        if self._index_of.setdefault(number, index) != index:
            text = f"command {number} at {self._index_of[number]} and {index}"
            raise self._trace.violated("outcomes_are_exactly_once", text)
        if number in self._never:
            text = f"command {number} takes effect at {index}, although it was said never to"
            raise self._trace.violated("outcomes_are_exactly_once", text)

    def acknowledged_commands_survive(self, number: int, answer: Answer) -> None:
        """What a client is told to be done is committed, where it was told to be."""
        if answer.number != number or self._index_of.get(number) != answer.index:
            text = f"{answer} for {number}, which is at {self._index_of.get(number)}"
            raise self._trace.violated("acknowledged_commands_survive", text)

    def never_takes_effect(self, number: int, outcome: Lost | NotLeader) -> None:
        """A client is told that its command is not done, and never will be."""
        self._never.add(number)
        if number in self._index_of:
            text = f"{outcome} for {number}, which is at {self._index_of[number]}"
            raise self._trace.violated("outcomes_are_exactly_once", text)

    def promises_are_kept(self, process: Process) -> None:
        """Whoever asked a process that has stopped has got an answer; never two of them."""
        open_promises = sum(not promise.resolved for promise in process.promises)
        if open_promises:
            text = f"{process.key} stopped with {open_promises} of {len(process.promises)} open"
            raise self._trace.violated("promises_are_kept", text)

    def _look_at_commits(self, process: Process, seen: _Seen) -> None:
        for index in range(seen.commit_index + 1, process.rounds.commit_index + 1):
            entry = inside.entry_id(process.rounds, index)
            if entry is not None:
                self.committed(process, index, entry)
        seen.commit_index = process.rounds.commit_index


def _majority(voters: VoterSet, holders: set[ReplicaKey]) -> bool:
    return sum(key in holders for key in voters.keys) >= voters.majority
