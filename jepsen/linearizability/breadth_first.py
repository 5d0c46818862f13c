"""A search for an order that explains a register's answers: all ways together, as time goes by.

Just-in-time linearization as in Lowe's "Testing for linearizability" (2017) and in Knossos: when an
operation returns it must have taken effect, and of the others as many as it takes. What is known of
a way is only the register's value and which of the operations under way have taken effect.

Of two ways that differ by operations that never returned, the one in which fewer of them have taken
effect can do all that the other one can: the other one is forgotten. So this decides many histories
with unknown outcomes on which the depth-first search gives up.
"""

from typing import NamedTuple

from quorate.jepsen.linearizability.register import (
    Action,
    Get,
    Linearizable,
    NotLinearizable,
    Operation,
    Undecided,
    Value,
    Verdict,
    after,
)


class _Way(NamedTuple):
    """What a way has come to: ``live`` and ``lost`` are sets of operations, one bit each.

    ``live`` are those under way that have taken effect, ``lost`` those that never return.
    """

    value: Value
    live: int
    lost: int


class _Ways:
    """Ways of which none can do all that another one can."""

    def __init__(self) -> None:
        self._lost: dict[tuple[Value, int], set[int]] = {}

    def add(self, way: _Way) -> bool:
        """Add a way; return whether it is of any use."""
        key = way.value, way.live
        lost = self._lost.get(key)
        if lost is None:
            self._lost[key] = {way.lost}
            return True
        if any(other & ~way.lost == 0 for other in lost):
            return False
        lost.difference_update([other for other in lost if way.lost & ~other == 0])
        lost.add(way.lost)
        return True

    def __contains__(self, way: _Way) -> bool:
        return way.lost in self._lost.get((way.value, way.live), ())

    def all(self) -> list[_Way]:
        """Return them."""
        return [_Way(*key, lost) for key, each in self._lost.items() for lost in each]


def search(operations: list[Operation], ways_max: int) -> Verdict:
    """Judge operations on one key, in the order of their calls; give up beyond so many ways."""
    return _Search(operations, ways_max).run()


class _Search:
    """One search; operations under way have numbers, which are given again when they return."""

    def __init__(self, operations: list[Operation], ways_max: int) -> None:
        self._operations = operations
        self._ways_max = ways_max
        self._live: dict[int, Action] = {}
        self._lost: list[Action] = []
        self._known = 0

    def run(self) -> Verdict:
        """Search through all events."""
        events = [(o.called, 0, n) for n, o in enumerate(self._operations)]
        events += [(o.returned, 1, n) for n, o in enumerate(self._operations) if o.known]
        numbers: dict[int, int] = {}
        free: list[int] = []
        ways = [_Way(None, 0, 0)]
        for _, is_return, n in sorted(events):
            if not is_return:
                self._begin(n, numbers, free)
                continue
            number = numbers.pop(n)
            found = self._return(ways, number)
            if found is None:
                return Undecided(self._operations[0].key)
            if not found:
                return self._refuted(n, ways)
            ways = found
            del self._live[number]
            free.append(number)
        return Linearizable()

    def _begin(self, n: int, numbers: dict[int, int], free: list[int]) -> None:
        operation = self._operations[n]
        if operation.known:
            numbers[n] = free.pop() if free else len(numbers)
            self._live[numbers[n]] = operation.action
        elif not isinstance(operation.action, Get):
            self._lost.append(operation.action)

    def _return(self, ways: list[_Way], number: int) -> list[_Way] | None:
        """Return the ways in which an operation has taken effect; None if there are too many."""
        bit = 1 << number
        seen, done = _Ways(), _Ways()
        todo: list[_Way] = []
        for way in ways:
            if way.live & bit:
                done.add(way._replace(live=way.live ^ bit))
            elif seen.add(way):
                todo.append(way)
        count = len(todo)
        while todo:
            way = todo.pop()
            if way not in seen:  # another one can do what it can
                continue
            for other in self._next(way):
                if other.live & bit:
                    done.add(other._replace(live=other.live ^ bit))
                elif seen.add(other):
                    todo.append(other)
                    count += 1
            if count > self._ways_max:
                return None
        return done.all()

    def _next(self, way: _Way) -> list[_Way]:
        """Return the ways that have one more operation."""
        ways: list[_Way] = []
        value, live, lost = way
        for number, action in self._live.items():
            if not live >> number & 1:
                possible, then = after(action, value)
                if possible:
                    ways.append(_Way(then, live | 1 << number, lost))
        for number, action in enumerate(self._lost):
            if not lost >> number & 1:
                _, then = after(action, value)
                if then != value:
                    ways.append(_Way(then, live, lost | 1 << number))
        return ways

    def _refuted(self, n: int, ways: list[_Way]) -> NotLinearizable:
        """Say which operation fits in no way; the value is that of any."""
        operation = self._operations[n]
        under_way = [
            o for o in self._operations if o.called <= operation.returned <= o.returned and o.known
        ]
        return NotLinearizable(operation.key, (), ways[0].value, tuple(under_way))
