"""Offsets: where a log begins and ends, which record a time stands for, and what to forget."""

from collections import Counter
from typing import Final

from quorate.broker.handlers.context import Broker, Caller, code_into
from quorate.broker.handlers.pending import Pending
from quorate.broker.replication.leader import LeaderReplica
from quorate.broker.replication.replica import Replica
from quorate.broker.shards.topics import INTERNAL_TOPICS
from quorate.errors import (
    ErrorCode,
    InvalidTopicError,
    KafkaError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnsupportedVersionError,
)
from quorate.model import NO_TIMESTAMP, UNKNOWN_EPOCH, UNKNOWN_OFFSET
from quorate.promise import Promise, now_or_later
from quorate.protocol.messages.data import (
    READ_COMMITTED,
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

SPECIAL_FROM: Final = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}
"""The version from which a time stands for something special; no other is negative."""
MAX_TIMESTAMP: Final = -3
DEBUGGING: Final = -2
"""The replica id of who wants to see a replica as it is here, be it a follower."""
OFFSET_NOT_AVAILABLE_FROM: Final = 5

HIGH_WATERMARK: Final = -1
"""What DeleteRecords calls "everything that is committed"."""

Position = tuple[int, int, int]
"""Timestamp, offset and leader epoch of an answer."""

SEARCHES_MAX: Final = 5
"""Tries to find a time in a log whose oldest segments are deleted meanwhile."""

NOWHERE: Final[Position] = (NO_TIMESTAMP, UNKNOWN_OFFSET, UNKNOWN_EPOCH)


def list_offsets(
    broker: Broker, request: ListOffsetsRequest, caller: Caller
) -> ListOffsetsResponse | Promise[ListOffsetsResponse]:
    """Answer each partition's question by time (KIP-79); special times mean ends (KIP-734)."""
    wanted: list[_Wanted] = []
    asked = Counter((t.name, p.partition_index) for t in request.topics for p in t.partitions)
    response = ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _list_one(broker, request, caller, topic.name, p, wanted)
                    if asked[topic.name, p.partition_index] == 1
                    else _refuse_repeated(p)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    if not wanted:
        return _in_words_of(caller.api_version, response)
    promise = _TimeSearch(broker, response, wanted, caller.api_version).promise
    return now_or_later(promise)


def _in_words_of(version: int, response: ListOffsetsResponse) -> ListOffsetsResponse:
    """Return the response with errors that the version knows."""
    if version < OFFSET_NOT_AVAILABLE_FROM:
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.OFFSET_NOT_AVAILABLE:
                    partition.error_code = int(ErrorCode.LEADER_NOT_AVAILABLE)
    return response


def _refuse_repeated(partition: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=partition.partition_index, error_code=int(ErrorCode.INVALID_REQUEST)
    )


def _list_one(
    broker: Broker,
    request: ListOffsetsRequest,
    caller: Caller,
    topic: str,
    partition: ListOffsetsPartition,
    wanted: "list[_Wanted]",
) -> ListOffsetsPartitionResponse:
    """Return the answer for a partition; if it takes a search, that is wanted, too."""
    answer = ListOffsetsPartitionResponse(partition_index=partition.partition_index)
    with code_into(answer):
        _check_time(partition.timestamp, caller.api_version)
        replicas = broker.replicas
        find = replicas.readable if request.replica_id == DEBUGGING else replicas.leader
        replica = find(topic, partition.partition_index)
        replica.check_epoch(partition.current_leader_epoch)
        stable = request.isolation_level == READ_COMMITTED
        position = _position(replica, partition.timestamp, stable=stable)
        if position is None:
            wanted.append(_Wanted(answer, replica, partition.timestamp, stable=stable))
        else:
            answer.timestamp, answer.offset, answer.leader_epoch = position
    return answer


def _check_time(timestamp: int, version: int) -> None:
    """Refuse a negative time that stands for nothing, or not in this version."""
    if timestamp < 0 and (timestamp not in SPECIAL_FROM or version < SPECIAL_FROM[timestamp]):
        raise UnsupportedVersionError(f"time {timestamp} stands for nothing in version {version}")


def _position(replica: Replica, timestamp: int, *, stable: bool) -> Position | None:
    """Return what a special time stands for; None if it is not special enough.

    The latest offset is the last stable one for who reads nothing behind that (KIP-98).

    Raises:
        KafkaError: OFFSET_NOT_AVAILABLE: the end is not known yet (KIP-207).
    """
    log = replica.log
    match timestamp:
        case -1:  # latest
            _check_end_known(replica)
            end_offset = replica.last_stable_offset if stable else replica.high_watermark
            return NO_TIMESTAMP, end_offset, replica.leader_epoch
        case -2 | -4:  # earliest, earliest on local disks: the same without tiers
            start_offset = log.log_start_offset
            return NO_TIMESTAMP, start_offset, log.leader_epochs.epoch_for(start_offset)
        case -5 | -6:  # latest in tiered storage, earliest on the way there
            return NOWHERE
        case _:
            return None


