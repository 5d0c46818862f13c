"""Which brokers certainly do nothing, or hear nothing, out of the faults of a history.

A fault whose detail names brokers as ``silent`` was seen to bite: they do nothing from then on,
until something else is done to them, be it that this fault is healed, or a scenario (``directed``)
begins or ends, which starts whoever does not run. One whose detail has
``cuts``, which was seen to bite and is not ``flapping``, cuts the network from one place to another
until it is healed; brokers have the first places.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from quorate.dataclass import dataclass
from quorate.jepsen.history import Kind, Operation

FIRST_BROKER_ID: Final = 101
FLAPPING: Final = ":flapping"
SCENARIO: Final = "directed:"


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
        everybody = list(self.since_ns) if asked["fault"].startswith(SCENARIO) else []
        if operation.name == "heal":
            return self._ended([*everybody, *self._targets.pop(asked["fault"], ())])
        ended = self._ended([*everybody, *asked["targets"]])
        self._targets[asked["fault"]] = asked["targets"]
        if operation.kind is Kind.OK and operation.told.get("verified"):
            assert operation.returned_ns is not None, "what is known was told"
            silent: Sequence[str] = asked.get("detail", {}).get("silent", ())
            brokers = [name for name in silent if name.startswith("broker")]
            self.since_ns |= dict.fromkeys(brokers, operation.returned_ns)
        return ended

    def _ended(self, brokers: Sequence[str]) -> list[str]:
        return [name for name in brokers if self.since_ns.pop(name, None) is not None]


class Cuts:
    """Takes ``fault`` and ``heal`` operations in the order of their ends.

    State: the cuts that are on, by fault, and since when.
    """

    def __init__(self, brokers: int) -> None:
        """Begin; so many brokers have the first places."""
        self._brokers = brokers
        self._on: dict[str, _Cut] = {}

    def from_leader(self, broker_id: int) -> Mapping[str, int]:
        """Return since when which brokers certainly fetch nothing from one, by their names."""
        found: dict[str, int] = {}
        for cut in self._on.values():
            for place in cut.neighbours.get(broker_id - FIRST_BROKER_ID, ()):
                name = f"broker-{FIRST_BROKER_ID + place}"
                found[name] = min(cut.since_ns, found.get(name, cut.since_ns))
        return found

    def heed(self, operation: Operation) -> list[str]:
        """Return the brokers of which this ends that something was certain."""
        asked = operation.asked
        ended = self._on.pop(asked["fault"], None)
        told: Mapping[str, Any] = operation.told if operation.kind is Kind.OK else {}
        detail: Mapping[str, Any] = asked.get("detail", {})
        if told.get("verified") and "cuts" in detail and not asked["fault"].endswith(FLAPPING):
            assert operation.returned_ns is not None, "what is known was told"
            if operation.name == "fault":
                self._on[asked["fault"]] = self._cut(detail["cuts"], operation.returned_ns)
        return [] if ended is None else ended.names

    def _cut(self, cuts: Sequence[Sequence[int]], since_ns: int) -> "_Cut":
        neighbours: dict[int, set[int]] = defaultdict(set)
        for one, other in cuts:
            if max(one, other) < self._brokers and min(one, other) >= 0:
                neighbours[one].add(other)
                neighbours[other].add(one)
        return _Cut(since_ns, neighbours)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Who is cut off from whom, by places, in one direction at least, since when."""

    since_ns: int
    neighbours: Mapping[int, AbstractSet[int]]

    @property
    def names(self) -> list[str]:
        """All brokers that it is about."""
        return [f"broker-{FIRST_BROKER_ID + place}" for place in self.neighbours]
