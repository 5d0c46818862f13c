"""A load generator per Python client: `python -m quorate.tools.bench.client_load --help`.

Each does the same work in the way its documentation recommends for much of it, with acks=1, no
idempotence, a linger of 5 ms and batches of about half a megabyte.  They print the same events as
the generators in C.
"""

import argparse
import asyncio  # noqa: TID251 - aiokafka's
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import trio

from quorate.dataclass import dataclass

BURST = 500
LINGER_MS = 5
BATCH_BYTES = 512 * 1024
QUEUE_RECORDS_MAX = 1_000_000
AHEAD_RECORDS_MAX = 10_000_000
CONSUME_RECORDS_MAX = 10_000
POLL_S = 0.2
FIRST_RECORD_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Work:
    """What to do, for how long."""

    bootstrap: str
    topic: str
    value_bytes: int
    warmup_s: float
    seconds: float
    records_max: int

    @property
    def value(self) -> bytes:
        """A value of the right size."""
        return bytes(32 + i % 90 for i in range(self.value_bytes))


def a_group(work: Work) -> str:
    """Return a group that has read nothing yet."""
    return f"{work.topic}-{time.time_ns()}"


def cpu_seconds() -> float:
    """Return the CPU time of this process with all its threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def emit(event: str, **figures: float) -> None:
    """Print an event at once."""
    print(json.dumps({"event": event, **figures}), flush=True)


class Window:
    """The measured time, from its making to `close`; says so to whoever listens."""

    __slots__ = ("_begin_s", "_cpu_s")

    def __init__(self) -> None:
        emit("begin")
        self._begin_s, self._cpu_s = time.monotonic(), cpu_seconds()

    @property
    def elapsed_s(self) -> float:
        """Seconds since it was opened."""
        return time.monotonic() - self._begin_s

    def close(self, records: int, value_bytes: int) -> None:
        """Report what was done in it."""
        seconds, cpu_s = self.elapsed_s, cpu_seconds() - self._cpu_s
        emit("stop")
        emit(
            "result",
            records=records,
            seconds=seconds,
            records_per_s=records / seconds,
            bytes_per_s=records * value_bytes / seconds,
            client_cpu_s=cpu_s,
            records_per_client_cpu_s=records / cpu_s,
            failed=0,
        )


async def produce_in_bursts(
    work: Work, send_burst: Callable[[], Awaitable[None]], flush: Callable[[], Awaitable[None]]
) -> None:
    """Warm up, then send bursts for the time wanted and count them when all are acknowledged."""
    warm = time.monotonic() + work.warmup_s
    while time.monotonic() < warm:
        await send_burst()
    await flush()
    window = Window()
    bursts = 0
    while window.elapsed_s < work.seconds:
        await send_burst()
        bursts += 1
    await flush()
    window.close(bursts * BURST, work.value_bytes)


async def consume_batches(work: Work, receive: Callable[[], Awaitable[int]]) -> None:
    """Count records from the first batch, which does not count, until there are enough."""
    give_up = time.monotonic() + FIRST_RECORD_TIMEOUT_S
    while not (first := await receive()):
        if time.monotonic() > give_up:
            raise TimeoutError(f"no record in {work.topic}")
    window = Window()
    records = 0
    while window.elapsed_s < work.seconds and first + records < work.records_max:
        records += await receive()
    window.close(records, work.value_bytes)


# --- confluent-kafka -----------------------------------------------------------------------------


def confluent_produce(work: Work) -> None:
    """`produce` without waiting, `poll` between."""
    from confluent_kafka import Producer

    failures: list[object] = []

    def on_delivery(error: object, _message: object) -> None:
        if error:
            failures.append(error)

    producer: Any = Producer(
        {
            "bootstrap.servers": work.bootstrap,
            "acks": 1,
            "linger.ms": LINGER_MS,
            "queue.buffering.max.messages": QUEUE_RECORDS_MAX,
            "delivery.report.only.error": True,
            "on_delivery": on_delivery,
        }
    )
    topic, value, produce = work.topic, work.value, producer.produce

    async def send_burst() -> None:
        for _ in range(BURST):
            while True:
                try:
                    produce(topic, value)
                    break
                except BufferError:  # the queue is full
                    producer.poll(0.01)
        producer.poll(0)

    async def flush() -> None:
        producer.flush()
        if failures:
            raise RuntimeError(f"not delivered: {failures[0]}")

    trio.run(produce_in_bursts, work, send_burst, flush)


def confluent_consume(work: Work) -> None:
    """`consume` many at a time, from assigned partitions."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer: Any = Consumer(
        {
            "bootstrap.servers": work.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            # By default it pauses for a second whenever it has fetched 100,000 records ahead.
            "queued.min.messages": AHEAD_RECORDS_MAX,
            "queued.max.messages.kbytes": 1024 * 1024,
        }
    )
    consumer.assign([TopicPartition(work.topic, 0, OFFSET_BEGINNING)])

    async def receive() -> int:
        messages = consumer.consume(CONSUME_RECORDS_MAX, POLL_S)
        return sum(1 for message in messages if message.value() is not None)

    trio.run(consume_batches, work, receive)
    consumer.close()


