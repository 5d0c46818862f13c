"""Linearizable reads by ReadIndex: a majority confirms that this leader is still the leader.

Take the commit index, then ask; once a majority has answered and the state machine is that far,
whatever was acknowledged before the read was asked is in it.  Clocks play no part.  All who ask
between two rounds share one probe.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from quorate.dataclass import dataclass
from quorate.promise import Promise
from quorate.quorum.raft.engine import NEVER_S, Engine
from quorate.quorum.raft.messages import RaftMessage, ReadProbe, ReadProbeAnswer
from quorate.quorum.raft.outcomes import NotLeader, ReadDone, ReadOutcome, Unknown
from quorate.quorum.raft.voters import ReplicaKey

if TYPE_CHECKING:
    from quorate.quorum.raft.configurations import Configurations


@dataclass(slots=True)
class _Reader:
    deadline_s: float
    promise: Promise[ReadOutcome]


@dataclass(slots=True)
class _Batch:
    """Readers that share a probe of this number, and need the state as of this index."""

    number: int
    term: int
    index: int
    readers: list[_Reader]


class Reads:
    """Owns the promises of reads; each is told exactly once."""

    def __init__(
        self,
        me: ReplicaKey,
        engine: Engine,
        configurations: "Configurations",
        resend_s: float,
        send: Callable[[ReplicaKey, RaftMessage], None],
    ) -> None:
        self._me = me
        self._engine = engine
        self._configurations = configurations
        self._resend_s = resend_s
        self._send = send
        self._asked: list[_Reader] = []
        self._batches: deque[_Batch] = deque()
        self._number = 0
        self._probed_s = NEVER_S
        self._confirmed: dict[ReplicaKey, int] = {}

    @property
    def next_deadline_s(self) -> float:
        """When something has to be done for those who wait."""
        if not self._asked and not self._batches:
            return float("inf")
        readers = [*self._asked, *[r for batch in self._batches for r in batch.readers]]
        deadline_s = min([reader.deadline_s for reader in readers])
        return min(deadline_s, self._probed_s + self._resend_s) if self._batches else deadline_s

    def ask(self, deadline_s: float) -> Promise[ReadOutcome]:
        """Promise to tell when the state machine may be read."""
        promise: Promise[ReadOutcome] = Promise()
        self._asked.append(_Reader(deadline_s, promise))
        return promise

    def probe(self) -> None:
        """Begin a probe for those who asked since the last one; repeat one that may be lost."""
        if not self._engine.is_leader:
            self._give_up()
            return
        if self._asked and self._engine.term_committed():
            self._number += 1
            index, term = self._engine.commit_index, self._engine.term
            self._batches.append(_Batch(self._number, term, index, self._asked))
            self._asked = []
            self._send_probes()
        elif self._batches and self._engine.now_s - self._probed_s >= self._resend_s:
            self._send_probes()

    def _send_probes(self) -> None:
        self._probed_s = self._engine.now_s
        for key in self._configurations.voters.keys:
            if key != self._me:
                self._send(key, ReadProbe(self._engine.term, self._number))

    def receive_probe(self, source: ReplicaKey, probe: ReadProbe) -> None:
        """Confirm a leader; the term was compared before."""
        self._send(source, ReadProbeAnswer(self._engine.term, probe.number))

    def receive_answer(self, source: ReplicaKey, answer: ReadProbeAnswer) -> None:
        """Note that a replica still followed when a probe came."""
        if self._engine.is_leader:
            self._confirmed[source] = max(self._confirmed.get(source, 0), answer.number)

    def settle(self) -> None:
        """Tell those whose read is safe now."""
        if not self._batches:
            return
        if not self._engine.is_leader:
            self._give_up()
            return
        confirmed, applied = self._confirmed_by_majority(), self._engine.last_applied
        while self._batches and self._batches[0].term != self._engine.term:
            self._resolve(self._batches.popleft(), NotLeader(self._engine.leader))
        while self._batches and self._batches[0].number <= confirmed:
            if self._batches[0].index > applied:
                break
            batch = self._batches.popleft()
            self._resolve(batch, ReadDone(batch.index))

    def _confirmed_by_majority(self) -> int:
        voters = self._configurations.voters
        numbers = [
            self._number if key == self._me else self._confirmed.get(key, 0) for key in voters.keys
        ]
        return sorted(numbers, reverse=True)[voters.majority - 1]

    def _give_up(self) -> None:
        asked, self._asked = self._asked, []
        for reader in asked:
            reader.promise.resolve(NotLeader(self._engine.leader))
        while self._batches:
            self._resolve(self._batches.popleft(), NotLeader(self._engine.leader))
        self._confirmed.clear()

    def _resolve(self, batch: _Batch, outcome: ReadOutcome) -> None:
        for reader in batch.readers:
            reader.promise.resolve(outcome)

    def abandon_expired(self, now_s: float) -> None:
        """Resolve those whose deadline has passed."""
        self._asked = _without_expired(self._asked, now_s)
        for batch in self._batches:
            batch.readers = _without_expired(batch.readers, now_s)
        self._batches = deque(batch for batch in self._batches if batch.readers)


def _without_expired(readers: list[_Reader], now_s: float) -> list[_Reader]:
    if all(reader.deadline_s > now_s for reader in readers):
        return readers
    for reader in readers:
        if reader.deadline_s <= now_s:
            reader.promise.resolve(Unknown())
    return [reader for reader in readers if reader.deadline_s > now_s]
