"""A client from the beginning of its ``async with`` block to the end: its tasks, its cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from quorate.client.connections import Cluster
from quorate.client.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from random import Random
    from types import TracebackType

    from quorate.client.connections import ClientSettings


class Lifetime:
    """Opens a nursery with the client and closes it with the client.

    Exceptions of the block pass unchanged: a user who raises ValueError sees a ValueError, and not
    a group of one. Cancelling the block cancels the user's code, and the client's tasks only when
    it has left the block: what is to be done there, such as leaving a group, needs connections.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._outer: trio.Nursery | None = None
        self._nursery: trio.Nursery | None = None
        self._cluster: Cluster | None = None
        self._tasks = trio.CancelScope(shield=True)
        self._over = False

    def check_open(self) -> None:
        """Raise ClosedError outside the block."""
        if self._over:
            raise self._closed()
        if self._nursery is None:
            raise ClosedError(f"this {self._name} is not open: use it in 'async with'")

    def _closed(self) -> ClosedError:
        return ClosedError(f"this {self._name} was closed: its 'async with' block has ended")

    @property
    def nursery(self) -> trio.Nursery:
        """Where the client's tasks run, once it is open."""
        assert self._nursery is not None
        return self._nursery

    async def open(
        self, settings: ClientSettings, rng: Random, *on_change: Callable[[], None]
    ) -> Cluster:
        """Connect; to be called once.

        Args:
            settings: How, and to whom.
            rng: Spreads load.
            on_change: To be called when the view of the cluster changes, from the first time on.

        Raises:
            BootstrapError: No bootstrap address led to a broker in time.
        """
        if self._manager is not None:
            raise ClosedError(f"a {self._name} can be opened once: make another one")
        self._manager = trio.open_nursery()
        self._outer = await self._manager.__aenter__()
        try:
            # Not with start(): cancelled, it would wait for tasks that cancelling does not reach.
            hosted = trio.Event()
            self._outer.start_soon(self._host, hosted)
            await hosted.wait()
            self._cluster = cluster = Cluster(settings, self.nursery, rng)
            for callback in on_change:
                cluster.on_change(callback)
            await cluster.open()
        except BaseException as error:
            await self.close(error, error.__traceback__)
            raise
        return cluster

    async def _host(self, hosted: trio.Event) -> None:
        with self._tasks:
            async with trio.open_nursery() as self._nursery:
                hosted.set()
                await trio.sleep_forever()

    def start_soon(self, task: Callable[[str], Awaitable[None]], argument: str) -> None:
        """Run a task in the nursery."""
        self.nursery.start_soon(task, argument)

    async def close(self, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Cancel the tasks and wait for their end; whoever waits elsewhere gets ClosedError."""
        self._over = True
        if self._cluster is not None:
            self._cluster.close(self._closed())
        assert self._manager is not None
        assert self._outer is not None
        self._tasks.cancel()
        self._outer.cancel_scope.cancel()
        if isinstance(error, trio.Cancelled):
            # It may be the nursery's own, because one of our tasks crashed: let the nursery judge.
            await self._manager.__aexit__(type(error), error, traceback)
        else:
            await self._manager.__aexit__(None, None, None)
