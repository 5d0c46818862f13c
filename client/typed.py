"""Producers and consumers of values: a serde on both sides of those of bytes.

They are views: a Producer or Consumer works underneath, as fast as ever for who has bytes, and one
may have many views with other types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar, cast

from quorate.client.serde.serdes import SerdeError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from quorate.client.consumer import Consumer
    from quorate.client.delivery import Delivery, RecordMetadata
    from quorate.client.producer import Producer
    from quorate.client.serde.serdes import Deserializer, Serializer
    from quorate.model import TopicPartition
    from quorate.records.record import Header, Record

K = TypeVar("K")
V = TypeVar("V")


class TypedProducer(Generic[K, V]):
    """Sends values of one type with keys of another through a producer.

    ::

        async with Producer("127.0.0.1:9092") as producer:
            orders = TypedProducer(producer, key=StrSerde(), value=JsonSerde())
            await orders.send("orders", {"amount": 12}, key="o-1")

    What a serde refuses raises SerdeError where it is handed over: nothing of it is sent.
    """

    def __init__(self, producer: Producer, *, key: Serializer[K], value: Serializer[V]) -> None:
        self.producer = producer
        self._key = key
        self._value = value

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
        """Hand over a record without waiting; see :meth:`Producer.send_nowait`.

        Raises:
            SerdeError: The key or the value cannot be written.
        """
        return self.producer.send_nowait(
            topic,
            None if value is None else self._value.serialize(topic, value),
            key=None if key is None else self._key.serialize(topic, key),
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
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
        """Hand over a record, waiting for room; see :meth:`Producer.enqueue`.

        Raises:
            SerdeError: The key or the value cannot be written.
        """
        return await self.producer.enqueue(
            topic,
            None if value is None else self._value.serialize(topic, value),
            key=None if key is None else self._key.serialize(topic, key),
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
        )

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

        Raises:
            SerdeError: The key or the value cannot be written.
        """
        delivery = await self.enqueue(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )
        return await delivery.result()


class TypedRecord(Generic[K, V]):
    """A record whose key and value are read when they are asked for, and once.

    So one that cannot be read stands in nobody's way: who asks for it gets the error.
    """

    __slots__ = ("_key", "_key_of", "_value", "_value_of", "record")

    def __init__(self, record: Record, key: Deserializer[K], value: Deserializer[V]) -> None:
        self.record = record
        self._key_of = key
        self._value_of = value
        self._key: object = _UNREAD
        self._value: object = _UNREAD

    @property
    def key(self) -> K | None:
        """The key; None if the record has none.

        Raises:
            SerdeError: It cannot be read.
        """
        if self._key is _UNREAD:
            self._key = self._read(self.record.key, self._key_of, "key")
        return cast("K | None", self._key)

    @property
    def value(self) -> V | None:
        """The value; None if it is null, which deletes the key from a compacted topic.

        Raises:
            SerdeError: It cannot be read.
        """
        if self._value is _UNREAD:
            self._value = self._read(self.record.value, self._value_of, "value")
        return cast("V | None", self._value)

    def _read(self, data: bytes | None, serde: Deserializer[object], what: str) -> object:
        if data is None:
            return None
        try:
            return serde.deserialize(self.topic, data)
        except SerdeError as error:
            place = f"{self.record.topic_partition} at offset {self.offset}"
            raise SerdeError(f"{what} of {place}: {error}", topic=self.topic) from error

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.record.topic

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self.record.partition

    @property
    def topic_partition(self) -> TopicPartition:
        """Both."""
        return self.record.topic_partition

    @property
    def offset(self) -> int:
        """Its offset."""
        return self.record.offset

    @property
    def timestamp_ms(self) -> int:
        """When it was made or appended; -1: unknown."""
        return self.record.timestamp_ms

    @property
    def headers(self) -> tuple[Header, ...]:
        """Pairs of name and value."""
        return self.record.headers

    def __repr__(self) -> str:
        return f"TypedRecord({self.record!r})"


_UNREAD = object()


class TypedConsumer(Generic[K, V]):
    """Gives out the records of a consumer with keys and values of some types.

    ::

        async with Consumer("127.0.0.1:9092") as consumer:
            await consumer.assign_topics("orders")
            async for order in TypedConsumer(consumer, key=StrSerde(), value=JsonSerde()):
                print(order.key, order.value)

    All else (assigning, seeking, committing) is done with the consumer.
    """

    def __init__(self, consumer: Consumer, *, key: Deserializer[K], value: Deserializer[V]) -> None:
        self.consumer = consumer
        self._key = key
        self._value = value

    async def poll(
        self, *, max_records: int | None = None, timeout_ms: int = 1_000
    ) -> list[TypedRecord[K, V]]:
        """Return records as soon as there are some; see :meth:`Consumer.poll`."""
        records = await self.consumer.poll(max_records=max_records, timeout_ms=timeout_ms)
        return [TypedRecord(record, self._key, self._value) for record in records]

    def __aiter__(self) -> Self:
        """Iterate over records; without an end."""
        return self

    async def __anext__(self) -> TypedRecord[K, V]:
        """Return the next record, waiting for one."""
        return TypedRecord(await self.consumer.__anext__(), self._key, self._value)
