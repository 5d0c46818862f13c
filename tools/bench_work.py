"""Trio shell of ``quorate bench``: sends records as fast as they are taken, and times it."""

import os
import platform
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from string import ascii_uppercase
from typing import Any, Final

from quorate.client.admin import Admin
from quorate.client.delivery import Delivery
from quorate.client.producer import Producer
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, KafkaError
from quorate.tools.bench_figures import MEBIBYTE, percentile, rounded
from quorate.tools.output import Column, Table
from quorate.tools.partitions_work import replicas_on_brokers
from quorate.tools.progress import SoFar
from quorate.tools.topics import Client

TIMED_EVERY: Final = 100
"""Of so many records, the time to the acknowledgement of one is taken."""
VALUES_BYTES: Final = 1 << 20
"""How much there is of different values: more than a batch, so that no batch has one twice."""


@dataclass(frozen=True, slots=True)
class Load:
    """What to send.

    Attributes:
        records: how many, of ``size`` random letters each, to all partitions in turn.
        turn: so many are sent at a time, and waited for; 0 if nobody waits before the end.
        acks: 0, 1 or "all".
        compression: a codec's name, or "none".
    """

    topic: str
    records: int
    size: int
    turn: int
    acks: object
    compression: str


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of it, and what it cost.

    Attributes:
        cpu_s: of this process, the client.
        disk_bytes: by how much all replicas together have grown; None if no broker tells.
        took_ms: times to acknowledgements, or to those of whole turns.
    """

    mode: str
    load: Load
    seconds: float
    cpu_s: float
    disk_bytes: int | None
    took_ms: Sequence[float]

    @property
    def records_per_s(self) -> float:
        """Records a second."""
        return self.load.records / self.seconds

    def percentile_ms(self, percent: int) -> float | None:
        """Return a percentile of the times; None if none was taken."""
        return percentile(self.took_ms, percent)


async def produce(
    client: Client, load: Load, so_far: SoFar, *, transactional: bool
) -> list[Measured]:
    """Send the records; if wanted, once more in transactions of a turn each.

    Raises:
        QuorateError: they are not taken.
    """
    await make_topic(client, load.topic)
    measured = [await _plain(client, load, so_far)]
    if transactional:
        measured.append(await _transactions(client, load, so_far))
    return measured


async def make_topic(client: Client, topic: str) -> None:
    """Make a topic if it is not there."""
    async with client.admin() as admin:
        try:
            await admin.create_topic(topic)
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise


def _producer(client: Client, load: Load, **more: Any) -> Producer:
    options: dict[str, Any] = {**client.options, "acks": load.acks, **more}
    if load.compression != "none":
        options["compression"] = load.compression
    return Producer(client.bootstrap, **options)


async def _plain(client: Client, load: Load, so_far: SoFar) -> Measured:
    """Send without transactions; wait for each turn, if there are any, else for the last."""
    values = random_values(load.size)
    async with _producer(client, load) as producer:

        async def send(took_ms: list[float]) -> None:
            unsettled = _Unsettled()
            for at in range(0, load.records, load.turn or load.records):
                turn_begun = time.perf_counter()
                for number in range(at, min(at + (load.turn or load.records), load.records)):
                    delivery = await producer.enqueue(load.topic, values[number % len(values)])
                    unsettled.add(delivery)
                    if number % TIMED_EVERY == 0:
                        so_far(TIMED_EVERY * load.size)
                        if not load.turn:
                            delivery.add_callback(_timer(took_ms))
                if load.turn:
                    await producer.flush()
                    took_ms.append(1e3 * (time.perf_counter() - turn_begun))
            await producer.flush()
            unsettled.check()

        await producer.send(load.topic, values[0])  # what the first one brings along is not counted
        return await _measured("plain", client, load, send)


async def _measured(
    mode: str, client: Client, load: Load, send: Callable[[list[float]], Awaitable[None]]
) -> Measured:
    """Send, and take what it costs."""
    took_ms: list[float] = []
    before_bytes = await bytes_on_disk(client, load.topic)
    begun_s, cpu_begun_s = time.perf_counter(), time.process_time()
    await send(took_ms)
    seconds, cpu_s = time.perf_counter() - begun_s, time.process_time() - cpu_begun_s
    after_bytes = await bytes_on_disk(client, load.topic)
    is_told = before_bytes is not None and after_bytes is not None
    disk_bytes = (after_bytes or 0) - (before_bytes or 0) if is_told else None
    return Measured(mode, load, seconds, cpu_s, disk_bytes, took_ms)


def random_values(size: int) -> list[bytes]:
    """Return values of random letters, as Kafka's tool makes them: they compress to some 60 %."""
    letters = bytes(ord(ascii_uppercase[byte % len(ascii_uppercase)]) for byte in range(256))
    every = os.urandom(max(size, VALUES_BYTES)).translate(letters)
    return [every[at : at + size] for at in range(0, len(every) - size + 1, size)]


