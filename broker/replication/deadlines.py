"""What is to happen at a time, unless something else happens first."""

import heapq
from collections.abc import Callable


class Deadlines:
    """The deadlines of a process in one heap, so that a request needs no timer of its own.

    The shell says what time it is before each turn (``now_ms``, monotonic), and calls :meth:`fire`
    when :meth:`next_ms` has come. ``on_earlier`` is called when the next deadline becomes an
    earlier one.
    """

    __slots__ = ("_heap", "_sequence", "now_ms", "on_earlier")

    def __init__(self) -> None:
        self.now_ms = 0
        self.on_earlier: Callable[[], None] | None = None
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0

    def after(self, wait_ms: int, callback: Callable[[], None]) -> None:
        """Have ``callback`` called in ``wait_ms``, also when nothing is left to do by then."""
        deadline_ms = self.now_ms + wait_ms
        earlier = not self._heap or deadline_ms < self._heap[0][0]
        self._sequence += 1
        heapq.heappush(self._heap, (deadline_ms, self._sequence, callback))
        if earlier and self.on_earlier is not None:
            self.on_earlier()

    def next_ms(self) -> int | None:
        """Return when :meth:`fire` is to be called next, if there is any deadline."""
        return self._heap[0][0] if self._heap else None

    def fire(self) -> None:
        """Call back whom the time has come for."""
        while self._heap and self._heap[0][0] <= self.now_ms:
            heapq.heappop(self._heap)[2]()
