"""ProducerStates: what idempotent producers wrote last, derived from the log alone.

The rules are Kafka's (classes ``ProducerStateManager``, ``ProducerAppendInfo``):

- a batch that is equal in epoch and sequences to one of the producer's last five was written
  before: it is answered with the offset it has, and not written again;
- an epoch older than the last one is fenced;
- a new epoch begins at sequence 0;
- within an epoch sequences have no gap; after 2^31-1 comes 0;
- of a producer that nothing is known of (any more) any sequence is accepted: its state may have
  expired, or its records may have been deleted.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from quorate.broker.log.documents import CorruptDocumentError, decode_document, encode_document
from quorate.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from quorate.records.batch import NO_SEQUENCE, SEQUENCE_MAX, BatchHeader

BATCHES_KEPT: Final = 5
"""As many as a client may have in flight and so may have to send again."""

KIND: Final = "producer-snapshot"
VERSION: Final = 2


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


class Producer:
    """What is known of one producer: its epoch and its last batches in that epoch.

    Invariant: ``batches`` are in log order, at most BATCHES_KEPT, all of ``epoch``.
    """

    __slots__ = ("batches", "epoch", "last_timestamp_ms", "next_sequence")

    def __init__(self, epoch: int, last_timestamp_ms: int) -> None:
        self.epoch = epoch
        self.last_timestamp_ms = last_timestamp_ms
        self.next_sequence = NO_SEQUENCE
        self.batches: list[WrittenBatch] = []

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
    that expired.  Checking changes nothing; only what was written is noted.
    """

    __slots__ = ("_producers", "end_offset")

    def __init__(self, end_offset: int) -> None:
        self._producers: dict[int, Producer] = {}
        self.end_offset = end_offset

    def __len__(self) -> int:
        return len(self._producers)

    def items(self) -> Iterable[tuple[int, Producer]]:
        """Return all producers with their ids."""
        return self._producers.items()

    def get(self, producer_id: int) -> Producer | None:
        """Return what is known of a producer."""
        return self._producers.get(producer_id)

    def last_offsets(self) -> dict[int, int]:
        """Return the last offset that each producer wrote, of those whose last batch is known."""
        return {
            producer_id: producer.batches[-1].last_offset
            for producer_id, producer in self._producers.items()
            if producer.batches
        }

    def check(self, header: BatchHeader) -> WrittenBatch | None:
        """Check the sequence of a batch that a client wants appended against its producer's last.

        Returns:
            The batch as it stands in the log, if it was written before; then nothing may be
            written.

        Raises:
            InvalidProducerEpochError: a newer epoch has written since.
            OutOfOrderSequenceError: a sequence is missing, or was written too long ago to know
                where.
        """
        if header.producer_id < 0:
            return None
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        if (
            header.base_sequence == producer.next_sequence
            and header.producer_epoch == producer.epoch
        ):
            return None
        written = producer.find(header)
        if written is None:
            _check_follows(header, producer.epoch, producer.next_sequence)
        return written

    def note(self, header: BatchHeader, base_offset: int) -> None:
        """Take over a batch that was written at the offset."""
        last_offset = base_offset + header.last_offset_delta
        self.end_offset = last_offset + 1
        if header.producer_id < 0:
            return
        producer = self._producers.get(header.producer_id)
        if producer is None:
            producer = Producer(header.producer_epoch, header.max_timestamp_ms)
            self._producers[header.producer_id] = producer
        if header.base_sequence < 0:  # a marker: it may begin an epoch, and has no sequence
            _note_marker(producer, header)
            return
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

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that wrote nothing for so long; return how many."""
        expired = [
            producer_id
            for producer_id, producer in self._producers.items()
            if now_ms - producer.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def encode(self, origin: Origin) -> bytes:
        """Return a snapshot document."""
        producers = [
            [producer_id, producer.epoch, producer.last_timestamp_ms, producer.batches]
            for producer_id, producer in self._producers.items()
        ]
        body = {
            "end_offset": self.end_offset,
            "topic_id": origin.topic_id.hex(),
            "leader_epoch": origin.leader_epoch,
            "producers": producers,
        }
        return encode_document(KIND, VERSION, body)

    def restore(self, producers: Iterable[Any]) -> None:
        """Take over the producers of a snapshot."""
        for producer_id, epoch, last_timestamp_ms, batches in producers:
            self._producers[int(producer_id)] = _restore(epoch, last_timestamp_ms, batches)


def decode_producers(data: bytes) -> tuple[ProducerStates, Origin]:
    """Return the states of a snapshot document, and what it was made of.

    Raises:
        CorruptDocumentError: it is none, or damaged.
    """
    body: Any = decode_document(data, KIND, VERSION)
    try:
        states = ProducerStates(int(body["end_offset"]))
        states.restore(body["producers"])
        return states, Origin(bytes.fromhex(body["topic_id"]), int(body["leader_epoch"]))
    except (KeyError, TypeError, ValueError):
        raise CorruptDocumentError("not a producer snapshot") from None


def _restore(epoch: int, last_timestamp_ms: int, batches: Iterable[Iterable[int]]) -> Producer:
    producer = Producer(epoch, last_timestamp_ms)
    for batch in batches:
        producer.note(epoch, WrittenBatch(*batch))
    producer.last_timestamp_ms = last_timestamp_ms
    return producer


def _note_marker(producer: Producer, header: BatchHeader) -> None:
    if header.producer_epoch > producer.epoch:
        producer.epoch = header.producer_epoch
        producer.batches = []
        producer.next_sequence = NO_SEQUENCE
    producer.last_timestamp_ms = max(producer.last_timestamp_ms, header.max_timestamp_ms)


def _check_follows(header: BatchHeader, epoch: int, next_sequence: int) -> None:
    """Refuse a batch that does not continue its producer's last one, unless it begins an epoch."""
    producer_id = header.producer_id
    if header.producer_epoch < epoch:
        message = f"producer {producer_id} has epoch {epoch}, not {header.producer_epoch}"
        raise InvalidProducerEpochError(message)
    expected = 0 if header.producer_epoch > epoch or next_sequence < 0 else next_sequence
    if header.base_sequence != expected:
        message = (
            f"producer {producer_id}, epoch {header.producer_epoch}: sequence"
            f" {header.base_sequence} came where {expected} was expected"
        )
        raise OutOfOrderSequenceError(message)
