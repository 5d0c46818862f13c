"""Coordinators of groups as processes: killed, stopped all at once; nothing committed is lost."""

import time
from collections.abc import Callable, Generator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from quorate.broker.shards.shards import partition_of
from tests.integration.brokers import WAIT_S_MAX, Cluster, send, wait_until

GROUPS_TOPIC = "__consumer_offsets"
TOPIC = "read"
PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("groups"))
    try:
        running.create(TOPIC, partitions=PARTITIONS)
        yield running
    finally:
        running.close()


def again(call: Callable[[], Any]) -> Any:
    """Call until it succeeds, as clients do that are told to try again."""
    deadline_s = time.monotonic() + WAIT_S_MAX
    while True:
        try:
            return call()
        except KafkaException:
            if time.monotonic() > deadline_s:
                raise


class Reader:
    """A stock consumer that commits, and what was acknowledged to it."""

    def __init__(self, cluster: Cluster, group_id: str, **options: Any) -> None:
        self.group_id = group_id
        self.acknowledged: dict[int, int] = {}
        self.consumer = Consumer(
            {
                **cluster.options,
                "group.id": group_id,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 500,
                **options,
            }
        )

    def commit(self, partition: int, offset: int) -> None:
        """Commit, however often that has to be tried."""
        where = TopicPartition(TOPIC, partition, offset)
        again(lambda: self.consumer.commit(offsets=[where], asynchronous=False))
        self.acknowledged[partition] = offset

    def committed(self) -> dict[int, int]:
        asked = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        found: Any = again(lambda: self.consumer.committed(asked, timeout=10))
        return {each.partition: each.offset for each in found if each.offset >= 0}

    def read(self, count: int) -> list[str]:
        values: list[str] = []
        deadline_s = time.monotonic() + WAIT_S_MAX
        while len(values) < count:
            assert time.monotonic() < deadline_s, f"read {len(values)} of {count}"
            message: Any = self.consumer.poll(0.2)
            if message is not None and not message.error():
                values.append(message.value().decode())
        return values


def partition_count(cluster: Cluster) -> int:
    return len(cluster.admin.list_topics(GROUPS_TOPIC, timeout=10).topics[GROUPS_TOPIC].partitions)


def coordinator_of(cluster: Cluster, group_id: str) -> int:
    partition = partition_of(group_id, partition_count(cluster))
    return int(cluster.partition(GROUPS_TOPIC, partition).leader)


def test_no_offset_is_lost_that_was_committed_before_its_coordinator_was_killed(
    cluster: Cluster,
) -> None:
    readers = [Reader(cluster, f"killed-{number}") for number in range(4)]
    for offset in range(20):
        for reader in readers:
            reader.commit(offset % PARTITIONS, offset)
    victim = coordinator_of(cluster, readers[0].group_id)
    cluster.brokers[victim].kill()
    for reader in readers:
        assert reader.committed() == reader.acknowledged
    for offset in range(20, 30):
        for reader in readers:
            reader.commit(offset % PARTITIONS, offset)
    cluster.start(victim)
    cluster.brokers[victim].wait_until_ready()
    wait_until(lambda: len(cluster.isr(GROUPS_TOPIC)) == 3, "everybody is in sync again")
    for reader in readers:
        assert reader.committed() == reader.acknowledged
        reader.consumer.close()


def test_members_go_on_under_the_next_coordinator_as_if_nothing_had_been(cluster: Cluster) -> None:
    producer = cluster.producer()
    reader = Reader(cluster, "members")
    reader.consumer.subscribe([TOPIC])
    assert send(producer, TOPIC, b"first") is None
    assert reader.read(1) == ["first"]
    reader.consumer.commit(asynchronous=False)
    victim = coordinator_of(cluster, "members")
    cluster.brokers[victim].kill()
    deadline_s = time.monotonic() + WAIT_S_MAX
    while send(producer, TOPIC, b"second") is not None:
        assert time.monotonic() < deadline_s
    assert "second" in reader.read(1)
    again(lambda: reader.consumer.commit(asynchronous=False))
    assert len(reader.consumer.assignment()) == PARTITIONS
    described: Any = cluster.admin
    group = described.describe_consumer_groups(["members"])["members"].result()
    assert len(group.members) == 1
    reader.consumer.close()
    cluster.start(victim)
    cluster.brokers[victim].wait_until_ready()


def test_what_was_committed_outlives_a_kill_of_all_brokers_at_once(cluster: Cluster) -> None:
    reader = Reader(cluster, "all-killed")
    for offset in range(10):
        reader.commit(offset % PARTITIONS, offset)
    for broker in cluster.brokers.values():
        broker.kill()
    for broker_id in cluster.broker_ids:
        cluster.start(broker_id)
    for broker in cluster.brokers.values():
        broker.wait_until_ready()
    assert reader.committed() == reader.acknowledged
    reader.commit(0, 100)
    assert reader.committed() == reader.acknowledged
    reader.consumer.close()
