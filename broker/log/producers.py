"""ProducerStates: what producers wrote last and which transactions are open, by the log alone.

The rules are Kafka's (classes ``ProducerStateManager``, ``ProducerAppendInfo``):

- a batch that is equal in epoch and sequences to one of the producer's last five was written
  before: it is answered with the offset it has, and not written again;
- an epoch older than the last one is fenced;
- a new epoch begins at sequence 0;
- within an epoch sequences have no gap; after 2^31-1 comes 0;
- of a producer that nothing is known of (any more) any sequence is accepted: its state may have
  expired, or its records may have been deleted;
- a transaction begins with a transactional batch, which needs a guard (see ``verification``), and
  ends with a marker; until then the producer writes nothing outside of it.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from quorate.broker.log.aborted import NO_MARK, IndexMark
from quorate.broker.log.documents import CorruptDocumentError, decode_document, encode_document
from quorate.broker.log.transactions import AbortedTransaction, Completed, Transactions
from quorate.broker.log.verification import Guard
from quorate.errors import (
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
    UnknownProducerIdError,
)
from quorate.records.batch import (
    CONTROL_BIT,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    PRODUCER_EPOCH_MAX,
    SEQUENCE_MAX,
    TRANSACTIONAL_BIT,
    BatchHeader,
    is_behind,
)
from quorate.records.control import EndMarker, TransactionEnd

BATCHES_KEPT: Final = 5
"""As many as a client may have in flight and so may have to send again."""

KIND: Final = "producer-snapshot"
VERSION: Final = 3

NO_TRANSACTION: Final = -1
UNKNOWN_COORDINATOR: Final = -1
EPOCH_PER_TRANSACTION: Final = 2
"""The transaction version from which on each transaction has a producer epoch of its own: a marker
has the next one, and so cannot end a later transaction (KIP-890)."""

_IN_TRANSACTION: Final = TRANSACTIONAL_BIT | CONTROL_BIT


class Origin(NamedTuple):
    """Which history a snapshot was made of."""

    topic_id: bytes
    """Of the log: another one may get the same directory while a snapshot is on its way there."""
    leader_epoch: int
    """Of the last record below ``end_offset``: other records may have had the same offsets."""


class WrittenBatch(NamedTuple):
    """A batch that a producer wrote; offsets and sequences are inclusive."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int


class LastWritten(NamedTuple):
    """What a producer wrote last, which compaction leaves something of."""

    last_offset: int
    """Of its last batch; NO_BATCH if there is only a marker of its last epoch."""
    epoch: int


NO_BATCH: Final = -1


