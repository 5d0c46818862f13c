"""Virtual time: what is going to happen, in the order in which it will."""

import heapq
import math
from collections.abc import Callable
from typing import NamedTuple

Action = Callable[[], None]


class _Event(NamedTuple):
    when_s: float
    number: int
    action: Action


class StepsDoneError(Exception):
    """As many events as were asked for have happened."""


class Timeline:
    """Owns the simulated clock; events of the same instant happen in the order they were planned.

    Nothing is ever taken back: whoever plans checks, when it happens, whether it still matters.
    """

    def __init__(self, events_max: float = math.inf) -> None:
        """Begin; after ``events_max`` events, raise a StepsDoneError."""
        self.now_s = 0.0
        self.events = 0
        self._events_max = events_max
        self._planned: list[_Event] = []
        self._number = 0

    def at(self, when_s: float, action: Action) -> None:
        """Plan something; in the past means now."""
        self._number += 1
        heapq.heappush(self._planned, _Event(max(when_s, self.now_s), self._number, action))

    def after(self, delay_s: float, action: Action) -> None:
        self.at(self.now_s + delay_s, action)

    def run_until(self, end_s: float, stop: Callable[[], bool]) -> None:
        """Let things happen until a moment, or until ``stop`` says so."""
        planned = self._planned
        while planned and planned[0].when_s <= end_s and not stop():
            event = heapq.heappop(planned)
            self.now_s = event.when_s
            self.events += 1
            event.action()
            if self.events >= self._events_max:
                raise StepsDoneError
        if not stop():
            self.now_s = end_s
