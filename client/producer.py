"""Trio shell: the Producer, and the task that sends what it collects."""

from __future__ import annotations

from copy import copy
from functools import partial as bind
from operator import index as whole_number
from random import Random
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, Generic, Literal

import trio

from quorate.client.arguments import INT64_MAX, require_number, require_text
from quorate.client.connections import (
    Cluster,
    client_settings,
    now_ms,
)
from quorate.client.delivery import Delivery, RecordMetadata, new_delivery
from quorate.client.errors import (
    BufferFullError,
    ClosedError,
    NoTransactionError,
    unknown_partition,
)
from quorate.client.lifetime import Lifetime
from quorate.client.producer_settings import (
    ACKS,
    MAX_BLOCK_MS,
    connection_options,
    send_settings,
    transaction_settings,
)
from quorate.client.sender import Sender, SenderSettings
from quorate.client.sending.accumulator import Accumulator
from quorate.client.sending.batches import Batch
from quorate.client.sending.partitioner import (
    STICKY_BYTES,
    Partitioner,
    StickyTurns,
    partition_for_key,
)
from quorate.client.serde.choosing import K, Serializing, V, to_bytes
from quorate.client.transacting import Transactions
from quorate.client.transaction import Transaction
from quorate.client.transactional_sender import TransactionalSender
from quorate.client.transactions.accumulator import TransactionalAccumulator
from quorate.dataclass import dataclass
from quorate.errors import KafkaError, MessageTooLargeError, QuorateError
from quorate.model import TopicPartition
from quorate.records.compression import codec_named
from quorate.records.record import (
    Header,
    encode_headers,
    record_bytes_max,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from quorate.client.consumer import Consumer
    from quorate.client.producer_settings import ProducerOptions
    from quorate.client.routing.cluster import TopicView


RECORDS_BETWEEN_CHECKPOINTS: Final = 256


class _Topic:
    """How records find their partition in one topic that exists."""

    __slots__ = ("available", "open_batches", "turns", "view")

    def __init__(self, view: TopicView, rng: Random) -> None:
        self.open_batches: dict[int, Batch] = {}
        self.turns = StickyTurns(rng)
        self.learn(view)

    def learn(self, view: TopicView) -> None:
        """Take over what is known now; without leaders every partition is as good as another."""
        self.view = view
        led = [number for number, part in sorted(view.partitions.items()) if part.leader_id >= 0]
        self.available = led or sorted(view.partitions)


@dataclass(frozen=True, slots=True)
class _Parked:
    """A record whose topic is not known yet."""

    batch: Batch
    partition: int | None
    size_bytes: int


class Producer(Generic[K, V]):
    """Sends records to topics, in batches, with retries, in order.

    ::

        async with Producer("127.0.0.1:9092") as producer:
            metadata = await producer.send("appLogs", b"started", key=b"web-1")
            for line in lines:
                await producer.enqueue("appLogs", line)
            await producer.flush()

    Keys and values are bytes, unless serializers say what to make of them::

        Producer("127.0.0.1:9092", key_serializer=StrSerde(), value_serializer=JsonSerde())

    Leaving the block sends and awaits what is buffered, unless an exception or a cancellation
    leaves it: then what is not acknowledged yet fails with ClosedError. If a broker dies, records
    are kept and sent again until ``delivery_timeout_ms`` is over; nothing waits longer than that.
    """

    def __init__(  # noqa: PLR0913 - the public settings, by name
        self,
        bootstrap: str | Sequence[str],
        *,
        acks: Literal["all", -1, 0, 1] = "all",
        idempotent: bool | None = None,
        compression: str = "none",
        linger_ms: int = 5,
        batch_size_bytes: int = 512 * 1024,
        buffer_memory_bytes: int = 64 * 1024 * 1024,
        partitioner: Partitioner | None = None,
        key_serializer: Serializing[K] | None = None,
        value_serializer: Serializing[V] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """Check and keep the settings; ``async with`` connects.

        Args:
            bootstrap: Where to find a first broker: ``host:port``, several with commas.
            acks: Who must have a record before it counts as delivered: ``"all"`` in-sync replicas,
                1 for the leader, 0 for nobody (then offsets are not known, and losses not seen).
            idempotent: Whether retries neither repeat nor reorder records; as a rule with "all".
            compression: ``none``, ``gzip``, ``snappy``, ``lz4`` or ``zstd``, for whole batches.
            linger_ms: How long a batch may wait for more records. 0 for the lowest latency.
            batch_size_bytes: How large a batch may get; topics refuse more than their
                ``max.message.bytes`` (then the producer splits the batch).
            buffer_memory_bytes: How much may wait to be acknowledged.
            partitioner: ``(topic, key, value, partition count) -> partition`` for records without
                an explicit one, instead of the hash of the key; it is given bytes.
            key_serializer: What keys are: a serde (:mod:`quorate.client.serde`), or a function from
                them to bytes. None takes bytes.
            value_serializer: What values are. None as a value is a null, whatever it is.
            **options: See :class:`quorate.client.producer_settings.ProducerOptions` about waiting,
                retries and transactions, and :class:`quorate.client.connections.ConnectionOptions`.

        Raises:
            TypeError: A serializer is none.
            ValueError: A setting makes no sense, or contradicts another.
        """
        self._settings = client_settings(bootstrap, connection_options(options))
        settings = send_settings(
            options,
            acks=acks,
            idempotent=idempotent,
            linger_ms=linger_ms,
            batch_size_bytes=batch_size_bytes,
            buffer_memory_bytes=buffer_memory_bytes,
        )
        timeout_ms, codec = self._settings.request_timeout_ms, codec_named(compression)
        self._sender_settings = SenderSettings(
            ACKS[acks], codec, settings.max_in_flight, timeout_ms
        )
        self._max_block_ms = options.get("max_block_ms", MAX_BLOCK_MS)
        self._transactional = transaction_settings(options, idempotent=settings.idempotent)
        self._partitioner = partitioner
        self._key_bytes = to_bytes("key", key_serializer)
        self._value_bytes = to_bytes("value", value_serializer)
        self._rng = Random()  # noqa: S311 - spreads load, guards no secret
        kind = Accumulator if self._transactional is None else TransactionalAccumulator
        self._accumulator = kind(settings, self._rng)
        self._transactions: Transactions | None = None
        self._lifetime = Lifetime("producer")
        self._cluster: Cluster | None = None
        self._sender: Sender | None = None
        self._topics: dict[str, _Topic] = {}
        self._parked: dict[str, list[_Parked]] = {}
        self._sticky_batches: dict[str, Batch] = {}
        self._fast_lane = self._sticky_batches if value_serializer is None else {}
        """The same, for values that are bytes already."""
        self._records_since_checkpoint = 0

    async def __aenter__(self) -> Self:
        """Connect; with a ``transactional_id``, take it over from earlier producers.

        Raises:
            BootstrapError: No bootstrap address led to a broker in time.
            KafkaError: The coordinator of transactions refuses, or does not answer in time.
        """
        cluster = await self._lifetime.open(self._settings, self._rng, self._learn)
        self._cluster = cluster
        nursery = self._lifetime.nursery
        try:
            self._sender = await self._make_sender(cluster, nursery)
        except BaseException as error:
            await self._lifetime.close(error, error.__traceback__)
            raise
        nursery.start_soon(self._sender.run)
        return self

    async def _make_sender(self, cluster: Cluster, nursery: trio.Nursery) -> Sender:
        settings, accumulator = self._sender_settings, self._accumulator
        if not isinstance(accumulator, TransactionalAccumulator):
            return Sender(settings, accumulator, cluster, nursery, self._rng)
        assert self._transactional is not None
        self._transactions = transactions = Transactions(
            self._transactional.transactional_id,
            timeout_ms=self._transactional.timeout_ms,
            patience_ms=self._max_block_ms,
            cluster=cluster,
            accumulator=accumulator,
            nursery=nursery,
        )
        await transactions.open()
        return TransactionalSender(settings, accumulator, cluster, nursery, self._rng, transactions)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Send and await what is buffered, unless an error leaves the block; then disconnect."""
        try:
            if self._transactions is not None:
                await self._transactions.close()
            elif error is None:
                await self.flush()
        finally:
            self._sticky_batches.clear()
            closed = ClosedError("the producer was closed before the record was acknowledged")
            self.drop_parked(closed)
            self._running().fail_everything(closed)
            await self._lifetime.close(error, traceback)

    # Records come in

    def send_nowait(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        headers: Iterable[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Hand over a record without waiting for anything.

        The records go out while the caller awaits something; a loop that never does fills the
        buffer and no more. Prefer :meth:`enqueue` there.

        Args:
            topic: The topic's name.
            value: The record's value; None deletes the key from a compacted topic.
            key: The key; the same keys go to the same partition.
            headers: Pairs of name and value.
            partition: The partition, if it should not be chosen by key or by turns.
            timestamp_ms: The record's time, by default now; milliseconds since 1970.

        Returns:
            A handle to wait with, or to drop.

        Raises:
            BufferFullError: No room; wait, or use :meth:`enqueue`.
            SerdeError: The key or the value cannot be written; nothing is sent.
            TypeError, ValueError: Another argument cannot be.
            UnknownTopicOrPartitionError: The topic has no such partition.
            QuorateError: The producer was closed, or failed for good.
        """
        if key is None and partition is None and timestamp_ms is None and not headers:
            batch = self._fast_lane.get(topic)
            if batch is not None:
                delivery = batch.append_plain(value, time_ns(), Delivery)
                if delivery is not None:
                    return delivery
        if timestamp_ms is None:
            timestamp_ms = time_ns() // 1_000_000
        else:
            require_number("timestamp_ms", timestamp_ms, 0, INT64_MAX)
            timestamp_ms = whole_number(timestamp_ms)
        return self._send(
            topic,
            self._value_bytes(topic, value),
            self._key_bytes(topic, key),
            encode_headers(headers),
            partition,
            timestamp_ms,
        )

    async def enqueue(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        headers: Iterable[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Hand over a record, waiting for room in the buffer and for nothing else.

        Lets other tasks run now and then, not for every record. Arguments, result and errors are
        those of :meth:`send_nowait`; BufferFullError comes after ``max_block_ms``.
        """
        self._records_since_checkpoint += 1
        if self._records_since_checkpoint >= RECORDS_BETWEEN_CHECKPOINTS:
            self._records_since_checkpoint = 0
            await trio.lowlevel.checkpoint()
        if key is None and partition is None and timestamp_ms is None and not headers:
            # As below, without passing all arguments on: the usual record once more.
            batch = self._fast_lane.get(topic)
            if batch is not None:
                delivery = batch.append_plain(value, time_ns(), Delivery)
                if delivery is not None:
                    return delivery
        send = bind(
            self.send_nowait,
            topic,
            value,
            key=key,
            headers=tuple(headers),  # once: they may be an iterator, and this may be tried again
            partition=partition,
            timestamp_ms=timestamp_ms,
        )
        try:
            return send()
        except BufferFullError as full:
            return await self._send_once_there_is_room(send, full)

    async def _send_once_there_is_room(
        self, send: Callable[[], Delivery], error: BufferFullError
    ) -> Delivery:
        sender = self._running()
        with trio.move_on_after(self._max_block_ms / 1000):
            while True:
                sender.wake()  # to be told that there is no room has made ready what lingered
                await sender.room.park()
                try:
                    return send()
                except BufferFullError as full:
                    error = full
        raise BufferFullError(f"waited max_block_ms={self._max_block_ms} for room: {error}")

    async def send(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        headers: Iterable[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record and return where it is, once it is acknowledged.

        It waits ``linger_ms`` for company like any other record. Arguments and errors are those of
        :meth:`send_nowait`, and all that can keep a record from being delivered.
        """
        delivery = await self.enqueue(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )
        return await delivery.result()

    async def flush(self) -> None:
        """Send what is buffered now without lingering, and wait until all of it is settled.

        Failed deliveries do not raise here: ask the deliveries.
        """
        sender = self._running()
        for batch in self._unsettled():
            while not batch.settled:
                # Again and again: records of topics that were not known get batches meanwhile.
                if self._accumulator.seal_all():
                    sender.wake()
                await sender.room.park()
        await trio.lowlevel.checkpoint()

    async def settle_all(self) -> None:
        """Flush until nothing waits that was handed over, even meanwhile; then return at once."""
        await self.flush()
        while self._unsettled():
            await self.flush()

    def _unsettled(self) -> list[Batch]:
        parked = [record.batch for queue in self._parked.values() for record in queue]
        return self._accumulator.unsettled() + parked

    def transaction(self, consumer: Consumer[Any, Any] | None = None) -> Transaction[K, V]:
        """Return a transaction, which ``async with`` opens, commits and aborts; one at a time.

        Args:
            consumer: Commit the offsets of what this consumer gives out in the block with the
                transaction, and take the consumer back if it is aborted. It is in a group, does
                not commit by itself, and usually reads with ``isolation_level="read_committed"``.

        Raises:
            NoTransactionError: The producer has no ``transactional_id``.
        """
        if self._transactional is None:
            raise NoTransactionError("a producer without a transactional_id has no transactions")
        self._lifetime.check_open()
        assert self._transactions is not None
        return Transaction(self, self._transactions, consumer)

    async def partitions_of(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
        """
        view = await self._connected().topic(topic)
        return sorted(view.partitions)

    def _running(self) -> Sender:
        self._lifetime.check_open()
        assert self._sender is not None
        return self._sender

    def _connected(self) -> Cluster:
        self._lifetime.check_open()
        assert self._cluster is not None
        return self._cluster

    def _send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: bytes,
        partition: int | None,
        timestamp_ms: int,
    ) -> Delivery:
        """Take a record of any kind; the fast lane in :meth:`send_nowait` is for the usual one."""
        if partition is not None:
            partition = whole_number(partition)
        size_bytes = record_bytes_max(key, value, headers)
        known = self._topics.get(topic)
        if known is None:
            batch = self._park(topic, partition, size_bytes)
        else:
            batch = self._batch_for(known, partition, key, value, size_bytes)
            if timestamp_ms != batch.last_timestamp_ms:
                self._accumulator.account(batch)
        index = batch.append(timestamp_ms, key, value, headers, size_bytes)
        return new_delivery(Delivery, (batch, index))

    def _batch_for(
        self,
        topic: _Topic,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        size_bytes: int,
    ) -> Batch:
        """Return the batch for a record of a topic that is known."""
        if partition is None:
            name, count = topic.view.name, len(topic.view.partitions)
            if self._partitioner is not None:
                partition = self._partitioner(name, key, value, count)
            elif key is not None:
                partition = partition_for_key(key, count)
            else:
                return self._sticky_batch(topic, size_bytes)
        batch = topic.open_batches.get(partition)
        if batch is None or not batch.is_open or not self._fits(batch, size_bytes):
            batch = self._open_batch(topic, partition, size_bytes)
        return batch

    def _sticky_batch(self, topic: _Topic, size_bytes: int) -> Batch:
        """Return the batch of the partition whose turn it is; start the next turn if need be."""
        name = topic.view.name
        batch = self._sticky_batches.get(name)
        if batch is None or batch.size_bytes + size_bytes > batch.append_limit_bytes:
            batch = self._open_batch(topic, topic.turns.next(topic.available), size_bytes)
            batch.append_limit_bytes = min(
                batch.size_bytes + max(STICKY_BYTES, size_bytes),
                self._accumulator.settings.batch_size_bytes,
            )
            self._sticky_batches[name] = batch
        return batch

    def _fits(self, batch: Batch, size_bytes: int) -> bool:
        return batch.size_bytes + size_bytes <= self._accumulator.settings.batch_size_bytes

    def _open_batch(self, topic: _Topic, partition: int, size_bytes: int) -> Batch:
        self._check_usable(size_bytes)
        partition = whole_number(partition)
        if partition not in topic.view.partitions:
            self._connected().refresh_soon()
            topic_partition = TopicPartition(topic.view.name, partition)
            raise unknown_partition(topic_partition, len(topic.view.partitions))
        topic_partition = TopicPartition(topic.view.name, partition)
        batch, is_new = self._accumulator.open_batch(topic_partition, size_bytes, now_ms())
        if is_new:
            topic.open_batches[partition] = batch
            self._running().wake()
        return batch

    def _check_usable(self, size_bytes: int) -> None:
        self._lifetime.check_open()
        if self._accumulator.fatal is not None:
            raise copy(self._accumulator.fatal)
        limit_bytes = self._accumulator.settings.buffer_memory_bytes
        if size_bytes > limit_bytes:
            message = f"a record of {size_bytes} bytes never fits buffer_memory_bytes={limit_bytes}"
            raise MessageTooLargeError(message)

    # Topics that are not known yet

    def _park(self, topic: str, partition: int | None, size_bytes: int) -> Batch:
        """Return a batch of one for a record whose topic nobody has told us about yet."""
        require_text("topic", topic)
        self._check_usable(size_bytes)
        self._accumulator.reserve(size_bytes)
        deadline_ms = now_ms() + self._accumulator.settings.delivery_timeout_ms
        batch = Batch(TopicPartition(topic, -1), ready_at_ms=0, deadline_ms=deadline_ms)
        parked = self._parked.get(topic)
        if parked is None:
            parked = self._parked[topic] = []
            self._lifetime.start_soon(self._admit, topic)
        parked.append(_Parked(batch, partition, size_bytes))
        return batch

    async def _admit(self, topic: str) -> None:
        """Learn about a topic, then let go of the records that wait for that."""
        assert self._cluster is not None
        try:
            view = await self._cluster.topic(topic)
        except QuorateError as error:
            for parked in self._parked.pop(topic, []):
                self._accumulator.release(parked.size_bytes)
                self._lose(parked, error)
        else:
            known = self._topics[topic] = _Topic(view, self._rng)
            with self._accumulator.admitting():
                for parked in self._parked.pop(topic, []):
                    self._accumulator.release(parked.size_bytes)
                    self._unpark(known, parked)
        if self._sender is not None:
            self._sender.room.unpark_all()

    def _unpark(self, topic: _Topic, parked: _Parked) -> None:
        record = parked.batch
        key, value, headers = record.keys.get(0), record.values[0], record.headers.get(0, b"")
        try:
            batch = self._batch_for(topic, parked.partition, key, value, parked.size_bytes)
        except QuorateError as error:
            self._lose(parked, error)
            return
        except Exception as error:  # noqa: BLE001 - the user's partitioner's; its caller has gone on
            failure = KafkaError(f"no partition for a record of {topic.view.name!r}: {error!r}")
            failure.__cause__ = error
            self._lose(parked, failure)
            return
        index = batch.append(record.timestamp_ms(0), key, value, headers, parked.size_bytes)
        record.move([(batch, index)])

    def _lose(self, parked: _Parked, error: QuorateError) -> None:
        parked.batch.settle(error)
        self._accumulator.lose(error)

    def drop_parked(self, error: QuorateError) -> None:
        """Settle, with an error, the records whose topics are not known yet."""
        for parked in self._parked.values():
            for record in parked:
                self._accumulator.release(record.size_bytes)
                record.batch.settle(error)
            parked.clear()  # and not the topic: somebody is finding out about it

    def _learn(self) -> None:
        """Metadata or connections changed."""
        if self._cluster is not None:
            for name, topic in self._topics.items():
                view = self._cluster.view.topics.get(name)
                if view is not None and view is not topic.view and view.partitions:
                    topic.learn(view)
        if self._sender is not None:
            self._sender.wake()
