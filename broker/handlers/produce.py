"""Produce: record batches in, appended as the leader of their partitions."""

from collections.abc import Iterator
from typing import Final

from quorate.broker.handlers.context import Broker, Caller, CloseConnectionError
from quorate.broker.replication.leader import ACKS_ALL, LeaderReplica
from quorate.errors import (
    ErrorCode,
    InvalidRecordError,
    KafkaError,
    UnknownTopicIdError,
)
from quorate.model import UNKNOWN_OFFSET
from quorate.promise import Promise
from quorate.protocol.messages.data import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

TOPIC_IDS_FROM: Final = 13
ACKS_VALID: Final = (0, 1, ACKS_ALL)


def produce(
    broker: Broker, request: ProduceRequest, caller: Caller
) -> ProduceResponse | Promise[ProduceResponse] | None:
    """Append each partition's batches; answer when they are as safe as ``acks`` asks (KIP-98).

    Raises:
        CloseConnectionError: ``acks`` is 0 and something failed; closing is the only way to say so.
    """
    if request.acks not in ACKS_VALID:
        return _refused(request, ErrorCode.INVALID_REQUIRED_ACKS)
    if request.transactional_id is not None:
        return _refused(request, ErrorCode.INVALID_TXN_STATE)
    pending = _Pending(request)
    responses = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=list(_append_topic(broker, request.acks, topic, caller, pending)),
        )
        for topic in request.topic_data
    ]
    if request.acks == 0:
        _close_on_error(responses)
        return None
    return pending.answer(broker, ProduceResponse(responses=responses))


def _append_topic(
    broker: Broker, acks: int, topic: TopicProduceData, caller: Caller, pending: "_Pending"
) -> Iterator[PartitionProduceResponse]:
    name: str | None = topic.name
    if caller.api_version >= TOPIC_IDS_FROM:
        name = broker.replicas.image.topic_names.get(topic.topic_id)
    for partition in topic.partition_data:
        try:
            if name is None:
                raise UnknownTopicIdError
            replica = broker.replicas.leader(name, partition.index)
            yield _append(broker, acks, replica, partition, pending)
        except KafkaError as error:
            yield PartitionProduceResponse(
                index=partition.index,
                error_code=int(error.code),
                base_offset=UNKNOWN_OFFSET,
                error_message=error.message,
            )


def _append(
    broker: Broker,
    acks: int,
    replica: LeaderReplica,
    partition: PartitionProduceData,
    pending: "_Pending",
) -> PartitionProduceResponse:
    records = partition.records
    if not records:
        raise InvalidRecordError("the request has no records for the partition")
    assert isinstance(records, memoryview), "a decoded request views its buffer"
    result = replica.append(records, acks=acks, now_ms=broker.now_ms)
    response = PartitionProduceResponse(
        index=partition.index,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
    )
    committed = result.last_offset < replica.high_watermark
    if not committed and (acks == ACKS_ALL or replica.waits_for_sync):
        pending.wait_for(replica, result.last_offset + 1, response)
    return response


class _Pending:
    """The partitions of one request that are appended, and not yet as safe as ``acks`` asks."""

    __slots__ = ("_request", "_response", "_waiting", "promise")

    def __init__(self, request: ProduceRequest) -> None:
        self._request = request
        self._waiting: dict[int, PartitionProduceResponse] = {}
        self._response: ProduceResponse | None = None
        self.promise: Promise[ProduceResponse] | None = None

    def wait_for(
        self, replica: LeaderReplica, offset: int, response: PartitionProduceResponse
    ) -> None:
        """Hold the answer back until ``replica`` has committed everything below ``offset``."""
        key = id(response)
        self._waiting[key] = response
        replica.when_committed(offset, lambda: self._committed(key))

    def answer(
        self, broker: Broker, response: ProduceResponse
    ) -> ProduceResponse | Promise[ProduceResponse]:
        """Return the answer, or a promise of it while partitions wait."""
        if not self._waiting:
            return response
        self._response = response
        self.promise = Promise()
        broker.deadlines.after(max(self._request.timeout_ms, 0), self._expire)
        return self.promise

    def _committed(self, key: int) -> None:
        if self._waiting.pop(key, None) is not None and not self._waiting:
            self._resolve()

    def _expire(self) -> None:
        """The time is up: say so for partitions that still wait; their records may be safe yet."""
        if not self._waiting:
            return
        for response in self._waiting.values():
            response.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
            response.base_offset = UNKNOWN_OFFSET
        self._waiting.clear()
        self._resolve()

    def _resolve(self) -> None:
        if self.promise is not None:
            assert self._response is not None, "the promise was made with the response"
            self.promise.resolve(self._response)


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
