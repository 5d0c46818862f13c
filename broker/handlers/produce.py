"""Produce: record batches in, appended as the leader of their partitions."""

from functools import partial
from typing import TYPE_CHECKING, Final, cast

from quorate.broker.handlers.context import Broker, Caller, CloseConnectionError, Shortcut
from quorate.broker.handlers.leaders import LeaderHints
from quorate.broker.handlers.verification import (
    ADDS_FROM,
    TransactionVerification,
    produce_error,
)
from quorate.broker.log.appended import AppendResult
from quorate.broker.log.validation import KeylessRecordsError
from quorate.broker.log.verification import Guard
from quorate.broker.replication.leader import ACKS_ALL, LeaderReplica
from quorate.broker.shards.topics import INTERNAL_TOPICS
from quorate.errors import (
    ErrorCode,
    InvalidRecordError,
    InvalidTopicError,
    KafkaError,
    NotLeaderOrFollowerError,
    UnsupportedCompressionTypeError,
)
from quorate.model import UNKNOWN_OFFSET
from quorate.promise import Promise
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import response_encoder
from quorate.protocol.messages.data import (
    PRODUCE_TOPIC_IDS_FROM,
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from quorate.protocol.single_produce import (
    VERSION_MIN,
    single_produce_writer,
    sound_produce_reader,
)
from quorate.records.batch import (
    CODEC_AT,
    COMPRESSION_MASK,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TRANSACTIONAL_BIT,
    BatchHeader,
    parse_header,
    size_of_first,
)
from quorate.records.compression import Codec

if TYPE_CHECKING:
    from collections.abc import Callable

ZSTD_FROM: Final = 7
HINTS_FROM: Final = 10
ATTRIBUTES: Final = BatchHeader._fields.index("attributes")
ACKS_VALID: Final = (0, 1, ACKS_ALL)
ACKS_ANSWERED: Final = (1, ACKS_ALL)

_TOLD_WITHOUT_START: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }
)
"""With all other errors Kafka tells where the log starts (``ReplicaManager.processFailedRecord``).

Java's producer needs that with UNKNOWN_PRODUCER_ID: without, it sends the batch again until it is
told (``TransactionManager.canRetry``).
"""


def produce(
    broker: Broker, request: ProduceRequest, caller: Caller
) -> ProduceResponse | Promise[ProduceResponse] | None:
    """Append each partition's batches; answer when they are as safe as ``acks`` asks (KIP-98).

    Raises:
        CloseConnectionError: ``acks`` is 0 and something failed; closing is the only way to say so.
    """
    if request.transactional_id is not None and request.acks in ACKS_VALID:
        return _produce_in_transaction(broker, request, caller)
    wrong = _what_is_wrong(request)
    if wrong is not None:
        return _refused(request, wrong)
    by_id = caller.api_version >= PRODUCE_TOPIC_IDS_FROM
    pending: _Pending | None = None
    responses: list[TopicProduceResponse] = []
    for topic in request.topic_data:
        topic_id = topic.topic_id if by_id else None
        name = _name_of(broker, topic, topic_id)
        answers: list[PartitionProduceResponse] = []
        for partition in topic.partition_data:
            replica: LeaderReplica | None = None
            try:
                replica = broker.replicas.leader(name, partition.index, topic_id)
                _check_codec(partition, caller.api_version)
                result = _append(replica, partition.records, request.acks, broker.now_ms)
            except KafkaError as error:
                answers.append(_failure(partition, error, replica))
                continue
            base_offset, last_offset, append_time_ms, log_start_offset, _ = result
            answer = PartitionProduceResponse(
                index=partition.index,
                base_offset=base_offset,
                log_append_time_ms=append_time_ms,
                log_start_offset=log_start_offset,
            )
            answers.append(answer)
            if _must_wait(replica, last_offset, request.acks):
                pending = pending or _Pending()
                pending.wait_for(replica, last_offset + 1, request.acks, answer)
        responses.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    if request.acks == 0:
        _close_on_error(responses)
        return None
    response = ProduceResponse(responses=responses)
    if pending is None:
        return _with_hints(broker, caller, response)
    return pending.promise_of(broker, caller, response, request.timeout_ms)


