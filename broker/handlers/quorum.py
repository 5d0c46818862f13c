"""The controller quorum as Kafka's clients see it: DescribeQuorum."""

from typing import Final

from quorate.broker.handlers.context import Broker, Caller
from quorate.control.messages import DescribeQuorum, DescribeQuorumAnswer
from quorate.errors import ErrorCode
from quorate.promise import Promise
from quorate.protocol.messages.quorum import (
    DescribeQuorumPartitionData,
    DescribeQuorumReplicaState,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicData,
)

METADATA_TOPIC: Final = "__cluster_metadata"


def describe_quorum(
    broker: Broker, request: DescribeQuorumRequest, _caller: Caller
) -> Promise[DescribeQuorumResponse] | DescribeQuorumResponse:
    """Describe the controllers (KIP-595): who leads, and how far each has the metadata log."""
    asked = [(t.topic_name, p.partition_index) for t in request.topics for p in t.partitions]
    if asked != [(METADATA_TOPIC, 0)]:
        return _unknown_partitions(request)
    promise: Promise[DescribeQuorumResponse] = Promise()

    def answered(answer: DescribeQuorumAnswer) -> None:
        voters = [
            DescribeQuorumReplicaState(replica_id=v.node_id, log_end_offset=v.log_end_offset)
            for v in answer.voters
        ]
        partition = DescribeQuorumPartitionData(
            leader_id=answer.leader_id,
            leader_epoch=answer.leader_epoch,
            high_watermark=answer.high_watermark,
            current_voters=voters,
        )
        topic = DescribeQuorumTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
        promise.resolve(DescribeQuorumResponse(topics=[topic]))

    def failed(code: ErrorCode, message: str) -> None:
        promise.resolve(DescribeQuorumResponse(error_code=int(code), error_message=message))

    broker.ask(DescribeQuorum(), answered, failed)
    return promise


def _unknown_partitions(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Refuse all that was asked, as Kafka does unless it is the metadata's partition alone."""
    code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumPartitionData(partition_index=p.partition_index, error_code=code)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
