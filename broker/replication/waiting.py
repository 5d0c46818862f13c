"""Who waits for offsets to be committed, synced or deleted, in their order."""

from collections import deque
from collections.abc import Callable

from quorate.errors import ErrorCode

CommitWaiter = Callable[[ErrorCode], None]
"""Somebody who wants to know when an offset is committed: NONE when it is, or why one will never
know."""


class Waiters(deque[tuple[int, CommitWaiter]]):
    """Who waits for which offset, in the order of offsets and calls."""

    __slots__ = ()

    def wait(self, offset: int, waiter: CommitWaiter) -> None:
        """Have somebody wait behind all who wait for the same offset or less."""
        if not self or self[-1][0] <= offset:
            self.append((offset, waiter))
            return
        # A duplicate is answered with offsets of old: it stands between younger ones.
        place = sum(waiting <= offset for waiting, _ in self)
        self.insert(place, (offset, waiter))

    def serve(self, offset: int) -> None:
        """Tell those who wait for the offset or less."""
        while self and self[0][0] <= offset:
            self.popleft()[1](ErrorCode.NONE)

    def give_up(self, code: ErrorCode) -> None:
        """Tell all who wait by now why they will never know."""
        waiting = list(self)
        self.clear()
        for _, waiter in waiting:
            waiter(code)

    def take_over(self, others: "Waiters") -> None:
        """Have those wait here, and there no more."""
        while others:
            self.wait(*others.popleft())
