"""The quorum checker: does one controller lead in a term, and does no controller forget its term?

It goes by what each controller said of itself while the run went on: a ``view`` is told
``{"terms": [[controller, term, leader], ...]}``, with a leader of -1 if that controller knows none.
"""

from collections import defaultdict
from typing import Final

from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.history import Kind, Operation

NOBODY: Final = -1


class QuorumChecker:
    """Takes the operations of a history in the order of their ends, then judges.

    A controller may say a term that it has not written down yet. So what counts is a term that it
    said at least twice: between the two there was time enough.
    """

    def __init__(self) -> None:
        self._leaders: dict[int, dict[int, int]] = defaultdict(dict)
        """By term: who led it, and when that was said first."""
        self._last: dict[int, int] = {}
        self._kept: dict[int, int] = {}
        """By controller: the highest term that it said twice."""
        self._found = Anomalies()

    def add(self, operation: Operation) -> None:
        """Take note of an operation; those of other workloads mean nothing here."""
        if operation.name == "view" and operation.kind is Kind.OK:
            for controller, term, leader in operation.told.get("terms", ()):
                self._add_term(operation.called_ns, controller, term)
                if leader != NOBODY:
                    self._leaders[term].setdefault(leader, operation.called_ns)

    def finish(self) -> Anomalies:
        """Return all that is wrong."""
        for term, leaders in sorted(self._leaders.items()):
            if len(leaders) > 1:
                self._found.add(
                    "two-controllers",
                    f"controllers {sorted(leaders)} led in term {term}",
                    at_ns=tuple(leaders.values()),
                )
        return self._found

    def figures(self) -> dict[str, int | float | str]:
        """Return what is neither right nor wrong."""
        return {"terms seen": len(self._leaders)}

    def _add_term(self, at_ns: int, controller: int, term: int) -> None:
        kept = self._kept.get(controller, term)
        if term < kept:
            self._found.add(
                "term-regression",
                f"controller {controller} is in term {term}, and was in term {kept}",
                at_ns=(at_ns,),
            )
        if term == self._last.get(controller):
            self._kept[controller] = term
        self._last[controller] = term
