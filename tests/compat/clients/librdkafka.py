"""confluent-kafka: librdkafka from Python."""

# Its types say less than it does.
# pyright: basic, reportPrivateImportUsage=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false

import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import confluent_kafka
import confluent_kafka.admin

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

admin: Any = confluent_kafka.admin  # it re-exports names without saying so
STARTS = {"earliest": confluent_kafka.OFFSET_BEGINNING, "latest": confluent_kafka.OFFSET_END}
POLL_S = 0.2


class Librdkafka(Client):
    name = "confluent-kafka"

    def version(self) -> str:
        return f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"

    def produce(
        self, server: Server, topic: str, messages: Sequence[Message], how: Sending
    ) -> list[Place]:
        producer = confluent_kafka.Producer(
            {
                **_settings(server),
                "partitioner": "murmur2_random",
                "compression.type": how.codec,
                "acks": how.acks,
                "enable.idempotence": bool(how.idempotent),
                "message.max.bytes": max(how.request_bytes_max, 1_000_000),
                "batch.size": how.request_bytes_max,
                "linger.ms": 5,
                "message.timeout.ms": int(DEADLINE_S * 1000),
            }
        )
        places: dict[int, Place] = {}
        errors: list[confluent_kafka.KafkaError] = []
        for index, message in enumerate(messages):

            def delivered(error: Any, stored: Any, index: int = index) -> None:
                if error is not None:
                    errors.append(error)
                else:
                    offset = stored.offset()
                    places[index] = Place(stored.partition(), -1 if offset is None else offset)

            _translated(
                producer.produce,
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers) or None,
                partition=-1 if message.partition is None else message.partition,
                timestamp=message.timestamp_ms or 0,
                on_delivery=delivered,
            )
            producer.poll(0)
        left = producer.flush(DEADLINE_S)
        if errors:
            raise _error(errors[0])
        assert not left, f"{left} messages were not delivered in time"
        return [places[index] for index in range(len(messages))]

    def consume(self, server: Server, task: Task) -> list[Received]:
        consumer = confluent_kafka.Consumer(
            {
                **_settings(server),
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error" if task.reset == "none" else task.reset,
                "fetch.message.max.bytes": task.fetch_bytes_max,
                "check.crcs": True,
            }
        )
        received: list[Received] = []
        deadline = time.monotonic() + DEADLINE_S
        try:
            consumer.assign(
                [
                    confluent_kafka.TopicPartition(
                        task.topic, p, start if isinstance(start, int) else STARTS[start]
                    )
                    for p, start in task.starts.items()
                ]
            )
            while len(received) < task.count:
                assert time.monotonic() < deadline, f"{len(received)} of {task.count} records"
                polled = consumer.consume(task.count - len(received), POLL_S)
                received += map(_received, polled)
        finally:
            consumer.close()
        return received

    def offset_for_time(
        self, server: Server, topic: str, partition: int, timestamp_ms: int
    ) -> int | None:
        consumer = _inspector(server)
        try:
            asked = [confluent_kafka.TopicPartition(topic, partition, timestamp_ms)]
            (found,) = _translated(consumer.offsets_for_times, asked, timeout=DEADLINE_S)
        finally:
            consumer.close()
        if found.error is not None:
            raise _error(found.error)
        offset: int = found.offset
        return offset if offset >= 0 else None

    def ends(self, server: Server, topic: str, partition: int) -> tuple[int, int]:
        consumer = _inspector(server)
        try:
            low, high = _translated(
                consumer.get_watermark_offsets,
                confluent_kafka.TopicPartition(topic, partition),
                timeout=DEADLINE_S,
            )
        finally:
            consumer.close()
        return low, high

    def topics(self, server: Server) -> set[str]:
        return set(_admin(server).list_topics(timeout=DEADLINE_S).topics)

    def describe(self, server: Server, topic: str) -> dict[int, PartitionInfo]:
        asked = confluent_kafka.TopicCollection([topic])
        told = _result(_admin(server).describe_topics(asked)[topic])
        return {
            p.id: PartitionInfo(
                p.leader.id, tuple(n.id for n in p.replicas), tuple(n.id for n in p.isr)
            )
            for p in told.partitions
        }

    def create(self, server: Server, topic: TopicSpec) -> None:
        new = admin.NewTopic(topic.name, topic.partitions, config=dict(topic.configs))
        _result(_admin(server).create_topics([new])[topic.name])

    def delete(self, server: Server, topic: str) -> None:
        _result(_admin(server).delete_topics([topic])[topic])

    def add_partitions(self, server: Server, topic: str, total: int) -> None:
        new = admin.NewPartitions(topic, total)
        _result(_admin(server).create_partitions([new])[topic])

    def configs(self, server: Server, topic: str) -> dict[str, str | None]:
        resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, topic)
        entries = _result(_admin(server).describe_configs([resource])[resource])
        return {name: entry.value for name, entry in entries.items()}

    def configure(self, server: Server, topic: str, name: str, value: str) -> None:
        change = admin.ConfigEntry(name, value, incremental_operation=admin.AlterConfigOpType.SET)
        resource = admin.ConfigResource(
            admin.ConfigResource.Type.TOPIC, topic, incremental_configs=[change]
        )
        _result(_admin(server).incremental_alter_configs([resource])[resource])

    def delete_records(self, server: Server, topic: str, partition: int, before: int) -> int:
        asked = confluent_kafka.TopicPartition(topic, partition, before)
        (answer,) = _admin(server).delete_records([asked]).values()
        low: int = _result(answer).low_watermark
        return low


def _settings(server: Server) -> dict[str, Any]:
    # Nothing below "critical": some clients outlive the broker, and would say so on stderr.
    settings: dict[str, Any] = {"bootstrap.servers": server.bootstrap, "log_level": 2}
    if server.ca:
        settings |= {"security.protocol": "SSL", "ssl.ca.location": server.ca}
    return settings


@cache
def _admin(server: Server) -> Any:
    """Return an admin client, kept: what it was asked for dies with it."""
    return admin.AdminClient(_settings(server))


def _inspector(server: Server) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer({**_settings(server), "group.id": "unused"})


def _received(message: confluent_kafka.Message) -> Received:
    error = message.error()
    if error is not None:
        raise _error(error)
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    headers: Any = message.headers() or []
    return Received(
        partition,
        offset,
        message.timestamp()[1],
        _bytes(message.key()),
        _bytes(message.value()),
        tuple((name, value) for name, value in headers),
    )


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _translated(call: Any, *args: Any, **options: Any) -> Any:
    try:
        return call(*args, **options)
    except confluent_kafka.KafkaException as error:
        raise _error(error.args[0]) from error


def _result(answer: Any) -> Any:
    return _translated(answer.result, DEADLINE_S)


def _error(error: Any) -> PeerError:
    """Return the error by the protocol's name; librdkafka's own begin below that range."""
    code: int = error.code()
    known = code in set(ErrorCode) and code > 0
    return PeerError(ErrorCode(code).name if known else error.name().lstrip("_"), error.str())
