"""When which fault happens: plans that are drawn before anything happens, from a seed.

A plan knows nothing of the cluster: whom a fault hits is chosen when it is inflicted.
"""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Final

from quorate.dataclass import dataclass
from quorate.jepsen.nemesis.fault import Family

PERIOD_S: Final = (5.0, 10.0)
"""How long a period of a rotation lasts: at least, at most."""

CALM: Final = 1 / 4
"""Which part of a rotation's periods has no faults; the first one always has some."""

TOGETHER: Final = (0.6, 0.9)
"""Below which draws a period has one family, or two; at most three."""

SINGLE_S: Final = 5.0
"""How long a fault lasts that comes alone again and again, and how long the cluster then has."""

SHORTEST_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Step:
    """A fault of a plan.

    Attributes:
        at_s: When it begins, since the plan does.
        lasts_s: After how long it is healed. What heals by itself before that may do so.
    """

    at_s: float
    family: str
    variant: str
    lasts_s: float

    @property
    def until_s(self) -> float:
        """When it is healed."""
        return self.at_s + self.lasts_s


class _Decks:
    """Draws variants without putting them back: all of a family come before one comes again.

    Those with more weight come earlier, and so more often in short runs.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._left: dict[str, list[str]] = {}

    def draw(self, family: Family) -> str:
        """Return the next variant."""
        left = self._left.get(family.name)
        if not left:
            left = self._left[family.name] = self._shuffled(family)
        return left.pop()

    def _shuffled(self, family: Family) -> list[str]:
        weights = {name: family.variants[name].weight for name in sorted(family.variants)}
        if not any(weights.values()):
            weights = dict.fromkeys(weights, 1)
        # Efraimidis and Spirakis: the order in which weighted draws without replacement end.
        places = {
            name: self._rng.random() ** (1 / weight) for name, weight in weights.items() if weight
        }
        return sorted(places, key=places.__getitem__)


def rotation(families: Mapping[str, Family], seconds: float, rng: Random) -> Iterator[Step]:
    """Yield, for one period after the other, some families at once, or none of them.

    Everything of a period is healed when the next one begins. The last one may be cut short.
    """
    begin_s = 0.0
    names, decks = sorted(families), _Decks(rng)
    while names and begin_s < seconds:
        period_s = min(rng.uniform(*PERIOD_S), seconds - begin_s)
        is_calm = rng.random() < CALM
        if begin_s == 0 or not is_calm:  # a short run would show nothing
            chosen = rng.sample(names, min(_together(rng), len(names)))
            steps = [_step(families[name], begin_s, period_s, decks, rng) for name in chosen]
            yield from sorted((s for s in steps if s.lasts_s >= SHORTEST_S), key=_begin)
        begin_s += period_s


def single(families: Mapping[str, Family], seconds: float, rng: Random) -> Iterator[Step]:
    """Yield one fault after the other, each followed by as long a time without."""
    begin_s, decks = SINGLE_S / 2, _Decks(rng)
    while families and begin_s + SHORTEST_S <= seconds:
        family = families[rng.choice(sorted(families))]
        lasts_s = min(SINGLE_S, seconds - begin_s)
        yield Step(begin_s, family.name, decks.draw(family), lasts_s)
        begin_s += 2 * SINGLE_S


def none(families: Mapping[str, Family], seconds: float, rng: Random) -> Iterator[Step]:
    """Yield nothing: what a cluster loses without faults, it loses without an excuse."""
    del families, seconds, rng
    yield from ()


SCHEDULES: Final = {"rotation": rotation, "single": single, "none": none}


def plan(families: Mapping[str, Family], seconds: float, rng: Random) -> Iterator[Step]:
    """Yield what happens if nobody asks for another schedule."""
    return rotation(families, seconds, rng)


def _together(rng: Random) -> int:
    draw = rng.random()
    return 1 + sum(draw >= limit for limit in TOGETHER)


def _step(family: Family, begin_s: float, period_s: float, decks: _Decks, rng: Random) -> Step:
    """Return a fault in the first part of a period, which lasts for the rest of it or less."""
    after_s = rng.uniform(0, 0.3) * period_s
    lasts_s = rng.uniform(0.4, 0.95) * (period_s - after_s)
    return Step(begin_s + after_s, family.name, decks.draw(family), lasts_s)


def _begin(step: Step) -> float:
    return step.at_s
