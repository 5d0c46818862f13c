"""The min.insync checker: was anything acknowledged that too few brokers can have?

A fault whose detail names brokers as ``silent`` was seen to bite: they do nothing until something
else is done to them. A record that was sent after that, and acknowledged with acks=all before, is
on none of them. So the others must be as many as ``min.insync.replicas`` demands.
"""

import math
from dataclasses import dataclass
from typing import Final

from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.checkers.log import ACKS_ALL
from quorate.jepsen.checkers.silence import Silences
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
        self._silences = Silences()
        self._cases: list[_Case] = []
        self.refused = 0
        """How many sends were refused, meanwhile, for that reason."""

    def add(self, operation: Operation) -> None:
        """Take note of an operation; those of other workloads mean nothing here."""
        if operation.name in {"fault", "heal"}:
            for broker in self._silences.heed(operation):
                self._end_silence(broker, operation)
        elif operation.name == "send" and len(self._silences.since_ns) > self._silent_max:
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
                broker for broker, ns in self._silences.since_ns.items() if ns < operation.called_ns
            )
            assert operation.returned_ns is not None, "what is known was told"
            if len(silent) > self._silent_max:
                self._cases.append(_Case(asked[0], asked[1], operation.returned_ns, silent))

    def _end_silence(self, broker: str, operation: Operation) -> None:
        """Forget that a broker did nothing when this operation had begun."""
        for case in self._cases:
            if case.returned_ns >= operation.called_ns:
                case.silent -= {broker}
