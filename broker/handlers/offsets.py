"""Offsets: where a log begins and ends, which record a time stands for, and what to forget."""

from typing import Final

from quorate.broker.handlers.context import Broker, Caller, code_into
from quorate.broker.replication.leader import LeaderReplica
from quorate.errors import OffsetOutOfRangeError
from quorate.model import NO_TIMESTAMP, UNKNOWN_EPOCH, UNKNOWN_OFFSET
from quorate.protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from quorate.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

MAX_TIMESTAMP: Final = -3

HIGH_WATERMARK: Final = -1
"""What DeleteRecords calls "everything that is committed"."""

Position = tuple[int, int, int]
"""Timestamp, offset and leader epoch of an answer."""

NOWHERE: Final[Position] = (NO_TIMESTAMP, UNKNOWN_OFFSET, UNKNOWN_EPOCH)


def list_offsets(
    broker: Broker, request: ListOffsetsRequest, _caller: Caller
) -> ListOffsetsResponse:
    """Answer each partition's question by time (KIP-79); special times mean ends (KIP-734)."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_list_one(broker, topic.name, p) for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _list_one(
    broker: Broker, topic: str, partition: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=partition.partition_index)
    with code_into(answer):
        replica = broker.replicas.leader(topic, partition.partition_index)
        replica.check_epoch(partition.current_leader_epoch)
        answer.timestamp, answer.offset, answer.leader_epoch = _position(
            replica, partition.timestamp
        )
    return answer


def _position(replica: LeaderReplica, timestamp: int) -> Position:
    log = replica.log
    match timestamp:
        case -1:  # latest
            return NO_TIMESTAMP, replica.high_watermark, replica.leader_epoch
        case -2 | -4:  # earliest, earliest on local disks: the same without tiers
            start_offset = log.log_start_offset
            return NO_TIMESTAMP, start_offset, log.leader_epochs.epoch_for(start_offset)
        case -5 | -6:  # latest in tiered storage, earliest on the way there
            return NOWHERE
        case _:
            return _at_time(replica, timestamp)


def _at_time(replica: LeaderReplica, timestamp: int) -> Position:
    if timestamp == MAX_TIMESTAMP:
        found = replica.find_latest_time()
    else:
        found = replica.find_time(timestamp)
    return NOWHERE if found is None else found


def offset_for_leader_epoch(
    broker: Broker, request: OffsetForLeaderEpochRequest, _caller: Caller
) -> OffsetForLeaderEpochResponse:
    """Say where each leader epoch ended, so that readers notice a truncated log (KIP-320)."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_epoch_end(broker, topic.topic, p) for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _epoch_end(
    broker: Broker, topic: str, partition: OffsetForLeaderPartition
) -> OffsetForLeaderEpochEndOffset:
    answer = OffsetForLeaderEpochEndOffset(partition=partition.partition)
    with code_into(answer):
        replica = broker.replicas.leader(topic, partition.partition)
        replica.check_epoch(partition.current_leader_epoch)
        log = replica.log
        answer.leader_epoch, answer.end_offset = log.leader_epochs.end_offset_for(
            partition.leader_epoch, log.log_end_offset
        )
    return answer


def delete_records(
    broker: Broker, request: DeleteRecordsRequest, _caller: Caller
) -> DeleteRecordsResponse:
    """Forget what lies before an offset of each partition (KIP-107)."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete_one(broker, topic.name, p) for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _delete_one(
    broker: Broker, topic: str, partition: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(
        partition_index=partition.partition_index, low_watermark=UNKNOWN_OFFSET
    )
    with code_into(answer):
        replica = broker.replicas.leader(topic, partition.partition_index)
        end = replica.high_watermark
        offset = end if partition.offset == HIGH_WATERMARK else partition.offset
        if not 0 <= offset <= end:
            raise OffsetOutOfRangeError(f"offset {offset}: the high watermark is {end}")
        replica.log.delete_records_before(offset)
        answer.low_watermark = replica.log.log_start_offset
    return answer
