"""Trio shell: worker threads for what the loop must not wait for: cold files, the disk."""

from collections.abc import Callable, Iterable
from typing import Final

import trio

from quorate.broker.log.log import Log
from quorate.broker.log.store import LogStore

THREADS_MAX: Final = 8
"""Fewer than Trio gives out: whoever syncs logs needs one at once, however slow the disk."""


class Aside:
    """Runs things in threads, and what is to come of them in turns of the loop."""

    def __init__(self, begin_turn: Callable[[], object], end_turn: Callable[[], None]) -> None:
        self._begin_turn = begin_turn
        self._end_turn = end_turn
        self._limiter = trio.CapacityLimiter(THREADS_MAX)
        self._nursery: trio.Nursery | None = None

    def __call__(self, run: Callable[[], None], then: Callable[[], None], /) -> None:
        """Run the first in a thread, and when it is through the second on the loop."""
        assert self._nursery is not None, "only called while running"
        self._nursery.start_soon(self._do, run, then)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Work until cancelled; what a thread is at then is left to it."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    async def _do(self, run: Callable[[], None], then: Callable[[], None]) -> None:
        await trio.to_thread.run_sync(run, limiter=self._limiter, abandon_on_cancel=True)
        self._begin_turn()
        then()
        self._end_turn()


async def sync_logs(store: LogStore, logs: Iterable[Log]) -> None:
    """Sync logs in a thread, and take note of it.

    Raises:
        StorageError: it could not be finished; try again.
        FatalStorageError: the disk failed to sync; nothing more may be acknowledged.
    """
    flush = store.start_flush(logs)
    await trio.to_thread.run_sync(flush.run)
    store.finish_flush(flush)
