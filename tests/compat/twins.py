"""Two brokers that give names of their own, asked the same: what was given is called alike here."""

import re
import select
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from quorate.errors import ErrorCode
from quorate.protocol.apis import ApiKey
from tests.compat.clients.model import DEADLINE_S
from tests.compat.telling import Difference, differences, identity, plain
from tests.compat.wire import Wire

Make = Callable[["Side"], Any]
"""Makes the body of a request to one of the two."""

QUIET_S: Final = 0.012
"""Who has said nothing for so long waits for others."""
PATIENCE_S: Final = 5.0
PAUSE_S: Final = 0.005
NOBODY: Final = (None, "", -1)
UNTOLD: Final = re.compile(r"\w+-[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")
"""The id of a classic member that has not been told it yet."""
NAMED: Final = ("topic_id", "producer_id", "member_id", "leader", "group_id")
RETRIED: Final = frozenset({
    ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_LEADER_OR_FOLLOWER,
})  # fmt: skip


@dataclass(slots=True)
class Side:
    """One of the two: connections to it, and what it calls what both have."""

    wires: Sequence[Wire]
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    symbols: dict[Any, str] = field(default_factory=dict[Any, str])

    def of(self, symbol: Any) -> Any:
        """Return what this one calls it; what has no name of its own stands for itself."""
        return self.values.get(symbol, symbol)

    def name(self, symbol: str, value: Any) -> None:
        """Remember what this one calls something."""
        self.values[symbol] = value
        self.symbols[value] = symbol

    def ask(self, api_key: ApiKey, version: int, make: Make) -> Any:
        """Ask again while the last transaction is ending, or there is no coordinator yet."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = self.wires[0].ask(api_key, version, make(self))
            if not RETRIED.intersection(codes(answer)) or time.monotonic() > deadline:
                return answer
            time.sleep(PAUSE_S)

    def renamed(self, told: Any, name: str = "") -> Any:
        """Return plain values in the names that both have."""
        if isinstance(told, dict):
            parts = cast("dict[str, Any]", told)
            return {name: self.renamed(part, name) for name, part in parts.items()}
        if isinstance(told, list):
            renamed = [self.renamed(part, name) for part in cast("Sequence[Any]", told)]
            return renamed if name == "records" else sorted(renamed, key=identity)
        if name not in NAMED:
            return told
        untold = isinstance(told, str) and UNTOLD.fullmatch(told)
        return self.symbols.get(told, "not told yet" if untold else told)


def alike(body: Any) -> Make:
    """Ask both in the same words."""
    return lambda _side: body


class Told(NamedTuple):
    """What both have answered, in the names that both have."""

    kafka: Any
    ours: Any

    def differences(self) -> list[Difference]:
        """Return where the answers differ."""
        return differences(self.kafka, self.ours)


class Asked(NamedTuple):
    """A request that may have to wait for others."""

    api_key: ApiKey
    version: int
    make: Make


class Twins:
    """Asks both; what they name for the first time is called alike from then on."""

    def __init__(self, kafka: Sequence[Wire], ours: Sequence[Wire]) -> None:
        self.sides = self.kafka, self.ours = Side(kafka), Side(ours)
        self.waiting: dict[int, Asked] = {}
        """Which connections have no answer yet, and what they asked."""

    def ask(self, api_key: ApiKey, version: int, make: Make, *names: str) -> Told:
        """Ask on the first connection; ``names`` are fields that may have new names."""
        return self.told([side.ask(api_key, version, make) for side in self.sides], *names)

    def told(self, answers: Sequence[Any], *names: str) -> Told:
        """Return both answers as plain values."""
        for name in names:
            self._name(name, [getattr(answer, name, None) for answer in answers])
        return Told(*(s.renamed(plain(a)) for s, a in zip(self.sides, answers, strict=True)))

    def _name(self, name: str, values: Sequence[Any]) -> None:
        pairs = list(zip(self.sides, values, strict=True))
        if all(value not in NOBODY and value not in side.symbols for side, value in pairs):
            symbol = f"{name}#{len(self.kafka.values)}"
            for side, value in pairs:
                side.name(symbol, value)

    def post(self, place: int, asked: Asked) -> None:
        """Ask on a connection where the answer may have to wait for others."""
        for side in self.sides:
            side.wires[place].post(asked.api_key, asked.version, asked.make(side))
        self.waiting[place] = asked

    def answered(self, *names: str) -> Iterable[tuple[int, Asked, Told]]:
        """Yield what has been answered by now, and where; by one of them means by both."""
        while ready := self._ready():
            for place in sorted(ready):
                asked = self.waiting.pop(place)
                for side in self.sides:
                    wire = side.wires[place]
                    assert _readable([wire], PATIENCE_S), ("only one answers", asked)
                answers = [
                    side.wires[place].answer(asked.api_key, asked.version) for side in self.sides
                ]
                yield place, asked, self.told(answers, *names)

    def _ready(self) -> set[int]:
        places = {side.wires[place]: place for side in self.sides for place in self.waiting}
        return {places[wire] for wire in _readable(list(places), QUIET_S)}


def _readable(wires: Sequence[Wire], timeout_s: float) -> list[Wire]:
    return select.select(wires, [], [], timeout_s)[0] if wires else []


def codes(answer: Any) -> set[ErrorCode]:
    """Return all error codes of an answer, wherever they are."""
    if isinstance(answer, list):
        return {code for element in cast("Sequence[Any]", answer) for code in codes(element)}
    layout = getattr(answer, "__layout__", None)
    found: set[ErrorCode] = set()
    for at in () if layout is None else layout.fields:
        held = getattr(answer, at.name)
        if at.name in ("error_code", "partition_error_code"):
            found.add(ErrorCode(held))
        else:
            found |= codes(held)
    return found
