"""Sends a task's records: idempotently, and each until it is acknowledged."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from quorate.client.errors import in_words
from quorate.client.routing.retries import Remedy, remedy_for
from quorate.client.transactions.requests import PRODUCE_VERSION_MAX_V1
from quorate.errors import MEANINGS, ErrorCode, KafkaError, NetworkError, known_code
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.data import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from quorate.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from quorate.records.batch import add_sequence
from quorate.records.record import NO_PRODUCER, ProducerStamp

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from quorate.client.spark.cluster import Cluster
    from quorate.client.spark.connection import Connection
    from quorate.client.spark.rows import Rows
    from quorate.client.spark.write_options import WriteOptions
    from quorate.protocol.messages.data import PartitionProduceResponse, ProduceResponse

REQUEST_BYTES: Final = 4 * 1024 * 1024
INT32_MAX: Final = 2**31 - 1
TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class Transaction(Protocol):
    """What a producer writes in: an open transaction."""

    transactional_id: str
    identity: tuple[int, int]

    def admit(self, partitions: Collection[TopicPartition]) -> None:
        """Have partitions take part in it, before anything is written to them."""
        ...


class TaskProducer:
    """Writes the records of one task, in a transaction if there is one.

    Invariants: of each partition one batch at most is on its way, and those behind it wait until it
    is acknowledged; a batch that is sent again has the sequence that it had, so that it is not
    written twice.
    """

    def __init__(
        self, cluster: Cluster, options: WriteOptions, transaction: Transaction | None = None
    ) -> None:
        self.cluster = cluster
        self.options = options
        self.record_count = 0
        self._transaction = transaction
        self._counts: dict[str, int] = {}
        self._queues: dict[TopicPartition, deque[Rows]] = {}
        self._encoded: dict[TopicPartition, bytearray] = {}
        self._sequences: dict[TopicPartition, int] = {}
        self._identity = None if transaction is None else transaction.identity
        self._failures = 0

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has: what this task heard, for it may get more.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
            NetworkError: No broker says, and none has said before.
        """
        if topic not in self._counts:
            known = self.cluster.view.partition_count(topic)
            try:
                known = len(self.cluster.topics([topic])[topic].partitions)
            except NetworkError:
                if known is None:
                    raise
            self._counts[topic] = known
        return self._counts[topic]

    def send(self, batches: Iterable[Rows]) -> None:
        """Send batches, and return when all are acknowledged.

        Raises:
            KafkaError: One is refused.
            NetworkError: Nobody acknowledged one in time.
        """
        for rows in batches:
            self._queues.setdefault(rows.topic_partition, deque()).append(rows)
        deadline_s = time.monotonic() + self.options.delivery_timeout_ms / 1_000
        while self._queues:
            problem = self._attempt()
            if problem is None:
                self._failures = 0
                continue
            if time.monotonic() > deadline_s:
                first = min(self._queues)
                raise NetworkError(
                    f"{len(self._queues[first][0])} records for {first} were not acknowledged"
                    f" within {self.options.delivery_timeout_ms} ms: {problem}"
                )
            self._failures += 1
            self.cluster.pause(self._failures)

    def _attempt(self) -> str | None:
        """Send once to each leader, learning anew who leads after a failure; return what failed."""
        try:
            if self._failures:
                self.cluster.refresh(sorted({partition.topic for partition in self._queues}))
            return self._round()
        except NetworkError as error:
            return in_words(error)

    def _round(self) -> str | None:
        """Send one request to each leader; return why to try again."""
        problem: str | None = None
        version_max = None
        if self._transaction is not None:
            self._transaction.admit(self._queues.keys())
            version_max = PRODUCE_VERSION_MAX_V1
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in self._queues:
            leader = self.cluster.leader_of(partition)
            if leader is None:
                problem = f"nobody leads {partition}"
            else:
                by_leader.setdefault(leader.broker_id, []).append(partition)
        sent: list[tuple[Connection, list[TopicPartition]]] = []
        for broker_id, partitions in by_leader.items():
            try:
                connection = self.cluster.connection(self.cluster.endpoint_of(broker_id))
                request, included = self._request(partitions)
                connection.send(ApiKey.PRODUCE, request, version_max=version_max)
                sent.append((connection, included))
            except NetworkError as error:
                problem = in_words(error)
        for connection, included in sent:
            try:
                response: ProduceResponse = connection.receive()
            except NetworkError as error:
                problem = in_words(error)
                continue
            problem = self._take(response, included) or problem
        return problem

    def _request(
        self, partitions: list[TopicPartition]
    ) -> tuple[ProduceRequest, list[TopicPartition]]:
        topics: dict[str, TopicProduceData] = {}
        included: list[TopicPartition] = []
        size_bytes = 0
        for partition in partitions:
            encoded = self._encode(partition)
            if included and size_bytes + len(encoded) > REQUEST_BYTES:
                continue
            size_bytes += len(encoded)
            included.append(partition)
            name, number = partition
            if name not in topics:
                topic_id = self.cluster.view.topics[name].topic_id
                topics[name] = TopicProduceData(name=name, topic_id=topic_id)
            topics[name].partition_data.append(
                PartitionProduceData(index=number, records=memoryview(encoded))
            )
        transaction = self._transaction
        request = ProduceRequest(
            transactional_id=None if transaction is None else transaction.transactional_id,
            acks=self.options.acks,
            timeout_ms=self.options.connection.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        return request, included

    def _encode(self, partition: TopicPartition) -> bytearray:
        encoded = self._encoded.get(partition)
        if encoded is None:
            stamp = NO_PRODUCER
            if self.options.acks == -1:
                stamp = ProducerStamp(*self._identify(), self._sequences.get(partition, 0))
            encoded = self._queues[partition][0].encode(
                self.options.codec, stamp, transactional=self._transaction is not None
            )
            self._encoded[partition] = encoded
        return encoded

    def _identify(self) -> tuple[int, int]:
        """Return the producer's id and epoch, asking for them once."""
        attempts = 0
        while self._identity is None:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT32_MAX)
            answer: InitProducerIdResponse = self.cluster.call_any(ApiKey.INIT_PRODUCER_ID, request)
            code = known_code(answer.error_code)
            if code == ErrorCode.NONE:
                self._identity = answer.producer_id, answer.producer_epoch
            elif remedy_for(code) is Remedy.GIVE_UP:
                raise KafkaError(f"no producer id: {MEANINGS[code]}", code=code)
            else:
                attempts += 1
                self.cluster.pause(attempts)
        return self._identity

    # Answers

    def _take(self, response: ProduceResponse, included: list[TopicPartition]) -> str | None:
        names = {view.topic_id: name for name, view in self.cluster.view.topics.items()}
        answers: dict[TopicPartition, PartitionProduceResponse] = {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), answer.index): answer
            for topic in response.responses
            for answer in topic.partition_responses
        }
        problem: str | None = None
        for partition in included:
            answer = answers.get(partition)
            if answer is None:
                problem = f"an answer that does not mention {partition}"
            else:
                problem = self._take_one(partition, answer) or problem
        return problem

    def _take_one(self, partition: TopicPartition, answer: Any) -> str | None:
        code = known_code(answer.error_code)
        rows = self._queues[partition][0]
        if code in {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
            self._acknowledge(partition, rows)
            return None
        if code in TOO_LARGE and len(rows) > 1:
            middle = len(rows) // 2
            queue = self._queues[partition]
            queue[0] = rows.part(middle, len(rows))
            queue.appendleft(rows.part(0, middle))
            del self._encoded[partition]
            return None
        why = answer.error_message or MEANINGS[code]
        if remedy_for(code) is Remedy.GIVE_UP:
            raise KafkaError(f"{partition} refused {len(rows)} records: {why}", code=code)
        return f"{partition}: {why}"

    def _acknowledge(self, partition: TopicPartition, rows: Rows) -> None:
        self.record_count += len(rows)
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = add_sequence(sequence, len(rows))
        del self._encoded[partition]
        queue = self._queues[partition]
        queue.popleft()
        if not queue:
            del self._queues[partition]
