"""The user's code and the rebalances of its consumer take turns."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable


class Turns:
    """Lets a rebalance act only while the user's code waits for records, and the other way round.

    Invariant: while somebody is in :meth:`taken`, nobody comes out of :meth:`over`. So whoever is
    told that a partition is not its any more has done with all records of it that it was given; and
    cancelling the user's code never stops a rebalance half-way, for that is in another task.
    """

    __slots__ = ("_alert", "_changed", "_held", "holder", "wanted")

    def __init__(self, alert: Callable[[], None]) -> None:
        self.wanted = False
        """Whether a rebalance wants its turn, or has it: come to :meth:`over`."""

        self.holder: trio.lowlevel.Task | None = None
        """The task whose turn it is to act."""

        self._held = False
        self._changed = trio.lowlevel.ParkingLot()
        self._alert = alert

    @asynccontextmanager
    async def taken(self) -> AsyncGenerator[None]:
        """Wait for the user's code to wait; have it wait until the block ends."""
        assert not self.wanted
        self.wanted = True
        try:
            self._alert()
            while not self._held:
                await self._changed.park()
            self.holder = trio.lowlevel.current_task()
            yield
        finally:
            self.wanted = self._held = False
            self.holder = None
            self._changed.unpark_all()

    def grant(self) -> None:
        """Let whoever wants its turn have it."""
        if self.wanted and not self._held:
            self._held = True
            self._changed.unpark_all()

    async def ended(self) -> None:
        """Wait for the end of the turn that was granted, if one was."""
        while self._held:
            await self._changed.park()

    async def over(self) -> None:
        """Grant turns until nobody wants one."""
        while self.wanted:
            self.grant()
            await self._changed.park()
