"""When a producer dies: a moment in its transactions, named by the step that it has reached."""

import math
from collections.abc import Iterable, Mapping
from random import Random
from typing import Final, NamedTuple

from quorate.dataclass import dataclass

BEFORE: Final = "before "
AFTER: Final = "after "
"""These with the name of a method of a transactor are steps, too."""
BEGUN: Final = "begun"
FIRST_SENT: Final = "first sent"
SENT: Final = "sent"
"""Steps inside of ``write``: the transaction has begun, one record or all are handed over."""

EARLY: Final = "init"
DELAYS_S: Final = (0.003, 0.02, 0.3)
LIVES_S: Final = (0.5, 8.0)


class Moment(NamedTuple):
    """A step, and whether death comes a little later than that."""

    step: str
    is_late: bool = False


MOMENTS: Final[Mapping[str, Moment]] = {
    "before-init": Moment(BEFORE + "open"),
    "during-init": Moment(BEFORE + "open", is_late=True),
    "after-init": Moment(AFTER + "open"),
    "after-begin": Moment(BEGUN),
    "after-first-send": Moment(FIRST_SENT),
    "while-sending": Moment(FIRST_SENT, is_late=True),
    "before-flush": Moment(SENT),
    "during-flush": Moment(SENT, is_late=True),
    "after-flush": Moment(AFTER + "write"),
    "before-offsets": Moment(BEFORE + "send_offsets"),
    "during-offsets": Moment(BEFORE + "send_offsets", is_late=True),
    "after-offsets": Moment(AFTER + "send_offsets"),
    "before-commit": Moment(BEFORE + "commit"),
    "during-commit": Moment(BEFORE + "commit", is_late=True),
    "after-commit": Moment(AFTER + "commit"),
    "before-abort": Moment(BEFORE + "abort"),
    "during-abort": Moment(BEFORE + "abort", is_late=True),
    "after-abort": Moment(AFTER + "abort"),
}
OF_OFFSETS: Final = frozenset(name for name in MOMENTS if name.endswith("offsets"))
"""Which come only for those who move a group."""


@dataclass(frozen=True, slots=True)
class Doom:
    """How a process ends: kill -9, the first time that it reaches a step after so long.

    Attributes:
        moment: Its name in MOMENTS.
        lives_s: Before that the step is passed; 0 if it comes only once.
        delay_s: How long after the step; 0 for the same moment.
    """

    moment: str
    lives_s: float
    delay_s: float

    @property
    def step(self) -> str:
        """What is reached."""
        return MOMENTS[self.moment].step


NEVER: Final = Doom("before-init", math.inf, 0.0)


class Dooms:
    """Deals out moments: each comes once before one comes again.

    State: those that have not come.
    """

    def __init__(self, moments: Iterable[str], rng: Random) -> None:
        self._moments = tuple(moments)
        self._rng = rng
        self._deck: list[str] = []

    def draw(self) -> Doom:
        """Return how the next one ends."""
        rng = self._rng
        if not self._deck:
            self._deck = rng.sample(self._moments, len(self._moments))
        moment = self._deck.pop()
        lives_s = 0.0 if moment.endswith(EARLY) else rng.uniform(*LIVES_S)
        delay_s = rng.random() * rng.choice(DELAYS_S) if MOMENTS[moment].is_late else 0.0
        return Doom(moment, lives_s, delay_s)
