"""Refusals: batches of idempotent producers that were refused for the moment, and come again.

A client has several batches under way. If the first one is refused because the disk is full, or
because too few replicas are in sync, those behind it must not be judged by their sequences until it
comes again. They would be told of a gap that is none (librdkafka then begins another producer epoch
and repeats what is under way, in all partitions); or, where nothing is known of their producer yet,
they would be written before it. They get the answer of the first one instead.

Kafka leaves that to clients: its log directories do not come back while they are in use, and its
min.insync.replicas is checked before sequences, so that only a batch that arrives in the moment in
which the ISR grows again is told of a gap.
"""

from typing import Final, NamedTuple

from quorate.broker.log.producers import ProducerStates
from quorate.errors import ErrorCode, KafkaError
from quorate.records.batch import HEADER_BYTES, is_behind, parse_header

REFUSALS_MAX: Final = 1_000
"""So many producers of a partition are remembered; the oldest is forgotten first."""

REFUSAL_MS: Final = 30_000
"""After which a batch is not waited for any more: clients try again every second or so."""


class Refusal(NamedTuple):
    """What is known of a batch that was refused."""

    base_sequence: int
    code: ErrorCode
    at_ms: int


class Refusals:
    """The first batch of each producer that was refused and has not come again.

    State: a refusal by producer id and epoch. Invariant: at most REFUSALS_MAX.
    """

    __slots__ = ("waiting_for",)

    def __init__(self) -> None:
        self.waiting_for: dict[tuple[int, int], Refusal] = {}
        """Public, so that whoever appends can pass by while it is empty."""

    def note(self, records: memoryview, code: ErrorCode, now_ms: int) -> None:
        """Remember that these were answered so, if they will come again in their turn."""
        if len(records) < HEADER_BYTES:
            return
        header = parse_header(records, 0)
        producer = header.producer_id, header.producer_epoch
        if not header.has_producer_id or producer in self.waiting_for:
            return
        if len(self.waiting_for) == REFUSALS_MAX:
            del self.waiting_for[next(iter(self.waiting_for))]
        self.waiting_for[producer] = Refusal(header.base_sequence, code, now_ms)

    def check(self, records: memoryview, written: ProducerStates, now_ms: int) -> None:
        """Let a batch pass unless the one that should come next from its producer was refused.

        That is forgotten when it comes again, and if it was written meanwhile: what was refused
        came late then, from a connection that is gone.

        Raises:
            KafkaError: as the one before it was answered.
        """
        if len(records) < HEADER_BYTES:
            return  # whoever writes them says what is wrong
        header = parse_header(records, 0)
        producer = header.producer_id, header.producer_epoch
        refusal = self.waiting_for.get(producer)
        if refusal is None or is_behind(refusal.base_sequence, header.base_sequence):
            return
        known = written.get(header.producer_id)
        if (
            header.base_sequence != refusal.base_sequence
            and (
                known is None or known.continues_with(header.producer_epoch, refusal.base_sequence)
            )
            and now_ms - refusal.at_ms < REFUSAL_MS
        ):
            message = f"sequence {refusal.base_sequence} was refused, and comes first"
            raise KafkaError(message, code=refusal.code)
        del self.waiting_for[producer]
