"""The register checker: do keys of metadata behave as if they were in one place?

A ``get`` asks for a key and is told its value, or None; a ``put`` asks for ``[key, value]``; a
``cas`` asks for ``[key, expected, value]`` and is told whether it was done. Keys have no value at
first, and values are unique.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from quorate.jepsen import linearizability as lin
from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.history import Kind, Operation

SHOWN_MAX: Final = 6


class Histories:
    """Histories of registers under way, by key; judged when all is there."""

    def __init__(self, anomaly: str) -> None:
        """Begin; what is wrong is found under this name."""
        self._anomaly = anomaly
        self._by_key: dict[str, list[lin.Operation]] = defaultdict(list)
        self.keys = 0
        self.undecided: list[str] = []

    def add(self, key: str, action: lin.Action, operation: Operation) -> None:
        """Add what an operation did to a key; not of one that failed, or a read not known."""
        returned = lin.NEVER if operation.kind is Kind.INFO else operation.returned_ns
        assert returned is not None, "what is known was told"
        self._by_key[key].append(
            lin.Operation(operation.process, key, action, operation.called_ns, returned)
        )

    def forget(self, key: str) -> None:
        """Judge this key not."""
        self._by_key.pop(key, None)

    def judge(self) -> Anomalies:
        """Return what is wrong; forget the histories."""
        found = Anomalies()
        for key, operations in sorted(self._by_key.items()):
            self.keys += 1
            match lin.check_key(operations):
                case lin.Undecided():
                    self.undecided.append(key)
                case lin.NotLinearizable() as refuted:
                    stuck = refuted.stuck
                    found.add(
                        self._anomaly,
                        f"{key}: no order explains {len(operations)} operations",
                        *_evidence(refuted),
                        where=key,
                        processes=tuple(o.client for o in stuck),
                        at_ns=tuple(int(o.called) for o in stuck),
                    )
                case _:
                    pass
        self._by_key.clear()
        return found


def _evidence(refuted: lin.NotLinearizable) -> Iterator[str]:
    """Say how far the history can be explained, and what cannot be next."""
    if refuted.explained:
        for operation in refuted.explained[-SHOWN_MAX:]:
            yield f"explained: {_shown(operation)}"
        yield f"then it has {refuted.value!r}, and none of these can be next"
    else:
        yield "these contradict each other"
    for operation in refuted.stuck[:SHOWN_MAX]:
        yield _shown(operation)


def _shown(operation: lin.Operation) -> str:
    returned = "never" if not operation.known else f"{int(operation.returned)} ns"
    what = lin.described(operation.action)
    return f"{int(operation.called)} ns to {returned}, process {operation.client}: {what}"


class RegisterChecker:
    """Takes the operations of a history in the order of their ends, then judges."""

    def __init__(self) -> None:
        self.histories: Final = Histories("nonlinearizable-register")

    def add(self, operation: Operation) -> None:
        """Take note of an operation; those of other workloads mean nothing here."""
        if operation.name not in {"get", "put", "cas"} or operation.kind is Kind.FAIL:
            return
        asked, told = operation.asked, operation.told
        is_known = operation.kind is Kind.OK
        if operation.name == "get":
            if is_known:
                self.histories.add(str(asked), lin.Get(told), operation)
        elif operation.name == "put":
            self.histories.add(str(asked[0]), lin.Put(asked[1]), operation)
        else:
            done = bool(told) if is_known else None
            self.histories.add(str(asked[0]), lin.Cas(asked[1], asked[2], done), operation)

    def finish(self) -> Anomalies:
        """Return all that is wrong."""
        return self.histories.judge()
