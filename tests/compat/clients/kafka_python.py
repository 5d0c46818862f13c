"""kafka-python: pure Python, blocking."""

# Its types say less than it does.
# pyright: basic, reportPrivateImportUsage=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false

import re
import time
import warnings
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from quorate.errors import ErrorCode
from tests.compat.clients.model import (
    DEADLINE_S,
    Client,
    Message,
    Op,
    PartitionInfo,
    PeerError,
    Place,
    Received,
    Sending,
    Server,
    Task,
    TopicSpec,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it uses what newer Pythons advise against
    import kafka
    import kafka.admin
    import kafka.errors


class KafkaPython(Client):
    name = "kafka-python"
    lacks = frozenset({Op.NULL_HEADERS})

    def version(self) -> str:
        return str(kafka.__version__)

    def produce(
        self, server: Server, topic: str, messages: Sequence[Message], how: Sending
    ) -> list[Place]:
        idempotent = how.acks == "all" if how.idempotent is None else how.idempotent
        with closing(
            kafka.KafkaProducer(
                **_settings(server),
                acks="all" if how.acks == "all" else int(how.acks),
                compression_type=None if how.codec == "none" else how.codec,
                enable_idempotence=idempotent,
                batch_size=how.request_bytes_max,
                max_request_size=how.request_bytes_max + 100_000,
                linger_ms=5,
            )
        ) as producer:
            futures = [
                _translated(
                    producer.send,
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=message.partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            stored = [_translated(future.get, DEADLINE_S) for future in futures]
            return [Place(one.partition, one.offset) for one in stored]

    def consume(self, server: Server, task: Task) -> list[Received]:
        received: list[Received] = []
        deadline = time.monotonic() + DEADLINE_S
        with closing(
            _consumer(
                server,
                auto_offset_reset=task.reset,
                max_partition_fetch_bytes=task.fetch_bytes_max,
            )
        ) as consumer:
            assigned = {p: kafka.TopicPartition(task.topic, p) for p in task.starts}
            consumer.assign(list(assigned.values()))
            for p, start in task.starts.items():
                if isinstance(start, int):
                    consumer.seek(assigned[p], start)
                elif start == "earliest":
                    consumer.seek_to_beginning(assigned[p])
                else:
                    consumer.seek_to_end(assigned[p])
            while len(received) < task.count:
                assert time.monotonic() < deadline, f"{len(received)} of {task.count} records"
                polled = _translated(consumer.poll, timeout_ms=200)
                received.extend(_received(one) for batch in polled.values() for one in batch)
        return received[: task.count]

    def offset_for_time(
        self, server: Server, topic: str, partition: int, timestamp_ms: int
    ) -> int | None:
        asked = kafka.TopicPartition(topic, partition)
        with closing(_consumer(server)) as consumer:
            found = _translated(consumer.offsets_for_times, {asked: timestamp_ms})[asked]
        return None if found is None else found.offset

    def ends(self, server: Server, topic: str, partition: int) -> tuple[int, int]:
        asked = kafka.TopicPartition(topic, partition)
        with closing(_consumer(server)) as consumer:
            low = _translated(consumer.beginning_offsets, [asked])[asked]
            high = _translated(consumer.end_offsets, [asked])[asked]
        return low, high

    def topics(self, server: Server) -> set[str]:
        with closing(_admin(server)) as admin:
            return set(_translated(admin.list_topics))

    def describe(self, server: Server, topic: str) -> dict[int, PartitionInfo]:
        with closing(_admin(server)) as admin:
            (told,) = _translated(admin.describe_topics, [topic])
        _raise_code(told["error_code"])
        return {
            p["partition_index"]: PartitionInfo(
                p["leader_id"], tuple(p["replica_nodes"]), tuple(p["isr_nodes"])
            )
            for p in told["partitions"]
        }

    def create(self, server: Server, topic: TopicSpec) -> None:
        new = kafka.admin.NewTopic(
            topic.name, topic.partitions, 1, topic_configs=dict(topic.configs)
        )
        with closing(_admin(server)) as admin:
            _translated(admin.create_topics, [new])

    def delete(self, server: Server, topic: str) -> None:
        with closing(_admin(server)) as admin:
            _translated(admin.delete_topics, [topic])

    def add_partitions(self, server: Server, topic: str, total: int) -> None:
        with closing(_admin(server)) as admin:
            _translated(admin.create_partitions, {topic: kafka.admin.NewPartitions(total)})

    def configs(self, server: Server, topic: str) -> dict[str, str | None]:
        resource = kafka.admin.ConfigResource("TOPIC", topic)
        with closing(_admin(server)) as admin:
            told = _translated(admin.describe_configs, [resource], config_filter="all")
        return {name: entry["value"] for name, entry in told["topic"][topic].items()}

    def configure(self, server: Server, topic: str, name: str, value: str) -> None:
        resource = kafka.admin.ConfigResource("TOPIC", topic, configs={name: value})
        with closing(_admin(server)) as admin:
            told = _translated(admin.alter_configs, [resource], raise_on_unknown=False)
        _raise_text(told["topic"][topic])

    def delete_records(self, server: Server, topic: str, partition: int, before: int) -> int:
        asked = kafka.TopicPartition(topic, partition)
        with closing(_admin(server)) as admin:
            told = _translated(admin.delete_records, {asked: before})
        low: int = told[asked]["low_watermark"]
        return low


def _settings(server: Server) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap_servers": server.bootstrap}
    if server.ca:
        settings |= {"security_protocol": "SSL", "ssl_cafile": server.ca}
    return settings


def _consumer(server: Server, **options: Any) -> Any:
    return kafka.KafkaConsumer(**_settings(server), enable_auto_commit=False, **options)


def _admin(server: Server) -> Any:
    return kafka.KafkaAdminClient(**_settings(server))


def _received(record: Any) -> Received:
    return Received(
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple((name, value) for name, value in record.headers),
    )


def _translated(call: Any, *args: Any, **options: Any) -> Any:
    try:
        return call(*args, **options)
    except kafka.errors.KafkaError as error:
        raise _error(error) from error


def _raise_code(code: int) -> None:
    if code:
        raise _error(kafka.errors.for_code(code)())


def _raise_text(text: str) -> None:
    """Raise what the client only tells in words: "OK" or "[Error 40] ..."."""
    code = re.match(r"\[Error (\d+)\]", text)
    if code is not None:
        raise PeerError(ErrorCode(int(code[1])).name, text)


def _error(error: Any) -> PeerError:
    """Return the error by the protocol's name, which the client may have changed."""
    code: int = getattr(error, "errno", 0)
    known = code in set(ErrorCode) and code > 0
    return PeerError(ErrorCode(code).name if known else type(error).__name__, str(error))
