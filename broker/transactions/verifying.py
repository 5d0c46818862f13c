"""Verifier: asks the coordinators of transactions whether partitions take part, many at a time.

What waits while requests are under way goes into the next one together (Kafka:
``AddPartitionsToTxnManager``).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from quorate.broker.transactions.markers import AskBroker
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, KafkaError, known_code
from quorate.model import TopicPartition
from quorate.promise import Promise
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

Verified = Mapping[TopicPartition, ErrorCode]

IN_FLIGHT_MAX: Final = 2
"""So many requests are under way to one coordinator; more is waiting for the next one."""
BATCH_MAX: Final = 500
WAITING_MAX: Final = 10_000
"""More than so many do not wait for one coordinator."""


@dataclass(frozen=True, slots=True)
class _Asked:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    add: bool
    promise: Promise[Verified]

    def all_with(self, code: ErrorCode) -> None:
        """Give one answer about all partitions."""
        self.promise.resolve(dict.fromkeys(self.partitions, code))


class Verifier:
    """State: for each coordinator what waits to be asked, and how many requests are under way."""

    def __init__(self, coordinator_of: Callable[[str], int], ask: AskBroker) -> None:
        """Ask with ``ask`` whom ``coordinator_of`` names, or raises a KafkaError instead."""
        self._coordinator_of = coordinator_of
        self._ask = ask
        self._waiting: dict[int, list[_Asked]] = {}
        self._in_flight: dict[int, int] = {}

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> Promise[Verified]:
        """Ask whether the partitions take part in the producer's transaction, or let them.

        Returns:
            A promise of a code for each: NONE if it does; INVALID_PRODUCER_ID_MAPPING,
            PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, TRANSACTION_ABORTABLE (it does not),
            UNKNOWN_TOPIC_OR_PARTITION, OPERATION_NOT_ATTEMPTED; or, if it could not be asked,
            COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,
            NETWORK_EXCEPTION.
        """
        promise: Promise[Verified] = Promise()
        asked = _Asked(
            transactional_id, producer_id, producer_epoch, tuple(partitions), add, promise
        )
        try:
            broker_id = self._coordinator_of(transactional_id)
        except KafkaError as error:
            asked.all_with(error.code)
            return promise
        waiting = self._waiting.setdefault(broker_id, [])
        if len(waiting) >= WAITING_MAX:
            asked.all_with(ErrorCode.NETWORK_EXCEPTION)
        else:
            waiting.append(asked)
            self._send(broker_id)
        return promise

    def _send(self, broker_id: int) -> None:
        in_flight = self._in_flight.get(broker_id, 0)
        waiting = self._waiting.get(broker_id)
        if not waiting or in_flight >= IN_FLIGHT_MAX:
            return
        now, later = _batch(waiting)
        if later:
            self._waiting[broker_id] = later
        else:
            del self._waiting[broker_id]
        self._in_flight[broker_id] = in_flight + 1
        request = AddPartitionsToTxnRequest(transactions=[_wire(asked) for asked in now])

        def answered(response: object) -> None:
            self._in_flight[broker_id] -= 1
            _tell(now, response)
            self._send(broker_id)

        answer: Promise[Any] = self._ask(broker_id, ApiKey.ADD_PARTITIONS_TO_TXN, request)
        answer.when_resolved(answered)


def _batch(waiting: list[_Asked]) -> tuple[list[_Asked], list[_Asked]]:
    """Return what goes into one request, each transactional id once, and what does not."""
    now: list[_Asked] = []
    later: list[_Asked] = []
    ids: set[str] = set()
    for asked in waiting:
        if len(now) >= BATCH_MAX or asked.transactional_id in ids:
            later.append(asked)
        else:
            ids.add(asked.transactional_id)
            now.append(asked)
    return now, later


def _wire(asked: _Asked) -> AddPartitionsToTxnTransaction:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for topic, partition in asked.partitions:
        if topic not in topics:
            topics[topic] = AddPartitionsToTxnTopic(name=topic)
        topics[topic].partitions.append(partition)
    return AddPartitionsToTxnTransaction(
        transactional_id=asked.transactional_id,
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        verify_only=not asked.add,
        topics=list(topics.values()),
    )


def _tell(asked: list[_Asked], response: object) -> None:
    code, told = ErrorCode.NETWORK_EXCEPTION, {}
    if isinstance(response, AddPartitionsToTxnResponse):
        if response.error_code:
            code = known_code(response.error_code)
        told = {
            result.transactional_id: {
                TopicPartition(topic.name, p.partition_index): known_code(p.partition_error_code)
                for topic in result.topic_results
                for p in topic.results_by_partition
            }
            for result in response.results_by_transaction
        }
    for each in asked:
        results = told.get(each.transactional_id, {})
        each.promise.resolve({p: results.get(p, code) for p in each.partitions})
