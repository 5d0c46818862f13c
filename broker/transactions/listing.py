"""Which transactions a list shows (ListTransactions, KIP-664, KIP-994, KIP-1152)."""

from collections.abc import Callable, Collection, Iterable, Iterator

from quorate.broker.transactions.transaction import NAMES, Transaction, TxnState
from quorate.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Filters:
    """What lets a transaction pass; what is empty lets all pass.

    Attributes:
        states: those of them that are known.
        names_states: whether any were named, known or not.
        duration_ms: only transactions that began longer ago than that; -1 for all.
        select: takes ids, and returns those that match.
    """

    producer_ids: Collection[int]
    states: Collection[TxnState]
    names_states: bool
    duration_ms: int
    select: Callable[[Iterable[str]], Collection[str]]

    def passing(
        self, transactions: Iterable[tuple[str, Transaction]], now_ms: int
    ) -> Iterator[tuple[str, Transaction]]:
        """Yield those that pass all filters."""
        found = [(i, t) for i, t in transactions if self._passes(t, now_ms)]
        selected = self.select([transactional_id for transactional_id, _ in found])
        return ((i, t) for i, t in found if i in selected)

    def _passes(self, transaction: Transaction, now_ms: int) -> bool:
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        if self.names_states and transaction.state not in self.states:
            return False
        return self.duration_ms < 0 or now_ms - transaction.start_ms > self.duration_ms


def states_named(names: Iterable[str]) -> tuple[set[TxnState], list[str]]:
    """Return the states of these names, and the names that are none."""
    by_name = {name: state for state, name in NAMES.items()}
    wanted = list(names)
    known = {by_name[name] for name in wanted if name in by_name}
    return known, [name for name in wanted if name not in by_name]