def _name_of(broker: Broker, topic: TopicProduceData, topic_id: bytes | None) -> str | None:
    """Return the name of a topic, which is given by that or by its id."""
    return topic.name if topic_id is None else broker.replicas.image.topic_names.get(topic_id)


def _with_hints(broker: Broker, caller: Caller, response: ProduceResponse) -> ProduceResponse:
    """Say who leads instead, where that is what is wrong (KIP-951)."""
    if caller.api_version < HINTS_FROM:
        return response
    hints = LeaderHints(broker, caller.listener)
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                name = topic.name or broker.replicas.image.topic_names.get(topic.topic_id)
                answer.current_leader = hints.leader_of(name, answer.index)
    response.node_endpoints = hints.endpoints
    return response


def _what_is_wrong(request: ProduceRequest) -> ErrorCode | None:
    """Return why the whole request is refused, if it is: it is not in a transaction."""
    if request.acks not in ACKS_VALID:
        return ErrorCode.INVALID_REQUIRED_ACKS
    partitions = [partition for topic in request.topic_data for partition in topic.partition_data]
    if any(_is_transactional(partition.records) for partition in partitions):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return None


def _produce_in_transaction(
    broker: Broker, request: ProduceRequest, caller: Caller
) -> ProduceResponse | Promise[ProduceResponse] | None:
    """Append batches as part of a transaction; answer when they are safe (KIP-98, KIP-890).

    A partition's first batch of a transaction waits for the coordinator to say that the partition
    takes part.
    """
    writers = {
        (header.producer_id, header.producer_epoch)
        for topic in request.topic_data
        for partition in topic.partition_data
        if (header := _transactional_header(partition.records)) is not None
    }
    if len(writers) > 1:
        return _refused(request, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    adds = caller.api_version >= ADDS_FROM
    producer_id, epoch = next(iter(writers), (NO_PRODUCER_ID, NO_PRODUCER_EPOCH))
    transactional_id = request.transactional_id or ""
    verification = TransactionVerification(broker, transactional_id, producer_id, epoch, adds=adds)
    pending = _Pending()
    responses: list[TopicProduceResponse] = []
    by_id = caller.api_version >= PRODUCE_TOPIC_IDS_FROM
    for topic in request.topic_data:
        topic_id = topic.topic_id if by_id else None
        name = _name_of(broker, topic, topic_id)
        answers = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        responses.append(answers)
        for partition in topic.partition_data:
            append = _TransactionalAppend(broker, request, caller, partition, pending)
            append.begin(name, topic_id, verification)
            answers.partition_responses.append(append.answer)
    verification.ask()
    if request.acks == 0:
        _close_on_error(responses)
        return None
    response = ProduceResponse(responses=responses)
    if not pending.is_waiting:
        return _with_hints(broker, caller, response)
    return pending.promise_of(broker, caller, response, request.timeout_ms)


class _TransactionalAppend:
    """The part of a request that is for one partition, and its answer."""

    __slots__ = ("_acks", "_broker", "_guard", "_partition", "_pending", "_version", "answer")

    def __init__(
        self,
        broker: Broker,
        request: ProduceRequest,
        caller: Caller,
        partition: PartitionProduceData,
        pending: "_Pending",
    ) -> None:
        self._broker = broker
        self._acks = request.acks
        self._version = caller.api_version
        self._partition = partition
        self._pending = pending
        self._guard: Guard | None = None
        self.answer = PartitionProduceResponse(index=partition.index)

    def begin(
        self, name: str | None, topic_id: bytes | None, verification: TransactionVerification
    ) -> None:
        """Append, or wait for the coordinator if a transaction would begin."""
        broker, partition, adds = self._broker, self._partition, self._version >= ADDS_FROM
        try:
            replica = broker.replicas.leader(name, partition.index, topic_id)
            _check_codec(partition, self._version)
            header = _transactional_header(partition.records)
            if header is not None:
                self._guard = replica.log.producers.begin_verification(
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    adds=adds,
                    now_ms=broker.now_ms,
                )
        except KafkaError as error:
            self._fail(error)
            return
        asks = adds or broker.config.transaction_partition_verification_enable
        if self._guard is None or not asks:
            self._append(replica)
            return
        # What the request stands in is used for others before the answer comes.
        partition.records = memoryview(bytearray(partition.records or b""))
        self._pending.hold(self.answer)
        verification.add(replica.topic_partition, self._guard, partial(self._verified, replica))

    def _verified(self, replica: LeaderReplica, code: ErrorCode) -> None:
        error = produce_error(code, self._version)
        if error is None and not self._broker.replicas.hosts(replica):
            error = NotLeaderOrFollowerError()
        if error is None:
            self._append(replica)
        else:
            self._fail(error)
        self._pending.release(self.answer)

    def _append(self, replica: LeaderReplica) -> None:
        records, now_ms, answer = self._partition.records, self._broker.now_ms, self.answer
        try:
            result = _append(replica, records, self._acks, now_ms, None, self._guard)
        except KafkaError as error:
            self._fail(error, replica)
            return
        answer.base_offset = result.base_offset
        answer.log_append_time_ms = result.log_append_time_ms
        answer.log_start_offset = result.log_start_offset
        if _must_wait(replica, result.last_offset, self._acks):
            self._pending.wait_for(replica, result.last_offset + 1, self._acks, answer)

    def _fail(self, error: KafkaError, replica: LeaderReplica | None = None) -> None:
        failure = _failure(self._partition, error, replica)
        self.answer.error_code = failure.error_code
        self.answer.base_offset = failure.base_offset
        self.answer.error_message = failure.error_message
        self.answer.record_errors = failure.record_errors
        self.answer.log_start_offset = failure.log_start_offset


def _attributes(records: memoryview | None) -> int:
    """Return the low byte of a batch's attributes; older formats have a time there: 0."""
    if records is None or len(records) <= CODEC_AT or records[MAGIC_AT] != MAGIC:
        return 0
    return records[CODEC_AT]


def _is_transactional(records: memoryview | None) -> bool:
    return _attributes(records) & TRANSACTIONAL_BIT != 0


def _transactional_header(records: memoryview | None) -> BatchHeader | None:
    """Return the header of a batch that is part of a transaction; None if it is none."""
    if records is None or len(records) < HEADER_BYTES or not _is_transactional(records):
        return None
    header = parse_header(records, 0)
    return header if header.has_producer_id else None


def single_produce(broker: Broker, listener: str) -> Shortcut:
    """Return what serves the commonest requests: one sound batch, outside of transactions.

    It does what :func:`produce` does, by the same steps but without message objects. What would be
    refused, waits for the disk or gets no answer takes the general way.
    """
    read, replicas = sound_produce_reader(), broker.replicas
    answers = {
        version: _SingleAnswers(broker, Caller(listener, version))
        for version in range(VERSION_MIN, APIS[ApiKey.PRODUCE].max_version + 1)
    }

    def serve(buffer: bytearray, start: int, end: int) -> bytes | Promise[bytes] | None:
        request = read(buffer, start, end)
        if request is None:
            return None
        version, correlation_id, acks, timeout_ms, topic, partition, echo, at, stop, header = (
            request
        )
        if version >= PRODUCE_TOPIC_IDS_FROM:
            replica = replicas.find_by_id(cast("bytes", topic), partition)
        else:
            replica = replicas.find(cast("str", topic), partition)
        if (
            replica is None
            or acks not in ACKS_ANSWERED
            or replica.topic_partition.topic in INTERNAL_TOPICS
        ):
            return None
        if header[ATTRIBUTES] & TRANSACTIONAL_BIT or (acks != ACKS_ALL and replica.waits_for_sync):
            return None
        try:
            result = _append(replica, memoryview(buffer)[at:stop], acks, broker.now_ms, header)
        except KafkaError:
            return None  # nothing was appended; the general way says why
        base_offset, last_offset, append_time_ms, log_start_offset, _ = result
        answer = answers[version]
        frame = answer.write(correlation_id, echo, base_offset, append_time_ms, log_start_offset)
        if acks != ACKS_ALL or last_offset < replica.high_watermark:
            return frame
        refuse = partial(answer.refuse, correlation_id, topic, partition, result)
        return _once_committed(broker, replica, last_offset + 1, timeout_ms, frame, refuse)

    return serve


class _SingleAnswers:
    """Writes the answers of one version to requests for one partition."""

    __slots__ = ("_broker", "_by_id", "_caller", "_encode", "write")

    def __init__(self, broker: Broker, caller: Caller) -> None:
        self._broker = broker
        self._caller = caller
        self._by_id = caller.api_version >= PRODUCE_TOPIC_IDS_FROM
        self._encode = response_encoder(APIS[ApiKey.PRODUCE], caller.api_version)
        self.write = single_produce_writer(caller.api_version)

    def refuse(
        self,
        correlation_id: int,
        topic: str | bytes,
        partition: int,
        result: AppendResult,
        code: ErrorCode,
    ) -> bytes:
        """Return the answer about a batch that was appended, but is not as safe as was asked."""
        answer = PartitionProduceResponse(
            index=partition,
            log_append_time_ms=result.log_append_time_ms,
            log_start_offset=result.log_start_offset,
        )
        _give_up(answer, code)
        refused = TopicProduceResponse(partition_responses=[answer])
        if self._by_id:
            refused.topic_id = cast("bytes", topic)
        else:
            refused.name = cast("str", topic)
        response = _with_hints(self._broker, self._caller, ProduceResponse(responses=[refused]))
        return b"".join(cast("list[bytes]", self._encode(correlation_id, response)))


def _once_committed(
    broker: Broker,
    replica: LeaderReplica,
    offset: int,
    timeout_ms: int,
    frame: bytes,
    refuse: "Callable[[ErrorCode], bytes]",
) -> Promise[bytes]:
    """Return a promise of the frame, or of another one if the offset is not committed in time."""
    promise: Promise[bytes] = Promise()

    def decided(code: ErrorCode) -> None:
        if promise.resolved:
            return  # the time was up before
        broker.deadlines.cancel(deadline)
        promise.resolve(frame if code == ErrorCode.NONE else refuse(code))

    def expired() -> None:
        decided(ErrorCode.REQUEST_TIMED_OUT)

    deadline = broker.deadlines.after(max(timeout_ms, 0), expired)
    replica.when_committed(offset, decided)
    return promise


def _append(
    replica: LeaderReplica,
    records: memoryview | None,
    acks: int,
    now_ms: int,
    sound: BatchHeader | None = None,
    guard: Guard | None = None,
) -> AppendResult:
    """Append a partition's records: one batch, whose header is known if it was found sound."""
    if records is not None and sound is not None:
        return replica.append(records, acks, now_ms, sound)
    if not records:
        raise InvalidRecordError("the request has no records for the partition")
    if replica.topic_partition.topic in INTERNAL_TOPICS:
        raise InvalidTopicError("clients cannot write to internal topics")
    if len(records) < HEADER_BYTES or size_of_first(records) != len(records):
        _check_shape(records)
    return replica.append(records, acks, now_ms, None, guard)


def _check_shape(records: memoryview) -> None:
    """Refuse what is not one batch in format v2, where the log would accept it or blame damage."""
    if len(records) > MAGIC_AT and records[MAGIC_AT] != MAGIC:
        raise InvalidRecordError(f"magic {records[MAGIC_AT]}: only record format v2 is supported")
    batch_bytes = size_of_first(records)
    if batch_bytes > len(records) or not batch_bytes:
        raise InvalidRecordError("the record batch is cut off")
    if batch_bytes < len(records):
        raise InvalidRecordError("a request has one record batch for a partition, not several")


def _check_codec(partition: PartitionProduceData, api_version: int) -> None:
    """Refuse zstd from clients of a time before it, whose consumers cannot read it (KIP-110)."""
    if api_version >= ZSTD_FROM:
        return
    if _attributes(partition.records) & COMPRESSION_MASK == Codec.ZSTD:
        raise UnsupportedCompressionTypeError("zstd needs version 7 of Produce")


def _must_wait(replica: LeaderReplica, last_offset: int, acks: int) -> bool:
    if acks == ACKS_ALL:
        return last_offset >= replica.high_watermark
    return acks != 0 and replica.waits_for_sync and last_offset >= replica.log.flushed_offset


def _failure(
    partition: PartitionProduceData, error: KafkaError, replica: LeaderReplica | None = None
) -> PartitionProduceResponse:
    """Return what an answer says of a partition; ``replica`` is whose log refused the batch."""
    answer = PartitionProduceResponse(
        index=partition.index,
        error_code=int(error.code),
        base_offset=UNKNOWN_OFFSET,
        error_message=error.message,
    )
    if replica is not None and error.code not in _TOLD_WITHOUT_START:
        answer.log_start_offset = replica.log.log_start_offset
    if isinstance(error, KeylessRecordsError):
        # Clients fail these records with the message, and the rest of the batch because of them.
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=error.message)
            for index in error.indexes
        ]
    return answer


