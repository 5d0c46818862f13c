"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn: asked of the coordinator."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from quorate.broker.handlers.context import Broker, Caller
from quorate.broker.handlers.gathering import Gathering
from quorate.broker.transactions.deciding import ProducerKey
from quorate.broker.transactions.transaction import V0, V2, Transaction
from quorate.errors import ErrorCode, KafkaError
from quorate.model import TopicPartition
from quorate.promise import Promise, now_or_later
from quorate.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from quorate.quorum.metadata.image import MetadataImage
from quorate.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

NOBODY: Final = ProducerKey(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

BATCHED_FROM: Final = 4
"""The version of AddPartitionsToTxn from which brokers ask, about many transactions."""
END_BUMPS_FROM: Final = 5
"""The version of EndTxn from which the next epoch begins with it (KIP-890)."""
INIT_FENCED_FROM: Final = 4
ADD_FENCED_FROM: Final = 2
END_FENCED_FROM: Final = 2
"""The versions from which clients know PRODUCER_FENCED (KIP-588)."""

Codes = Mapping[TopicPartition, ErrorCode]


def _known(code: ErrorCode, caller: Caller, fenced_from: int) -> int:
    """Return the code in words that the client knows."""
    if code == ErrorCode.PRODUCER_FENCED and caller.api_version < fenced_from:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return int(code)


# --- InitProducerId -----------------------------------------------------------


def init_transactional_producer(
    broker: Broker, request: InitProducerIdRequest, caller: Caller, transactional_id: str
) -> InitProducerIdResponse | Promise[InitProducerIdResponse]:
    """Give the newest producer of a transactional id an epoch of its own, and fence all before."""
    promise: Promise[InitProducerIdResponse] = Promise()

    def answer(code: ErrorCode, transaction: Transaction | None) -> None:
        if transaction is None:
            promise.resolve(no_producer(_known(code, caller, INIT_FENCED_FROM)))
        else:
            promise.resolve(
                InitProducerIdResponse(
                    producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch
                )
            )

    if request.enable2_pc or request.keep_prepared_txn:
        # Others decide how such transactions end (KIP-939): nobody may do that here.
        return no_producer(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    has = ProducerKey(request.producer_id, request.producer_epoch)
    expected = None if has == NOBODY else has
    try:
        coordinator = broker.transactions.of(transactional_id)
        coordinator.init(transactional_id, request.transaction_timeout_ms, expected, answer)
    except KafkaError as error:
        return no_producer(error.code)
    return now_or_later(promise)


def no_producer(code: int) -> InitProducerIdResponse:
    """Return a refusal; as in Kafka, without an epoch, whose default in the message is 0."""
    return InitProducerIdResponse(error_code=int(code), producer_epoch=NO_PRODUCER_EPOCH)


# --- AddPartitionsToTxn -------------------------------------------------------


def add_partitions_to_txn(
    broker: Broker, request: AddPartitionsToTxnRequest, caller: Caller
) -> AddPartitionsToTxnResponse | Promise[AddPartitionsToTxnResponse]:
    """Let partitions take part in transactions, or say whether they do."""
    transactions = request.transactions
    version = V2
    if caller.api_version < BATCHED_FROM:
        version = V0
        transactions = [
            AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]
    results = Gathering[AddPartitionsToTxnResult](len(transactions))
    for place, transaction in enumerate(transactions):

        def told(
            codes: Codes,
            transaction: AddPartitionsToTxnTransaction = transaction,
            place: int = place,
        ) -> None:
            results.put(place, _result(transaction, codes, caller))

        _add_or_verify(broker, transaction, version, told)

    def response(results: list[AddPartitionsToTxnResult]) -> AddPartitionsToTxnResponse:
        if caller.api_version >= BATCHED_FROM:
            return AddPartitionsToTxnResponse(results_by_transaction=results)
        (only,) = results
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=only.topic_results)

    return results.response(response)


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _result(
    transaction: AddPartitionsToTxnTransaction, codes: Codes, caller: Caller
) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index,
                        partition_error_code=_known(
                            codes[TopicPartition(topic.name, index)], caller, ADD_FENCED_FROM
                        ),
                    )
                    for index in topic.partitions
                ],
            )
            for topic in transaction.topics
        ],
    )


