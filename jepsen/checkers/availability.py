"""The availability checker: how long nothing could be written, and whether that ended in time.

Faults are told by ``fault`` and ``heal``, the parts of a run by ``phase``. While no fault is on and
the run goes on, it is calm. In calm, a partition that is written to takes a record at last
``recovery`` seconds after the last fault was healed, and from then on it never takes nothing for
``gap`` seconds while a record waits. Topics that are deleted are not judged: who writes to one
waits for it in vain.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field
from statistics import median
from typing import Final, NamedTuple

from quorate.dataclass import dataclass
from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.history import Kind, Operation

RECOVERY: Final = "recovery"
GAP: Final = "gap"
NEVER_NS: Final = 1 << 62
NOTABLE_NS: Final = 500_000_000
"""Shorter gaps than this are nobody's fault."""
CALM_PHASES: Final = ("load", "heal")


class _Gap(NamedTuple):
    """A partition took nothing for a while."""

    from_ns: int
    until_ns: int
    partition: str


class _Window(NamedTuple):
    """A fault was on."""

    fault: str
    from_ns: int
    until_ns: int


@dataclass(slots=True)
class _Calm:
    """A time in which no fault was on, and what came of the writes that began in it."""

    from_ns: int
    until_ns: int = NEVER_NS
    tried_ns: dict[str, int] = field(default_factory=dict[str, int])
    """By partition: the first try."""
    taken_ns: dict[str, int] = field(default_factory=dict[str, int])
    """By partition: when the first record that was sent now was acknowledged."""
    slow: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])
    """Records that took too long after that: partition, when sent, and when answered."""


