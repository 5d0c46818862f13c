"""Changes of who votes and who leads: one safe step at a time, or refused with a reason.

A change adds or removes one voter, is an entry of the log, and counts from when it is in the log
(Raft dissertation, 4.1): any majority before and any after have a replica in common.  That holds
only if the change before is committed, and if this leader has committed an entry of its own term.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from quorate.dataclass import dataclass
from quorate.promise import Promise
from quorate.quorum.raft.configurations import Configurations, encode_voters_command
from quorate.quorum.raft.engine import NEVER_S, VOTERS, Engine
from quorate.quorum.raft.messages import RaftMessage, TimeoutNow
from quorate.quorum.raft.outcomes import (
    ChangeOutcome,
    ChangeRefused,
    LeadershipMoved,
    NotLeader,
    Refusal,
    TransferOutcome,
    Unknown,
)
from quorate.quorum.raft.rules import Rules
from quorate.quorum.raft.voters import VOTERS_MAX, ReplicaKey, Voter, VoterSet

if TYPE_CHECKING:
    from quorate.quorum.raft.journal import Journal
    from quorate.quorum.raft.proposals import Proposals

LEARNER_LAG_MAX: Final = 20
"""An observer that lacks at most so many entries has caught up."""

_NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class _Change:
    """Somebody's wish: exactly one of ``add`` and ``remove``."""

    add: Voter | None
    remove: ReplicaKey | None
    deadline_s: float
    promise: Promise[ChangeOutcome]


@dataclass(slots=True)
class _Transfer:
    """A hand-over under way; nothing is proposed meanwhile."""

    target: ReplicaKey
    deadline_s: float
    promise: Promise[TransferOutcome]
    asked_s: float = NEVER_S


