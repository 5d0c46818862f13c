"""Wakes one task, however many reasons came up since it last looked."""

import trio


class Bell:
    """What a task sleeps on that looks for work by itself.

    Invariant: a ring is never lost. Ringing again before the task has woken up costs nothing, which
    is why the hot paths use this and not a memory channel.
    """

    __slots__ = ("_lot", "_rung")

    def __init__(self) -> None:
        self._rung = False
        self._lot = trio.lowlevel.ParkingLot()

    def ring(self) -> None:
        """Wake the task that waits, or keep the next one from falling asleep."""
        if not self._rung:
            self._rung = True
            self._lot.unpark_all()

    async def wait(self) -> None:
        """Sleep until somebody rings; at once if somebody rang since the last time."""
        if self._rung:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            await self._lot.park()
        self._rung = False

    async def wait_until(self, deadline_s: float) -> None:
        """Sleep until somebody rings or Trio's clock reaches the deadline."""
        with trio.CancelScope(deadline=deadline_s):
            await self.wait()
