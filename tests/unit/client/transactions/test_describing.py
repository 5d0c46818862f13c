from quorate.client.transactions.describing import (
    OpenTransaction,
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
    abort_request,
    description_of,
    hanging_of,
    listing_of,
    marker_code,
    producers_of,
    producers_request,
)
from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.protocol.messages.cluster import DescribeProducersPartitionResponse, ProducerState
from quorate.protocol.messages.transactions import (
    DescribeTransactionsTopicData,
    ListTransactionsTransactionState,
    TransactionState,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
WRITER = ProducerDescription(7, 3, 2, 10, 1_000, 40)


def test_what_a_coordinator_tells_of_a_transactional_id() -> None:
    told = TransactionState(
        transactional_id="x",
        transaction_state="Ongoing",
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=5,
        producer_id=7,
        producer_epoch=3,
        topics=[DescribeTransactionsTopicData(topic="t", partitions=[0, 1])],
    )
    expected = TransactionDescription("x", 1, 7, 3, "Ongoing", 60_000, 5, (A, B))
    assert description_of(told, 1) == expected
    told.transaction_start_time_ms = -1
    assert description_of(told, 1).started_ms is None
    listed = ListTransactionsTransactionState(
        transactional_id="x", producer_id=7, transaction_state="Empty"
    )
    assert listing_of(listed, 2) == TransactionListing("x", 2, 7, "Empty")


def test_what_a_leader_remembers_of_producers() -> None:
    told = DescribeProducersPartitionResponse(
        active_producers=[
            ProducerState(producer_id=9, producer_epoch=0, coordinator_epoch=-1),
            ProducerState(
                producer_id=7,
                producer_epoch=3,
                last_sequence=10,
                last_timestamp=1_000,
                coordinator_epoch=2,
                current_txn_start_offset=40,
            ),
        ]
    )
    assert producers_of(told) == [WRITER, ProducerDescription(9, 0, None, -1, -1, None)]
    request = producers_request([A, TopicPartition("u", 0), B])
    assert [(topic.name, topic.partition_indexes) for topic in request.topics] == [
        ("t", [0, 1]),
        ("u", [0]),
    ]


def test_what_no_coordinator_will_end_hangs() -> None:
    here, there = OpenTransaction(A, WRITER), OpenTransaction(B, WRITER)
    listed = [TransactionListing("x", 1, 7, "Ongoing")]
    ongoing = {"x": TransactionDescription("x", 1, 7, 3, "Ongoing", 60_000, 5, (A,))}
    assert hanging_of([here, there], listed, ongoing) == [there]
    assert hanging_of([here], [], ongoing) == [here]
    assert hanging_of([here], listed, {}) == [here]
    assert (here.open_ms(1_500), here.open_ms(500)) == (500, 0)


def test_a_hanging_transaction_is_ended_by_a_marker_in_its_partition() -> None:
    (marker,) = abort_request(B, WRITER).markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 2)
    assert not marker.transaction_result
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", [1])]
    unknown = ProducerDescription(7, 3, None, 10, 1_000, 40)
    assert abort_request(B, unknown).markers[0].coordinator_epoch == 0


def test_what_became_of_the_marker() -> None:
    told = WritableTxnMarkerPartitionResult(partition_index=1, error_code=47)
    topic = WritableTxnMarkerTopicResult(name="t", partitions=[told])
    response = WriteTxnMarkersResponse(
        markers=[WritableTxnMarkerResult(producer_id=7, topics=[topic])]
    )
    assert marker_code(response) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert marker_code(WriteTxnMarkersResponse()) == ErrorCode.UNKNOWN_SERVER_ERROR
