"""A search for an order that explains a register's answers: one way after the other.

It is Wing and Gong's with Lowe's memory of configurations, as in Porcupine: linearize any operation
that was called before all that are left have returned; go back when the register's answer
contradicts the client's.
"""

from quorate.jepsen.linearizability.register import (
    Get,
    Linearizable,
    NotLinearizable,
    Operation,
    Undecided,
    Value,
    Verdict,
    after,
)


def search(operations: list[Operation], steps_max: int) -> Verdict:
    """Judge operations on one key, in the order of their calls; give up after so many steps."""
    useful = [o for o in operations if o.known or not isinstance(o.action, Get)]
    return _Search(useful).run(steps_max)


class _Search:
    """One depth-first search over the calls and returns of a key's operations.

    They form a doubly linked list in the order of time, with its head at 0, from which operations
    are taken as they are linearized and to which they are given back. Call ``i`` of ``n`` is
    element ``i + 1``, its return element ``n + i + 1``; there are none for unknown outcomes.
    """

    def __init__(self, operations: list[Operation]) -> None:
        self._operations = operations
        count = self._count = len(operations)
        events = [(o.called, 0, i + 1) for i, o in enumerate(operations)]
        events += [(o.returned, 1, count + i + 1) for i, o in enumerate(operations) if o.known]
        self._next = [0] * (2 * count + 1)
        self._previous = [0] * (2 * count + 1)
        at = 0
        for _, _, element in sorted(events):
            self._next[at], self._previous[element] = element, at
            at = element
        self._previous[0] = at
        self._taken: list[tuple[int, Value]] = []
        self._value: Value = None
        self._best: tuple[list[int], Value] = [], None

    def run(self, steps_max: int) -> Verdict:
        """Search until all known operations are linearized, or all ways are tried."""
        left = sum(operation.known for operation in self._operations)
        tried = set[tuple[int, Value]]()
        mask, element = 0, self._next[0]
        for _ in range(steps_max):
            if left == 0:
                return Linearizable()
            if 0 < element <= self._count:
                operation = self._operations[element - 1]
                possible, value = after(operation.action, self._value)
                configuration = (mask | 1 << element, value)
                if not possible or configuration in tried:
                    element = self._next[element]
                    continue
                tried.add(configuration)
                mask = configuration[0]
                left -= operation.known
                self._take(element, value)
                element = self._next[0]
            elif self._taken:
                element = self._give_back()
                mask ^= 1 << element
                left += self._operations[element - 1].known
                element = self._next[element]
            else:
                return self._refuted()
        return Undecided(self._operations[0].key)

    def _take(self, element: int, value: Value) -> None:
        self._taken.append((element, self._value))
        self._value = value
        self._unlink(element)
        if self._operations[element - 1].known:
            self._unlink(element + self._count)

    def _give_back(self) -> int:
        if len(self._taken) > len(self._best[0]):
            self._best = [taken for taken, _ in self._taken], self._value
        element, self._value = self._taken.pop()
        if self._operations[element - 1].known:
            self._link(element + self._count)
        self._link(element)
        return element

    def _unlink(self, element: int) -> None:
        before, after = self._previous[element], self._next[element]
        self._next[before], self._previous[after] = after, before

    def _link(self, element: int) -> None:
        before, after = self._previous[element], self._next[element]
        self._next[before] = self._previous[after] = element

    def _refuted(self) -> NotLinearizable:
        explained, value = self._best
        rest = [o for i, o in enumerate(self._operations) if i + 1 not in explained]
        first_return = min(o.returned for o in rest)
        return NotLinearizable(
            rest[0].key,
            tuple(self._operations[element - 1] for element in explained),
            value,
            tuple(o for o in rest if o.called <= first_return),
        )
