"""WriteTxnMarkers: the coordinator of a transaction tells the leaders of its partitions the end."""

from quorate.broker.handlers.context import Broker, Caller, code_into
from quorate.broker.handlers.pending import Pending
from quorate.broker.shards.topics import GROUPS_TOPIC
from quorate.errors import ErrorCode
from quorate.promise import Promise
from quorate.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from quorate.records.control import EndMarker, TransactionEnd

TIMEOUT_MS = 30_000
"""How long a marker may take to be replicated (Kafka: ``request.timeout.ms``)."""


def write_txn_markers(
    broker: Broker, request: WriteTxnMarkersRequest, _caller: Caller
) -> WriteTxnMarkersResponse | Promise[object]:
    """Append a marker to each partition; answer when those are committed (KIP-98).

    A marker that was written before is written again, and changes nothing.
    """
    pending = Pending()
    response = WriteTxnMarkersResponse(
        markers=[_write_all(broker, marker, pending) for marker in request.markers]
    )
    return pending.promise_of(broker, response, TIMEOUT_MS) if len(pending) else response


def _write_all(
    broker: Broker, marker: WritableTxnMarker, pending: Pending
) -> WritableTxnMarkerResult:
    end = TransactionEnd(
        marker.producer_id,
        marker.producer_epoch,
        EndMarker(marker.transaction_result, marker.coordinator_epoch),
        marker.transaction_version,
    )
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    _write_one(broker, topic.name, partition, end, pending)
                    for partition in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )


def _write_one(
    broker: Broker, topic: str, partition: int, end: TransactionEnd, pending: Pending
) -> WritableTxnMarkerPartitionResult:
    answer = WritableTxnMarkerPartitionResult(partition_index=partition)
    with code_into(answer):
        replica = broker.replicas.leader(topic, partition)
        result = replica.append_marker(end, broker.now_ms)
        if topic == GROUPS_TOPIC:
            broker.coordinators.marker_appended(
                partition, end.producer_id, committed=end.marker.committed
            )
        if result.last_offset >= replica.high_watermark:

            def settle(code: ErrorCode) -> None:
                answer.error_code = int(code)

            replica.when_committed(result.last_offset + 1, pending.waiter(settle))
    return answer
