"""Transactions of a stock client on three brokers, one of which is killed in the midst of one."""

import os
import signal
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from quorate.broker.shards.shards import partition_of
from quorate.broker.shards.topics import TRANSACTIONS_TOPIC
from tests.integration.brokers import WAIT_S_MAX, Cluster, wait_until

TOPIC = "paid"
PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("transactions"))
    try:
        running.create(TOPIC, partitions=PARTITIONS)
        yield running
    finally:
        running.close()


def producer_of(cluster: Cluster, transactional_id: str) -> Producer:
    producer = cluster.producer(**{"transactional.id": transactional_id})
    producer.init_transactions(WAIT_S_MAX)
    return producer


def consumer_of(cluster: Cluster, group_id: str) -> Consumer:
    return Consumer(
        {
            **cluster.options,
            "group.id": group_id,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )


class Reader:
    """What a consumer sees of committed transactions."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self.consumer = consumer_of(cluster, "reader")
        self.consumer.assign([TopicPartition(topic, n, 0) for n in range(partitions)])
        self.values: list[str] = []

    def sees(self, *values: str) -> bool:
        message: Any = self.consumer.poll(0.2)
        if message is not None and not message.error():
            self.values.append(message.value().decode())
        return sorted(self.values) == sorted(values)


def tells(cluster: Cluster, event: str) -> bool:
    return any(event in broker.log() for broker in cluster.brokers.values())


def coordinator_of(cluster: Cluster, transactional_id: str) -> int:
    partitions = cluster.admin.list_topics(TRANSACTIONS_TOPIC, timeout=10)
    count = len(partitions.topics[TRANSACTIONS_TOPIC].partitions)
    partition = partition_of(transactional_id, count)
    return int(cluster.partition(TRANSACTIONS_TOPIC, partition).leader)


def test_records_and_offsets_of_a_transaction_count_together_or_not_at_all(
    cluster: Cluster,
) -> None:
    producer, consumer = producer_of(cluster, "copier"), consumer_of(cluster, "copiers")
    read = [TopicPartition(TOPIC, n, n + 5) for n in range(PARTITIONS)]
    for number, commit in enumerate((True, False, True)):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, f"{number}-{partition}", partition=partition)
        if number < 2:
            offsets = [TopicPartition(p.topic, p.partition, p.offset + number) for p in read]
            metadata: Any = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(offsets, metadata, WAIT_S_MAX)
        if commit:
            producer.commit_transaction(WAIT_S_MAX)
        else:
            producer.abort_transaction(WAIT_S_MAX)
    reader = Reader(cluster, TOPIC, PARTITIONS)
    seen = [f"{number}-{partition}" for number in (0, 2) for partition in range(PARTITIONS)]
    wait_until(lambda: reader.sees(*seen), "what was committed is seen")
    committed: Any = consumer.committed(read, timeout=10)
    assert [each.offset for each in committed] == [5, 6, 7]
    newer = producer_of(cluster, "copier")
    with suppress(KafkaException):
        producer.begin_transaction()
        producer.produce(TOPIC, "zombie", partition=0)
        producer.flush(WAIT_S_MAX)
        producer.commit_transaction(WAIT_S_MAX)
        pytest.fail("a newer producer has the id")
    newer.begin_transaction()
    newer.produce(TOPIC, "newer", partition=0)
    newer.commit_transaction(WAIT_S_MAX)
    wait_until(lambda: reader.sees(*seen, "newer"), "the newer producer goes on")
    consumer.close()
    reader.consumer.close()


def test_the_next_coordinator_writes_the_markers_of_one_that_was_killed_before(
    cluster: Cluster,
) -> None:
    cluster.create("debts")
    leader = cluster.leader("debts")
    ids = (f"payer-{number}" for number in range(99))
    transactional_id = next(i for i in ids if coordinator_of(cluster, i) != leader)
    coordinator = coordinator_of(cluster, transactional_id)
    producer = producer_of(cluster, transactional_id)
    producer.begin_transaction()
    producer.produce("debts", b"settled")
    assert producer.flush(WAIT_S_MAX) == 0
    paused = cluster.brokers[leader].pid
    os.kill(paused, signal.SIGSTOP)
    try:
        # Answered when the end is decided, without the leader that would have to write it.
        producer.commit_transaction(WAIT_S_MAX)
        cluster.brokers[coordinator].kill()
    finally:
        os.kill(paused, signal.SIGCONT)
    wait_until(lambda: tells(cluster, "event=txn-ends-taken-over"), "somebody carries it out")
    reader = Reader(cluster, "debts", 1)
    wait_until(lambda: reader.sees("settled"), "what was committed is seen")
    assert coordinator_of(cluster, transactional_id) != coordinator
    cluster.start(coordinator)
    cluster.brokers[coordinator].wait_until_ready()
    producer.begin_transaction()
    producer.produce("debts", b"owed")
    producer.commit_transaction(WAIT_S_MAX)
    wait_until(lambda: reader.sees("settled", "owed"), "the producer goes on")
    reader.consumer.close()