def _check_end_known(replica: Replica) -> None:
    """Refuse to say what is committed while it may be more than we know (KIP-207)."""
    if isinstance(replica, LeaderReplica) and not replica.knows_what_is_committed:
        raise KafkaError(code=ErrorCode.OFFSET_NOT_AVAILABLE)


class _Wanted:
    """A position that has to be searched for."""

    __slots__ = ("answer", "lookup", "replica", "stable", "timestamp")

    def __init__(
        self,
        answer: ListOffsetsPartitionResponse,
        replica: Replica,
        timestamp: int,
        *,
        stable: bool,
    ) -> None:
        self.answer = answer
        self.stable = stable
        self.replica = replica
        self.timestamp = None if timestamp == MAX_TIMESTAMP else timestamp
        self.look_again()

    def look_again(self) -> None:
        """Prepare a search of the log as it is now."""
        self.lookup = self.replica.log.start_time_lookup(self.timestamp)

    def take_result(self, broker: Broker) -> None:
        """Answer with what was found, or with an error."""
        answer, replica = self.answer, self.replica
        with code_into(answer):
            if not broker.replicas.hosts(replica):
                raise NotLeaderOrFollowerError
            found = replica.committed(self.lookup, stable=self.stable)
            if found is None:
                _check_end_known(replica)
            position: Position = NOWHERE if found is None else found
            answer.timestamp, answer.offset, answer.leader_epoch = position


class _TimeSearch:
    """Searches aside, which reads from the disk and decompresses what clients compressed."""

    __slots__ = (
        "_broker",
        "_given_up",
        "_response",
        "_searches_left",
        "_version",
        "_wanted",
        "promise",
    )

    def __init__(
        self, broker: Broker, response: ListOffsetsResponse, wanted: list[_Wanted], version: int
    ) -> None:
        self._broker = broker
        self._response = response
        self._version = version
        self._wanted = wanted
        self._searches_left = SEARCHES_MAX
        self._given_up = False
        self.promise: Promise[ListOffsetsResponse] = Promise()
        self.promise.on_abandoned = self._give_up
        self._search(wanted)

    def _give_up(self) -> None:
        """Search no more: whoever asked is gone."""
        self._given_up = True

    def _search(self, wanted: list[_Wanted]) -> None:
        self._searches_left -= 1
        lookups = [each.lookup for each in wanted]

        def run() -> None:
            for lookup in lookups:
                if self._given_up:
                    return
                lookup.run()

        self._broker.aside(run, self._searched)

    def _searched(self) -> None:
        if self._given_up:
            return
        missed = [wanted for wanted in self._wanted if wanted.lookup.missed]
        if missed and self._searches_left:
            for wanted in missed:
                wanted.look_again()
            self._search(missed)
            return
        for wanted in self._wanted:
            wanted.take_result(self._broker)
        self.promise.resolve(_in_words_of(self._version, self._response))


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
        answer.leader_epoch, answer.end_offset = replica.epoch_end(partition.leader_epoch)
    return answer


def delete_records(
    broker: Broker, request: DeleteRecordsRequest, _caller: Caller
) -> DeleteRecordsResponse | Promise[object]:
    """Forget what lies before an offset of each partition, here and on all replicas (KIP-107).

    Those out of service are not waited for: they will follow when they are back.
    """
    pending = Pending()
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete_one(broker, topic.name, p, pending) for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )
    return pending.promise_of(broker, response, request.timeout_ms) if len(pending) else response


def _delete_one(
    broker: Broker, topic: str, partition: DeleteRecordsPartition, pending: Pending
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(
        partition_index=partition.partition_index, low_watermark=UNKNOWN_OFFSET
    )
    with code_into(answer):
        if topic in INTERNAL_TOPICS:
            raise InvalidTopicError("records of internal topics are not deleted")
        replica = broker.replicas.leader(topic, partition.partition_index)
        config = replica.log.config
        if config.compacts and not config.deletes:
            message = "records of a topic that is only compacted are not deleted"
            raise KafkaError(message, code=ErrorCode.POLICY_VIOLATION)
        end = replica.high_watermark
        offset = end if partition.offset == HIGH_WATERMARK else partition.offset
        if not 0 <= offset <= end:
            raise OffsetOutOfRangeError(f"offset {offset}: the high watermark is {end}")
        replica.delete_records_before(offset)
        answer.low_watermark = replica.low_watermark
        if answer.low_watermark < offset:

            def settle(code: ErrorCode) -> None:
                # Others may lead by now; or we do, in an epoch in which followers said how far.
                index = partition.partition_index
                current = broker.replicas.find_by_id(replica.topic_id, index)
                answer.error_code = int(code)
                answer.low_watermark = UNKNOWN_OFFSET if current is None else current.low_watermark

            replica.when_deleted(offset, pending.waiter(settle))
    return answer
