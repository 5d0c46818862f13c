"""Idempotence and transactions: producer ids, what takes part, how it ends, what it looks like."""

from typing import Final

from quorate.protocol.fields import array, boolean, int8, int16, int32, int64, string
from quorate.protocol.message import message, nested

MARKED_MAX: Final = 50_000
"""Transactions, topics and partitions of one request to end transactions."""


@message(versions="0-6", flexible="2+")
class InitProducerIdRequest:
    """Asks for a producer id and epoch; without a transactional id they only serve idempotence."""

    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


@message(versions="0-6", flexible="2+")
class InitProducerIdResponse:
    """Answers an InitProducerIdRequest."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)


@nested
class AddPartitionsToTxnTopic:
    """The partitions of one topic that join a transaction."""

    name: str = string()
    partitions: list[int] = array("int32")


@nested
class AddPartitionsToTxnTransaction:
    """One of several transactions; `verify_only` asks whether the partitions are in it already."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    verify_only: bool = boolean()
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic)


@message(versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    """Adds partitions to a transaction; since version 4 for brokers only, and many at a time."""

    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")


@nested
class AddPartitionsToTxnPartitionResult:
    """What became of one partition."""

    partition_index: int = int32()
    partition_error_code: int = int16()


@nested
class AddPartitionsToTxnTopicResult:
    """What became of one topic."""

    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult
    )


@nested
class AddPartitionsToTxnResult:
    """What became of one transaction."""

    transactional_id: str = string()
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult)


@message(versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    """Answers an AddPartitionsToTxnRequest."""

    throttle_time_ms: int = int32()
    error_code: int = int16("4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "0-3"
    )


@message(versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    """Announces that a transaction will commit offsets of a group."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@message(versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    """Answers an AddOffsetsToTxnRequest."""

    throttle_time_ms: int = int32()
    error_code: int = int16()


@message(versions="0-5", flexible="3+")
class EndTxnRequest:
    """Commits or aborts a transaction."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


@message(versions="0-5", flexible="3+")
class EndTxnResponse:
    """Answers an EndTxnRequest; since version 5 with the epoch for the next one (KIP-890)."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)


@nested
class WritableTxnMarkerTopic:
    """The partitions of one topic that get a marker."""

    name: str = string()
    partition_indexes: list[int] = array("int32")


@nested
class WritableTxnMarker:
    """The end of one producer's transaction."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+")


@message(versions="1-2", flexible="1+", elements_max=MARKED_MAX)
class WriteTxnMarkersRequest:
    """Tells leaders that transactions ended; sent by the coordinator."""

    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


@nested
class WritableTxnMarkerPartitionResult:
    """Whether one partition has the marker."""

    partition_index: int = int32()
    error_code: int = int16()


@nested
class WritableTxnMarkerTopicResult:
    """Whether the partitions of one topic have the marker."""

    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


@nested
class WritableTxnMarkerResult:
    """Where one producer's marker was written."""

    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


@message(versions="1-2", flexible="1+")
class WriteTxnMarkersResponse:
    """Answers a WriteTxnMarkersRequest."""

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)


@nested
class TxnOffsetCommitRequestPartition:
    """The offset that one partition is to have when the transaction commits."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1)
    committed_metadata: str | None = string(nullable="0+")


@nested
class TxnOffsetCommitRequestTopic:
    """The offsets of one topic."""

    name: str = string()
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


@message(versions="0-5", flexible="3+")
class TxnOffsetCommitRequest:
    """Commits a group's offsets as part of a transaction."""

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


@nested
class TxnOffsetCommitResponsePartition:
    """Whether one offset was taken."""

    partition_index: int = int32()
    error_code: int = int16()


@nested
class TxnOffsetCommitResponseTopic:
    """Whether the offsets of one topic were taken."""

    name: str = string()
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


@message(versions="0-5", flexible="3+")
class TxnOffsetCommitResponse:
    """Answers a TxnOffsetCommitRequest."""

    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)


@message(versions="0", flexible="0+")
class DescribeTransactionsRequest:
    """Asks how transactions stand (KIP-664)."""

    transactional_ids: list[str] = array("string")


@nested
class DescribeTransactionsTopicData:
    """The partitions of one topic that take part."""

    topic: str = string()
    partitions: list[int] = array("int32")


@nested
class TransactionState:
    """How one transactional id stands."""

    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[DescribeTransactionsTopicData] = array(DescribeTransactionsTopicData)


@message(versions="0", flexible="0+")
class DescribeTransactionsResponse:
    """Answers a DescribeTransactionsRequest."""

    throttle_time_ms: int = int32()
    transaction_states: list[TransactionState] = array(TransactionState)


@message(versions="0-2", flexible="0+")
class ListTransactionsRequest:
    """Lists transactions; empty filters let everything pass, a negative duration too."""

    state_filters: list[str] = array("string")
    producer_id_filters: list[int] = array("int64")
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+")


@nested
class ListTransactionsTransactionState:
    """One transactional id."""

    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@message(versions="0-2", flexible="0+")
class ListTransactionsResponse:
    """Answers a ListTransactionsRequest."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array("string")
    transaction_states: list[ListTransactionsTransactionState] = array(
        ListTransactionsTransactionState
    )
