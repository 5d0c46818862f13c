"""One batch on its way: from its first record to the broker's word on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.model import NO_TIMESTAMP, UNKNOWN_OFFSET, TopicPartition
from quorate.records.record import ProducerStamp, RecordBatchBuilder, record_bytes_max

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Appended:
    """The batch is in the log.

    Attributes:
        base_offset: The first record's offset; -1 if the broker did not say (acks=0, or a duplicate
            that it no longer remembers).
        log_append_time_ms: The records' time, if the broker sets it, else -1.
    """

    base_offset: int
    log_append_time_ms: int


Outcome: TypeAlias = Appended | QuorateError

NOT_TOLD = Appended(UNKNOWN_OFFSET, NO_TIMESTAMP)
"""What is known of records that nobody acknowledges."""


class Batch(RecordBatchBuilder):
    """Records for one partition that are sent, acknowledged and retried together.

    Invariants: once it has an outcome, it keeps it; once its records went to other batches (it was
    split, or its partition was not known yet), those have the outcomes instead; records are added
    only while it is open. ``first_record`` is the number of its first
    record among all that the partition got since sequences began, None until it is first sent: the
    order of batches, and without the upper bits the sequence of the protocol. ``broker_id`` is whom
    it was sent to last.
    """

    __slots__ = (
        "accounted_bytes",
        "attempts",
        "broker_id",
        "callbacks",
        "deadline_ms",
        "first_record",
        "is_open",
        "last_error",
        "moved_to",
        "outcome",
        "ready_at_ms",
        "stamp",
        "topic_partition",
    )

    def __init__(
        self, topic_partition: TopicPartition, *, ready_at_ms: int, deadline_ms: int
    ) -> None:
        super().__init__()
        self.topic_partition = topic_partition
        self.ready_at_ms = ready_at_ms
        self.deadline_ms = deadline_ms
        self.is_open = True
        self.attempts = 0
        self.broker_id = -1
        self.first_record: int | None = None
        self.stamp: ProducerStamp | None = None
        self.outcome: Outcome | None = None
        self.moved_to: list[tuple[Batch, int]] | None = None
        self.last_error: QuorateError | None = None
        self.callbacks: list[tuple[int, Callable[[], None]]] = []
        self.accounted_bytes = 0

    @property
    def settled(self) -> bool:
        """Whether the outcome of every record is known."""
        if self.moved_to is not None:
            return all(batch.settled for batch in {batch for batch, _ in self.moved_to})
        return self.outcome is not None

    def seal(self) -> None:
        """Take no more records."""
        self.is_open = False
        self.append_limit_bytes = 0

    def find(self, index: int) -> tuple[Batch, int]:
        """Return where a record is now."""
        batch: Batch = self
        while batch.moved_to is not None:
            batch, index = batch.moved_to[index]
        return batch, index

    def when_settled(self, index: int, callback: Callable[[], None]) -> None:
        """Call back when the outcome of one of the records is known: now, if it is already."""
        batch, index = self.find(index)
        if batch.outcome is None:
            batch.callbacks.append((index, callback))
        else:
            callback()

    def settle(self, outcome: Outcome) -> None:
        """Make the outcome known and tell whoever asked."""
        assert self.outcome is None, "a batch is settled once"
        self.outcome = outcome
        callbacks, self.callbacks = self.callbacks, []
        for _, callback in callbacks:
            callback()

    def move(self, moved_to: list[tuple[Batch, int]]) -> None:
        """Say where each of the records is from now on; who waits for one, waits there."""
        assert self.outcome is None
        assert len(moved_to) == self.count
        self.moved_to = moved_to
        callbacks, self.callbacks = self.callbacks, []
        for index, callback in callbacks:
            batch, there = moved_to[index]
            batch.when_settled(there, callback)

    def split(self) -> tuple[Batch, Batch]:
        """Return the records as two batches, of which each has about half of them."""
        assert self.count > 1
        cut = self.count // 2
        first, second = self._part(0, cut), self._part(cut, self.count)
        self.move([(first, i) for i in range(cut)] + [(second, i) for i in range(second.count)])
        return first, second

    def _part(self, begin: int, end: int) -> Batch:
        assert self.first_record is not None, "only brokers find a batch too large"
        part = Batch(
            self.topic_partition, ready_at_ms=self.ready_at_ms, deadline_ms=self.deadline_ms
        )
        for index in range(begin, end):
            key, value = self.keys.get(index), self.values[index]
            headers = self.headers.get(index, b"")
            size_bytes = record_bytes_max(key, value, headers)
            part.append(self.timestamp_ms(index), key, value, headers, size_bytes)
        part.seal()
        part.first_record = self.first_record + begin
        return part
