"""Which registers clients use: one after the other is retired, so that searches stay short."""

import threading
from collections.abc import Callable
from random import Random
from typing import Final

OPERATIONS_MAX: Final = 150
"""So many on one register, then there is another one in its place."""


class Registers:
    """The registers in use, and all that ever were; for several threads."""

    def __init__(self, count: int, name: Callable[[int], str]) -> None:
        self._name = name
        self._current = list(range(count))
        self._operations = [0] * count
        self._next = count
        self._lock = threading.Lock()

    def some(self, rng: Random) -> str:
        """Return one to do something to."""
        with self._lock:
            place = rng.randrange(len(self._current))
            if self._operations[place] == OPERATIONS_MAX:
                self._operations[place] = 0
                self._current[place], self._next = self._next, self._next + 1
            self._operations[place] += 1
            return self._name(self._current[place])

    def all(self) -> list[str]:
        """Return all that ever were in use."""
        return [self._name(number) for number in range(self._next)]
