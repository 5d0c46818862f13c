"""Who waits for offsets to be committed, synced or deleted, in their order."""

from collections import deque
from collections.abc import Callable

from quorate.errors import ErrorCode

CommitWaiter = Callable[[ErrorCode], None]
"""Somebody who wants to know when an offset is committed: NONE when it is, or why one will never
know."""


def insert_waiter(
    waiters: deque[tuple[int, CommitWaiter]], offset: int, waiter: CommitWaiter
) -> None:
    """Have somebody wait behind all who wait for the same offset or less."""
    if not waiters or waiters[-1][0] <= offset:
        waiters.append((offset, waiter))
        return
    # A duplicate is answered with offsets of old: it stands between younger ones.
    place = sum(waiting <= offset for waiting, _ in waiters)
    waiters.insert(place, (offset, waiter))


def serve_waiters(waiters: deque[tuple[int, CommitWaiter]], offset: int) -> None:
    """Tell those who wait for the offset or less."""
    while waiters and waiters[0][0] <= offset:
        waiters.popleft()[1](ErrorCode.NONE)
