"""A proof without a search, for histories of reads and writes in which each value is written once.

Gibbons and Korach, "Testing shared memories" (1997): of each value only two moments count, the
first return and the last call among its write and its reads. If the return is first, the register
must have had the value all the time between (a forward zone); else some moment between will do (a
backward zone). There is an order exactly if no two forward zones overlap and no backward zone lies
inside a forward one.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from quorate.jepsen.linearizability.register import (
    NEVER,
    Get,
    Linearizable,
    NotLinearizable,
    Operation,
    Put,
    Value,
)

ALWAYS: Final = -NEVER


class _Zone(NamedTuple):
    """The moments of a value, with the operations that they are of; a key has none at first."""

    first_return: float
    last_call: float
    returned: Operation | None
    called: Operation | None


def applies_to(operations: Sequence[Operation]) -> bool:
    """Return whether there are reads and writes only, and no value is written twice."""
    written = set[Value]((None,))
    for operation in operations:
        match operation.action:
            case Get():
                pass
            case Put(value) if value not in written:
                written.add(value)
            case _:
                return False
    return True


def judge(operations: Sequence[Operation]) -> Linearizable | NotLinearizable:
    """Judge operations on one key, to which this applies."""
    writes = {o.action.value: o for o in operations if isinstance(o.action, Put)}
    zones: dict[Value, _Zone] = {None: _Zone(ALWAYS, ALWAYS, None, None)}
    zones |= {value: _Zone(o.returned, o.called, o, o) for value, o in writes.items()}
    for operation in operations:
        if not isinstance(operation.action, Get) or not operation.known:
            continue
        value = operation.action.value
        zone = zones.get(value)
        if zone is None:
            return _refuted(operation)
        write = writes.get(value)
        if write is not None and operation.returned < write.called:
            return _refuted(operation, write)
        if operation.returned < zone.first_return:
            zone = zone._replace(first_return=operation.returned, returned=operation)
        if operation.called > zone.last_call:
            zone = zone._replace(last_call=operation.called, called=operation)
        zones[value] = zone
    return _without_overlaps(zones.values())


def _without_overlaps(zones: Iterable[_Zone]) -> Linearizable | NotLinearizable:
    # A write of which nobody heard and that nobody read need not have happened.
    zones = [zone for zone in zones if zone.first_return != NEVER]
    forward = sorted((z for z in zones if z.first_return < z.last_call), key=lambda z: z[:2])
    before: _Zone | None = None
    for zone in forward:
        if before is not None and zone.first_return < before.last_call:
            return _refuted(before.returned, before.called, zone.returned, zone.called)
        before = zone
    begins = [zone.first_return for zone in forward]
    for zone in zones:
        if zone.first_return < zone.last_call:
            continue
        at = bisect_right(begins, zone.last_call) - 1
        if at >= 0 and begins[at] < zone.last_call and zone.first_return < forward[at].last_call:
            around = forward[at]
            return _refuted(around.returned, zone.returned, zone.called, around.called)
    return Linearizable()


def _refuted(*contradiction: Operation | None) -> NotLinearizable:
    some = dict.fromkeys(o for o in contradiction if o is not None)
    stuck = tuple(sorted(some, key=lambda o: o.called))
    return NotLinearizable(stuck[0].key, (), None, stuck)
