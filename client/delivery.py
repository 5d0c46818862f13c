"""What a producer gives back for a record: a handle now, offset and time later."""

from __future__ import annotations

import logging
from copy import copy
from typing import TYPE_CHECKING, TypedDict, cast

import trio

from quorate.client.sending.batches import Appended, Batch
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.model import UNKNOWN_OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from quorate.model import TopicPartition
    from quorate.records.record import Header

logger = logging.getLogger(__name__)


class RecordOptions(TypedDict, total=False):
    """What else may be said of a record that is sent, beside its value and its key."""

    headers: Iterable[Header]
    """Pairs of name and value."""

    partition: int | None
    """The partition, if it should not be chosen by key or by turns."""

    timestamp_ms: int | None
    """The record's time, by default now; milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where an acknowledged record is.

    Attributes:
        topic_partition: The topic and the partition.
        offset: Its offset; -1 if nobody says (``acks=0``).
        timestamp_ms: Its time: the producer's, or the broker's if the topic's
            ``message.timestamp.type`` is ``LogAppendTime``.
    """

    topic_partition: TopicPartition
    offset: int
    timestamp_ms: int

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.topic_partition.topic

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self.topic_partition.partition


class Delivery(tuple[Batch, int]):
    """A record on its way.

    It may be dropped by whoever does not want to know; then it costs nothing more. (A tuple of the
    batch and the record's index in it, because producers make one for every record.)
    """

    __slots__ = ()

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        batch, _ = self[0].find(self[1])
        return batch.outcome is not None

    @property
    def metadata(self) -> RecordMetadata:
        """Where the record is; to be asked for when done.

        Raises:
            QuorateError: It was not delivered, for that reason.
        """
        batch, index = self[0].find(self[1])
        outcome = batch.outcome
        assert outcome is not None, "the outcome is not known yet: see 'done'"
        if isinstance(outcome, Appended):
            base_offset, time_ms = outcome.base_offset, outcome.log_append_time_ms
            return RecordMetadata(
                batch.topic_partition,
                base_offset + index if base_offset >= 0 else UNKNOWN_OFFSET,
                time_ms if time_ms >= 0 else batch.timestamp_ms(index),
            )
        # A copy, because the records of a batch share it, and raising writes into it.
        raise copy(outcome)

    @property
    def error(self) -> QuorateError | None:
        """Why the record was not delivered; None if it was, or nobody knows yet."""
        outcome = self[0].find(self[1])[0].outcome
        return outcome if isinstance(outcome, QuorateError) else None

    async def result(self) -> RecordMetadata:
        """Wait for the outcome, and return where the record is.

        Raises:
            QuorateError: It was not delivered, for that reason.
        """
        if self.done:
            await trio.lowlevel.checkpoint()
        else:
            event = trio.Event()
            self[0].when_settled(self[1], event.set)
            await event.wait()
        return self.metadata

    def add_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Call back with this delivery when it is done: now, if it is.

        Callbacks run in the producer's task and must be quick; what they raise is logged.
        """

        def call_back() -> None:
            try:
                callback(self)
            except Exception:
                logger.exception("a delivery callback failed")

        self[0].when_settled(self[1], call_back)


new_delivery = cast(
    "Callable[[type[Delivery], tuple[Batch, int]], Delivery]",
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType]
)
"""What Delivery(...) would come to after a call more."""
