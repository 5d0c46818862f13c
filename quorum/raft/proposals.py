"""Proposals on their way: each is told its outcome exactly once."""

from typing import Any, Final

from quorate.dataclass import dataclass
from quorate.promise import Promise
from quorate.quorum.raft.outcomes import Lost as Lost  # noqa: PLC0414
from quorate.quorum.raft.outcomes import NotDone as NotDone  # noqa: PLC0414
from quorate.quorum.raft.outcomes import NotLeader as NotLeader  # noqa: PLC0414
from quorate.quorum.raft.outcomes import Unknown as Unknown  # noqa: PLC0414

NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class _Pending:
    index: int
    term: int
    deadline_s: float
    promise: Promise[Any]


class Proposals:
    """Owns the promises of commands that are in the log but not yet applied.

    A place in the log may be promised twice: another leader took it, and then we led again.
    """

    def __init__(self) -> None:
        self._pending: dict[int, list[_Pending]] = {}
        self._decided: list[tuple[Promise[Any], Any]] = []
        self.next_deadline_s = NEVER
        """None of them gives up before this time."""

    def add(self, index: int, term: int, deadline_s: float, promise: Promise[Any]) -> None:
        """Look out for what becomes of the entry at an index."""
        self._pending.setdefault(index, []).append(_Pending(index, term, deadline_s, promise))
        self.next_deadline_s = min(self.next_deadline_s, deadline_s)

    def applied(self, index: int, term: int, result: object) -> None:
        """Note what the state machine said to the entry of an index and term."""
        for pending in self._pending.pop(index, ()):
            self._decided.append((pending.promise, result if pending.term == term else Lost()))

    def jumped(self, index: int) -> None:
        """Note that a snapshot brought the state up to an index."""
        for jumped in [i for i in self._pending if i <= index]:
            self._decided += [(p.promise, Unknown()) for p in self._pending.pop(jumped)]

    def settle(self) -> None:
        """Tell those whose outcome is known."""
        decided, self._decided = self._decided, []
        for promise, outcome in decided:
            promise.resolve(outcome)

    def abandon_expired(self, now_s: float) -> None:
        """Resolve those whose deadline has passed."""
        if now_s < self.next_deadline_s:
            return
        pending = [p for group in self._pending.values() for p in group]
        self._pending = {}
        self.next_deadline_s = NEVER
        for waiting in pending:
            if waiting.deadline_s > now_s:
                self.add(waiting.index, waiting.term, waiting.deadline_s, waiting.promise)
            else:
                self._decided.append((waiting.promise, Unknown()))
        self.settle()

    def abandon(self) -> None:
        """Resolve all: this node will not learn what becomes of them."""
        self.settle()
        self.abandon_expired(NEVER)