def confluent_consume_in_group(work: Work) -> None:
    """`consume` many at a time, what the group assigns; offsets are committed by themselves."""
    from confluent_kafka import Consumer

    consumer: Any = Consumer(
        {
            "bootstrap.servers": work.bootstrap,
            "group.id": a_group(work),
            "auto.offset.reset": "earliest",
            "queued.min.messages": AHEAD_RECORDS_MAX,
            "queued.max.messages.kbytes": 1024 * 1024,
        }
    )
    consumer.subscribe([work.topic])

    async def receive() -> int:
        messages = consumer.consume(CONSUME_RECORDS_MAX, POLL_S)
        return sum(1 for message in messages if message.value() is not None)

    trio.run(consume_batches, work, receive)
    consumer.close()


# --- aiokafka ------------------------------------------------------------------------------------


def aiokafka_produce(work: Work) -> None:
    """`await send`, which waits for room and not for the acknowledgement."""
    from aiokafka import AIOKafkaProducer  # pyright: ignore[reportMissingTypeStubs]

    async def main() -> None:
        producer: Any = AIOKafkaProducer(
            bootstrap_servers=work.bootstrap,
            acks=1,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
        )
        await producer.start()
        topic, value, send = work.topic, work.value, producer.send

        async def send_burst() -> None:
            for _ in range(BURST):
                await send(topic, value)

        await produce_in_bursts(work, send_burst, producer.flush)
        await producer.stop()

    asyncio.run(main())


def aiokafka_consume(work: Work) -> None:
    """`getmany`, from assigned partitions."""
    from aiokafka import AIOKafkaConsumer, TopicPartition  # pyright: ignore[reportMissingTypeStubs]

    async def main() -> None:
        consumer: Any = AIOKafkaConsumer(
            bootstrap_servers=work.bootstrap, auto_offset_reset="earliest"
        )
        await consumer.start()
        partition = TopicPartition(work.topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)

        async def receive() -> int:
            found = await consumer.getmany(
                timeout_ms=int(POLL_S * 1000), max_records=CONSUME_RECORDS_MAX
            )
            return sum(1 for records in found.values() for r in records if r.value is not None)

        await consume_batches(work, receive)
        await consumer.stop()

    asyncio.run(main())


def aiokafka_consume_in_group(work: Work) -> None:
    """`getmany`, what the group assigns; offsets are committed by themselves."""
    from aiokafka import AIOKafkaConsumer  # pyright: ignore[reportMissingTypeStubs]

    async def main() -> None:
        consumer: Any = AIOKafkaConsumer(
            work.topic,
            bootstrap_servers=work.bootstrap,
            group_id=a_group(work),
            auto_offset_reset="earliest",
        )
        await consumer.start()

        async def receive() -> int:
            found = await consumer.getmany(
                timeout_ms=int(POLL_S * 1000), max_records=CONSUME_RECORDS_MAX
            )
            return sum(1 for records in found.values() for r in records if r.value is not None)

        await consume_batches(work, receive)
        await consumer.stop()

    asyncio.run(main())


# --- Quorate -------------------------------------------------------------------------------------


