"""Quorate's own client, on Trio; each operation runs in a loop of its own."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import trio

import quorate
from quorate.client.admin import Admin
from quorate.client.admin_results import ConfigChange, ConfigResource, NewTopic
from quorate.client.connections import ConnectionOptions
from quorate.client.consumer import Consumer
from quorate.client.errors import NoOffsetError
from quorate.client.producer import Producer
from quorate.errors import ErrorCode, KafkaError, QuorateError
from quorate.model import TopicPartition
from tests.compat.clients.model import (
    DEADLINE_S,
    Acks,
    Client,
    Message,
    PartitionInfo,
    PeerError,
    Place,
    Received,
    Sending,
    Server,
    Task,
    TopicSpec,
)

Result = TypeVar("Result")
ACKS: dict[Acks, Any] = {"0": 0, "1": 1, "all": "all"}


class Ours(Client):
    name = "quorate.client"

    def version(self) -> str:
        return quorate.__version__

    def produce(
        self, server: Server, topic: str, messages: Sequence[Message], how: Sending
    ) -> list[Place]:
        async def produce() -> list[Place]:
            async with Producer(
                server.bootstrap,
                acks=ACKS[how.acks],
                idempotent=how.idempotent,
                compression=how.codec,
                batch_size_bytes=how.request_bytes_max,
                **_options(server, auto_create=True),
            ) as producer:
                deliveries = [
                    await producer.enqueue(
                        topic,
                        message.value,
                        key=message.key,
                        headers=message.headers,
                        partition=message.partition,
                        timestamp_ms=message.timestamp_ms,
                    )
                    for message in messages
                ]
                stored = [await delivery.result() for delivery in deliveries]
                return [Place(one.partition, one.offset) for one in stored]

        return _run(produce)

    def consume(self, server: Server, task: Task) -> list[Received]:
        async def consume() -> list[Received]:
            received: list[Received] = []
            async with Consumer(
                server.bootstrap,
                auto_offset_reset=task.reset,
                max_partition_fetch_bytes=task.fetch_bytes_max,
                **_options(server),
            ) as consumer:
                consumer.assign([(task.topic, p) for p in task.starts])
                for p, start in task.starts.items():
                    if isinstance(start, int):
                        consumer.seek((task.topic, p), start)
                    elif start == "earliest":
                        consumer.seek_to_beginning((task.topic, p))
                    else:
                        consumer.seek_to_end((task.topic, p))
                while len(received) < task.count:
                    records = await consumer.poll(max_records=task.count - len(received))
                    received += [
                        Received(
                            r.partition, r.offset, r.timestamp_ms, r.key, r.value, tuple(r.headers)
                        )
                        for r in records
                    ]
            return received

        return _run(consume)

    def offset_for_time(
        self, server: Server, topic: str, partition: int, timestamp_ms: int
    ) -> int | None:
        asked = TopicPartition(topic, partition)

        async def ask() -> int | None:
            async with Consumer(server.bootstrap, **_options(server)) as consumer:
                found = (await consumer.offsets_for_times({asked: timestamp_ms}))[asked]
                return None if found is None else found.offset

        return _run(ask)

    def ends(self, server: Server, topic: str, partition: int) -> tuple[int, int]:
        asked = TopicPartition(topic, partition)

        async def ask() -> tuple[int, int]:
            async with Consumer(server.bootstrap, **_options(server)) as consumer:
                low = (await consumer.beginning_offsets([asked]))[asked]
                return low, (await consumer.end_offsets([asked]))[asked]

        return _run(ask)

    def topics(self, server: Server) -> set[str]:
        return {one.name for one in _administer(server, lambda admin: admin.list_topics())}

    def describe(self, server: Server, topic: str) -> dict[int, PartitionInfo]:
        told = _result(_administer(server, lambda admin: admin.describe_topics([topic])), topic)
        return {p.partition: PartitionInfo(p.leader_id, p.replicas, p.isr) for p in told.partitions}

    def create(self, server: Server, topic: TopicSpec) -> None:
        new = NewTopic(topic.name, topic.partitions, configs=topic.configs)
        _result(_administer(server, lambda admin: admin.create_topics([new])), topic.name)

    def delete(self, server: Server, topic: str) -> None:
        _result(_administer(server, lambda admin: admin.delete_topics([topic])), topic)

    def add_partitions(self, server: Server, topic: str, total: int) -> None:
        _result(_administer(server, lambda admin: admin.create_partitions({topic: total})), topic)

    def configs(self, server: Server, topic: str) -> dict[str, str | None]:
        resource = ConfigResource.topic(topic)
        told = _administer(server, lambda admin: admin.describe_configs([resource]))
        return {name: entry.value for name, entry in _result(told, resource).items()}

    def configure(self, server: Server, topic: str, name: str, value: str) -> None:
        resource = ConfigResource.topic(topic)
        changes = {resource: [ConfigChange(name, value)]}
        _result(_administer(server, lambda admin: admin.alter_configs(changes)), resource)

    def delete_records(self, server: Server, topic: str, partition: int, before: int) -> int:
        asked = TopicPartition(topic, partition)
        told = _administer(server, lambda admin: admin.delete_records({asked: before}))
        low: int = _result(told, asked).low_watermark
        return low


def _options(server: Server, *, auto_create: bool = False) -> ConnectionOptions:
    options = ConnectionOptions(allow_auto_create_topics=auto_create)
    if server.ca:
        options["ssl_context"] = ssl.create_default_context(cafile=server.ca)
    return options


def _run(work: Callable[[], Awaitable[Result]]) -> Result:
    async def limited() -> Result:
        with trio.fail_after(DEADLINE_S):
            return await work()

    try:
        return trio.run(limited)
    except* QuorateError as errors:
        raise _error(_first(errors)) from errors


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _administer(server: Server, call: Callable[[Admin], Awaitable[Result]]) -> Result:
    async def administer() -> Result:
        async with Admin(server.bootstrap, **_options(server)) as admin:
            return await call(admin)

    return _run(administer)


def _result(results: Any, key: Any) -> Any:
    result = results[key]
    if isinstance(result, QuorateError):
        raise _error(result)
    return result


def _error(error: BaseException) -> PeerError:
    if isinstance(error, NoOffsetError):
        return PeerError(ErrorCode.OFFSET_OUT_OF_RANGE.name, str(error))
    if isinstance(error, KafkaError):
        return PeerError(error.code.name, error.message)
    return PeerError(type(error).__name__, str(error))
