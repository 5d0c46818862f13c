"""Batches per partition: linger, sequences, order, in flight, expiry.

How order and exactly-once hold (KIP-98, KIP-360): a partition's batches are numbered when they are
first sent, at most five are in flight, and a batch that comes back is sent again with its old
number before anything behind it. The broker refuses numbers that leave a gap. If it refuses the
first one that is outstanding, then what came before it never arrived or is forgotten (it expired
here, for example); nothing behind it can have been written either, so the partition starts anew
with the next producer epoch and number 0.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from quorate.client.errors import BufferFullError, DeliveryTimeoutError, in_words
from quorate.client.routing.retries import Backoff, Remedy, remedy_for
from quorate.client.sending.batches import NOT_TOLD, Appended, Batch, Outcome
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, KafkaError, QuorateError
from quorate.model import NO_TIMESTAMP, TopicPartition
from quorate.records.batch import PRODUCER_EPOCH_MAX, SEQUENCE_MAX
from quorate.records.record import NO_PRODUCER, ProducerStamp

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from random import Random

NEVER_MS: Final = 2**62
REMEMBERED: Final = 5
"""So many of a producer's last batches a broker recognises."""

_GAP: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_FATAL: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


@dataclass(frozen=True, slots=True)
class SendSettings:
    """What an accumulator is told once; the names are those of the producer's arguments."""

    batch_size_bytes: int
    buffer_memory_bytes: int
    request_bytes_max: int
    linger_ms: int
    delivery_timeout_ms: int
    retries: int
    backoff: Backoff
    max_in_flight: int
    idempotent: bool


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """The id and epoch that a broker gave to an idempotent producer."""

    producer_id: int
    epoch: int


class PartitionQueue:
    """The batches of one partition, in order.

    Invariants: only the last of ``waiting`` may be open; those that were sent before stand first,
    in the order of their numbers; ``in_flight`` is in that order too.
    """

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.waiting: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.identity: ProducerIdentity | None = None
        self.next_record = 0
        self.has_gap = False
        self.known_as: ProducerIdentity | None = None
        """As whom a broker has appended something of this partition."""
        self.recent: deque[int] = deque(maxlen=REMEMBERED)
        """The numbers of the batches that were sent last for the first time."""

    @property
    def open_batch(self) -> Batch | None:
        """The batch that takes records, if there is one."""
        return self.waiting[-1] if self.waiting and self.waiting[-1].is_open else None

    @property
    def is_fresh(self) -> bool:
        """Whether no batch is numbered, so that numbers may begin anew."""
        numbered = bool(self.waiting) and self.waiting[0].first_record is not None
        return not self.in_flight and not numbered

    def put_back(self, batch: Batch) -> None:
        """Let a batch wait again, at its place among those that were sent before."""
        assert batch.first_record is not None
        place = 0
        for other in self.waiting:
            if other.first_record is None or other.first_record > batch.first_record:
                break
            place += 1
        self.waiting.insert(place, batch)

    def is_first_outstanding(self, batch: Batch) -> bool:
        """Whether nothing that was sent before the batch still waits for its outcome."""
        assert batch.first_record is not None
        earlier = [*self.in_flight, *self.waiting]
        return not any(
            other.first_record is not None and other.first_record < batch.first_record
            for other in earlier
        )

    @property
    def may_begin_another(self) -> bool:
        """Whether a new batch may go out beside those in flight, of an idempotent producer.

        A broker that knows nothing of a producer takes any number for its first: would the first
        batch be refused, later ones would be appended before it. And it remembers the last few
        batches only: an earlier one that is sent again must still be among them.
        """
        if not self.in_flight:
            return True
        if self.known_as != self.identity:
            return False
        oldest = min(batch.first_record or 0 for batch in self.in_flight)
        return len(self.recent) < REMEMBERED or oldest > self.recent[0]

    def begin_numbers(self, identity: ProducerIdentity | None) -> None:
        """Begin numbers anew, as a producer that no broker knows."""
        self.identity = identity
        self.next_record = 0
        self.recent.clear()

    def start_over(self) -> None:
        """Take back the numbers of batches that were refused because of a gap."""
        assert not self.in_flight
        for batch in self.waiting:
            batch.first_record = None
            batch.stamp = None
        self.has_gap = False
        self.identity = None


