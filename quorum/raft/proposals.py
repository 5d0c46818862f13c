"""Proposals on their way: each is told its outcome exactly once."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from quorate.promise import Promise
from quorate.quorum.raft.core import Applied
from quorate.quorum.raft.outcomes import Lost as Lost  # noqa: PLC0414
from quorate.quorum.raft.outcomes import NotDone as NotDone  # noqa: PLC0414
from quorate.quorum.raft.outcomes import NotLeader as NotLeader  # noqa: PLC0414
from quorate.quorum.raft.outcomes import Unknown as Unknown  # noqa: PLC0414

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Pending(Generic[R]):
    index: int
    term: int
    promise: Promise[R | NotDone]


class Proposals(Generic[R]):
    """Owns the promises of commands that are in the log but not yet applied, in log order."""

    def __init__(self) -> None:
        self._pending: deque[_Pending[R]] = deque()

    def add(self, index: int, term: int, promise: Promise[R | NotDone]) -> None:
        """Look out for what becomes of the entry at an index."""
        assert not self._pending or index > self._pending[-1].index, "in log order"
        self._pending.append(_Pending(index, term, promise))

    def settle(self, applied: Iterable[Applied[R]]) -> None:
        """Resolve what these entries decide; they come in log order."""
        for entry in applied:
            while self._pending and self._pending[0].index <= entry.index:
                pending = self._pending.popleft()
                same = (pending.index, pending.term) == (entry.index, entry.term)
                pending.promise.resolve(entry.result if same else Lost())

    def abandon(self) -> None:
        """Resolve all others: this node will not learn what becomes of them."""
        while self._pending:
            self._pending.popleft().promise.resolve(Unknown())