def quorate_produce(work: Work) -> None:
    """`send_nowait` in bursts."""
    from quorate.client.errors import BufferFullError
    from quorate.client.producer import Producer

    async def main() -> None:
        async with Producer(work.bootstrap, acks=1, linger_ms=LINGER_MS) as producer:
            topic, value, send_nowait = work.topic, work.value, producer.send_nowait

            async def send_burst() -> None:
                for _ in range(BURST):
                    try:
                        send_nowait(topic, value)
                    except BufferFullError:
                        await producer.enqueue(topic, value)
                await trio.lowlevel.checkpoint()

            await (await producer.enqueue(topic, value)).result()
            await produce_in_bursts(work, send_burst, producer.flush)

    trio.run(main)


def quorate_enqueue(work: Work) -> None:
    """`await enqueue`, which waits for room and not for the acknowledgement."""
    from quorate.client.producer import Producer

    async def main() -> None:
        async with Producer(work.bootstrap, acks=1, linger_ms=LINGER_MS) as producer:
            topic, value, enqueue = work.topic, work.value, producer.enqueue

            async def send_burst() -> None:
                for _ in range(BURST):
                    await enqueue(topic, value)

            await (await enqueue(topic, value)).result()
            await produce_in_bursts(work, send_burst, producer.flush)

    trio.run(main)


def quorate_consume(work: Work) -> None:
    """`poll` many at a time, from assigned partitions."""
    from quorate.client.consumer import Consumer

    async def main() -> None:
        async with Consumer(work.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([(work.topic, 0)])

            async def receive() -> int:
                records = await consumer.poll(
                    max_records=CONSUME_RECORDS_MAX, timeout_ms=int(POLL_S * 1000)
                )
                return sum(1 for record in records if record.value is not None)

            await consume_batches(work, receive)

    trio.run(main)


def quorate_iterate(work: Work) -> None:
    """`async for`, one record at a time."""
    from quorate.client.consumer import Consumer

    async def main() -> None:
        async with Consumer(work.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([(work.topic, 0)])
            left = work.records_max

            async def receive() -> int:
                nonlocal left
                count = 0
                async for record in consumer:
                    count += record.value is not None
                    left -= 1
                    if count == BURST or not left:
                        break
                return count

            await consume_batches(work, receive)

    trio.run(main)


def quorate_consume_in_group(work: Work) -> None:
    """`poll` many at a time, what the group assigns; offsets are committed by themselves."""
    from quorate.client.consumer import Consumer

    async def main() -> None:
        async with Consumer(
            work.bootstrap,
            group_id=a_group(work),
            auto_offset_reset="earliest",
            max_poll_records=CONSUME_RECORDS_MAX,
        ) as consumer:
            consumer.subscribe(work.topic)

            async def receive() -> int:
                records = await consumer.poll(timeout_ms=int(POLL_S * 1000))
                return sum(1 for record in records if record.value is not None)

            await consume_batches(work, receive)

    trio.run(main)


PRODUCERS: Mapping[str, Callable[[Work], None]] = {
    "quorate": quorate_produce,
    "quorate-enqueue": quorate_enqueue,
    "confluent-kafka": confluent_produce,
    "aiokafka": aiokafka_produce,
}
CONSUMERS: Mapping[str, Callable[[Work], None]] = {
    "quorate": quorate_consume,
    "quorate-iterate": quorate_iterate,
    "quorate-group": quorate_consume_in_group,
    "confluent-kafka": confluent_consume,
    "confluent-kafka-group": confluent_consume_in_group,
    "aiokafka": aiokafka_consume,
    "aiokafka-group": aiokafka_consume_in_group,
}


def main(arguments: Sequence[str]) -> None:
    """Run one client."""
    options = argparse.ArgumentParser(prog="python -m quorate.tools.bench.client_load")
    options.add_argument("action", choices=("produce", "consume"))
    options.add_argument("client")
    options.add_argument("bootstrap")
    options.add_argument("topic")
    options.add_argument("value_bytes", type=int)
    options.add_argument("warmup_s", type=float)
    options.add_argument("seconds", type=float)
    options.add_argument("records_max", type=int)
    chosen = vars(options.parse_args(arguments))
    loads = PRODUCERS if chosen.pop("action") == "produce" else CONSUMERS
    load = loads[chosen.pop("client")]
    load(Work(**chosen))


if __name__ == "__main__":
    main(sys.argv[1:])