class Accumulator:
    """Everything that a producer holds: what waits, what is in flight, and in which order.

    It decides; the shell sends what :meth:`drain` returns and reports what came of it.
    Invariant: ``buffered_bytes`` is the sum of what unsettled batches were accounted with.
    """

    def __init__(self, settings: SendSettings, rng: Random) -> None:
        self.settings = settings
        self.buffered_bytes = 0
        self.identity: ProducerIdentity | None = None
        self.fatal: QuorateError | None = None
        self.obstacle: QuorateError | None = None
        """What keeps batches from being sent at all, to be named when they expire."""

        self._rng = rng
        self._admitting = False
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._active: dict[TopicPartition, PartitionQueue] = {}
        """Queues with waiting batches, those served last at the end."""

        self._unsettled: dict[Batch, None] = {}
        """Batches without an outcome in the order of their deadlines (an ordered set)."""

    # Records come in

    def open_batch(
        self, topic_partition: TopicPartition, record_bytes: int, now_ms: int
    ) -> tuple[Batch, bool]:
        """Return a batch with room for a record of that size, and whether it was opened just now.

        Raises:
            BufferFullError: The producer holds as much as it may.
        """
        queue = self._queues.get(topic_partition)
        if queue is None:
            queue = self._queues[topic_partition] = PartitionQueue(topic_partition)
        batch = queue.open_batch
        if batch is not None:
            self.account(batch)
            if batch.size_bytes + record_bytes <= self.settings.batch_size_bytes:
                return batch, False
            batch.seal()
        if not self._admitting:
            self._check_room(record_bytes)
        batch = Batch(
            topic_partition,
            ready_at_ms=now_ms + self.settings.linger_ms,
            deadline_ms=now_ms + self.settings.delivery_timeout_ms,
        )
        queue.waiting.append(batch)
        self._active[topic_partition] = queue
        self._unsettled[batch] = None
        return batch, True

    def account(self, batch: Batch) -> None:
        """Count what was added to an open batch since the last time.

        One without a record gets its first in any case: there was room for that when it was opened,
        and empty it could not be sent.

        Raises:
            BufferFullError: The producer holds more than it may.
        """
        self.buffered_bytes += batch.size_bytes - batch.accounted_bytes
        batch.accounted_bytes = batch.size_bytes
        if batch.count and not self._admitting:
            self._check_room(0)

    def reserve(self, record_bytes: int) -> None:
        """Count a record that has no batch yet.

        Raises:
            BufferFullError: The producer holds as much as it may.
        """
        self._check_room(record_bytes)
        self.buffered_bytes += record_bytes

    def release(self, record_bytes: int) -> None:
        """Undo :meth:`reserve`."""
        self.buffered_bytes -= record_bytes

    @contextmanager
    def admitting(self) -> Generator[None]:
        """Give batches to records that were reserved for, whatever the headers of batches add."""
        self._admitting = True
        try:
            yield
        finally:
            self._admitting = False

    def _check_room(self, record_bytes: int) -> None:
        if self.buffered_bytes + record_bytes > self.settings.buffer_memory_bytes:
            raise self.buffer_full(record_bytes)

    def lose(self, error: QuorateError) -> None:
        """A record failed before it had a batch: nothing to do, unless others depend on it."""

    def buffer_full(self, record_bytes: int) -> BufferFullError:
        """Return the error to raise, and make everything that lingers ready: waiting is over."""
        self.seal_all()
        limit_bytes = self.settings.buffer_memory_bytes
        return BufferFullError(
            f"{self.buffered_bytes} bytes wait to be acknowledged, and {record_bytes} more do not"
            f" fit buffer_memory_bytes={limit_bytes}: records come faster than brokers take them."
            " Try 'await producer.enqueue(...)', which waits for room, or a larger buffer"
        )

    def seal_all(self) -> bool:
        """Make all batches ready at once (flush, no more room); whether one was not before."""
        lingering = [queue.open_batch for queue in self._active.values()]
        for batch in lingering:
            if batch is not None:
                batch.seal()
        return any(batch is not None for batch in lingering)

    # Batches go out

    @property
    def needs_identity(self) -> bool:
        """Whether batches wait for a producer id."""
        return self.settings.idempotent and self.identity is None and bool(self._active)

    def drain(
        self,
        leader_of: Callable[[TopicPartition], int | None],
        may_send: Callable[[int], bool],
        now_ms: int,
    ) -> dict[int, list[Batch]]:
        """Return what to send now, by broker; at most one batch of each partition.

        Args:
            leader_of: who leads a partition; None if nobody is known to.
            may_send: whether a broker can take one more request.
            now_ms: the time.
        """
        requests: dict[int, list[Batch]] = {}
        bytes_taken: dict[int, int] = {}
        for queue in list(self._active.values()):
            if not self._is_sendable(queue, now_ms):
                continue
            leader_id = leader_of(queue.topic_partition)
            if leader_id is None or self._is_elsewhere(queue, leader_id):
                continue
            if not may_send(leader_id):
                continue
            batch = queue.waiting[0]
            total_bytes = bytes_taken.get(leader_id, 0) + batch.size_bytes
            if leader_id in requests and total_bytes > self.settings.request_bytes_max:
                continue
            bytes_taken[leader_id] = total_bytes
            requests.setdefault(leader_id, []).append(self._start(queue, leader_id))
        return requests

    def _is_sendable(self, queue: PartitionQueue, now_ms: int) -> bool:
        batch = queue.waiting[0]
        lingers = batch.is_open or batch.attempts > 0
        if lingers and batch.ready_at_ms > now_ms:
            return False
        if len(queue.in_flight) >= self.settings.max_in_flight:
            return False
        if not self.settings.idempotent:
            return True
        if queue.has_gap:
            if queue.in_flight:
                return False
            self._bump_epoch(queue)
        if self.identity is None:
            return False
        # A batch that came back goes alone: had it company, an error would scatter the order again.
        is_new = batch.first_record is None
        return queue.may_begin_another if is_new else queue.is_first_outstanding(batch)

    def _is_elsewhere(self, queue: PartitionQueue, leader_id: int) -> bool:
        """Whether an idempotent producer must wait for the answer of a partition's last leader.

        A new leader remembers the last few batches of a producer only.  Would it be sent more of
        them than that meanwhile, it could not recognise what the last one had appended, and refuse
        it like a batch that comes after a gap.
        """
        in_flight = queue.in_flight
        return self.settings.idempotent and any(b.broker_id != leader_id for b in in_flight)

    def _bump_epoch(self, queue: PartitionQueue) -> None:
        """Start the partition's numbers over under an epoch that it has not used."""
        old = queue.identity
        queue.start_over()
        if old is not None and old == self.identity:
            bumped = ProducerIdentity(old.producer_id, old.epoch + 1)
            self.identity = bumped if old.epoch < PRODUCER_EPOCH_MAX else None

    def _start(self, queue: PartitionQueue, broker_id: int) -> Batch:
        batch = queue.waiting[0]
        if batch.first_record is None:
            if queue.is_fresh and queue.identity != self.identity:
                queue.begin_numbers(self.identity)
            batch.first_record = queue.next_record
            queue.recent.append(batch.first_record)
            queue.next_record += batch.count
        if queue.identity is not None:
            sequence = batch.first_record & SEQUENCE_MAX
            identity = queue.identity
            batch.stamp = ProducerStamp(identity.producer_id, identity.epoch, sequence)
        else:
            batch.stamp = NO_PRODUCER
        queue.waiting.popleft()
        self._active.pop(queue.topic_partition)
        if queue.waiting:
            self._active[queue.topic_partition] = queue
        batch.seal()
        self.buffered_bytes += batch.size_bytes - batch.accounted_bytes
        batch.accounted_bytes = batch.size_bytes
        batch.attempts += 1
        batch.broker_id = broker_id
        queue.in_flight.append(batch)
        return batch

    def next_event_ms(self, now_ms: int) -> int:
        """Return when time alone changes something: a linger, a pause or a deadline ends."""
        soonest_ms = NEVER_MS
        for queue in self._active.values():
            batch = queue.waiting[0]
            if batch.ready_at_ms > now_ms and (batch.is_open or batch.attempts):
                soonest_ms = min(soonest_ms, batch.ready_at_ms)
        oldest = next(iter(self._unsettled), None)
        return soonest_ms if oldest is None else min(soonest_ms, oldest.deadline_ms)

    def unsettled(self) -> list[Batch]:
        """Return all batches whose outcome is not known, the oldest first."""
        return list(self._unsettled)

    # Answers come in

    def succeed(self, batch: Batch, base_offset: int, log_append_time_ms: int) -> None:
        """The broker has appended the batch."""
        queue = self._queues[batch.topic_partition]
        queue.in_flight.remove(batch)
        queue.known_as = queue.identity
        self._settle(batch, Appended(base_offset, log_append_time_ms))

    def succeed_unanswered(self, batch: Batch) -> None:
        """The batch was sent, and no answer will come (acks=0)."""
        self._queues[batch.topic_partition].in_flight.remove(batch)
        self._settle(batch, NOT_TOLD)

    def fail(self, batch: Batch, error: KafkaError, base_offset: int, now_ms: int) -> Remedy:
        """An attempt failed: let the batch wait for another one, split it, or settle it.

        Returns:
            What helps against the error; after REFRESH the shell asks for metadata.
        """
        queue = self._queues[batch.topic_partition]
        queue.in_flight.remove(batch)
        if error.code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # An earlier attempt was appended and its answer lost: just what idempotence is for.
            queue.known_as = queue.identity
            self._settle(batch, Appended(base_offset, NO_TIMESTAMP))
            return Remedy.RETRY
        batch.last_error = error
        if batch.outcome is not None:
            return remedy_for(error.code)
        if error.code in _TOO_LARGE and batch.count > 1:
            self._split(queue, batch)
            return Remedy.RETRY
        if self.settings.idempotent and error.code in _GAP:
            queue.has_gap = queue.has_gap or queue.is_first_outstanding(batch)
            remedy = Remedy.RETRY
        else:
            remedy = remedy_for(error.code)
        if remedy is Remedy.GIVE_UP or batch.attempts > self.settings.retries:
            self._settle(batch, error)
            if error.code in _FATAL:
                self.fail_all(error)
        else:
            pause_ms = self.settings.backoff.pause_ms(batch.attempts, self._rng)
            batch.ready_at_ms = now_ms + pause_ms
            queue.put_back(batch)
            self._active[queue.topic_partition] = queue
        return remedy

    def _split(self, queue: PartitionQueue, batch: Batch) -> None:
        self.buffered_bytes -= batch.accounted_bytes
        del self._unsettled[batch]
        halves = batch.split()
        # By deadline again: they have that of the batch they were, which need not be the oldest.
        unsettled = sorted([*halves, *self._unsettled], key=attrgetter("deadline_ms"))
        self._unsettled = dict.fromkeys(unsettled)
        for half in halves:
            half.accounted_bytes = half.size_bytes
            self.buffered_bytes += half.size_bytes
            queue.put_back(half)
        self._active[queue.topic_partition] = queue

    def expire(self, now_ms: int) -> bool:
        """Settle what was not acknowledged within the delivery timeout; whether there was any."""
        expired = False
        while (batch := next(iter(self._unsettled), None)) and batch.deadline_ms <= now_ms:
            self._drop(batch, self._timeout_error(batch))
            expired = True
        return expired

    def _timeout_error(self, batch: Batch) -> DeliveryTimeoutError:
        timeout_ms = self.settings.delivery_timeout_ms
        return DeliveryTimeoutError(
            f"{batch.count} records for {batch.topic_partition} were not acknowledged within"
            f" delivery_timeout_ms={timeout_ms}, after {batch.attempts} attempts;"
            f" {self._why_not_acknowledged(batch)}"
        )

    def _why_not_acknowledged(self, batch: Batch) -> str:
        in_flight = self._queues[batch.topic_partition].in_flight
        if batch in in_flight:
            return f"broker {batch.broker_id} has not answered the last one"
        if batch.last_error is not None:
            return f"the last error was: {in_words(batch.last_error)}"
        if in_flight:
            ahead = in_flight[0]
            return (
                f"they waited for {ahead.count} before them, which broker {ahead.broker_id} has"
                " not answered"
            )
        if self.obstacle is not None:
            return f"the last error was: {in_words(self.obstacle)}"
        return "nobody leads the partition"

    def fail_all(self, error: QuorateError) -> None:
        """Settle everything, for the producer cannot go on."""
        self.fatal = error
        for batch in self.unsettled():
            self._drop(batch, error)

    def _drop(self, batch: Batch, error: QuorateError) -> None:
        queue = self._queues[batch.topic_partition]
        if batch in queue.waiting:
            queue.waiting.remove(batch)
            if not queue.waiting:
                self._active.pop(queue.topic_partition, None)
        batch.seal()
        self._settle(batch, error)

    def _settle(self, batch: Batch, outcome: Outcome) -> None:
        if batch.outcome is None:
            self.buffered_bytes -= batch.accounted_bytes
            del self._unsettled[batch]
            batch.settle(outcome)
