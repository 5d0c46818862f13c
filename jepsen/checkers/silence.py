"""Which brokers certainly do nothing, out of the faults of a history.

A fault whose detail names brokers as ``silent`` was seen to bite: they do nothing from then on,
until something else is done to them, be it that this fault is healed.
"""

from collections.abc import Sequence

from quorate.jepsen.history import Kind, Operation


class Silences:
    """Takes ``fault`` and ``heal`` operations in the order of their ends.

    ``since_ns`` says by broker since when it does nothing, of those that do nothing now.
    """

    def __init__(self) -> None:
        self.since_ns: dict[str, int] = {}
        self._targets: dict[str, Sequence[str]] = {}
        """Of faults that were not healed yet."""

    def heed(self, operation: Operation) -> list[str]:
        """Return the brokers whose silence was certain until this began, and is not any more."""
        asked = operation.asked
        if operation.name == "heal":
            return self._ended(self._targets.pop(asked["fault"], ()))
        ended = self._ended(asked["targets"])
        self._targets[asked["fault"]] = asked["targets"]
        if operation.kind is Kind.OK and operation.told.get("verified"):
            assert operation.returned_ns is not None, "what is known was told"
            silent: Sequence[str] = asked.get("detail", {}).get("silent", ())
            brokers = [name for name in silent if name.startswith("broker")]
            self.since_ns |= dict.fromkeys(brokers, operation.returned_ns)
        return ended

    def _ended(self, brokers: Sequence[str]) -> list[str]:
        return [name for name in brokers if self.since_ns.pop(name, None) is not None]
