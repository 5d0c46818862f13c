"""aiokafka: asyncio; each operation runs in a loop of its own."""

# Its types say less than it does.
# pyright: basic, reportPrivateImportUsage=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false

import asyncio  # noqa: TID251 - the client's, not ours
import ssl
import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import aiokafka
import aiokafka.admin
import aiokafka.errors

from quorate.errors import ErrorCode
from tests.compat.clients.model import (
    DEADLINE_S,
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


class Aiokafka(Client):
    name = "aiokafka"

    def version(self) -> str:
        return str(aiokafka.__version__)

    def produce(
        self, server: Server, topic: str, messages: Sequence[Message], how: Sending
    ) -> list[Place]:
        return _run(_produce(server, topic, messages, how))

    def consume(self, server: Server, task: Task) -> list[Received]:
        return _run(_consume(server, task))

    def offset_for_time(
        self, server: Server, topic: str, partition: int, timestamp_ms: int
    ) -> int | None:
        asked = aiokafka.TopicPartition(topic, partition)

        async def ask() -> int | None:
            async with _consumer(server) as consumer:
                found = (await consumer.offsets_for_times({asked: timestamp_ms}))[asked]
                return None if found is None else found.offset

        return _run(ask())

    def ends(self, server: Server, topic: str, partition: int) -> tuple[int, int]:
        asked = aiokafka.TopicPartition(topic, partition)

        async def ask() -> tuple[int, int]:
            async with _consumer(server) as consumer:
                low = (await consumer.beginning_offsets([asked]))[asked]
                return low, (await consumer.end_offsets([asked]))[asked]

        return _run(ask())

    def topics(self, server: Server) -> set[str]:
        return set(_run(_administer(server, "list_topics")))

    def describe(self, server: Server, topic: str) -> dict[int, PartitionInfo]:
        (told,) = _run(_administer(server, "describe_topics", [topic]))
        _raise_code(told["error_code"], "")
        return {
            p["partition"]: PartitionInfo(p["leader"], tuple(p["replicas"]), tuple(p["isr"]))
            for p in told["partitions"]
        }

    def create(self, server: Server, topic: TopicSpec) -> None:
        new = aiokafka.admin.NewTopic(
            topic.name, topic.partitions, 1, topic_configs=dict(topic.configs)
        )
        answer = _run(_administer(server, "create_topics", [new]))
        for _, code, message in answer.topic_errors:
            _raise_code(code, message)

    def delete(self, server: Server, topic: str) -> None:
        answer = _run(_administer(server, "delete_topics", [topic]))
        for error in answer.topic_error_codes:
            _raise_code(error[1], "")

    def add_partitions(self, server: Server, topic: str, total: int) -> None:
        new = {topic: aiokafka.admin.NewPartitions(total)}
        answer = _run(_administer(server, "create_partitions", new))
        for _, code, message in answer.topic_errors:
            _raise_code(code, message)

    def configs(self, server: Server, topic: str) -> dict[str, str | None]:
        resource = aiokafka.admin.config_resource.ConfigResource(_topic_type(), topic)
        (answer,) = _run(_administer(server, "describe_configs", [resource]))
        ((code, message, _, _, entries),) = answer.resources
        _raise_code(code, message)
        return {entry[0]: entry[1] for entry in entries}

    def configure(self, server: Server, topic: str, name: str, value: str) -> None:
        resource = aiokafka.admin.config_resource.ConfigResource(
            _topic_type(), topic, configs={name: value}
        )
        (answer,) = _run(_administer(server, "alter_configs", [resource]))
        ((code, message, *_),) = answer.resources
        _raise_code(code, message)

    def delete_records(self, server: Server, topic: str, partition: int, before: int) -> int:
        asked = aiokafka.TopicPartition(topic, partition)
        records = {asked: aiokafka.admin.RecordsToDelete(before_offset=before)}
        low: int = _run(_administer(server, "delete_records", records))[asked]
        return low


async def _produce(
    server: Server, topic: str, messages: Sequence[Message], how: Sending
) -> list[Place]:
    idempotent = how.idempotent if how.idempotent is not None else False
    async with aiokafka.AIOKafkaProducer(
        **_settings(server),
        acks="all" if how.acks == "all" else int(how.acks),
        compression_type=None if how.codec == "none" else how.codec,
        enable_idempotence=idempotent,
        max_batch_size=how.request_bytes_max,
        max_request_size=how.request_bytes_max + 100_000,
        linger_ms=5,
    ) as producer:
        futures = [
            await producer.send(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers),
                partition=message.partition,
                timestamp_ms=message.timestamp_ms,
            )
            for message in messages
        ]
        await producer.flush()
        # With acks=0 it has nothing to tell.
        stored: list[Any] = [await future for future in futures]
        return [
            Place(-1, -1) if one is None else Place(one.partition, one.offset) for one in stored
        ]


async def _consume(server: Server, task: Task) -> list[Received]:
    received: list[Received] = []
    deadline = time.monotonic() + DEADLINE_S
    options = {
        "auto_offset_reset": task.reset,
        "max_partition_fetch_bytes": task.fetch_bytes_max,
    }
    async with _consumer(server, **options) as consumer:
        assigned = {p: aiokafka.TopicPartition(task.topic, p) for p in task.starts}
        consumer.assign(list(assigned.values()))
        for p, start in task.starts.items():
            if isinstance(start, int):
                consumer.seek(assigned[p], start)
            elif start == "earliest":
                await consumer.seek_to_beginning(assigned[p])
            else:
                await consumer.seek_to_end(assigned[p])
        while len(received) < task.count:
            assert time.monotonic() < deadline, f"{len(received)} of {task.count} records"
            polled = await consumer.getmany(timeout_ms=200)
            received.extend(_received(one) for batch in polled.values() for one in batch)
    return received[: task.count]


async def _administer(server: Server, method: str, *args: Any) -> Any:
    admin = aiokafka.admin.AIOKafkaAdminClient(**_settings(server))
    await admin.start()
    try:
        return await getattr(admin, method)(*args)
    finally:
        await admin.close()


def _consumer(server: Server, **options: Any) -> Any:
    return aiokafka.AIOKafkaConsumer(**_settings(server), enable_auto_commit=False, **options)


def _settings(server: Server) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap_servers": server.bootstrap}
    if server.ca:
        context = ssl.create_default_context(cafile=server.ca)
        settings |= {"security_protocol": "SSL", "ssl_context": context}
    return settings


def _topic_type() -> Any:
    return aiokafka.admin.config_resource.ConfigResourceType.TOPIC


def _received(record: Any) -> Received:
    return Received(
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple((name, value) for name, value in record.headers),
    )


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    async def limited() -> Result:
        return await asyncio.wait_for(work, DEADLINE_S)

    try:
        return asyncio.run(limited())
    except aiokafka.errors.KafkaError as error:
        raise _error(error) from error


def _raise_code(code: int, message: str | None) -> None:
    if code:
        raise PeerError(ErrorCode(code).name, message or "")


def _error(error: Any) -> PeerError:
    code = getattr(error, "errno", -1)
    known = isinstance(code, int) and code in set(ErrorCode) and code > 0
    return PeerError(ErrorCode(code).name if known else type(error).__name__, str(error))