class _Pending:
    """The partitions of one request that are appended, and not yet as safe as ``acks`` asks."""

    __slots__ = ("_finish", "_held", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[int, PartitionProduceResponse] = {}
        self._held: set[int] = set()
        self._finish: Callable[[], None] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether there is anything to wait for."""
        return bool(self._waiting)

    def hold(self, answer: PartitionProduceResponse) -> None:
        """Hold an answer back whose records are not appended yet."""
        self._waiting[id(answer)] = answer
        self._held.add(id(answer))

    def release(self, answer: PartitionProduceResponse) -> None:
        """Its records were appended, or will not be: it waits for no more than it has to."""
        key = id(answer)
        if key in self._held:
            self._held.discard(key)
            if self._waiting.pop(key, None) is not None and not self._waiting:
                self._resolve()

    def wait_for(
        self, replica: LeaderReplica, offset: int, acks: int, answer: PartitionProduceResponse
    ) -> None:
        """Hold the answer back until everything below ``offset`` is as safe as ``acks`` asks."""
        key = id(answer)
        if key in self._held:
            self._held.discard(key)
            if key not in self._waiting:
                return  # the time was up before
        self._waiting[key] = answer

        def decided(code: ErrorCode) -> None:
            if self._waiting.pop(key, None) is None:
                return  # the time was up before
            if code != ErrorCode.NONE:
                _give_up(answer, code)
            if not self._waiting:
                self._resolve()

        when_safe = replica.when_committed if acks == ACKS_ALL else replica.when_synced
        when_safe(offset, decided)

    def promise_of(
        self, broker: Broker, caller: Caller, response: ProduceResponse, timeout_ms: int
    ) -> Promise[ProduceResponse]:
        """Return a promise of the answer, with what is not safe in time marked as timed out."""
        promise: Promise[ProduceResponse] = Promise()
        deadline = broker.deadlines.after(max(timeout_ms, 0), self._expire)

        def finish() -> None:
            broker.deadlines.cancel(deadline)
            promise.resolve(_with_hints(broker, caller, response))

        self._finish = finish
        return promise

    def _expire(self) -> None:
        """The time is up: say so for partitions that still wait; their records may be safe yet."""
        for answer in self._waiting.values():
            _give_up(answer, ErrorCode.REQUEST_TIMED_OUT)
        self._waiting.clear()
        self._resolve()

    def _resolve(self) -> None:
        if self._finish is not None:  # else the request is still being handled
            self._finish()


def _give_up(answer: PartitionProduceResponse, code: ErrorCode) -> None:
    answer.error_code = int(code)
    answer.base_offset = UNKNOWN_OFFSET


def _close_on_error(responses: list[TopicProduceResponse]) -> None:
    for topic in responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                name, code = f"{topic.name}-{partition.index}", ErrorCode(partition.error_code)
                raise CloseConnectionError(f"produce with acks=0 failed for {name}: {code.name}")


def _refused(request: ProduceRequest, code: ErrorCode) -> ProduceResponse | None:
    """Return an answer that refuses every partition for the same reason."""
    if request.acks == 0:
        raise CloseConnectionError(f"produce with acks=0 was refused: {code.name}")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=partition.index, error_code=int(code), base_offset=UNKNOWN_OFFSET
                    )
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
