"""Our own client on three brokers that are killed and paused, judged by what it was told."""

import signal
from collections import defaultdict
from collections.abc import Generator
from contextlib import suppress
from functools import partial
from random import Random

import pytest
import trio

from quorate.client import (
    Admin,
    Consumer,
    Delivery,
    Producer,
    QuorateError,
    TopicPartition,
)
from tests.integration.brokers import Cluster

PARTITIONS = 3
TASKS = 4
FAULTS = 3
LIMIT_S = 300.0
"""Against hanging only: nothing depends on how fast a machine is."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("faults"))
    try:
        yield running
    finally:
        running.close()


class Told:
    """What the client said of records and offsets, while faults went on."""

    def __init__(self, cluster: Cluster, topic: str, rng: Random) -> None:
        self.bootstrap: str = cluster.options["bootstrap.servers"]
        self.topic = topic
        self.rng = rng
        self.sent: set[bytes] = set()
        self.acknowledged: dict[bytes, tuple[int, int]] = {}
        self.seen: dict[TopicPartition, set[int]] = defaultdict(set)
        self.committed: dict[TopicPartition, int] = {}
        self.over = False

    async def send(self, producer: Producer, task: int) -> None:
        """Send numbered records of one key; some calls are cancelled, their records may be sent."""
        number = 0

        def hear(value: bytes, delivery: Delivery) -> None:
            if delivery.error is None:
                self.acknowledged[value] = (delivery.metadata.partition, delivery.metadata.offset)

        while not self.over:
            number += 1
            value = b"%d:%d" % (task, number)
            self.sent.add(value)
            limit_s = 0.001 if self.rng.random() < 0.1 else LIMIT_S
            with trio.move_on_after(limit_s):
                delivery = await producer.enqueue(self.topic, value, key=b"%d" % task)
                delivery.add_callback(partial(hear, value))
                if self.rng.random() < 0.5:
                    await delivery.result()

    async def read(self, protocol: str, life_s: float) -> None:
        """Be a member for a while, which ends in peace or not, and commit in between."""
        consumer = Consumer(
            self.bootstrap,
            group_id=f"{self.topic}-{protocol}",
            group_protocol="consumer" if protocol == "consumer" else "classic",
            auto_offset_reset="earliest",
            auto_commit_interval_ms=100,
        )
        with trio.move_on_after(life_s if self.rng.random() < 0.5 else LIMIT_S):
            end_s = trio.current_time() + life_s
            async with consumer:
                consumer.subscribe(self.topic)
                while trio.current_time() < end_s:
                    for record in await consumer.poll(max_records=50, timeout_ms=200):
                        self.seen[record.topic_partition].add(record.offset)
                    if self.rng.random() < 0.2:
                        consumer.commit_soon()

    async def keep_reading(self, protocol: str) -> None:
        while not self.over:
            try:
                await self.read(protocol, self.rng.uniform(0.5, 4))
            except QuorateError:  # refused for a moment: it is about what was committed, not this
                await trio.sleep(0.1)

    async def watch(self, protocol: str) -> None:
        """Note how far was committed."""
        async with Admin(self.bootstrap) as admin:
            while not self.over:
                with suppress(QuorateError):
                    found = await admin.list_group_offsets(f"{self.topic}-{protocol}")
                    for partition, told in found.items():
                        before = self.committed.get(partition, 0)
                        self.committed[partition] = max(before, told.offset)
                await trio.sleep(0.1)


async def break_something(cluster: Cluster, rng: Random) -> None:
    """Kill and start a broker, or pause it."""
    broker_id = rng.choice(cluster.broker_ids)
    broker = cluster.brokers[broker_id]
    if rng.random() < 0.5:
        broker.process.send_signal(signal.SIGSTOP)
        try:
            await trio.sleep(rng.uniform(0.2, 3))
        finally:
            broker.process.send_signal(signal.SIGCONT)
        return
    broker.kill()
    cluster.start(broker_id)
    await trio.to_thread.run_sync(cluster.brokers[broker_id].wait_until_ready)


async def read_all(told: Told) -> dict[bytes, tuple[int, int]]:
    """Return where each value is; every value once, and those of a key in order."""
    found: dict[bytes, tuple[int, int]] = {}
    last: dict[bytes, int] = {}
    async with Consumer(told.bootstrap, auto_offset_reset="earliest") as consumer:
        await consumer.assign_topics(told.topic)
        ends = await consumer.end_offsets(consumer.assignment)
        while any([await consumer.wait_for_position(p) < end for p, end in ends.items()]):
            for record in await consumer.poll():
                key, value = record.key or b"", record.value or b""
                assert value not in found, f"{value!r} twice: {found[value]}, {record.offset}"
                found[value] = (record.partition, record.offset)
                number = int(value.partition(b":")[2])
                assert number > last.get(key, 0), f"{value!r} stands behind {last[key]}"
                last[key] = number
    return found


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_what_the_client_told_is_true_whatever_brokers_die_or_hang(
    cluster: Cluster, protocol: str
) -> None:
    seed = Random().randrange(2**32)
    told = Told(cluster, f"faults-{protocol}", Random(seed))
    await trio.to_thread.run_sync(lambda: cluster.create(told.topic, partitions=PARTITIONS))
    try:
        with trio.fail_after(LIMIT_S):
            await live_through_faults(cluster, told, protocol)
            found = await read_all(told)
    except BaseException as error:
        error.add_note(f"the seed was {seed}")
        raise
    assert found.keys() <= told.sent
    wrong = {v: where for v, where in told.acknowledged.items() if found.get(v) != where}
    assert not wrong, f"acknowledged, and not there: {len(wrong)}, {sorted(wrong.items())[:3]}"
    for partition, offset in told.committed.items():
        unread = set(range(offset)) - told.seen[partition]
        assert not unread, f"{partition}: committed {offset}, never given out {sorted(unread)[:3]}"


async def live_through_faults(cluster: Cluster, told: Told, protocol: str) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(told.keep_reading, protocol)
        nursery.start_soon(told.keep_reading, protocol)
        nursery.start_soon(told.watch, protocol)
        async with (
            Producer(told.bootstrap, buffer_memory_bytes=100_000) as producer,
            trio.open_nursery() as senders,
        ):
            for task in range(TASKS):
                senders.start_soon(told.send, producer, task)
            for _ in range(FAULTS):
                await trio.sleep(told.rng.uniform(0.2, 1))
                await break_something(cluster, told.rng)
            told.over = True
