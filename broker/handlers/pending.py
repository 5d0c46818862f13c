"""The parts of a request that wait for something to happen to a partition, or for the time.

For instance for followers to forget what their leader was told to forget.
"""

from collections.abc import Callable

from quorate.broker.handlers.context import Broker
from quorate.broker.replication.waiting import CommitWaiter
from quorate.errors import ErrorCode
from quorate.promise import Promise

Settle = Callable[[ErrorCode], None]
"""Completes one part of the answer, by what became of it."""


class Pending:
    """The parts of one request that are not decided yet.

    Invariant: each is settled exactly once, and the request is answered when the last one is.
    """

    __slots__ = ("_finish", "_open")

    def __init__(self) -> None:
        self._open: dict[object, Settle] = {}
        self._finish: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def waiter(self, settle: Settle) -> CommitWaiter:
        """Have one part wait; return what is to be called when it is decided."""
        key = object()
        self._open[key] = settle

        def decided(code: ErrorCode) -> None:
            if self._open.pop(key, None) is None:
                return  # the time was up before
            settle(code)
            if not self._open:
                self._resolve()

        return decided

    def promise_of(self, broker: Broker, response: object, timeout_ms: int) -> Promise[object]:
        """Return a promise of the answer; what is not decided in time is settled as timed out."""
        promise: Promise[object] = Promise()
        deadline = broker.deadlines.after(max(timeout_ms, 0), self._expire)

        def finish() -> None:
            broker.deadlines.cancel(deadline)
            promise.resolve(response)

        self._finish = finish
        return promise

    def _expire(self) -> None:
        waiting, self._open = self._open, {}
        for settle in waiting.values():
            settle(ErrorCode.REQUEST_TIMED_OUT)
        self._resolve()

    def _resolve(self) -> None:
        assert self._finish is not None, "nothing is decided while the request is handled"
        self._finish()
