"""The min.insync checker: was anything acknowledged that too few brokers can have?

A fault whose detail names brokers as ``silent`` was seen to bite: they do nothing until something
else is done to them. A record that was sent after that, and acknowledged with acks=all before, is
on none of them. So the others must be as many as ``min.insync.replicas`` demands; and only those
can have it that ever were replicas of its partition, if the controllers' decisions
(``metadata-log``) say who was.
"""

import math
from collections import defaultdict
from typing import Final

from quorate.dataclass import dataclass
from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.checkers.log import ACKS_ALL
from quorate.jepsen.checkers.metadata_log import MetadataLog
from quorate.jepsen.checkers.silence import Silences
from quorate.jepsen.history import Kind, Operation

REFUSED: Final = "NOT_ENOUGH_REPLICAS"


@dataclass(slots=True)
class _Case:
    """An acknowledgement while some were silent, as far as is known."""

    partition: str
    value: int
    returned_ns: int
    silent: frozenset[str]


class InsyncChecker:
    """Takes the operations of a history in the order of their ends, then judges."""

    def __init__(
        self, brokers: int, min_insync: int, acks: str = ACKS_ALL, replicas: int = 0
    ) -> None:
        """Begin; with a ``min_insync`` of 0, because nobody says, nothing is judged.

        Args:
            brokers: how many there are.
            min_insync: what topics have as ``min.insync.replicas``.
            acks: of sends that do not say their own.
            replicas: how many partitions have; 0 if nobody says.
        """
        spare = min(brokers, replicas or brokers) - min_insync
        self._silent_spare: Final = spare if min_insync else math.inf
        """More silent ones may be too many."""
        self._brokers = brokers
        self._silent_max: Final = brokers - min_insync if min_insync else math.inf
        self._min_insync = min_insync
        self._acks = acks
        self._silences = Silences()
        self._log = MetadataLog()
        self._replicas: dict[str, set[str]] = defaultdict(set)
        """By partition: all that the controllers ever gave it."""
        self._cases: dict[tuple[str, frozenset[tuple[str, int]]], _Case] = {}
        """By partition, and who was silent since when: the first is enough."""
        self.refused = 0
        """How many sends were refused, meanwhile, for that reason."""

    def add(self, operation: Operation) -> None:
        """Take note of an operation; those of other workloads mean nothing here."""
        if operation.name in {"fault", "heal"}:
            for broker in self._silences.heed(operation):
                self._end_silence(broker, operation)
        elif operation.name == "send" and len(self._silences.since_ns) > self._silent_spare:
            self._add_send(operation)
        elif operation.name == "metadata-log":
            for _, decision in self._log.read(operation):
                self._replicas[decision.partition] |= {f"broker-{i}" for i in decision.replicas}

    def finish(self) -> Anomalies:
        """Return all that is wrong."""
        found = Anomalies()
        for case in self._cases.values():
            if self._can_have_it(case) < self._min_insync:
                found.add(
                    "below-min-insync",
                    f"{case.partition}: {case.value} was acknowledged while {len(case.silent)}"
                    f" brokers ({', '.join(sorted(case.silent))}) did nothing; its other replicas"
                    f" are fewer than min.insync.replicas={self._min_insync}",
                    where=case.partition,
                    at_ns=(case.returned_ns,),
                )
        return found

    def figures(self) -> dict[str, int | float | str]:
        """Return what is neither right nor wrong."""
        return {"refused below min.insync": self.refused}

    def _can_have_it(self, case: _Case) -> int:
        """Return how many brokers can have a record, at the most."""
        replicas = self._replicas.get(case.partition)
        if replicas is None or self._log.is_partial:  # it may have had others before
            return self._brokers - len(case.silent)
        return len(replicas - case.silent)

    def _add_send(self, operation: Operation) -> None:
        asked = operation.asked
        acks = asked[4] if len(asked) > 4 else self._acks
        if acks != ACKS_ALL:
            return
        if operation.kind is Kind.FAIL:
            is_right = len(self._silences.since_ns) > self._silent_max
            self.refused += is_right and operation.told == REFUSED
        elif operation.kind is Kind.OK:
            since = frozenset(
                (broker, ns)
                for broker, ns in self._silences.since_ns.items()
                if ns < operation.called_ns
            )
            assert operation.returned_ns is not None, "what is known was told"
            if len(since) > self._silent_spare and (asked[0], since) not in self._cases:
                silent = frozenset(broker for broker, _ in since)
                case = _Case(asked[0], asked[1], operation.returned_ns, silent)
                self._cases[asked[0], since] = case

    def _end_silence(self, broker: str, operation: Operation) -> None:
        """Forget that a broker did nothing when this operation had begun."""
        for case in self._cases.values():
            if case.returned_ns >= operation.called_ns:
                case.silent -= {broker}
