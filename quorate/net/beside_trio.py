"""Lets a task wait for the system in the stead of Trio's loop, for a while, and nobody be late."""

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import trio

from quorate.errors import QuorateError

if TYPE_CHECKING:
    from collections.abc import Callable


class UnknownLoopError(QuorateError):
    """This Trio is made otherwise than those we know, or has no epoll."""


class BesideTrio(trio.abc.Instrument):
    """Trio's loop, as seen by a task that blocks the thread it runs on.

    The task waits in an epoll of its own that watches :attr:`fd`, too: it is readable when others'
    descriptors are, and when a thread or a signal has something for the loop. Who can run, and
    until when the clock has nothing for anybody, :meth:`patience_s` says.

    Invariant: between :meth:`begin` and :meth:`end`, after a first checkpoint, ``_runnable`` are
    the tasks that were scheduled and have not run since: Trio itself does not tell of those whose
    turn comes in the same round as that of the task that asks.
    """

    __slots__ = ("_next_deadline", "_runnable", "_runs_next", "_sleep_s", "_unregister", "fd")

    def __init__(self) -> None:
        """Look at the loop that runs in this thread.

        Raises:
            UnknownLoopError: the task has to wait as others do.
        """
        self._runnable: set[object] = set()
        try:
            # Trio has no public names for its epoll, its deadlines and who can run. These are those
            # of all versions from 0.27 to 0.35.
            runner: Any = import_module("trio._core._run").GLOBAL_RUN_CONTEXT.runner
            epoll: Any = runner.io_manager._epoll  # noqa: SLF001 - see above
            self.fd = int(epoll.fileno())
            self._unregister: Callable[[int], None] = epoll.unregister
            self._runs_next: Callable[[], list[object]] = runner.runq.copy
            self._next_deadline: Callable[[], float] = runner.deadlines.next_deadline
            self._sleep_s: Callable[[float], float] = runner.clock.deadline_to_sleep_time
            self.patience_s()
        except (ImportError, AttributeError, TypeError) as error:
            raise UnknownLoopError(str(error)) from error

    def begin(self, fd: int) -> None:
        """Begin to wait in the epoll ``fd``, which no task awaits now; a checkpoint is due.

        Trio's epoll lets go of it, because two cannot watch each other; it takes it up again when
        a task awaits it.
        """
        with suppress(FileNotFoundError):
            self._unregister(fd)
        self._runnable = set(self._runs_next())
        trio.lowlevel.add_instrument(self)

    def end(self) -> None:
        """Wait in Trio again."""
        with suppress(KeyError):
            trio.lowlevel.remove_instrument(self)

    def patience_s(self) -> float:
        """Return for how long no task can run unless something comes from outside; 0: one can."""
        if self._runnable:
            return 0.0
        return max(self._sleep_s(self._next_deadline()), 0.0)

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        """Note who can run."""
        self._runnable.add(task)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note who runs."""
        self._runnable.discard(task)
