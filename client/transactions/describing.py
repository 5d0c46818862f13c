"""How transactions stand, as an operator sees them: requests, answers, what hangs (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, known_code
from quorate.model import TopicPartition
from quorate.protocol.messages.cluster import (
    DescribeProducersRequest,
    DescribeProducersTopicRequest,
)
from quorate.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quorate.protocol.messages.cluster import (
        DescribeProducersPartitionResponse,
        ProducerState,
    )
    from quorate.protocol.messages.transactions import (
        ListTransactionsTransactionState,
        TransactionState,
    )

NO_OFFSET: Final = -1
NO_EPOCH: Final = -1

OVER: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})
"""States of a transactional id without an open transaction."""


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """One transactional id; ``state`` is Kafka's name, such as ``Ongoing``."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """How one transactional id stands (KIP-664).

    Attributes:
        transactional_id: Which.
        coordinator_id: The broker that says so.
        producer_id: The producer that has the transactional id now.
        producer_epoch: Its epoch.
        state: Kafka's name: ``Empty``, ``Ongoing``, ``PrepareCommit``, ``CompleteAbort``, ...
        timeout_ms: How long its transactions may stay open.
        started_ms: When the open one began, since 1970; None if none is open.
        partitions: Those that take part in it.
    """

    transactional_id: str
    coordinator_id: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    """What the leader of a partition remembers about a producer (KIP-664).

    Attributes:
        producer_id: Its id.
        producer_epoch: Its epoch.
        coordinator_epoch: The epoch of the coordinator that wrote its last marker; None before one.
        last_sequence: The number of its last record; -1 if that is not remembered.
        last_timestamp_ms: When it wrote last, since 1970.
        transaction_start_offset: Where its open transaction begins; None if none is open.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a partition, as its leader has it."""

    partition: TopicPartition
    producer: ProducerDescription

    def open_ms(self, now_ms: int) -> int:
        """Return how long ago something was written to it."""
        return max(0, now_ms - self.producer.last_timestamp_ms)


def listing_of(told: ListTransactionsTransactionState, coordinator_id: int) -> TransactionListing:
    """Return what a coordinator listed."""
    return TransactionListing(
        told.transactional_id, coordinator_id, told.producer_id, told.transaction_state
    )


def description_of(told: TransactionState, coordinator_id: int) -> TransactionDescription:
    """Return what a coordinator told of a transactional id."""
    return TransactionDescription(
        transactional_id=told.transactional_id,
        coordinator_id=coordinator_id,
        producer_id=told.producer_id,
        producer_epoch=told.producer_epoch,
        state=told.transaction_state,
        timeout_ms=told.transaction_timeout_ms,
        started_ms=told.transaction_start_time_ms if told.transaction_start_time_ms >= 0 else None,
        partitions=tuple(
            TopicPartition(topic.topic, partition)
            for topic in told.topics
            for partition in topic.partitions
        ),
    )


def producers_request(partitions: Iterable[TopicPartition]) -> DescribeProducersRequest:
    """Return the request for who writes to partitions."""
    topics: dict[str, DescribeProducersTopicRequest] = {}
    for topic, number in partitions:
        if topic not in topics:
            topics[topic] = DescribeProducersTopicRequest(name=topic)
        topics[topic].partition_indexes.append(number)
    return DescribeProducersRequest(topics=list(topics.values()))


def producers_of(told: DescribeProducersPartitionResponse) -> list[ProducerDescription]:
    """Return the producers of a partition, by id."""
    return sorted(map(_producer_of, told.active_producers), key=lambda each: each.producer_id)


def _producer_of(told: ProducerState) -> ProducerDescription:
    start, epoch = told.current_txn_start_offset, told.coordinator_epoch
    return ProducerDescription(
        producer_id=told.producer_id,
        producer_epoch=told.producer_epoch,
        coordinator_epoch=None if epoch == NO_EPOCH else epoch,
        last_sequence=told.last_sequence,
        last_timestamp_ms=told.last_timestamp,
        transaction_start_offset=None if start == NO_OFFSET else start,
    )


def hanging_of(
    candidates: Iterable[OpenTransaction],
    listed: Iterable[TransactionListing],
    described: Mapping[str, TransactionDescription],
) -> list[OpenTransaction]:
    """Return the transactions that are open in a partition, and that no coordinator will end.

    That is so if no transactional id has the producer, or if the partition does not take part in
    what it has open (Kafka class ``TransactionsCommand``).
    """
    ids = {each.producer_id: each.transactional_id for each in listed}
    hanging: list[OpenTransaction] = []
    for candidate in candidates:
        described_as = described.get(ids.get(candidate.producer.producer_id, ""))
        if described_as is None or candidate.partition not in described_as.partitions:
            hanging.append(candidate)
    return hanging


def abort_request(
    partition: TopicPartition, producer: ProducerDescription
) -> WriteTxnMarkersRequest:
    """Return the request to a partition's leader to end a transaction there, in vain.

    Kafka's tool says a coordinator epoch of 0 where none is known.
    """
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        coordinator_epoch=max(0, producer.coordinator_epoch or 0),
        transaction_result=False,
        topics=[
            WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])
        ],
    )
    return WriteTxnMarkersRequest(markers=[marker])


def marker_code(response: WriteTxnMarkersResponse) -> ErrorCode:
    """Return what became of the one marker that was asked for."""
    codes = [
        known_code(told.error_code)
        for marker in response.markers
        for topic in marker.topics
        for told in topic.partitions
    ]
    return codes[0] if codes else ErrorCode.UNKNOWN_SERVER_ERROR
