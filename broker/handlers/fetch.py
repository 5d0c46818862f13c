"""Fetch: committed batches out, from the file; long polls parked until there are enough."""

from typing import Final

from quorate.broker.handlers.context import Broker, Caller
from quorate.broker.handlers.leaders import WRONG_LEADER, LeaderHints
from quorate.broker.handlers.replica_fetch import replica_fetch
from quorate.broker.log.cold import Cold, ColdError
from quorate.broker.replication.leader import LeaderReplica
from quorate.broker.replication.replica import Replica
from quorate.broker.replication.sessions import follower_of
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, KafkaError, OffsetOutOfRangeError
from quorate.model import UNKNOWN_OFFSET
from quorate.promise import Promise, now_or_later
from quorate.protocol.messages.data import (
    READ_COMMITTED,
    AbortedTransaction,
    FetchableTopicResponse,
    FetchEpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from quorate.records.slices import FileSlice

STORAGE_ERROR_FROM: Final = 6
RACKS_FROM: Final = 11
TOPIC_IDS_FROM: Final = 13
HINTS_FROM: Final = 16
WAIT_MAX_MS: Final = 600_000
"""The longest that a fetch is parked: a peer that went away must not be remembered for ever."""


@dataclass(slots=True)
class _Outcome:
    """What a fetch would answer now."""

    response: FetchResponse
    wanted_bytes: int
    size_bytes: int
    """Of the records that it has."""
    held_bytes: int
    """Of those that there are for the client, though batches may not fit, or only the next time."""
    failed: bool
    waitable: list[Replica]
    may_wait: bool
    """Whether reading may wait for the disk; if not, ``cold`` is what would have had to."""
    may_wait_aborted: bool
    """Whether looking up what was aborted may, too."""
    cold: list[Cold]
    rack: str | None
    """Where the consumer is ("" if it does not say); None if it may read from leaders only."""
    hints: LeaderHints | None
    stable: bool
    """Whether the consumer reads nothing whose transaction is not decided."""
    read_bytes: dict[str, int]
    """How much of each topic."""

    def sent_by(self, broker: Broker) -> FetchResponse:
        """Return the response, and count in what it has of each topic."""
        for topic, size_bytes in self.read_bytes.items():
            broker.bytes_out[topic] = broker.bytes_out.get(topic, 0) + size_bytes
        return self.response

    @property
    def is_final(self) -> bool:
        """Whether waiting would not make it better."""
        return self.failed or self.held_bytes >= self.wanted_bytes


def fetch(
    broker: Broker, request: FetchRequest, caller: Caller
) -> FetchResponse | Promise[FetchResponse]:
    """Answer with what is committed, or park the request until ``min_bytes`` are (KIP-74).

    No fetch session is ever opened (KIP-227): clients told session id 0 name their partitions each
    time, and one that goes on with a session, of whoever served here before, starts anew.
    """
    if follower_of(request)[0] >= 0:
        return replica_fetch(broker, request)
    if request.session_epoch > 0:
        return FetchResponse(error_code=int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    if _names_twice(request):
        _name_once(request)
    outcome = _read_all(broker, request, caller, may_wait=False)
    if outcome.cold:
        return _read_aside(broker, request, caller, outcome.cold)
    if _is_answer(request, outcome):
        return outcome.sent_by(broker)
    return _Parked(broker, request, caller, outcome.waitable, Promise()).promise


def _names_twice(request: FetchRequest) -> bool:
    topics = request.topics
    for topic in topics:
        partitions = topic.partitions
        if len(partitions) > 1 and len({p.partition for p in partitions}) < len(partitions):
            return True
    return len(topics) > 1 and len({t.topic or t.topic_id for t in topics}) < len(topics)


def _name_once(request: FetchRequest) -> None:
    """Leave of what names a partition the last (as Kafka does): it is read after each append."""
    named = {
        (topic.topic or topic.topic_id, partition.partition): partition
        for topic in request.topics
        for partition in topic.partitions
    }
    for topic in request.topics:
        key = topic.topic or topic.topic_id
        topic.partitions = [p for p in topic.partitions if named[key, p.partition] is p]


def _is_answer(request: FetchRequest, outcome: _Outcome) -> bool:
    return outcome.is_final or request.max_wait_ms <= 0 or not outcome.waitable


def _read_aside(
    broker: Broker, request: FetchRequest, caller: Caller, cold: list[Cold]
) -> FetchResponse | Promise[FetchResponse]:
    """Have in memory what the look-ups need, then begin again.

    What was aborted among the records can be looked for when these are found.
    """
    promise: Promise[FetchResponse] = Promise()
    wanted = True

    def abandoned() -> None:
        nonlocal wanted
        wanted = False

    def look(cold: list[Cold], *, is_last: bool) -> None:
        def run() -> None:
            for read in cold:
                read.run()

        def then() -> None:
            if not wanted:
                return
            outcome = _read_all(broker, request, caller, may_wait_aborted=is_last)
            if outcome.cold:
                look(outcome.cold, is_last=True)
            elif _is_answer(request, outcome):
                promise.resolve(outcome.sent_by(broker))
            else:
                _Parked(broker, request, caller, outcome.waitable, promise)

        broker.aside(run, then)

    promise.on_abandoned = abandoned
    look(cold, is_last=request.isolation_level != READ_COMMITTED)
    return now_or_later(promise)


class _Parked:
    """A fetch that waits on its partitions, and on its deadline.

    Invariant: it is known to the replicas and to the deadlines until the promise is resolved or
    abandoned, and not a moment longer.
    """

    __slots__ = ("_broker", "_caller", "_deadline", "_replicas", "_request", "promise")

    def __init__(
        self,
        broker: Broker,
        request: FetchRequest,
        caller: Caller,
        replicas: list[Replica],
        promise: Promise[FetchResponse],
    ) -> None:
        self._broker = broker
        self._request = request
        self._caller = caller
        self._replicas = replicas
        self.promise = promise
        self.promise.on_abandoned = self._leave
        for replica in replicas:
            replica.read_waiters[self] = None
        wait_ms = min(request.max_wait_ms, WAIT_MAX_MS)
        self._deadline = broker.deadlines.after(wait_ms, self._answer_now)

    def on_progress(self) -> None:
        """Answer if there is enough now."""
        outcome = _read_all(self._broker, self._request, self._caller)
        if outcome.is_final:
            self._answer(outcome)

    def on_closed(self) -> None:
        """Answer with what there is: the client has to ask the new leader for the rest."""
        self._answer_now()

    def _answer_now(self) -> None:
        self._answer(_read_all(self._broker, self._request, self._caller))

    def _answer(self, outcome: _Outcome) -> None:
        self._leave()
        self.promise.resolve(outcome.sent_by(self._broker))

    def _leave(self) -> None:
        for replica in self._replicas:
            replica.read_waiters.pop(self, None)
        self._broker.deadlines.cancel(self._deadline)


def _read_all(
    broker: Broker,
    request: FetchRequest,
    caller: Caller,
    *,
    may_wait: bool = True,
    may_wait_aborted: bool = True,
) -> _Outcome:
    left_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
    wanted_bytes = min(request.min_bytes, left_bytes)
    outcome = _Outcome(
        FetchResponse(),
        wanted_bytes,
        0,
        0,
        failed=False,
        waitable=[],
        may_wait=may_wait,
        may_wait_aborted=may_wait and may_wait_aborted,
        cold=[],
        rack=request.rack_id if caller.api_version >= RACKS_FROM else None,
        hints=LeaderHints(broker, caller.listener) if caller.api_version >= HINTS_FROM else None,
        stable=request.isolation_level == READ_COMMITTED,
        read_bytes={},
    )
    for topic in request.topics:
        by_id = caller.api_version >= TOPIC_IDS_FROM
        topic_id = topic.topic_id if by_id else None
        name = broker.replicas.image.topic_names.get(topic.topic_id) if by_id else topic.topic
        answers = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id)
        outcome.response.responses.append(answers)
        for partition in topic.partitions:
            room_bytes = left_bytes - outcome.size_bytes
            data = _read_one(broker, (name, topic_id), partition, room_bytes, outcome)
            if not outcome.stable:
                data.aborted_transactions = None
            if caller.api_version < STORAGE_ERROR_FROM:
                data.error_code = _known_before_storage_errors(data.error_code)
            answers.partitions.append(data)
    if outcome.hints is not None:
        outcome.response.node_endpoints = outcome.hints.endpoints
    return outcome


def _known_before_storage_errors(code: int) -> int:
    """Return an error that clients of that time know, and try again with."""
    away = ErrorCode.NOT_LEADER_OR_FOLLOWER
    return int(away if code == ErrorCode.KAFKA_STORAGE_ERROR else code)


def _read_one(
    broker: Broker,
    topic: tuple[str | None, bytes | None],
    partition: FetchPartition,
    room_bytes: int,
    outcome: _Outcome,
) -> PartitionData:
    """Read one partition of a topic, given by its name and, if that is how it was named, its id."""
    name, topic_id = topic
    try:
        if outcome.rack is None:
            replica: Replica = broker.replicas.leader(name, partition.partition, topic_id)
        else:
            replica = broker.replicas.readable(name, partition.partition, topic_id)
        replica.check_epoch(partition.current_leader_epoch)
        return _read_here_or_elsewhere(replica, partition, room_bytes, outcome)
    except KafkaError as error:
        outcome.failed = True
        data = _failure(broker, name, partition, error)
        if outcome.hints is not None and error.code in WRONG_LEADER:
            data.current_leader = outcome.hints.leader_of(name, partition.partition)
        return data


def _read_here_or_elsewhere(
    replica: Replica, partition: FetchPartition, room_bytes: int, outcome: _Outcome
) -> PartitionData:
    """Read, or tell the consumer that a replica in its rack has what it wants (KIP-392).

    What it says it has read last may have been cut off since; then it is told where (KIP-595).
    """
    if outcome.rack and isinstance(replica, LeaderReplica) and replica.followers:
        replica.check_readable(partition.fetch_offset)
        reader_id = replica.reader_for(outcome.rack, partition.fetch_offset)
        if reader_id != replica.state.leader_id:
            outcome.failed = True  # not to be waited for
            data = _state_of(replica, partition)
            data.preferred_read_replica = reader_id
            return data
    diverging = replica.diverging(partition.fetch_offset, partition.last_fetched_epoch)
    if diverging is not None:
        outcome.failed = True
        data = _state_of(replica, partition)
        epoch, end_offset = diverging
        data.diverging_epoch = FetchEpochEndOffset(epoch=epoch, end_offset=end_offset)
        return data
    return _read(replica, partition, room_bytes, outcome)


def _read(
    replica: Replica, partition: FetchPartition, room_bytes: int, outcome: _Outcome
) -> PartitionData:
    first = outcome.size_bytes == 0
    records = None
    aborted: list[AbortedTransaction] = []
    if room_bytes > 0 or first:
        max_bytes = max(min(partition.partition_max_bytes, room_bytes), 0)
        try:
            records = replica.read(
                partition.fetch_offset,
                max_bytes=max_bytes,
                at_least_one=first,
                may_wait=outcome.may_wait,
                stable=outcome.stable,
            )
            _count_in(replica, partition.fetch_offset, max_bytes, records, outcome)
            if records is not None and outcome.stable:
                aborted = _aborted_in(replica, records, partition.fetch_offset, outcome)
        except ColdError as error:
            outcome.cold.append(error.cold)
    else:
        replica.check_readable(partition.fetch_offset)
    outcome.waitable.append(replica)
    if records is not None:
        topic = replica.topic_partition.topic
        outcome.read_bytes[topic] = outcome.read_bytes.get(topic, 0) + len(records)
    data = _state_of(replica, partition)
    if records is not None:
        data.records = records
        data.aborted_transactions = aborted
    return data


def _count_in(
    replica: Replica, offset: int, max_bytes: int, records: FileSlice | None, outcome: _Outcome
) -> None:
    """Count in what there is of a partition: what was read, or would be the next time.

    What is not given now is nothing to wait for (Kafka: ``DelayedFetch``): limits cut between
    batches, and where a segment ends, the log may go on.
    """
    size_bytes = 0 if records is None else len(records)
    lacking_bytes = outcome.wanted_bytes - outcome.held_bytes
    outcome.size_bytes += size_bytes
    held_bytes: int | None = size_bytes
    if records is None and outcome.size_bytes:  # else it was read whatever its size: it has none
        end_offset = replica.last_stable_offset if outcome.stable else replica.high_watermark
        held_bytes = max_bytes if offset < end_offset else 0
    elif records is not None and size_bytes < lacking_bytes:
        held_bytes = replica.bytes_from(
            records, offset, may_wait=outcome.may_wait, stable=outcome.stable
        )
        if held_bytes is not None:
            held_bytes = max(min(held_bytes, max_bytes), size_bytes)
    outcome.held_bytes += lacking_bytes if held_bytes is None else held_bytes


def _aborted_in(
    replica: Replica, records: FileSlice, offset: int, outcome: _Outcome
) -> list[AbortedTransaction]:
    """Return whose records among those read a consumer has to leave out, from where on."""
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in replica.aborted_in(records, offset, may_wait=outcome.may_wait_aborted)
    ]


def _state_of(replica: Replica, partition: FetchPartition) -> PartitionData:
    """Return an answer without records."""
    return PartitionData(
        partition_index=partition.partition,
        high_watermark=replica.high_watermark,
        last_stable_offset=replica.last_stable_offset,
        log_start_offset=replica.log.log_start_offset,
        records=b"",
    )


def _failure(
    broker: Broker, name: str | None, partition: FetchPartition, error: KafkaError
) -> PartitionData:
    """Return an error answer; one about offsets says which there are, as Kafka's does."""
    data = PartitionData(
        partition_index=partition.partition,
        error_code=int(error.code),
        high_watermark=UNKNOWN_OFFSET,
        records=b"",
    )
    if name is not None and isinstance(error, OffsetOutOfRangeError):
        replica = broker.replicas.readable(name, partition.partition)
        data.high_watermark = replica.high_watermark
        data.last_stable_offset = replica.last_stable_offset
        data.log_start_offset = replica.log.log_start_offset
    return data
