"""Histories of registers, each judged by whoever can: quickly, exactly, or not at all.

A key's history is judged on its own, because linearizability is local (Herlihy and Wing, 1990,
theorem 1): by its zones if there are only reads and writes, else by a depth-first search, and if
that takes too long by a breadth-first one. If that does, too, nobody knows.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from quorate.jepsen.linearizability import breadth_first, depth_first, zones
from quorate.jepsen.linearizability.register import (
    Linearizable,
    NotLinearizable,
    Operation,
    Undecided,
    Verdict,
)

STEPS_MAX: Final = 2_000_000
"""Of the depth-first search: some seconds."""
WAYS_MAX: Final = 50_000
"""Of the breadth-first search at any moment."""
EXPLAINING_STEPS_MAX: Final = 200_000
"""Of a search whose outcome is known: it shows how far a wrong history can be explained."""


def check(
    history: Iterable[Operation], steps_max: int = STEPS_MAX, ways_max: int = WAYS_MAX
) -> Verdict:
    """Judge a history; the first key that is wrong, or undecided if none is, decides.

    Args:
        history: in any order; keys have no value at first.
        steps_max: after so many steps on a key the depth-first search for it is given up.
        ways_max: with so many ways at a time the breadth-first search is.
    """
    by_key = defaultdict[str, list[Operation]](list)
    for operation in history:
        by_key[operation.key].append(operation)
    verdicts = [check_key(each, steps_max, ways_max) for _, each in sorted(by_key.items())]
    for kind in NotLinearizable, Undecided:
        for verdict in verdicts:
            if isinstance(verdict, kind):
                return verdict
    return Linearizable()


def check_key(
    operations: Sequence[Operation], steps_max: int = STEPS_MAX, ways_max: int = WAYS_MAX
) -> Verdict:
    """Judge the history of one key."""
    for operation in operations:
        assert operation.called <= operation.returned, f"returned before it was called: {operation}"
    in_order = sorted(operations, key=lambda o: o.called)
    if zones.applies_to(in_order):
        return _by_zones(in_order, min(steps_max, EXPLAINING_STEPS_MAX))
    verdict = depth_first.search(in_order, steps_max)
    if isinstance(verdict, Undecided):
        verdict = breadth_first.search(in_order, ways_max)
    return verdict


def _by_zones(in_order: list[Operation], steps_max: int) -> Verdict:
    verdict = zones.judge(in_order)
    if isinstance(verdict, NotLinearizable):
        shown = depth_first.search(in_order, steps_max)
        assert not isinstance(shown, Linearizable), f"two proofs contradict each other: {verdict}"
        if isinstance(shown, NotLinearizable):
            return shown
    return verdict
