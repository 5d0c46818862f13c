"""Five replicas: how many may die before writing stops, and before anything is lost."""

from collections.abc import Iterator, Sequence
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from quorate.tools.log_files import batches_of
from tests.integration.brokers import WAIT_S_MAX, Cluster, send, wait_until

pytestmark = pytest.mark.slow

FIVE = (1, 2, 3, 4, 5)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("five"), FIVE)
    yield running
    running.close()


def is_out_of_sync(cluster: Cluster, topic: str, broker_id: int) -> bool:
    return broker_id not in cluster.isr(topic)


def kill(cluster: Cluster, topic: str, broker_ids: Sequence[int]) -> None:
    """Kill brokers one after the other, each when the one before is out of the ISR."""
    for broker_id in broker_ids:
        cluster.brokers[broker_id].kill()
        wait_until(partial(is_out_of_sync, cluster, topic, broker_id), "it is not in sync")


def bring_back(cluster: Cluster, topic: str) -> None:
    dead = [broker_id for broker_id in FIVE if not cluster.brokers[broker_id].is_alive]
    for broker_id in dead:
        cluster.start(broker_id)
    for broker_id in dead:
        cluster.brokers[broker_id].wait_until_ready()
    wait_until(lambda: len(cluster.isr(topic)) == 5, "all are in sync again")
    wait_until(lambda: len(set(cluster.logs(topic))) == 1, "all have the same")


def records_of(cluster: Cluster, topic: str) -> int:
    paths = (cluster.directory / "broker-1" / f"{topic}-0").glob("*.log")
    return sum(batch.header.record_count for path in paths for _, batch in batches_of(path))


def code_of(cluster: Cluster, topic: str) -> int | None:
    """Produce a record without trying again; return the error's code if there is one."""
    error = send(cluster.producer(retries=0), topic, b"refused?")
    return None if error is None else error.code()


def read(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({**cluster.options, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        messages = consumer.consume(count, WAIT_S_MAX)
    finally:
        consumer.close()
    return [message.value() or b"" for message in messages]


def test_with_five_of_five_required_one_failure_stops_writing_and_four_lose_nothing(
    cluster: Cluster,
) -> None:
    cluster.create("five", min_insync_replicas="5")
    producer = cluster.producer()
    for value in range(20):
        assert send(producer, "five", b"%d" % value) is None
        assert len(set(cluster.logs("five"))) == 1, "each has it before it is acknowledged"
    leader = cluster.leader("five")
    others = [broker_id for broker_id in FIVE if broker_id != leader]
    kill(cluster, "five", others[:1])
    assert code_of(cluster, "five") == KafkaError.NOT_ENOUGH_REPLICAS
    kill(cluster, "five", [leader, *others[1:3]])
    bring_back(cluster, "five")
    assert records_of(cluster, "five") == 20
    assert send(cluster.producer(), "five", b"20") is None


def test_with_three_of_five_required_two_failures_change_nothing_and_three_stop_writing(
    cluster: Cluster,
) -> None:
    cluster.create("three", min_insync_replicas="3")
    leader = cluster.leader("three")
    others = [broker_id for broker_id in FIVE if broker_id != leader]
    kill(cluster, "three", others[:2])
    producer = cluster.producer()
    sent = [b"%d" % value for value in range(20)]
    assert [send(producer, "three", value) for value in sent] == [None] * 20
    kill(cluster, "three", others[2:3])
    assert code_of(cluster, "three") == KafkaError.NOT_ENOUGH_REPLICAS
    assert read(cluster, "three", 20) == sent
    bring_back(cluster, "three")
    assert records_of(cluster, "three") == 20
