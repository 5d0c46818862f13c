"""What the blocking client hands over without waiting: handles to ask what became of it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio

from quorate.client.errors import ClosedError

if TYPE_CHECKING:
    from quorate.client import consumer as async_consumer
    from quorate.client import producer as async_producer
    from quorate.client.background import Background
    from quorate.client.commits import Commit
    from quorate.client.delivery import Delivery, RecordMetadata


class PendingDelivery:
    """A record on its way; may be dropped by who does not want to know."""

    __slots__ = ("_arguments", "_background", "_delivery", "_error", "_waiting")

    def __init__(
        self, background: Background[async_producer.Producer[Any, Any]], arguments: dict[str, Any]
    ) -> None:
        self._background = background
        self._arguments = arguments
        self._delivery: Delivery | None = None
        self._error: Exception | None = None
        self._waiting: trio.Event | None = None

    def result(self) -> RecordMetadata:
        """Wait for the outcome, and return where the record is.

        Raises:
            QuorateError: It was not delivered, for that reason.
        """
        if self._delivery is not None and self._delivery.done:
            return self._delivery.metadata
        if self._error is not None:
            raise self._error
        return self._background.call(self._settled)

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._error is not None or (self._delivery is not None and self._delivery.done)

    async def _settled(self) -> RecordMetadata:
        if self._delivery is None and self._error is None:
            self._waiting = self._waiting or trio.Event()
            await self._waiting.wait()
        if self._error is not None:
            raise self._error
        assert self._delivery is not None
        return await self._delivery.result()

    async def hand_over(self, producer: async_producer.Producer[Any, Any]) -> None:
        """Give the record to the producer, waiting for room; in the thread."""
        try:
            self._delivery = await producer.enqueue(**self._arguments)
        except Exception as error:  # noqa: BLE001 - told to who asks for the result
            self._error = error
        self._tell()

    def _tell(self) -> None:
        if self._waiting is not None:
            self._waiting.set()

    def fail(self, error: Exception) -> None:
        """It will not be handed over; not in the thread, which may have ended."""
        self._error = error
        with suppress(ClosedError):  # then nobody waits
            self._background.run_soon(self._tell)


class PendingCommit:
    """Offsets on their way; may be dropped by who does not want to know."""

    __slots__ = ("_background", "_commit")

    def __init__(
        self, background: Background[async_consumer.Consumer[Any, Any]], commit: Commit
    ) -> None:
        self._background = background
        self._commit = commit

    def result(self) -> None:
        """Wait for the outcome.

        Raises:
            QuorateError: Not everything was committed, for that reason.
        """
        self._background.call(self._commit.result)

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._commit.done