async def bytes_on_disk(client: Client, topic: str) -> int | None:
    """Return what all replicas of a topic have on disk, as their brokers tell; None if none do."""
    async with client.admin() as admin:
        found = await replicas_on_brokers(admin)
    sizes = [
        replica.size_bytes
        for replicas in found.values()
        for partition, replica in replicas.items()
        if partition.topic == topic
    ]
    return sum(sizes) if sizes else None


class _Unsettled:
    """Notices records that are not delivered, as flushing does not: one of each batch is looked at.

    State: the deliveries that are to be looked at, no more than there are batches under way.
    """

    def __init__(self) -> None:
        self._batch: object = None
        self._deliveries: deque[Delivery] = deque()

    def add(self, delivery: Delivery) -> None:
        """Look at this one, too, if it is the first of a batch."""
        batch, _ = delivery
        if batch is not self._batch:
            self._batch = batch
            self._deliveries.append(delivery)
            self.check()

    def check(self) -> None:
        """Look at those whose outcome is known.

        Raises:
            QuorateError: why one was not delivered.
        """
        while self._deliveries and self._deliveries[0].done:
            error = self._deliveries.popleft().error
            if error is not None:
                raise error


def _timer(took_ms: list[float]) -> Any:
    begun = time.perf_counter()

    def done(delivery: Delivery) -> None:
        if delivery.error is None:
            took_ms.append(1e3 * (time.perf_counter() - begun))

    return done


async def _transactions(client: Client, load: Load, so_far: SoFar) -> Measured:
    values = random_values(load.size)
    name = f"quorate-bench-{os.getpid()}"
    async with _producer(client, load, transactional_id=name) as producer:

        async def send(took_ms: list[float]) -> None:
            for at in range(0, load.records, load.turn):
                turn_begun = time.perf_counter()
                async with producer.transaction() as transaction:
                    for number in range(at, min(at + load.turn, load.records)):
                        await transaction.enqueue(load.topic, values[number % len(values)])
                so_far(load.turn * load.size)
                took_ms.append(1e3 * (time.perf_counter() - turn_begun))

        async with producer.transaction() as first:
            await first.enqueue(load.topic, values[0])
        return await _measured("transactional", client, load, send)


async def surroundings_text(client: Client) -> str:
    """Return what the figures depend on, beside our code and what else runs here."""
    async with Admin(client.bootstrap, **client.options) as admin:
        count = len((await admin.describe_cluster()).brokers)
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    return f"{count} {'broker' if count == 1 else 'brokers'}; {machine}"


def produce_table(measured: Sequence[Measured]) -> Table:
    """Return a row for each way of sending, with its throughput beside that of the first."""
    columns = (
        Column("mode"), Column("records"), Column("records_per_s"), Column("mib_per_s"),
        Column("p50_ms"), Column("p99_ms"), Column("of_plain"), Column("client_cpu_s"),
        Column("mib_on_disk"),
    )  # fmt: skip
    rows = tuple(
        (
            m.mode, m.load.records, round(m.records_per_s),
            round(m.records_per_s * m.load.size / MEBIBYTE, 2),
            rounded(m.percentile_ms(50)), rounded(m.percentile_ms(99)),
            round(m.records_per_s / measured[0].records_per_s, 2),
            rounded(m.cpu_s), None if m.disk_bytes is None else rounded(m.disk_bytes / MEBIBYTE),
        )
        for m in measured
    )  # fmt: skip
    return Table("bench_produce", columns, rows)