class AvailabilityChecker:
    """Takes the operations of a history in the order of their ends, then judges."""

    def __init__(self, bounds_s: Mapping[str, float]) -> None:
        """Begin; without a bound nothing is too long."""
        self._bounds_ns = {name: int(seconds * 1e9) for name, seconds in bounds_s.items()}
        self._on: dict[str, int] = {}
        self._doubtful: set[str] = set()
        """Those of them that may not have happened."""
        self._unseen: set[str] = set()
        """Those of them that were not seen to bite yet."""
        self._windows: list[_Window] = []
        self._calms: list[_Calm] = []
        self._calm: _Calm | None = None
        self._first_acked_ns: dict[str, int] = {}
        self._acked_ns: dict[str, int] = {}
        self._gaps: list[_Gap] = []
        self._deleted: set[str] = set()
        self._found = Anomalies()
        self._end_ns = 0
        self.acks = 0
        self.acks_under_fault = 0
        self.commits_under_fault = 0
        self.faults = 0
        """That happened, or so it was said."""
        self.failed_faults = 0
        self.verified = 0
        self._on_in_the_end: int | None = None

    def add(self, operation: Operation) -> None:
        """Take note of an operation; those of other workloads mean nothing here."""
        if operation.name == "send":
            self._add_send(operation)
        elif operation.name == "txn":
            self.commits_under_fault += operation.kind is Kind.OK and self._is_broken
        elif operation.name == "delete" and operation.kind is not Kind.FAIL:
            self._deleted.add(operation.asked)
        elif operation.name == "fault":
            self._begin_fault(operation)
        elif operation.name == "heal":
            self._heal(operation)
        elif operation.name == "phase" and operation.kind is Kind.OK:
            self._turn(operation)
        if operation.returned_ns is not None:
            self._end_ns = operation.returned_ns

    @property
    def _is_broken(self) -> bool:
        """Whether a fault is on that certainly happened."""
        return len(self._on) > len(self._doubtful)

    @property
    def not_healed(self) -> int:
        """How many faults were on when clients read in the end, or when the history ended."""
        return len(self._on) if self._on_in_the_end is None else self._on_in_the_end

    def finish(self) -> Anomalies:
        """Return all that took too long."""
        self._end_calm(self._end_ns)
        self._windows += (_Window(name, at, self._end_ns) for name, at in self._on.items())
        for calm in self._calms:
            self._check_recovery(calm)
            self._check_gaps(calm)
        return self._found

    def figures(self) -> dict[str, int | float | str]:
        """Return how long it took."""
        recoveries = [
            max(0, taken - max(calm.from_ns, calm.tried_ns[partition])) / 1e9
            for calm in self._calms[1:]
            for partition, taken in calm.taken_ns.items()
        ]
        figures: dict[str, int | float | str] = {
            "faults": self.faults,
            "faults that failed": self.failed_faults,
            "acknowledged under a fault": self.acks_under_fault,
        }
        if recoveries:
            figures["recovery s, median"] = round(median(recoveries), 3)
            figures["recovery s, longest"] = round(max(recoveries), 3)
        for fault, gap_ns in sorted(self._longest_gaps().items()):
            figures[f"longest gap s, {fault}"] = round(gap_ns / 1e9, 3)
        return figures

    # --- as operations end ----------------------------------------------------

    def _add_send(self, operation: Operation) -> None:
        partition, returned_ns = operation.asked[0], operation.returned_ns
        if operation.kind is not Kind.OK or returned_ns is None:
            self._note_failure(partition, operation)
            return
        self.acks += 1
        self.acks_under_fault += self._is_broken
        before_ns = self._acked_ns.get(partition, returned_ns)
        if returned_ns - before_ns > NOTABLE_NS:
            self._gaps.append(_Gap(before_ns, returned_ns, partition))
        self._first_acked_ns.setdefault(partition, returned_ns)
        self._acked_ns[partition] = returned_ns
        calm = self._calm
        if calm is None or operation.called_ns < calm.from_ns:
            return
        taken_ns = calm.taken_ns.get(partition)
        if taken_ns is None:
            calm.taken_ns[partition] = returned_ns
            tried_ns = calm.tried_ns.get(partition, operation.called_ns)
            calm.tried_ns[partition] = min(tried_ns, operation.called_ns)
        elif operation.called_ns > taken_ns:
            self._note_slow(calm, partition, operation.called_ns, returned_ns)

    def _note_failure(self, partition: str, operation: Operation) -> None:
        """Note what was not taken, in the calm in which it was sent."""
        at = bisect_right(self._calms, operation.called_ns, key=lambda calm: calm.from_ns) - 1
        if at < 0 or self._calms[at].until_ns <= operation.called_ns:
            return
        calm = self._calms[at]
        tried_ns = calm.tried_ns.get(partition, operation.called_ns)
        calm.tried_ns[partition] = min(tried_ns, operation.called_ns)
        if calm.taken_ns.get(partition, NEVER_NS) < operation.called_ns:
            returned_ns = NEVER_NS if operation.returned_ns is None else operation.returned_ns
            self._note_slow(calm, partition, operation.called_ns, returned_ns)

    def _note_slow(self, calm: _Calm, partition: str, called_ns: int, returned_ns: int) -> None:
        if returned_ns - called_ns > self._bounds_ns.get(GAP, NEVER_NS):
            calm.slow.append((partition, called_ns, returned_ns))

    def _begin_fault(self, operation: Operation) -> None:
        self._end_calm(operation.called_ns)
        name = operation.asked["fault"]
        self._on[name] = operation.called_ns
        if operation.kind is not Kind.OK:
            self.failed_faults += 1
            self._doubtful.add(name)
            return
        self.faults += 1
        if operation.told.get("verified"):
            self.verified += 1
        else:
            self._unseen.add(name)

    def _heal(self, operation: Operation) -> None:
        name, told = operation.asked["fault"], operation.told
        if operation.kind is not Kind.OK or operation.returned_ns is None:
            return
        begun_ns = self._on.pop(name, None)
        self._doubtful.discard(name)
        if name in self._unseen:
            self._unseen.discard(name)
            self.verified += bool(told and told.get("verified"))  # it took its time to bite
        if begun_ns is not None:
            self._windows.append(_Window(name, begun_ns, operation.returned_ns))
            if not self._on:
                self._begin_calm(operation.returned_ns)

    def _turn(self, operation: Operation) -> None:
        """Begin another part of the run: clients send in some of them only."""
        assert operation.returned_ns is not None, "what is known was told"
        if operation.told == "final":
            self._on_in_the_end = len(self._on)
        if operation.told not in CALM_PHASES:
            self._end_calm(operation.called_ns)
        elif self._calm is None and not self._on:
            self._begin_calm(operation.returned_ns)

    def _begin_calm(self, at_ns: int) -> None:
        self._calm = _Calm(at_ns)
        self._calms.append(self._calm)

    def _end_calm(self, at_ns: int) -> None:
        if self._calm is not None:
            self._calm.until_ns = at_ns
            self._calm = None

    # --- in the end -----------------------------------------------------------

    def _check_recovery(self, calm: _Calm) -> None:
        bound_ns = self._bounds_ns.get(RECOVERY)
        if bound_ns is None:
            return
        for partition, tried_ns in calm.tried_ns.items():
            begin_ns = max(calm.from_ns, tried_ns)
            taken_ns = calm.taken_ns.get(partition, NEVER_NS)
            late_ns = begin_ns + bound_ns
            if min(taken_ns, calm.until_ns) > late_ns and self._took_nothing(
                partition, begin_ns, late_ns
            ):
                took = (
                    "nothing" if taken_ns == NEVER_NS else f"after {_s(taken_ns - begin_ns)} s only"
                )
                self._found.add(
                    "slow-recovery",
                    f"{partition} took {took} in {_s(calm.until_ns - begin_ns)} s without a fault",
                    where=partition,
                    at_ns=(begin_ns, min(taken_ns, calm.until_ns)),
                )

    def _check_gaps(self, calm: _Calm) -> None:
        bound_ns = self._bounds_ns.get(GAP, NEVER_NS)
        for partition, called_ns, returned_ns in calm.slow:
            late_ns = called_ns + bound_ns
            if min(returned_ns, calm.until_ns) > late_ns and self._took_nothing(
                partition, called_ns, late_ns
            ):
                took_ns = min(returned_ns, calm.until_ns) - called_ns
                self._found.add(
                    "unavailable",
                    f"{partition} did not take a record for {_s(took_ns)} s without a fault",
                    where=partition,
                    at_ns=(called_ns, min(returned_ns, calm.until_ns)),
                )

    def _took_nothing(self, partition: str, from_ns: int, until_ns: int) -> bool:
        """Whether it took no older ones either; never of a topic that was deleted."""
        if partition.rpartition("-")[0] in self._deleted:
            return False
        if self._first_acked_ns.get(partition, NEVER_NS) > until_ns:
            return True
        return self._acked_ns[partition] <= from_ns or any(
            gap.from_ns <= from_ns and gap.until_ns > until_ns
            for gap in self._gaps
            if gap.partition == partition
        )

    def _longest_gaps(self) -> dict[str, int]:
        """Return by fault how long a partition took nothing around it, at most."""
        longest: dict[str, int] = defaultdict(int)
        gaps = sorted(self._gaps, key=lambda gap: gap.until_ns)
        for window in self._windows:
            first = bisect_right(gaps, window.from_ns, key=lambda gap: gap.until_ns)
            longest[window.fault] = max(longest[window.fault], _longest(gaps[first:], window))
        return longest


def _longest(gaps: Sequence[_Gap], window: _Window) -> int:
    """Return the longest gap that lies in a window, if only with a part."""
    lengths = (gap.until_ns - gap.from_ns for gap in gaps if gap.from_ns < window.until_ns)
    return max(lengths, default=0)


def _s(time_ns: int) -> str:
    return f"{time_ns / 1e9:.1f}"
