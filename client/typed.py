"""Producers and consumers of values, as views of those of bytes.

A Producer or Consumer works underneath, and one may have many views with other types. Whoever needs
one only gives the Producer or Consumer serializers or deserializers of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from quorate.client.serde.choosing import TypedRecord, from_bytes, to_bytes

if TYPE_CHECKING:
    from typing import Self, Unpack

    from quorate.client.consumer import Consumer
    from quorate.client.delivery import Delivery, RecordMetadata, RecordOptions
    from quorate.client.producer import Producer
    from quorate.client.serde.choosing import Deserializing, Serializing

__all__ = ["TypedConsumer", "TypedProducer", "TypedRecord"]

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

    def __init__(self, producer: Producer, *, key: Serializing[K], value: Serializing[V]) -> None:
        self.producer = producer
        self._key = to_bytes("key", key)
        self._value = to_bytes("value", value)

    def send_nowait(
        self, topic: str, value: V | None, *, key: K | None = None, **options: Unpack[RecordOptions]
    ) -> Delivery:
        """Hand over a record without waiting; see :meth:`Producer.send_nowait`.

        Raises:
            SerdeError: The key or the value cannot be written.
        """
        written = self._value(topic, value)
        return self.producer.send_nowait(topic, written, key=self._key(topic, key), **options)

    async def enqueue(
        self, topic: str, value: V | None, *, key: K | None = None, **options: Unpack[RecordOptions]
    ) -> Delivery:
        """Hand over a record, waiting for room; see :meth:`Producer.enqueue`.

        Raises:
            SerdeError: The key or the value cannot be written.
        """
        written = self._value(topic, value)
        return await self.producer.enqueue(topic, written, key=self._key(topic, key), **options)

    async def send(
        self, topic: str, value: V | None, *, key: K | None = None, **options: Unpack[RecordOptions]
    ) -> RecordMetadata:
        """Send a record and return where it is, once it is acknowledged.

        Raises:
            SerdeError: The key or the value cannot be written.
        """
        delivery = await self.enqueue(topic, value, key=key, **options)
        return await delivery.result()


class TypedConsumer(Generic[K, V]):
    """Gives out the records of a consumer with keys and values of some types.

    ::

        async with Consumer("127.0.0.1:9092") as consumer:
            await consumer.assign_topics("orders")
            async for order in TypedConsumer(consumer, key=StrSerde(), value=JsonSerde()):
                print(order.key, order.value)

    All else (assigning, seeking, committing) is done with the consumer.
    """

    def __init__(
        self, consumer: Consumer, *, key: Deserializing[K], value: Deserializing[V]
    ) -> None:
        self.consumer = consumer
        self._key = from_bytes("key", key)
        self._value = from_bytes("value", value)

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
