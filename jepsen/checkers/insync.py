"""The min.insync checker: was anything acknowledged that too few brokers can have?

A fault whose detail names brokers as ``silent`` was seen to bite: they do nothing until something
else is done to them. A record that was sent after that, and acknowledged with acks=all before, is
on none of them. So the others must be as many as ``min.insync.replicas`` demands.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.checkers.log import ACKS_ALL
from quorate.jepsen.history import Kind, Operation

REFUSED: Final = "NOT_ENOUGH_REPLICAS"
KEPT_MAX: Final = 100_000
"""Cases of which nobody knows yet how long the silence lasted: more would be no news."""


@dataclass(slots=True)
class _Case:
    """An acknowledgement while too many were silent, as far as is known."""

    partition: str
    value: int
    returned_ns: int
    silent: frozenset[str]


class InsyncChecker:
    """Takes the operations of a history in the order of their ends, then judges."""

    def __init__(self, brokers: int, min_insync: int, acks: str = ACKS_ALL) -> None:
        """Begin; with a ``min_insync`` of 0, because nobody says, nothing is judged."""
        self._silent_max: Final = brokers - min_insync if min_insync else math.inf
        self._min_insync = min_insync
        self._acks = acks
        self._targets: dict[str, Sequence[str]] = {}
        """Of faults that were not healed yet."""
        self._silent: dict[str, int] = {}
        """Brokers that do nothing, and since when."""
        self._cases: list[_Case] = []
        self.refused = 0
        """How many sends were refused, meanwhile, for that reason."""

    def add(self, operation: Operation) -> None:
        """Take note of an operation; those of other workloads mean nothing here."""
        if operation.name == "heal":
            self._disturb(self._targets.pop(operation.asked["fault"], ()), operation)
        elif operation.name == "fault":
            self._add_fault(operation)
        elif operation.name == "send" and len(self._silent) > self._silent_max:
            self._add_send(operation)

    def finish(self) -> Anomalies:
        """Return all that is wrong."""
        found = Anomalies()
        for case in self._cases:
            if len(case.silent) > self._silent_max:
                found.add(
                    "below-min-insync",
                    f"{case.partition}: {case.value} was acknowledged while {len(case.silent)}"
                    f" brokers ({', '.join(sorted(case.silent))}) did nothing; the others are fewer"
                    f" than min.insync.replicas={self._min_insync}",
                    where=case.partition,
                    at_ns=(case.returned_ns,),
                )
        return found

    def figures(self) -> dict[str, int | float | str]:
        """Return what is neither right nor wrong."""
        return {"refused below min.insync": self.refused}

    def _add_send(self, operation: Operation) -> None:
        asked = operation.asked
        acks = asked[4] if len(asked) > 4 else self._acks
        if acks != ACKS_ALL:
            return
        if operation.kind is Kind.FAIL:
            self.refused += operation.told == REFUSED
        elif operation.kind is Kind.OK and len(self._cases) < KEPT_MAX:
            silent = frozenset(
                broker for broker, ns in self._silent.items() if ns < operation.called_ns
            )
            assert operation.returned_ns is not None, "what is known was told"
            if len(silent) > self._silent_max:
                self._cases.append(_Case(asked[0], asked[1], operation.returned_ns, silent))

    def _add_fault(self, operation: Operation) -> None:
        asked = operation.asked
        self._disturb(asked["targets"], operation)
        self._targets[asked["fault"]] = asked["targets"]
        if operation.kind is not Kind.OK or not operation.told.get("verified"):
            return
        assert operation.returned_ns is not None, "what is known was told"
        for broker in asked.get("detail", {}).get("silent", ()):
            if broker.startswith("broker"):
                self._silent[broker] = operation.returned_ns

    def _disturb(self, brokers: Iterable[str], operation: Operation) -> None:
        """End the silence of brokers: it was so until this began, and may be over since then."""
        for broker in brokers:
            if self._silent.pop(broker, None) is not None:
                for case in self._cases:
                    if case.returned_ns >= operation.called_ns:
                        case.silent -= {broker}
