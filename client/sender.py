"""Trio shell: the task that sends what a producer collects, and hears what became of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from quorate.client.arguments import INT32_MAX
from quorate.client.connections import RETRY, Cluster, now_ms
from quorate.client.errors import error_for
from quorate.client.routing.retries import Remedy, remedy_for
from quorate.client.sending.accumulator import NEVER_MS, Accumulator, ProducerIdentity
from quorate.dataclass import dataclass
from quorate.errors import (
    MEANINGS,
    ErrorCode,
    KafkaError,
    NetworkError,
    QuorateError,
    UnsupportedVersionError,
    known_code,
)
from quorate.model import UNKNOWN_OFFSET, TopicPartition
from quorate.net.bell import Bell
from quorate.promise import Promise
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.data import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from quorate.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from quorate.records.compression import Codec
from quorate.records.record import NO_PRODUCER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from quorate.client.sending.batches import Batch

PRODUCE_BY_NAME_MAX: Final = 12
"""Later versions name topics by id only, which some brokers do not tell."""

NO_TOPIC_ID: Final = bytes(16)

ANSWER_GRACE_MS: Final = 2_000
"""How much longer than the broker we wait, so that its own timeout answer arrives."""

INLINE_COMPRESSION_BYTES: Final = 32 * 1024

_NO_IDS: Final = "the controllers have given that broker none; does one of them lead?"
"""What COORDINATOR_LOAD_IN_PROGRESS means for who asks without a transactional id."""


@dataclass(frozen=True, slots=True)
class SenderSettings:
    """How to send; ``requests_max`` is per broker."""

    acks: int
    codec: Codec
    requests_max: int
    request_timeout_ms: int


class Sender:
    """Carries batches from an accumulator to brokers, and outcomes back.

    One task, :meth:`run`, sends; answers are taken in where they arrive. ``room`` is where those
    wait who want something to settle: it is woken whenever something did.
    """

    _transactional = False
    """Whether batches are parts of transactions."""

    def __init__(
        self,
        settings: SenderSettings,
        accumulator: Accumulator,
        cluster: Cluster,
        nursery: trio.Nursery,
        rng: Random,
    ) -> None:
        self.room = trio.lowlevel.ParkingLot()
        self._settings = settings
        self._accumulator = accumulator
        self._cluster = cluster
        self._nursery = nursery
        self._rng = rng
        self._bell = Bell()
        self._requests_in_flight: dict[int, int] = {}
        self._identifying = False

    def wake(self) -> None:
        """There may be something to send."""
        self._bell.ring()

    def fail_everything(self, error: QuorateError) -> None:
        """Settle all batches with an error; the producer is of no use from then on."""
        self._accumulator.fail_all(error)
        self.room.unpark_all()

    async def run(self) -> None:
        """Send what is ready, whenever something is, until the producer is closed."""
        while True:
            # What is not ready yet at this time is waited for as of this time: a batch whose linger
            # ended in between would be waited for by nobody.
            at_ms = now_ms()
            if self._accumulator.expire(at_ms):
                self.room.unpark_all()
            while requests := self._accumulator.drain(self._leader_of, self._may_send, at_ms):
                for broker_id, batches in requests.items():
                    await self._transmit(broker_id, batches)
                at_ms = now_ms()
            self._identify_if_needed()
            next_ms = self._accumulator.next_event_ms(at_ms)
            if next_ms == NEVER_MS:
                await self._bell.wait()
            else:
                await self._bell.wait_until((next_ms + 0.5) / 1000)

    def _leader_of(self, topic_partition: TopicPartition) -> int | None:
        leader = self._cluster.leader_if_known(topic_partition)
        return None if leader is None else leader.broker_id

    def _may_send(self, broker_id: int) -> bool:
        if self._requests_in_flight.get(broker_id, 0) >= self._settings.requests_max:
            return False
        if self._cluster.connection(broker_id) is not None:
            return True
        self._accumulator.obstacle = self._cluster.last_error(broker_id)
        return False

    async def _transmit(self, broker_id: int, batches: list[Batch]) -> None:
        """Lay out batches and hand them to the broker's connection."""
        self._requests_in_flight[broker_id] = self._requests_in_flight.get(broker_id, 0) + 1
        request = self._produce_request(batches, await self._encode(batches))
        version_max = self._version_max(request)
        connection = self._cluster.connection(broker_id)
        answer: Promise[Any] = Promise()
        try:
            if connection is None:
                answer.resolve(NetworkError(f"the connection to broker {broker_id} broke"))
            elif self._settings.acks == 0:
                answer = connection.submit_unanswered(
                    ApiKey.PRODUCE, request, version_max=version_max
                )
            else:
                answer = connection.submit(
                    ApiKey.PRODUCE,
                    request,
                    timeout_ms=self._settings.request_timeout_ms + ANSWER_GRACE_MS,
                    version_max=version_max,
                )
        except UnsupportedVersionError as error:
            answer.resolve(error)
        names = {topic.topic_id: topic.name for topic in request.topic_data}
        answer.when_resolved(partial(self._on_answer, broker_id, batches, names))

    def _version_max(self, request: ProduceRequest) -> int | None:
        """Return the highest version to send a request in; None for all."""
        by_id = all(topic.topic_id != NO_TOPIC_ID for topic in request.topic_data)
        return None if by_id else PRODUCE_BY_NAME_MAX

    async def _encode(self, batches: list[Batch]) -> list[bytearray]:
        """Return the bytes of batches; compression of many does not block other tasks."""

        def encode() -> list[bytearray]:
            codec, transactional = self._settings.codec, self._transactional
            return [
                batch.build(codec, batch.stamp or NO_PRODUCER, transactional=transactional)
                for batch in batches
            ]

        size_bytes = sum(batch.size_bytes for batch in batches)
        if self._settings.codec == Codec.NONE or size_bytes <= INLINE_COMPRESSION_BYTES:
            return encode()
        return await trio.to_thread.run_sync(encode)

    def _produce_request(self, batches: list[Batch], encoded: list[bytearray]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for batch, records in zip(batches, encoded, strict=True):
            name, partition = batch.topic_partition
            topic = topics.get(name)
            if topic is None:
                view = self._cluster.view.topics.get(name)
                topic_id = NO_TOPIC_ID if view is None else view.topic_id
                topic = topics[name] = TopicProduceData(name=name, topic_id=topic_id)
            topic.partition_data.append(
                PartitionProduceData(index=partition, records=memoryview(records))
            )
        return ProduceRequest(
            acks=self._settings.acks,
            timeout_ms=self._settings.request_timeout_ms,
            topic_data=list(topics.values()),
        )

    # Answers come in

    def _on_answer(
        self, broker_id: int, batches: list[Batch], names: Mapping[bytes, str], answer: object
    ) -> None:
        """Take an answer; its topics have a name or, in later versions, an id only."""
        self._requests_in_flight[broker_id] -= 1
        if isinstance(answer, ProduceResponse):
            told = {
                TopicPartition(
                    topic.name or names.get(topic.topic_id, ""), partition.index
                ): partition
                for topic in answer.responses
                for partition in topic.partition_responses
            }
            for batch in batches:
                self._on_partition_answer(batch, told.get(batch.topic_partition))
        elif isinstance(answer, KafkaError):
            for batch in batches:
                self._on_failure(batch, answer, UNKNOWN_OFFSET)
        else:
            for batch in batches:
                self._accumulator.succeed_unanswered(batch)
        self.room.unpark_all()
        self._bell.ring()

    def _on_partition_answer(self, batch: Batch, told: PartitionProduceResponse | None) -> None:
        if told is None:
            message = f"the answer to Produce does not mention {batch.topic_partition}"
            self._on_failure(batch, NetworkError(message), UNKNOWN_OFFSET)
        elif told.error_code == ErrorCode.NONE:
            self._accumulator.succeed(batch, told.base_offset, told.log_append_time_ms)
        else:
            code = known_code(told.error_code)
            why = told.error_message or MEANINGS[code]
            message = f"{batch.topic_partition} refused {batch.count} records: {why}"
            error = error_for(code, message)
            self._on_failure(batch, error, told.base_offset)

    def _on_failure(self, batch: Batch, error: KafkaError, base_offset: int) -> None:
        remedy = self._accumulator.fail(batch, error, base_offset, now_ms())
        if remedy is Remedy.REFRESH:
            self._cluster.refresh_soon()

    # The producer id

    def _identify_if_needed(self) -> None:
        accumulator = self._accumulator
        if accumulator.needs_identity and not self._identifying:
            self._identifying = True
            self._nursery.start_soon(self._identify)

    async def _identify(self) -> None:
        """Get a producer id, trying for as long as there is hope."""
        attempts = 0
        try:
            while (error := await self._try_to_identify()) is not None:
                self._accumulator.obstacle = error
                if remedy_for(error.code) is Remedy.GIVE_UP:
                    self.fail_everything(error)
                    return
                attempts += 1
                await trio.sleep(RETRY.pause_ms(attempts, self._rng) / 1000)
        finally:
            self._identifying = False
        self._bell.ring()

    async def _try_to_identify(self) -> KafkaError | None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT32_MAX)
        try:
            response: InitProducerIdResponse = await self._cluster.call_any(
                ApiKey.INIT_PRODUCER_ID, request
            )
        except KafkaError as error:
            return error
        code = known_code(response.error_code)
        if code != ErrorCode.NONE:
            why = _NO_IDS if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else MEANINGS[code]
            return KafkaError(f"no producer id: {why}", code=code)
        identity = ProducerIdentity(response.producer_id, response.producer_epoch)
        self._accumulator.identity = identity
        return None
