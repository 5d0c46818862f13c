"""Trio shell of ``quorate bench consume`` and ``e2e``: reads a topic, and times it."""

import os
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import trio

from quorate.client.consumer import Consumer
from quorate.client.delivery import Delivery
from quorate.client.producer import Producer
from quorate.client.rebalancing import RebalanceListener
from quorate.dataclass import dataclass
from quorate.model import TopicPartition
from quorate.tools.bench_figures import RUN_BYTES, Consumed, RoundTrips
from quorate.tools.problems import CommandError
from quorate.tools.progress import Between, SoFar
from quorate.tools.topics import Client

POLL_RECORDS: Final = 2000
POLL_MS: Final = 100
LOST_AFTER_S: Final = 30.0
"""A record that has not come for so long is told as lost."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What to read.

    Attributes:
        group_id: None to read all partitions without a group.
        records_max: no more than so many, and what is there when it begins.
        fetch_bytes: of a partition, in an answer.
        silence_max_s: end when nothing came for so long.
    """

    topic: str
    group_id: str | None
    records_max: int
    fetch_bytes: int
    silence_max_s: float
    isolation_level: str


async def consume(client: Client, plan: ReadPlan, so_far: SoFar) -> Consumed:
    """Read from the beginning, or from where the group is; nothing is committed.

    Raises:
        QuorateError: it cannot be read.
    """
    settings: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "max_partition_fetch_bytes": plan.fetch_bytes,
        "isolation_level": plan.isolation_level,
    }
    if plan.group_id is not None:
        settings |= {"group_id": plan.group_id, "enable_auto_commit": False}
    async with client.consumer(**settings) as consumer:
        numbers = await consumer.partitions_of(plan.topic)
        partitions = [TopicPartition(plan.topic, number) for number in numbers]
        ends = await consumer.end_offsets(partitions)
        clock = _Clock()
        if plan.group_id is None:
            consumer.assign(partitions)
            await clock.on_assigned(frozenset(partitions))
        else:
            consumer.subscribe(plan.topic, listener=clock)
        return await _read(consumer, plan, ends, clock, so_far)


class _Clock(RebalanceListener):
    """Knows when this began, and when there were partitions to read."""

    def __init__(self) -> None:
        self.begun_s = time.perf_counter()
        self.assigned_s: float | None = None

    async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """Note the first assignment that is one."""
        if partitions and self.assigned_s is None:
            self.assigned_s = time.perf_counter()


async def _read(
    consumer: Consumer,
    plan: ReadPlan,
    ends: Mapping[TopicPartition, int],
    clock: _Clock,
    so_far: SoFar,
) -> Consumed:
    records, octets = 0, 0
    last_s = time.perf_counter()
    while records < plan.records_max:
        left = plan.records_max - records
        found = await consumer.poll(max_records=min(POLL_RECORDS, left), timeout_ms=POLL_MS)
        if found:
            records += len(found)
            more = sum(len(r.key or b"") + len(r.value or b"") for r in found)
            octets += more
            so_far(more)
            last_s = time.perf_counter()
        elif await _is_at_end(consumer, ends) or time.perf_counter() - last_s > plan.silence_max_s:
            break
    seconds = last_s - clock.assigned_s if records and clock.assigned_s is not None else 0.0
    if plan.group_id is None:
        return Consumed("assigned", None, seconds, records, octets)
    joined_ms = None if clock.assigned_s is None else 1e3 * (clock.assigned_s - clock.begun_s)
    return Consumed("group", joined_ms, seconds, records, octets)


async def _is_at_end(consumer: Consumer, ends: Mapping[TopicPartition, int]) -> bool:
    """Whether all is read that there was; also behind records that nobody is given."""
    assigned = consumer.assignment
    positions = [await consumer.position(p) >= ends.get(p, 0) for p in assigned]
    return bool(positions) and all(positions)


