"""What a transactional producer holds: an accumulator that takes records in transactions only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.client.routing.retries import Remedy
from quorate.client.sending.accumulator import Accumulator, PartitionQueue, SendSettings
from quorate.errors import ErrorCode, KafkaError, QuorateError

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from quorate.client.sending.batches import Batch, Outcome
    from quorate.model import TopicPartition

CONCURRENT_PAUSE_MS: Final = 20
"""How soon to try again while the last transaction is being finished."""

_GAP: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})


class TransactionalAccumulator(Accumulator):
    """Holds what a transaction is to write.

    What an idempotent producer does about a gap, to begin anew with the next epoch, is the
    coordinator's to allow here. So a batch that fails spoils the transaction: ``on_loss`` is told,
    and it is aborted as a whole. ``on_start`` is told of the partitions of batches that are about
    to be sent: however long it takes to lay them out, their transaction has to be ended then.
    """

    def __init__(self, settings: SendSettings, rng: Random) -> None:
        super().__init__(settings, rng)
        self.on_loss: Callable[[KafkaError], None] = _nobody_listens
        self.on_start: Callable[[TopicPartition], None] = _nobody_listens
        self._loss: KafkaError | None = None

    @property
    def needs_identity(self) -> bool:
        """Whether batches wait for a producer id: the coordinator has given one before."""
        return False

    @property
    def has_in_flight(self) -> bool:
        """Whether brokers have been sent something that they have not answered."""
        return any(queue.in_flight for queue in self._queues.values())

    def bar(self, error: QuorateError) -> None:
        """Take no records, for that reason, until :meth:`unbar`."""
        self.fatal = error

    def unbar(self) -> None:
        """Take records again."""
        self.fatal = None

    def drop_all(self, error: QuorateError) -> None:
        """Settle everything: what waits is not sent, what was sent does not count."""
        for batch in self.unsettled():
            self._drop(batch, error)
        self._loss = None

    def lose(self, error: QuorateError) -> None:
        """A record failed before it had a batch: the transaction lacks it."""
        if isinstance(error, KafkaError):
            self.on_loss(error)

    def fail(self, batch: Batch, error: KafkaError, base_offset: int, now_ms: int) -> Remedy:
        """Take it that an attempt failed, as the base class does, unless numbers have a gap."""
        queue = self._queues[batch.topic_partition]
        if batch.outcome is None and self._is_lost(queue, batch, error):
            queue.in_flight.remove(batch)
            batch.last_error = error
            self._settle(batch, error)
            remedy = Remedy.GIVE_UP
        else:
            remedy = super().fail(batch, error, base_offset, now_ms)
            if error.code == ErrorCode.CONCURRENT_TRANSACTIONS and batch.outcome is None:
                batch.ready_at_ms = min(batch.ready_at_ms, now_ms + CONCURRENT_PAUSE_MS)
        self._tell()
        return remedy

    def expire(self, now_ms: int) -> bool:
        """Settle what was not acknowledged within the delivery timeout; whether there was any."""
        expired = super().expire(now_ms)
        self._tell()
        return expired

    def _is_lost(self, queue: PartitionQueue, batch: Batch, error: KafkaError) -> bool:
        if error.code == ErrorCode.INVALID_PRODUCER_EPOCH:
            return True
        return error.code in _GAP and queue.is_first_outstanding(batch)

    def _is_sendable(self, queue: PartitionQueue, now_ms: int) -> bool:
        if queue.in_flight and queue.identity != self.identity:
            # What the last transaction left under way has its numbers.
            return False
        return super()._is_sendable(queue, now_ms)

    def _start(self, queue: PartitionQueue, broker_id: int) -> Batch:
        self.on_start(queue.topic_partition)
        return super()._start(queue, broker_id)

    def _settle(self, batch: Batch, outcome: Outcome) -> None:
        if isinstance(outcome, KafkaError) and batch.outcome is None and self._loss is None:
            self._loss = outcome
        super()._settle(batch, outcome)

    def _tell(self) -> None:
        loss, self._loss = self._loss, None
        if loss is not None:
            self.on_loss(loss)


def _nobody_listens(_event: object) -> None:
    """Stand in until the producer is open."""