def _add_or_verify(
    broker: Broker,
    transaction: AddPartitionsToTxnTransaction,
    version: int,
    told: Callable[[Codes], None],
) -> None:
    partitions = _partitions(transaction.topics)
    producer = ProducerKey(transaction.producer_id, transaction.producer_epoch)
    transactional_id = transaction.transactional_id

    def answer(code: ErrorCode, _transaction: Transaction | None) -> None:
        told(dict.fromkeys(partitions, code))

    unknown = _unknown(broker.replicas.image, partitions)
    if unknown:
        told(unknown)
        return
    try:
        coordinator = broker.transactions.of(transactional_id)
        if transaction.verify_only:
            coordinator.verify(transactional_id, producer, partitions, told)
        else:
            is_batched = version == V2
            coordinator.add(
                transactional_id, producer, partitions, version, answer, is_batched=is_batched
            )
    except KafkaError as error:
        answer(error.code, None)


def _unknown(image: MetadataImage, partitions: Sequence[TopicPartition]) -> Codes:
    """Return why none is added, if one of them does not exist."""
    topics = image.topics
    codes = {
        partition: ErrorCode.OPERATION_NOT_ATTEMPTED
        if (topic := topics.get(partition.topic)) is not None
        and 0 <= partition.partition < len(topic.partitions)
        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in partitions
    }
    return codes if ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in codes.values() else {}


# --- AddOffsetsToTxn ----------------------------------------------------------


def add_offsets_to_txn(
    broker: Broker, request: AddOffsetsToTxnRequest, caller: Caller
) -> AddOffsetsToTxnResponse | Promise[AddOffsetsToTxnResponse]:
    """Let the partition that keeps a group's offsets take part in a transaction."""
    promise: Promise[AddOffsetsToTxnResponse] = Promise()

    def answer(code: ErrorCode, _transaction: Transaction | None) -> None:
        known = _known(code, caller, ADD_FENCED_FROM)
        promise.resolve(AddOffsetsToTxnResponse(error_code=known))

    def added(complaint: str) -> None:
        if complaint:
            answer(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
            return
        producer = ProducerKey(request.producer_id, request.producer_epoch)
        try:
            coordinator = broker.transactions.of(request.transactional_id)
            group = group_partition(broker, request.group_id)
            coordinator.add(request.transactional_id, producer, (group,), V0, answer)
        except KafkaError as error:
            answer(error.code, None)

    if broker.coordinators.topic in broker.replicas.image.topics:
        added("")
    else:
        broker.groups_topic.make(broker, added)
    return now_or_later(promise)


def group_partition(broker: Broker, group_id: str) -> TopicPartition:
    """Return the partition that keeps a group's offsets.

    Raises:
        CoordinatorNotAvailableError: there is none yet.
    """
    partition, _ = broker.coordinators.partition_of(group_id)
    return TopicPartition(broker.coordinators.topic, partition)


# --- EndTxn -------------------------------------------------------------------


def end_txn(
    broker: Broker, request: EndTxnRequest, caller: Caller
) -> EndTxnResponse | Promise[EndTxnResponse]:
    """Commit or abort a transaction; answered when nobody can take that back."""
    promise: Promise[EndTxnResponse] = Promise()

    def answer(code: ErrorCode, transaction: Transaction | None) -> None:
        if transaction is None:
            known = _known(code, caller, END_FENCED_FROM)
            promise.resolve(EndTxnResponse(error_code=known))
        else:
            promise.resolve(
                EndTxnResponse(
                    producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch
                )
            )

    try:
        broker.transactions.of(request.transactional_id).end(
            request.transactional_id,
            ProducerKey(request.producer_id, request.producer_epoch),
            commit=request.committed,
            version=V2 if caller.api_version >= END_BUMPS_FROM else V0,
            answer=answer,
        )
    except KafkaError as error:
        return EndTxnResponse(error_code=int(error.code))
    return now_or_later(promise)
