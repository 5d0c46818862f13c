"""Anomalies: what a checker found, by name, with the operations that prove it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import field
from typing import Any, Final, Protocol

from quorate.dataclass import dataclass
from quorate.jepsen.checkers.meanings import MEANINGS
from quorate.jepsen.history import Operation

EVIDENCE_MAX: Final = 8
"""So many cases of an anomaly are kept with their evidence; all are counted."""


@dataclass(frozen=True, slots=True)
class Case:
    """One instance of an anomaly.

    Attributes:
        what: a sentence: what happened that must not.
        evidence: sentences about the operations that prove it, in the order in which they ended.
        where: the partition, or the register's key; empty if it is neither's.
        offsets: those that are wrong.
        processes: who did the operations that prove it.
        at_ns: when those were called, or returned.
    """

    what: str
    evidence: tuple[str, ...] = ()
    where: str = ""
    offsets: tuple[int, ...] = ()
    processes: tuple[int, ...] = ()
    at_ns: tuple[int, ...] = ()


@dataclass(slots=True)
class Anomalies:
    """What was found, by the anomaly's name, which is one of those that have a meaning."""

    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    cases: dict[str, list[Case]] = field(default_factory=lambda: defaultdict(list))

    def __bool__(self) -> bool:
        return bool(self.counts)

    def add(self, name: str, what: str, *evidence: str, **fields: Any) -> None:
        """Count a case, and keep it if it is one of the first; ``fields`` are the case's others."""
        self.add_case(name, Case(what, evidence, **fields))

    def add_case(self, name: str, case: Case, count: int = 1) -> None:
        """Count a case, or several of which only one was made, and keep it if there are few."""
        assert name in MEANINGS, f"no such anomaly: {name}"
        self.counts[name] += count
        if len(self.cases[name]) < EVIDENCE_MAX:
            self.cases[name].append(case)

    def merge(self, other: "Anomalies") -> None:
        """Take over what somebody else found."""
        for name, count in other.counts.items():
            self.counts[name] += count
            kept = self.cases[name]
            kept.extend(other.cases[name][: EVIDENCE_MAX - len(kept)])

    def only(self, names: Iterable[str]) -> "Anomalies":
        """Return what was found under some names."""
        some = Anomalies()
        for name in sorted(names & self.counts.keys()):
            some.counts[name] = self.counts[name]
            some.cases[name] = self.cases[name]
        return some


class Checker(Protocol):
    """Takes the operations of a history in the order of their ends, then judges."""

    def add(self, operation: Operation) -> None:
        """Take note of an operation; those of other workloads mean nothing to it."""
        ...

    def finish(self) -> Anomalies:
        """Return all that is wrong."""
        ...