class Producer:
    """What is known of one producer: its epoch, its last batches in that epoch, its transaction.

    Invariants: ``batches`` are in log order, at most BATCHES_KEPT, all of ``epoch``;
    ``transactional`` is the bit that its next batch must have if a transaction is open, else 0.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp_ms",
        "next_sequence",
        "transaction_start",
        "transactional",
    )

    def __init__(self, epoch: int, last_timestamp_ms: int) -> None:
        self.epoch = epoch
        self.last_timestamp_ms = last_timestamp_ms
        self.next_sequence = NO_SEQUENCE
        self.batches: list[WrittenBatch] = []
        self.coordinator_epoch = UNKNOWN_COORDINATOR
        """Of the last marker."""
        self.transaction_start = NO_TRANSACTION
        """The first offset of its transaction, if one is open."""
        self.transactional = 0

    def find(self, header: BatchHeader) -> WrittenBatch | None:
        """Return the batch of the same epoch and sequences, if it is among the last ones."""
        if header.producer_epoch != self.epoch:
            return None
        base_sequence = header.base_sequence
        last_sequence = header.last_sequence
        for batch in self.batches:
            if batch.base_sequence == base_sequence and batch.last_sequence == last_sequence:
                return batch
        return None

    def continues_with(self, epoch: int, sequence: int) -> bool:
        """Whether that is what it has to write next; a newer epoch may begin with anything here."""
        return epoch > self.epoch or (epoch == self.epoch and sequence == self.next_sequence)

    def begin(self, first_offset: int) -> None:
        """A transaction begins."""
        self.transaction_start = first_offset
        self.transactional = TRANSACTIONAL_BIT

    def is_open_in(self, epoch: int) -> bool:
        """Whether a transaction is open that goes on in that epoch."""
        return self.transactional != 0 and epoch == self.epoch

    def fence(self, epoch: int, timestamp_ms: int) -> None:
        """A control batch was written: it may begin an epoch, and has no sequence."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.batches = []
            self.next_sequence = NO_SEQUENCE
        self.last_timestamp_ms = max(self.last_timestamp_ms, timestamp_ms)

    def end(self, coordinator_epoch: int) -> int:
        """A marker was written; return where the transaction began that it ends, if it does."""
        self.coordinator_epoch = max(self.coordinator_epoch, coordinator_epoch)
        first_offset, self.transaction_start = self.transaction_start, NO_TRANSACTION
        self.transactional = 0
        return first_offset

    def note(self, epoch: int, batch: WrittenBatch) -> None:
        """Take over a batch that was written."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches = []
        elif len(self.batches) == BATCHES_KEPT:
            del self.batches[0]
        self.batches.append(batch)
        self.next_sequence = (batch.last_sequence + 1) & SEQUENCE_MAX
        self.last_timestamp_ms = batch.max_timestamp_ms


class ProducerStates:
    """The producers of one partition, as of ``end_offset``.

    Invariant: equal to what noting every batch below ``end_offset`` gives, apart from producers
    that expired, and from guards, which are of this moment.  Checking changes nothing; only what
    was written is noted.
    """

    __slots__ = ("_guards", "_producers", "end_offset", "index_mark", "transactions")

    def __init__(self, end_offset: int) -> None:
        self._producers: dict[int, Producer] = {}
        self._guards: dict[int, Guard] | None = None
        self.end_offset = end_offset
        self.transactions: Transactions | None = None
        """None until there is one: most logs never have any."""
        self.index_mark = NO_MARK
        """Of the index of aborted transactions, where these states were restored."""

    def __len__(self) -> int:
        return len(self._producers)

    def items(self) -> Iterable[tuple[int, Producer]]:
        """Return all producers with their ids."""
        return self._producers.items()

    def get(self, producer_id: int) -> Producer | None:
        """Return what is known of a producer."""
        return self._producers.get(producer_id)

    def last_written(self) -> dict[int, LastWritten]:
        """Return what each producer wrote last."""
        return {
            producer_id: LastWritten(
                producer.batches[-1].last_offset if producer.batches else NO_BATCH, producer.epoch
            )
            for producer_id, producer in self._producers.items()
        }

    # What may be written

    def check(self, header: BatchHeader, guard: Guard | None = None) -> WrittenBatch | None:
        """Check a batch that a client wants appended against what its producer wrote before.

        Args:
            header: of the batch.
            guard: from :meth:`begin_verification`, if the coordinator was asked.

        Returns:
            The batch as it stands in the log, if it was written before; then nothing may be
            written.

        Raises:
            InvalidProducerEpochError: a newer epoch has written since.
            OutOfOrderSequenceError: a sequence is missing, or was written too long ago to know
                where.
            UnknownProducerIdError: its first sequence was used in a transaction that has ended.
            InvalidTxnStateError: it would begin a transaction that the coordinator may not know of,
                or is not transactional while a transaction is open.
            InvalidRecordError: it has no sequence.
        """
        if header.producer_id < 0:
            return None
        producer = self._producers.get(header.producer_id)
        if producer is None:
            if header.attributes & TRANSACTIONAL_BIT or header.base_sequence < 0:
                self._check_first(header, guard)
            return None
        if (
            header.base_sequence == producer.next_sequence
            and header.producer_epoch == producer.epoch
            and header.attributes & TRANSACTIONAL_BIT == producer.transactional
        ):
            return None
        written = producer.find(header)
        if written is None:
            self._check_next(header, producer, guard)
        elif header.attributes & TRANSACTIONAL_BIT:
            _check_unused(header, producer)
        return written

    def check_unsequenced(self, header: BatchHeader, guard: Guard | None) -> None:
        """Check a transactional batch that a coordinator writes for a producer, without sequence.

        It is never taken for one that was written before.

        Raises:
            InvalidProducerEpochError, InvalidTxnStateError: see :meth:`check`.
        """
        producer = self._producers.get(header.producer_id)
        if producer is not None:
            if header.producer_epoch < producer.epoch:
                raise _fenced(header.producer_id, header.producer_epoch, producer.epoch)
            if producer.is_open_in(header.producer_epoch):
                return
        self._check_guarded(header, guard)

    def check_marker(self, end: TransactionEnd) -> None:
        """Check a marker that a coordinator wants appended; it may come again.

        Raises:
            InvalidProducerEpochError: it is of an older epoch than the producer's last one, or
                from transaction version 2 on, of one that is too old for the open transaction.
            TransactionCoordinatorFencedError: a newer coordinator wrote a marker for the producer.
        """
        producer_id, producer_epoch, marker, version = end
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        epoch = producer.epoch
        is_late = producer_epoch < epoch
        if version >= EPOCH_PER_TRANSACTION and producer_epoch == epoch < PRODUCER_EPOCH_MAX:
            is_late = producer.transactional != 0
        if is_late:
            raise _fenced(producer_id, producer_epoch, epoch)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            message = (
                f"a marker for producer {producer_id} of coordinator epoch"
                f" {marker.coordinator_epoch}, after one of {producer.coordinator_epoch}"
            )
            raise TransactionCoordinatorFencedError(message)

    def begin_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, *, adds: bool, now_ms: int
    ) -> Guard | None:
        """Return a guard for what may begin a transaction; None if it is open here already.

        Args:
            producer_id: who wants to write.
            producer_epoch: in which epoch.
            sequence: of the first record.
            adds: whether the coordinator will be asked to add the partition (transaction version
                2), not only whether it was added.
            now_ms: the time.

        Raises:
            InvalidProducerEpochError: a newer epoch has written since.
        """
        producer = self._producers.get(producer_id)
        if producer is not None:
            if producer_epoch < producer.epoch:
                raise _fenced(producer_id, producer_epoch, producer.epoch)
            if producer.is_open_in(producer_epoch):
                return None
        if self._guards is None:
            self._guards = {}
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = Guard(producer_epoch, sequence, adds=adds, at_ms=now_ms)
            self._guards[producer_id] = guard
        else:
            guard.join(producer_epoch, sequence)
        return guard

    def _check_first(self, header: BatchHeader, guard: Guard | None) -> None:
        """Check a batch of a producer that nothing is known of."""
        if header.base_sequence < 0:
            raise InvalidRecordError(f"producer {header.producer_id} gives no sequence")
        self._check_guarded(header, guard)
        _check_turn(header, self._guard_of(header.producer_id), has_written=False)

    def _check_next(self, header: BatchHeader, producer: Producer, guard: Guard | None) -> None:
        """Check a batch that is not simply the next one of its producer."""
        if header.base_sequence < 0:
            raise InvalidRecordError(f"producer {header.producer_id} gives no sequence")
        if header.producer_epoch < producer.epoch:
            raise _fenced(header.producer_id, header.producer_epoch, producer.epoch)
        is_transactional = header.is_transactional
        if is_transactional and not producer.is_open_in(header.producer_epoch):
            self._check_guarded(header, guard)
        if is_transactional:
            _check_unused(header, producer)
        _check_turn(header, self._guard_of(header.producer_id), has_written=bool(producer.batches))
        _check_follows(header, producer.epoch, producer.next_sequence)
        if producer.transactional and not is_transactional:
            message = f"producer {header.producer_id} has a transaction open"
            raise InvalidTxnStateError(message)

    def _guard_of(self, producer_id: int) -> Guard | None:
        return self._guards.get(producer_id) if self._guards else None

    def _check_guarded(self, header: BatchHeader, guard: Guard | None) -> None:
        if guard is None or guard is not self._guard_of(header.producer_id):
            raise InvalidTxnStateError("the records are not part of an ongoing transaction")

    # What was written

    def note(
        self, header: BatchHeader, base_offset: int, marker: EndMarker | None = None
    ) -> AbortedTransaction | None:
        """Take over a batch that was written at the offset.

        Args:
            header: of the batch.
            base_offset: where it was written.
            marker: what a control batch says, if it says something.

        Returns:
            The transaction that was aborted by it, if one was.
        """
        last_offset = base_offset + header.last_offset_delta
        self.end_offset = last_offset + 1
        if header.producer_id < 0:
            return None
        if self._guards:
            self._void_guard(header)
        producer = self._producers.get(header.producer_id)
        if producer is None:
            producer = Producer(header.producer_epoch, header.max_timestamp_ms)
            self._producers[header.producer_id] = producer
        attributes = header.attributes
        if attributes & _IN_TRANSACTION:
            if attributes & CONTROL_BIT:
                return self._end(producer, header, base_offset, marker)
            if not producer.transactional:
                self._begin(producer, header.producer_id, base_offset)
        producer.note(
            header.producer_epoch,
            WrittenBatch(
                header.base_sequence,
                header.last_sequence,
                base_offset,
                last_offset,
                header.max_timestamp_ms,
            ),
        )
        return None

    def _void_guard(self, header: BatchHeader) -> None:
        """Have a guard of the producer count no more, unless it is about the transaction after.

        With an epoch for each transaction, a marker has that of the next one, which may be asked
        about before the marker is written (Kafka: ``UnifiedLog.updateProducers``).
        """
        assert self._guards is not None, "looked at by who calls"
        guard = self._guards.get(header.producer_id)
        is_next = guard is not None and guard.adds and guard.epoch == header.producer_epoch
        if not (is_next and header.is_control):
            self._guards.pop(header.producer_id, None)

    def _begin(self, producer: Producer, producer_id: int, first_offset: int) -> None:
        if self.transactions is None:
            self.transactions = Transactions()
        self.transactions.begin(producer_id, first_offset)
        producer.begin(first_offset)

    def _end(
        self, producer: Producer, header: BatchHeader, offset: int, marker: EndMarker | None
    ) -> AbortedTransaction | None:
        producer.fence(header.producer_epoch, header.max_timestamp_ms)
        if marker is None:
            return None  # compaction took the transaction out
        first_offset = producer.end(marker.coordinator_epoch)
        if first_offset == NO_TRANSACTION or self.transactions is None:
            return None
        stable_offset = self.transactions.end(first_offset, offset)
        if marker.committed:
            return None
        return AbortedTransaction(header.producer_id, first_offset, offset, stable_offset)

    def hold_back(self, offset: int) -> None:
        """Let nothing from the offset on be stable: what is known is not true for the moment."""
        self.transactions = Transactions()
        self.transactions.begin(NO_PRODUCER_ID, offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the first offset that may not be read yet by who reads what is committed."""
        if self.transactions is None:
            return high_watermark
        return self.transactions.first_unstable(high_watermark)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that wrote nothing for so long; return how many.

        Those with a transaction open are remembered until that has ended.
        """
        expired = [
            producer_id
            for producer_id, producer in self._producers.items()
            if now_ms - producer.last_timestamp_ms >= expiration_ms and not producer.transactional
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        if self._guards:
            self._guards = {
                producer_id: guard
                for producer_id, guard in self._guards.items()
                if now_ms - guard.at_ms < expiration_ms
            }
        return len(expired)

    def encode(self, origin: Origin, index_mark: IndexMark) -> bytes:
        """Return a snapshot document.

        Args:
            origin: what it is made of.
            index_mark: of the index of aborted transactions of the active segment.
        """
        producers = [
            [
                producer_id,
                producer.epoch,
                producer.last_timestamp_ms,
                producer.batches,
                producer.coordinator_epoch,
                producer.transaction_start,
            ]
            for producer_id, producer in self._producers.items()
        ]
        body = {
            "end_offset": self.end_offset,
            "topic_id": origin.topic_id.hex(),
            "leader_epoch": origin.leader_epoch,
            "producers": producers,
            "index": index_mark,
            "unreplicated": [] if self.transactions is None else [*self.transactions.unreplicated],
        }
        return encode_document(KIND, VERSION, body)

    def restore(self, producers: Iterable[Any], unreplicated: Iterable[Any]) -> None:
        """Take over the producers of a snapshot."""
        for producer_id, *known in producers:
            self._producers[int(producer_id)] = _restore(*known)
        began = sorted(
            (producer.transaction_start, producer_id)
            for producer_id, producer in self._producers.items()
            if producer.transactional
        )
        ended = [Completed(int(last), int(first)) for last, first in unreplicated]
        if began or ended:
            self.transactions = Transactions()
            self.transactions.restore(ended)
            for first_offset, producer_id in began:
                self.transactions.begin(producer_id, first_offset)


def decode_producers(data: bytes) -> tuple[ProducerStates, Origin]:
    """Return the states of a snapshot document, and what it was made of.

    Raises:
        CorruptDocumentError: it is none, or damaged.
    """
    body: Any = decode_document(data, KIND, VERSION)
    try:
        states = ProducerStates(int(body["end_offset"]))
        states.restore(body["producers"], body["unreplicated"])
        states.index_mark = IndexMark._make(map(int, body["index"]))
        return states, Origin(bytes.fromhex(body["topic_id"]), int(body["leader_epoch"]))
    except (KeyError, TypeError, ValueError):
        raise CorruptDocumentError("not a producer snapshot") from None


def _restore(
    epoch: int,
    last_timestamp_ms: int,
    batches: Iterable[Iterable[int]],
    coordinator_epoch: int,
    transaction_start: int,
) -> Producer:
    producer = Producer(epoch, last_timestamp_ms)
    for batch in batches:
        producer.note(epoch, WrittenBatch(*batch))
    producer.last_timestamp_ms = last_timestamp_ms
    producer.coordinator_epoch = coordinator_epoch
    if transaction_start != NO_TRANSACTION:
        producer.begin(transaction_start)
    return producer


def _fenced(producer_id: int, producer_epoch: int, epoch: int) -> InvalidProducerEpochError:
    return InvalidProducerEpochError(
        f"producer {producer_id} has epoch {epoch}, not {producer_epoch}"
    )


def _check_unused(header: BatchHeader, producer: Producer) -> None:
    """Refuse a transactional batch that begins with a sequence of a transaction that has ended.

    Nobody waits for the answer to that one any more: producers end a transaction when all of it is
    answered. But librdkafka (2.16) gives the sequences of batches that it has sent, and purged
    when it aborted, to the next transaction. If that is a batch of the same sequences, Kafka
    acknowledges it as repeated, and it is lost; if not, it tells of a gap (OUT_OF_ORDER_SEQUENCE_
    NUMBER), which librdkafka gives up for. This error makes producers abort, and go on in another
    epoch (KIP-360).
    """
    if header.producer_epoch != producer.epoch:
        return
    for batch in reversed(producer.batches):
        if producer.transactional and batch.base_offset >= producer.transaction_start:
            continue
        if not is_behind(header.base_sequence, batch.last_sequence):
            raise UnknownProducerIdError(
                f"the sequence {header.base_sequence} was used in a transaction that has ended, and"
                f" so were all up to {batch.last_sequence}, at offset {batch.last_offset}"
            )
        return


def _check_turn(header: BatchHeader, guard: Guard | None, *, has_written: bool) -> None:
    """Refuse a batch before which another one waits for the coordinator, or will come."""
    if guard is None:
        return
    sequence = header.base_sequence
    if guard.adds and sequence != 0 and not has_written:
        message = f"producer {header.producer_id} is not known here, and begins with 0"
        raise OutOfOrderSequenceError(f"{message}, not {sequence}")
    if is_behind(sequence, guard.lowest_sequence):
        message = f"producer {header.producer_id}: sequence {guard.lowest_sequence} comes before"
        raise OutOfOrderSequenceError(f"{message} {sequence}")


def _check_follows(header: BatchHeader, epoch: int, next_sequence: int) -> None:
    """Refuse a batch that does not continue its producer's last one, unless it begins an epoch."""
    producer_id = header.producer_id
    expected = 0 if header.producer_epoch > epoch or next_sequence < 0 else next_sequence
    if header.base_sequence != expected:
        message = (
            f"producer {producer_id}, epoch {header.producer_epoch}: sequence"
            f" {header.base_sequence} came where {expected} was expected"
        )
        raise OutOfOrderSequenceError(message)
