"""A program: one member of a group, with a stock Python client, that tells in lines what it gets.

``python group_member.py CLIENT SETTINGS``; the settings are a JSON object. It prints
``{"assigned": [0, 1]}`` whenever its partitions have changed, and ``{"read": [partition, offset,
value]}`` for each record, which it then commits if ``commit`` is set. SIGTERM lets it leave.
"""

# ruff: noqa: T201, PLC0415 - it speaks by printing, and loads one client only
# Types of the clients say less than they do.
# pyright: basic, reportPrivateImportUsage=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false

import asyncio  # noqa: TID251 - a client's, not ours
import json
import signal
import sys
import warnings
from collections.abc import Iterable
from types import FrameType
from typing import Any

POLL_S = 0.05


class Teller:
    """Says what is new; knows when to stop."""

    def __init__(self) -> None:
        self.stopped = False
        self._assigned: list[int] | None = None
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stopped = True

    def assigned(self, partitions: Iterable[int]) -> None:
        now = sorted(partitions)
        if now != self._assigned:
            self._assigned = now
            self.say({"assigned": now})

    def read(self, partition: Any, offset: Any, value: Any) -> None:
        self.say({"read": [partition, offset, value.decode()]})

    def say(self, what: dict[str, Any]) -> None:
        print(json.dumps(what), flush=True)


def librdkafka(settings: dict[str, Any], teller: Teller) -> None:
    import confluent_kafka

    conf = {
        "bootstrap.servers": settings["bootstrap"],
        "group.id": settings["group"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": settings["session_ms"],
        "heartbeat.interval.ms": settings["session_ms"] // 4,
        "partition.assignment.strategy": settings["strategy"],
        "client.id": "librdkafka",
    }
    if settings["instance_id"]:
        conf["group.instance.id"] = settings["instance_id"]
    consumer = confluent_kafka.Consumer(conf)
    consumer.subscribe([settings["topic"]])
    while not teller.stopped:
        for message in consumer.consume(100, POLL_S):
            if message.error() is None:
                teller.read(message.partition(), message.offset(), message.value())
                if settings["commit"]:
                    consumer.commit(message=message, asynchronous=False)
        teller.assigned(p.partition for p in consumer.assignment())
    consumer.close()


def kafka_python(settings: dict[str, Any], teller: Teller) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import kafka
        from kafka.coordinator.assignors.range import RangePartitionAssignor

    consumer = kafka.KafkaConsumer(
        settings["topic"],
        bootstrap_servers=settings["bootstrap"],
        group_id=settings["group"],
        group_instance_id=settings["instance_id"] or None,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=settings["session_ms"],
        heartbeat_interval_ms=settings["session_ms"] // 4,
        partition_assignment_strategy=[RangePartitionAssignor],
        client_id="kafka-python",
    )
    # It loses an assignment that arrives between two calls of poll (3.0.12). So it shall know the
    # topic before it joins, and wait in poll for longer than others take to join again.
    consumer.partitions_for_topic(settings["topic"])
    while not teller.stopped:
        for partition, records in consumer.poll(timeout_ms=settings["session_ms"] // 3).items():
            for record in records:
                teller.read(partition.partition, record.offset, record.value)
                if settings["commit"]:
                    ahead = kafka.structs.OffsetAndMetadata(record.offset + 1, "", -1)
                    consumer.commit({partition: ahead})
        teller.assigned(p.partition for p in consumer.assignment())
    consumer.close()


def aiokafka(settings: dict[str, Any], teller: Teller) -> None:
    asyncio.run(_aiokafka(settings, teller))


async def _aiokafka(settings: dict[str, Any], teller: Teller) -> None:
    import aiokafka as client
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    consumer = client.AIOKafkaConsumer(
        settings["topic"],
        bootstrap_servers=settings["bootstrap"],
        group_id=settings["group"],
        group_instance_id=settings["instance_id"] or None,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=settings["session_ms"],
        heartbeat_interval_ms=settings["session_ms"] // 4,
        partition_assignment_strategy=(RangePartitionAssignor,),
        client_id="aiokafka",
    )
    await consumer.start()
    while not teller.stopped:
        found = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        for partition, records in found.items():
            for record in records:
                teller.read(partition.partition, record.offset, record.value)
                if settings["commit"]:
                    await consumer.commit({partition: record.offset + 1})
        teller.assigned(p.partition for p in consumer.assignment())
    await consumer.stop()


def quorate(settings: dict[str, Any], teller: Teller) -> None:
    import trio

    trio.run(_quorate, settings, teller)


async def _quorate(settings: dict[str, Any], teller: Teller) -> None:
    from quorate.client import Consumer

    async with Consumer(
        settings["bootstrap"],
        group_id=settings["group"],
        group_instance_id=settings["instance_id"] or None,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=settings["session_ms"],
        heartbeat_interval_ms=settings["session_ms"] // 4,
        partition_assignment_strategy=settings["strategy"],
        client_id="quorate.client",
    ) as consumer:
        consumer.subscribe(settings["topic"])
        while not teller.stopped:
            for record in await consumer.poll(timeout_ms=int(POLL_S * 1000)):
                teller.read(record.partition, record.offset, record.value)
                if settings["commit"]:
                    await consumer.commit({record.topic_partition: record.offset + 1})
            teller.assigned(p.partition for p in consumer.assignment)


PROGRAMS = {
    "librdkafka": librdkafka,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "quorate.client": quorate,
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](json.loads(sys.argv[2]), Teller())
