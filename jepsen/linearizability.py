"""Whether a history of a register, per key, could have come from one that does one thing at a time.

The search is Wing and Gong's with Lowe's memory of configurations, as in Porcupine: linearize any
operation that was called before all that are left have returned; go back when the register's
answer contradicts the client's.  A key's history is judged on its own, because linearizability is
local (Herlihy and Wing, 1990, theorem 1).

Values should be unique: when few values are written again and again, wrong histories are legal.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

Value = int | str | None

NEVER: Final = math.inf
STEPS_MAX: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class Get:
    """A read; ``value`` is what it returned, ``None`` for a key that has no value."""

    value: Value


@dataclass(frozen=True, slots=True)
class Put:
    """A write."""

    value: Value


@dataclass(frozen=True, slots=True)
class Cas:
    """Compare and set: ``value`` is written if the key has the ``expected`` one.

    ``done`` says whether it was; it is ``None`` if the client never heard.
    """

    expected: Value
    value: Value
    done: bool | None


@dataclass(frozen=True, slots=True)
class Operation:
    """What a client did to a key, and when, on any clock that all clients share.

    ``returned`` is :data:`NEVER` if the outcome is unknown: it may take effect at any time after
    the call, or not at all. A client whose outcome is unknown goes on under a new number.
    """

    client: int
    key: str
    action: Get | Put | Cas
    called: float
    returned: float

    @property
    def known(self) -> bool:
        """Whether the client heard the outcome."""
        return self.returned != NEVER


@dataclass(frozen=True, slots=True)
class Linearizable:
    """There is an order that explains every answer."""


@dataclass(frozen=True, slots=True)
class NotLinearizable:
    """There is none. How far the best attempt came, for the reader to see what is wrong.

    ``explained`` are the operations in the order of that attempt, ``value`` is what the register
    then has, and ``stuck`` are those that could have come next, none of which fits.
    """

    key: str
    explained: tuple[Operation, ...]
    value: Value
    stuck: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Undecided:
    """The search was given up: that is neither a proof nor a refutation."""

    key: str


Verdict = Linearizable | NotLinearizable | Undecided


def check(history: Iterable[Operation], steps_max: int = STEPS_MAX) -> Verdict:
    """Judge a history; the first key that is wrong, or undecided if none is, decides.

    Args:
        history: in any order; keys have no value at first.
        steps_max: after so many steps on a key the search for it is given up.
    """
    by_key = defaultdict[str, list[Operation]](list)
    for operation in history:
        by_key[operation.key].append(operation)
    verdicts = [check_key(operations, steps_max) for _, operations in sorted(by_key.items())]
    for kind in NotLinearizable, Undecided:
        for verdict in verdicts:
            if isinstance(verdict, kind):
                return verdict
    return Linearizable()


def check_key(operations: Sequence[Operation], steps_max: int) -> Verdict:
    """Judge the history of one key."""
    for operation in operations:
        assert operation.called <= operation.returned, f"returned before it was called: {operation}"
    useful = [o for o in operations if o.known or not isinstance(o.action, Get)]
    return _Search(sorted(useful, key=lambda o: o.called)).run(steps_max)


def _after(action: Get | Put | Cas, value: Value) -> tuple[bool, Value]:
    """Return whether the register may have answered like this, and what it has afterwards."""
    match action:
        case Get():
            return action.value == value, value
        case Put():
            return True, action.value
        case Cas():
            done = action.expected == value
            return action.done in (None, done), action.value if done else value


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
                possible, value = _after(operation.action, self._value)
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
