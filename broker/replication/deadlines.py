"""What is to happen at a time, unless something else happens first."""

import heapq
from collections.abc import Callable
from typing import Final

CANCELLED_KEPT: Final = 64
"""So many cancelled deadlines may always lie in the heap; beyond, they are at most half of it."""


class Deadline:
    """One callback at one time, until it is called or cancelled."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback


class Deadlines:
    """The deadlines of a process in one heap, so that a request needs no timer of its own.

    The shell says what time it is before each turn (``now_ms``, monotonic), and calls :meth:`fire`
    when :meth:`next_ms` has come. ``on_earlier`` is called when the next deadline becomes an
    earlier one.

    Invariant: what is cancelled is let go of at once, and the heap stays within twice what is not;
    so a deadline that is hardly ever met costs no memory, however far off it is.
    """

    __slots__ = ("_cancelled", "_heap", "_sequence", "now_ms", "on_earlier")

    def __init__(self) -> None:
        self.now_ms = 0
        self.on_earlier: Callable[[], None] | None = None
        self._heap: list[tuple[int, int, Deadline]] = []
        self._cancelled = 0
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def after(self, wait_ms: int, callback: Callable[[], None]) -> Deadline:
        """Have ``callback`` called in ``wait_ms``, unless the deadline is cancelled before."""
        deadline = Deadline(callback)
        deadline_ms = self.now_ms + wait_ms
        earlier = not self._heap or deadline_ms < self._heap[0][0]
        self._sequence += 1
        heapq.heappush(self._heap, (deadline_ms, self._sequence, deadline))
        if earlier and self.on_earlier is not None:
            self.on_earlier()
        return deadline

    def cancel(self, deadline: Deadline) -> None:
        """Do not call back any more; nothing happens if that is over already."""
        if deadline.callback is None:
            return
        deadline.callback = None
        self._cancelled += 1
        if self._cancelled > CANCELLED_KEPT and 2 * self._cancelled > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def next_ms(self) -> int | None:
        """Return when :meth:`fire` is to be called next, if there is any deadline."""
        return self._heap[0][0] if self._heap else None

    def fire(self) -> None:
        """Call back whom the time has come for."""
        while self._heap and self._heap[0][0] <= self.now_ms:
            deadline = heapq.heappop(self._heap)[2]
            callback, deadline.callback = deadline.callback, None
            if callback is None:
                self._cancelled -= 1
            else:
                callback()