# --- end to end ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TripPlan:
    """What to send and read again.

    Attributes:
        rate: records a second, each at its time whether the ones before came or not; 0 if each
            waits for the one before.
        acks: 1 or "all".
    """

    topic: str
    records: int
    size: int
    rate: float
    acks: object


async def end_to_end(client: Client, plan: TripPlan, between: Between) -> tuple[RoundTrips, float]:
    """Send records and read them; return when each came, and how many seconds it took in all.

    A record's time counts from when it was due, not from when there was time to send it: what
    holds one up holds up those behind it, and is told of them all.

    Raises:
        CommandError: records that were sent did not come.
        QuorateError: records are not taken, or cannot be read.
    """
    trips = RoundTrips(os.urandom(RUN_BYTES))
    options: dict[str, Any] = {**client.options, "acks": plan.acks, "linger_ms": 0}
    async with client.consumer() as consumer, Producer(client.bootstrap, **options) as producer:
        numbers = await consumer.partitions_of(plan.topic)
        partitions = [TopicPartition(plan.topic, number) for number in numbers]
        ends = await consumer.end_offsets(partitions)
        consumer.assign(partitions)
        for partition, offset in ends.items():
            consumer.seek(partition, offset)
        traffic = _Traffic(plan, trips, producer, between)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(traffic.read, consumer)
            # One to each leader: what connections cost is not counted.
            for number in numbers:
                await traffic.send(number, time.perf_counter(), number)
            await traffic.wait_until_all_came()
            trips.begin_anew()
            begun_s = time.perf_counter()
            await traffic.send_all(begun_s)
            await traffic.wait_until_all_came()
            seconds = time.perf_counter() - begun_s
            nursery.cancel_scope.cancel()
    return trips, seconds


class _Traffic:
    """The two ends of a run: sends records, reads them, and wakes who waits for them."""

    def __init__(
        self, plan: TripPlan, trips: RoundTrips, producer: Producer, between: Between
    ) -> None:
        self.plan = plan
        self._between = between
        self.trips = trips
        self.producer = producer
        self._moved = trio.Event()

    async def send(self, number: int, due_s: float, partition: int | None = None) -> None:
        """Send a record that was due at a time."""
        self.trips.send(number, due_s)
        value = self.trips.value(number, self.plan.size)
        delivery = await self.producer.enqueue(self.plan.topic, value, partition=partition)
        delivery.add_callback(partial(self._settled, due_s))

    def _settled(self, due_s: float, delivery: Delivery) -> None:
        self.trips.acknowledge(due_s, time.perf_counter(), delivery.error)
        self._wake()

    async def send_all(self, begun_s: float) -> None:
        """Send the records, each when it is due, or when the one before came."""
        for number in range(self.plan.records):
            if self.plan.rate:
                due_s = begun_s + number / self.plan.rate
                await trio.sleep(max(0.0, due_s - time.perf_counter()))
            else:
                await self.wait_until_all_came()
                self._between(number, "sending")
                due_s = time.perf_counter()
            await self.send(number, due_s)

    async def read(self, consumer: Consumer) -> None:
        """Note what comes, for ever."""
        while True:
            found = await consumer.poll(timeout_ms=POLL_MS)
            now_s = time.perf_counter()
            for record in found:
                self.trips.read(record.value, now_s)
            if found:
                self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = trio.Event()

    async def wait_until_all_came(self) -> None:
        """Wait until nothing is under way any more, and all of it is acknowledged.

        Raises:
            CommandError: nothing came for a long time.
            QuorateError: a record was not taken.
        """
        while self.trips.under_way and self.trips.failure is None:
            with trio.move_on_after(LOST_AFTER_S) as patience:
                await self._moved.wait()
            if patience.cancelled_caught:
                raise CommandError(
                    f"{len(self.trips.under_way)} records did not come back",
                    why=f"nothing was read for {LOST_AFTER_S:.0f} s",
                    hint=f"quorate partitions list {self.plan.topic}",
                )
        if self.trips.failure is not None:
            raise self.trips.failure
        await self.producer.flush()