class Changes:
    """Owns the wishes that are not in the log yet, and the hand-over under way."""

    def __init__(
        self,
        me: ReplicaKey,
        engine: Engine,
        journal: "Journal",
        configurations: Configurations,
        rules: Rules,
        send: Callable[[ReplicaKey, RaftMessage], None],
    ) -> None:
        self._me = me
        self._engine = engine
        self._journal = journal
        self._configurations = configurations
        self._rules = rules
        self._send = send
        self._wishes: list[_Change] = []
        self._transfer: _Transfer | None = None

    @property
    def next_deadline_s(self) -> float:
        """When something has to be done even if nothing arrives."""
        deadlines = [change.deadline_s for change in self._wishes]
        if self._transfer is not None:
            deadlines.append(self._transfer.deadline_s)
            if self._transfer.asked_s > NEVER_S and self._engine.is_leader:
                deadlines.append(self._transfer.asked_s + self._rules.timing.heartbeat_s)
        return min(deadlines, default=_NEVER)

    @property
    def successor(self) -> ReplicaKey | None:
        """To whom leadership is being handed over."""
        return None if self._transfer is None else self._transfer.target

    # --- membership

    def add(self, voter: Voter, deadline_s: float) -> Promise[ChangeOutcome]:
        """Let an observer vote once it has caught up."""
        return self._wish(_Change(voter, None, deadline_s, Promise()))

    def remove(self, key: ReplicaKey, deadline_s: float) -> Promise[ChangeOutcome]:
        """Let a voter vote no more."""
        return self._wish(_Change(None, key, deadline_s, Promise()))

    def _wish(self, change: _Change) -> Promise[ChangeOutcome]:
        self._wishes.append(change)
        return change.promise

    def step(self, proposals: "Proposals") -> None:
        """Put in the log what is safe now, refuse what never will be, keep the rest."""
        wishes, self._wishes = self._wishes, []
        for change in wishes:
            if not self._engine.is_leader:
                change.promise.resolve(NotLeader(self._engine.leader))
                continue
            voters = self._resulting(change)
            refused = self._refusal(change, voters) if self._rules.hardening.cfg_guard else None
            if refused is None:
                entry = self._engine.append(VOTERS, encode_voters_command(voters))
                proposals.add(entry.log_index, entry.term, change.deadline_s, change.promise)
            elif refused.refusal in _WORTH_WAITING and self._engine.now_s < change.deadline_s:
                self._wishes.append(change)
            else:
                change.promise.resolve(refused)

    def _resulting(self, change: _Change) -> VoterSet:
        voters = self._configurations.voters
        if change.add is not None and voters.find(change.add.key.node_id) is None:
            return voters.with_voter(change.add)
        return voters if change.remove is None else voters.without(change.remove)

    def _refusal(self, change: _Change, resulting: VoterSet) -> ChangeRefused | None:
        if change.add is not None:
            refused = self._refusal_to_add(change.add)
        else:
            assert change.remove is not None, "a change adds or removes"
            refused = self._refusal_to_remove(change.remove)
        return refused or self._refusal_now(change) or self._refusal_of_majority(resulting)

    def _refusal_to_add(self, voter: Voter) -> ChangeRefused | None:
        voters = self._configurations.voters
        if voter.key in voters:
            return ChangeRefused(Refusal.ALREADY_A_VOTER, f"{voter.key} votes already")
        if voters.find(voter.key.node_id) is not None:
            return ChangeRefused(
                Refusal.OTHER_DIRECTORY,
                f"node {voter.key.node_id} votes with another directory: remove that voter first",
            )
        if len(voters) >= VOTERS_MAX:
            return ChangeRefused(Refusal.TOO_MANY_VOTERS, f"at most {VOTERS_MAX} voters")
        return None

    def _refusal_to_remove(self, key: ReplicaKey) -> ChangeRefused | None:
        voters = self._configurations.voters
        if key not in voters:
            return ChangeRefused(Refusal.UNKNOWN_VOTER, f"{key} is not a voter")
        if len(voters) == 1:
            return ChangeRefused(Refusal.LAST_VOTER, "somebody has to vote")
        return None

    def _refusal_now(self, change: _Change) -> ChangeRefused | None:
        if not self._engine.term_committed():
            return ChangeRefused(
                Refusal.NO_COMMIT_IN_TERM, "this leader has not committed anything in its term yet"
            )
        if self._configurations.newest.log_index > self._engine.commit_index:
            return ChangeRefused(Refusal.CHANGE_IN_FLIGHT, "the change before is not committed yet")
        return None if change.add is None else self._refusal_of_lag(change.add.key)

    def _refusal_of_lag(self, key: ReplicaKey) -> ChangeRefused | None:
        match = self._engine.match_index(key)
        if match is None or not self._engine.is_connected(key):
            return ChangeRefused(Refusal.NOT_CAUGHT_UP, f"{key} is not connected to the leader")
        lag = self._journal.last_index - match
        if match == 0 or lag > LEARNER_LAG_MAX:
            return ChangeRefused(Refusal.NOT_CAUGHT_UP, f"{key} lacks {lag} entries")
        return None

    def _refusal_of_majority(self, resulting: VoterSet) -> ChangeRefused | None:
        since_s = self._engine.now_s - self._rules.timing.election_max_s
        live = [
            key
            for key in resulting.keys
            if key == self._me or self._engine.last_contact_s(key) > since_s
        ]
        if len(live) >= resulting.majority:
            return None
        answering = f"of then {len(resulting)} voters only {len(live)} answer"
        return ChangeRefused(Refusal.NO_LIVE_MAJORITY, f"{answering}; {resulting.majority} have to")

    # --- leadership

    def transfer(self, target: ReplicaKey | None, deadline_s: float) -> Promise[TransferOutcome]:
        """Hand over to a voter, or to the one that is furthest."""
        promise: Promise[TransferOutcome] = Promise()
        if not self._engine.is_leader:
            promise.resolve(NotLeader(self._engine.leader))
        elif target == self._me:
            promise.resolve(LeadershipMoved(self._me))
        elif target is not None and target not in self._configurations.voters:
            promise.resolve(ChangeRefused(Refusal.UNKNOWN_VOTER, f"{target} is not a voter"))
        elif self._transfer is not None:
            promise.resolve(
                ChangeRefused(Refusal.CHANGE_IN_FLIGHT, "another hand-over is under way")
            )
        else:
            best = target or self.best_successor()
            if best is None:
                refused = ChangeRefused(Refusal.NO_LIVE_MAJORITY, "no other voter answers")
                promise.resolve(refused)
            else:
                self._transfer = _Transfer(best, deadline_s, promise)
        return promise

    def best_successor(self) -> ReplicaKey | None:
        """Return the other voter that is connected and furthest."""
        candidates = [
            (self._engine.match_index(key) or 0, key)
            for key in self._configurations.voters.keys
            if key != self._me and self._engine.is_connected(key)
        ]
        return max(candidates, default=(0, None))[1]

    def hand_over(self, target: ReplicaKey) -> None:
        """Ask a voter to stand for election at once."""
        self._send(target, TimeoutNow(self._engine.term))

    def step_transfer(self) -> None:
        """Ask the successor once it has everything; end a hand-over that is done or hopeless."""
        transfer = self._transfer
        if transfer is None:
            return
        now_s, leader = self._engine.now_s, self._engine.leader
        if leader is not None and leader != self._me:
            self._end_transfer(LeadershipMoved(leader))
        elif now_s >= transfer.deadline_s:
            refused = ChangeRefused(
                Refusal.NOT_TAKEN_OVER, f"{transfer.target} has not taken over in time"
            )
            self._end_transfer(refused if self._engine.is_leader else Unknown())
        elif self._engine.is_leader:
            self._ask_successor(transfer)

    def _ask_successor(self, transfer: _Transfer) -> None:
        """Ask the successor to stand for election if it can win, and ask again now and then."""
        now_s = self._engine.now_s
        if now_s - transfer.asked_s < self._rules.timing.heartbeat_s:
            return
        ready = self._engine.match_index(transfer.target) == self._journal.last_index
        if ready:
            self.hand_over(transfer.target)
        if ready or transfer.asked_s > NEVER_S:
            transfer.asked_s = now_s

    def _end_transfer(self, outcome: TransferOutcome) -> None:
        assert self._transfer is not None, "something to end"
        promise, self._transfer = self._transfer.promise, None
        promise.resolve(outcome)

    # --- the end

    def abandon_expired(self, now_s: float) -> None:
        """Resolve what has passed its deadline, when no rounds do it."""
        for change in [c for c in self._wishes if c.deadline_s <= now_s]:
            self._wishes.remove(change)
            change.promise.resolve(NotLeader(self._engine.leader))
        if self._transfer is not None and self._transfer.deadline_s <= now_s:
            self._end_transfer(Unknown())


_WORTH_WAITING: Final[Any] = frozenset({Refusal.NO_COMMIT_IN_TERM, Refusal.NOT_CAUGHT_UP})
