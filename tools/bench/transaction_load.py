"""Sends so many records at a time and commits them, or only waits for them; with a Python client.

`python -m quorate.tools.bench.transaction_load CLIENT BOOTSTRAP TOPIC PARTITIONS BYTES RECORDS
WARMUP SECONDS transactional|plain`; it prints the events of the generators in C.
"""

import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import trio

from quorate.dataclass import dataclass
from quorate.tools.bench.client_load import emit

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Work:
    """What to send, how much of it at a time, for how long."""

    bootstrap: str
    topic: str
    partitions: int
    value_bytes: int
    turn: int
    warmup_s: float
    seconds: float
    transactional: bool

    @property
    def value(self) -> bytes:
        """A value of the right size."""
        return bytes(self.value_bytes)


async def repeat(work: Work, send: Callable[[], Awaitable[None]]) -> None:
    """Warm up, then send again and again for the time wanted."""
    warm = time.monotonic() + work.warmup_s
    while time.monotonic() < warm:
        await send()
    emit("begin")
    begun, took_ms = time.monotonic(), list[float]()
    while time.monotonic() - begun < work.seconds:
        at = time.monotonic()
        await send()
        took_ms.append(1e3 * (time.monotonic() - at))
    seconds = time.monotonic() - begun
    emit("stop")
    took_ms.sort()
    turns = len(took_ms)
    emit(
        "result",
        seconds=seconds,
        records_per_s=turns * work.turn / seconds,
        turns_per_s=turns / seconds,
        p50_ms=took_ms[turns // 2],
        p99_ms=took_ms[turns * 99 // 100],
        failed=0,
    )


async def librdkafka(work: Work) -> None:
    """Use confluent-kafka."""
    from confluent_kafka import Producer

    settings: dict[str, Any] = {
        "bootstrap.servers": work.bootstrap,
        "enable.idempotence": True,
        "linger.ms": 0,
        "queue.buffering.max.messages": 1_000_000,
    }
    if work.transactional:
        settings["transactional.id"] = f"bench-{time.monotonic_ns()}"
    producer: Any = Producer(settings)
    if work.transactional:
        producer.init_transactions(TIMEOUT_S)
    value = work.value

    async def send() -> None:
        if work.transactional:
            producer.begin_transaction()
        for number in range(work.turn):
            producer.produce(work.topic, value, partition=number % work.partitions)
        if work.transactional:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.flush(TIMEOUT_S)

    await repeat(work, send)


async def ours(work: Work) -> None:
    """Use quorate.client."""
    from quorate.client import Producer

    value = work.value
    transactional_id = f"bench-{time.monotonic_ns()}" if work.transactional else None
    async with Producer(work.bootstrap, linger_ms=0, transactional_id=transactional_id) as producer:

        async def enqueue() -> None:
            for number in range(work.turn):
                await producer.enqueue(work.topic, value, partition=number % work.partitions)

        async def send() -> None:
            if work.transactional:
                async with producer.transaction():
                    await enqueue()
            else:
                await enqueue()
                await producer.flush()

        await repeat(work, send)


CLIENTS = {"librdkafka": librdkafka, "quorate": ours}


def main(words: Sequence[str]) -> None:
    """Run the load of one client."""
    client, bootstrap, topic, partitions, value_bytes, turn, warmup_s, seconds, kind = words
    work = Work(
        bootstrap,
        topic,
        int(partitions),
        int(value_bytes),
        int(turn),
        float(warmup_s),
        float(seconds),
        kind == "transactional",
    )
    trio.run(CLIENTS[client], work)


if __name__ == "__main__":
    main(sys.argv[1:])
