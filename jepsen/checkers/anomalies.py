"""Anomalies: what a checker found, by name, with the operations that prove it."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

EVIDENCE_MAX: Final = 8
"""So many cases of an anomaly are kept with their evidence; all are counted."""


@dataclass(frozen=True, slots=True)
class Case:
    """One instance of an anomaly.

    Attributes:
        what: a sentence: what happened that must not.
        evidence: sentences about the operations that prove it, in the order in which they ended.
    """

    what: str
    evidence: tuple[str, ...] = ()


@dataclass(slots=True)
class Anomalies:
    """What was found, by the anomaly's name."""

    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    cases: dict[str, list[Case]] = field(default_factory=lambda: defaultdict(list))

    def __bool__(self) -> bool:
        return bool(self.counts)

    def add(self, name: str, what: str, *evidence: str) -> None:
        """Count a case, and keep it if it is one of the first."""
        self.counts[name] += 1
        if len(self.cases[name]) < EVIDENCE_MAX:
            self.cases[name].append(Case(what, evidence))
