"""A Trio thread behind blocking calls: runs a client, and what other threads ask of it."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import trio

from quorate.client.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

C_co = TypeVar("C_co", covariant=True)
T = TypeVar("T")

THREAD_NAME: Final = "quorate-client"


class _Leave(BaseException):
    """Leaves a client's block as an error of the caller would: nothing more is sent."""


class Background(Generic[C_co]):
    """Owns a thread in which Trio runs, and a client that is open there.

    Any thread may call. Ctrl-C in a call cancels what was asked for, waits until that has ended (a
    second one does not), and then raises as always. Calls after the end raise ClosedError.
    """

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[C_co]]) -> None:
        """Make the client in a thread of its own, and open it.

        Raises:
            Exception: What making or opening it raises.
        """
        self._process_id = os.getpid()
        self._ready: Future[C_co] = Future()
        self._over: Future[None] = Future()
        self._leaving: trio.Event | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._with_error = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(
            target=self._run, args=(make,), name=THREAD_NAME, daemon=True
        )
        self._thread.start()
        try:
            self.client: C_co = self._ready.result()
        except BaseException:  # Ctrl-C, too: nobody has anything yet that could be closed
            self.close(with_error=True)
            raise

    # In the thread

    def _run(self, make: Callable[[], AbstractAsyncContextManager[C_co]]) -> None:
        try:
            trio.run(self._main, make)
        except _Leave:
            self._end(None)
        except BaseException as error:  # noqa: BLE001 - told to who opened or closed it
            self._end(error)
        else:
            self._end(None)

    def _end(self, error: BaseException | None) -> None:
        if not self._ready.done():
            self._ready.set_exception(error or ClosedError("closed while it was opened"))
            error = None
        if error is None:
            self._over.set_result(None)
        else:
            self._over.set_exception(error)

    async def _main(self, make: Callable[[], AbstractAsyncContextManager[C_co]]) -> None:
        self._leaving = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        with self._lock:
            given_up = self._with_error
        if given_up:
            return
        async with make() as client:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._ready.set_result(client)
                await self._leaving.wait()
                nursery.cancel_scope.cancel()
            self._nursery = None
            if self._with_error:
                raise _Leave

    async def _carry_out(
        self, function: Callable[[], Awaitable[T]], scope: trio.CancelScope, done: Future[T]
    ) -> None:
        result: T
        with scope:
            try:
                result = await function()
            except trio.Cancelled:
                done.set_exception(ClosedError("the call was given up, or the client closed"))
                raise
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                done.set_exception(error)
            else:
                done.set_result(result)

    def _start(
        self, function: Callable[[], Awaitable[T]], scope: trio.CancelScope, done: Future[T]
    ) -> None:
        done.set_running_or_notify_cancel()
        if self._nursery is None or self._nursery.cancel_scope.cancel_called:
            done.set_exception(ClosedError("this client was closed"))
        else:
            self._nursery.start_soon(self._carry_out, function, scope, done)

    def _give_up(self, scope: trio.CancelScope, done: Future[T]) -> None:
        scope.cancel()
        if not done.running() and not done.done():
            done.set_exception(ClosedError("the call was given up before it was asked for"))

    # In any other thread

    def call(self, function: Callable[..., Awaitable[T]], *arguments: Any, **named: Any) -> T:
        """Run an async function in the thread and return what it returns.

        Raises:
            ClosedError: The client was closed, before or meanwhile.
            Exception: What the function raises.
        """
        done: Future[T] = Future()
        scope = trio.CancelScope()
        try:
            self.run_soon(partial(self._start, partial(function, *arguments, **named), scope, done))
            return done.result()
        except KeyboardInterrupt:
            with suppress(ClosedError):  # then it has ended
                self.run_soon(partial(self._give_up, scope, done))
                done.exception()  # what to do about it depends on what became of it
            raise

    def call_now(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Run a function that does not wait in the thread and return what it returns."""

        async def run() -> T:
            await trio.lowlevel.checkpoint()
            return function(*arguments, **named)

        return self.call(run)

    def run_soon(self, function: Callable[[], object], *, once: bool = False) -> None:
        """Have the thread call a function that neither waits nor raises; do not wait for it.

        Args:
            function: The function.
            once: Several calls for the same function that wait to be made are one.

        Raises:
            ClosedError: The client was closed, or belongs to the process that this one was forked
                from.
        """
        if os.getpid() != self._process_id:
            raise ClosedError(
                f"this client belongs to process {self._process_id}, and this is {os.getpid()}:"
                " its thread does not run in forked processes; open one in each process"
            )
        if self._over.done() or self._token is None:
            raise ClosedError("this client was closed")
        try:
            self._token.run_sync_soon(function, idempotent=once)
        except trio.RunFinishedError:
            raise ClosedError("this client was closed") from None

    def start(self, function: Callable[[], Awaitable[None]]) -> None:
        """Run an async function in the thread until the client is closed; do not wait for it."""
        self.run_soon(partial(self._start, function, trio.CancelScope(), Future[None]()))

    def close(self, *, with_error: bool = False) -> None:
        """Close the client and end the thread; once is enough, more does no harm.

        In a forked process there is no thread to end: the client stays open where it is.

        Args:
            with_error: What was not done yet need not be, as when an error leaves a block.

        Raises:
            Exception: What closing the client raises.
        """
        if os.getpid() != self._process_id:
            return
        with self._lock:
            self._with_error |= with_error
        if self._leaving is not None and self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._leaving.set)
        self._over.result()
        self._thread.join()
