"""Elections: pre-votes before a term is raised, and votes that count once.

A replica that was cut off would come back with a newer term and depose a leader that everybody else
is content with.  So it first asks whether a majority would vote for it; those who heard from a
leader lately do not answer (Raft dissertation, 9.6).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from quorate.quorum.raft.engine import NEVER_S, Engine
from quorate.quorum.raft.messages import (
    PreVote,
    PreVoteRequest,
    RaftMessage,
    TimeoutNow,
    Vote,
    VoteRequest,
)
from quorate.quorum.raft.rules import Rules
from quorate.quorum.raft.voters import ReplicaKey

if TYPE_CHECKING:
    from quorate.quorum.raft.configurations import Configurations
    from quorate.quorum.raft.journal import Journal


class Elections:
    """Owns what this replica knows of the election under way; a vote is durable in the journal."""

    def __init__(
        self,
        me: ReplicaKey,
        engine: Engine,
        journal: "Journal",
        configurations: "Configurations",
        rules: Rules,
        send: Callable[[ReplicaKey, RaftMessage], None],
    ) -> None:
        self._me = me
        self._engine = engine
        self._journal = journal
        self._configurations = configurations
        self._rules = rules
        self._send = send
        self._leader_heard_s = NEVER_S
        self._voted: set[ReplicaKey] = set()
        self._voted_term = 0
        self._pre_voted: set[ReplicaKey] = set()
        self._number = 0
        self._encouraged = False

    def heard_leader(self) -> None:
        """Note that there is a leader: no reason to elect another."""
        self._leader_heard_s = self._engine.now_s
        self._encouraged = False

    @property
    def leader(self) -> ReplicaKey | None:
        """Who leads: this replica itself, or one that was heard lately."""
        leader = self._engine.leader
        if leader is None or self._engine.is_leader:
            return leader
        silent_s = self._engine.now_s - self._leader_heard_s
        return leader if silent_s <= self._rules.timing.election_max_s else None

    def before_tick(self) -> None:
        """Hold the library's election back until a majority would vote; let only voters stand."""
        engine, voters = self._engine, self._configurations.voters
        if engine.is_leader:
            return
        if not self.may_lead:
            engine.forget_election()
        elif voters.keys == (self._me,) or self._encouraged:
            engine.elect_at_once()
        elif self._is_due():
            if not any(engine.is_connected(key) for key in voters.keys):
                engine.postpone_election()
            elif self._rules.hardening.prevote:
                self._ask_for_pre_votes()
        self._encouraged = False

    @property
    def may_lead(self) -> bool:
        """Whether this replica may stand for election."""
        return self._configurations.may_lead(self._me, self._engine.committed)

    def _is_due(self) -> bool:
        return self._engine.election_due_s < self._engine.now_s and not self._engine.transferring

    def _ask_for_pre_votes(self) -> None:
        self._engine.postpone_election()
        self._number += 1
        self._pre_voted = {self._me} & set(self._configurations.voters.keys)
        last = self._journal.entries[-1]
        request = PreVoteRequest(self._engine.term, self._number, last.log_index, last.term)
        for key in self._configurations.voters.keys:
            if key != self._me:
                self._send(key, request)

    def receive_pre_vote_request(self, source: ReplicaKey, request: PreVoteRequest) -> None:
        """Encourage a candidate, unless there is a leader or our log is better."""
        engine = self._engine
        if engine.is_leader:
            return
        if engine.now_s - self._leader_heard_s < self._rules.timing.election_min_s:
            return
        last = self._journal.entries[-1]
        if (request.last_term, request.last_index) >= (last.term, last.log_index):
            self._send(source, PreVote(engine.term, request.number))

    def receive_pre_vote(self, source: ReplicaKey, vote: PreVote) -> None:
        """Count an encouragement for this round."""
        voters = self._configurations.voters
        if vote.number != self._number or self._engine.is_leader or source not in voters:
            return
        self._pre_voted.add(source)
        if len(self._pre_voted) >= voters.majority:
            self._encouraged = True
            self._number += 1

    def receive_vote_request(self, source: ReplicaKey, request: VoteRequest) -> None:
        """Vote, or do not. Those who do not know yet that they are voters vote too."""
        led = self._engine.is_leader
        self._engine.receive_vote_request(source, request)
        if led and not self._engine.is_leader:
            self._engine.postpone_election()

    def receive_vote(self, source: ReplicaKey, vote: Vote) -> None:
        """Count a vote once, and only a voter's."""
        if self._rules.hardening.vote_dedupe:
            if vote.term != self._engine.term or source not in self._configurations.voters:
                return
            if vote.term != self._voted_term:
                self._voted_term, self._voted = vote.term, set()
            if source in self._voted:
                return
            self._voted.add(source)
        self._engine.receive_vote(source, vote.term)

    def receive_timeout_now(self, source: ReplicaKey, message: TimeoutNow) -> None:
        """Stand for election at once if the leader wants to hand over."""
        if message.term == self._engine.term and self.may_lead:
            self._engine.receive_timeout_now(source, message.term)
