"""Three brokers and a controller as processes: what acks=all is worth when they are ended."""

import hashlib
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from quorate.errors import ErrorCode
from quorate.protocol.messages.data import PartitionProduceResponse
from quorate.records.record import ProducerStamp
from quorate.tools.log_files import batches_of
from tests.compat.wire import Wire
from tests.integration.brokers import LAG_S, SESSION_S, WAIT_S_MAX, Cluster, send, wait_until
from tests.unit.broker.log.batches import headers_of, make_batch

pytestmark = pytest.mark.slow

RETRIES = 1000
REMEMBERED = 5
"""Batches of a producer that a retry may be of (Kafka's ProducerStateEntry)."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("replication"))
    yield running
    running.close()


def test_a_killed_leader_is_replaced_loses_nothing_and_is_in_sync_again_when_it_is_back(
    cluster: Cluster,
) -> None:
    cluster.create("killed", min_insync_replicas="2")
    producer = cluster.producer(**{"enable.idempotence": True})
    assert [send(producer, "killed", b"%d" % i) for i in range(20)] == [None] * 20
    killed = cluster.leader("killed")
    cluster.brokers[killed].kill()
    started_s = time.monotonic()
    assert [send(producer, "killed", b"%d" % i) for i in range(20, 40)] == [None] * 20
    assert time.monotonic() - started_s < SESSION_S + 10
    assert cluster.leader("killed") != killed
    cluster.start(killed)
    cluster.brokers[killed].wait_until_ready()
    wait_until(lambda: len(cluster.isr("killed")) == 3, "the killed broker is in sync again")
    assert len(set(cluster.logs("killed"))) == 1
    paths = (cluster.directory / "broker-1" / "killed-0").glob("*.log")
    counts = [batch.header.record_count for path in paths for _, batch in batches_of(path)]
    assert sum(counts) == 40, "each record is there once"


def test_retries_are_told_their_first_offsets_by_the_next_leader_too_and_what_is_read_is_the_same(
    cluster: Cluster,
) -> None:
    """Of each request sent twice, only one answer is read before the next is sent."""
    cluster.create("retried", min_insync_replicas="2")
    batches = [make_batch([b"%d" % n], producer=ProducerStamp(4711, 0, n)) for n in range(RETRIES)]
    leader = cluster.leader("retried")
    with closing(connect(cluster, leader)) as one, closing(connect(cluster, leader)) as other:
        unheard, heard = Wire(one), Wire(other)
        told: list[int] = []
        for batch in batches:
            unheard.post_produce("retried", batch)
            told.append(offset_of(heard.produce("retried", batch)))
        late = [offset_of(unheard.produced()) for _ in batches]
        assert told == late == [*range(RETRIES)]
        before = digest_of(heard, "retried", 100, 900)
    cluster.brokers[leader].kill()
    wait_until(lambda: cluster.leader("retried") not in (leader, -1), "another one leads")
    with closing(connect(cluster, cluster.leader("retried"))) as sock:
        wire = Wire(sock)
        for number in range(RETRIES - REMEMBERED, RETRIES):
            assert offset_of(wire.produce("retried", batches[number])) == number
        assert digest_of(wire, "retried", 100, 900) == before
        assert wire.fetch("retried", 0).high_watermark == RETRIES
    cluster.start(leader)
    cluster.brokers[leader].wait_until_ready()
    wait_until(lambda: len(cluster.isr("retried")) == 3, "the killed broker is in sync again")
    assert len(set(cluster.logs("retried"))) == 1


def connect(cluster: Cluster, broker_id: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", cluster.ports[broker_id]), WAIT_S_MAX)


def offset_of(answer: PartitionProduceResponse) -> int:
    assert ErrorCode(answer.error_code) is ErrorCode.NONE
    return answer.base_offset


def digest_of(wire: Wire, topic: str, first: int, end: int) -> str:
    """Return the SHA-256 of all bytes of a range of offsets, batches of one record."""
    digest = hashlib.sha256()
    while first < end:
        data = bytes(cast("memoryview", wire.fetch(topic, first).records))
        batches = [header for header in headers_of(data) if header.base_offset < end]
        digest.update(data[: sum(header.size_bytes for header in batches)])
        first = batches[-1].last_offset + 1
    return digest.hexdigest()


def test_a_record_that_a_paused_follower_lacks_is_acknowledged_once_the_smaller_isr_is_committed(
    cluster: Cluster,
) -> None:
    cluster.create("paused")
    producer = cluster.producer()
    assert send(producer, "paused", b"a") is None
    leader = cluster.leader("paused")
    paused = next(broker_id for broker_id in cluster.broker_ids if broker_id != leader)
    process = cluster.brokers[paused].process
    process.send_signal(signal.SIGSTOP)
    try:
        started_s = time.monotonic()
        assert send(producer, "paused", b"b") is None
        waited_s = time.monotonic() - started_s
        assert waited_s > LAG_S / 2
        # The leader goes by what the controllers answered; its Metadata may follow a moment later.
        wait_until(lambda: paused not in cluster.isr_at(leader, "paused"), "the ISR is smaller")
    finally:
        process.send_signal(signal.SIGCONT)
    wait_until(lambda: paused in cluster.isr("paused"), "it is in sync when it goes on")
    wait_until(lambda: len(set(cluster.logs("paused"))) == 1, "it has what it missed")


def test_with_too_few_in_sync_acks_all_is_refused_and_acks_1_is_not(cluster: Cluster) -> None:
    cluster.create("few", min_insync_replicas="3")
    assert send(cluster.producer(), "few", b"a") is None
    leader = cluster.leader("few")
    stopped = next(broker_id for broker_id in cluster.broker_ids if broker_id != leader)
    assert cluster.brokers[stopped].stop() == 0
    wait_until(lambda: len(cluster.isr("few")) == 2, "who stops leaves the ISR")
    length = len(cluster.logs("few")[leader - 1])
    error = send(cluster.producer(retries=0), "few", b"b")
    assert error is not None
    assert error.code() == KafkaError.NOT_ENOUGH_REPLICAS
    assert len(cluster.logs("few")[leader - 1]) == length
    assert send(cluster.producer(acks=1), "few", b"c") is None
    cluster.start(stopped)
    cluster.brokers[stopped].wait_until_ready()
    wait_until(lambda: len(cluster.isr("few")) == 3, "who is back is in sync again")
    assert send(cluster.producer(), "few", b"d") is None


def test_a_leader_that_is_told_to_stop_hands_over_first(cluster: Cluster) -> None:
    cluster.create("stopped", min_insync_replicas="2")
    producer = cluster.producer(**{"enable.idempotence": True})
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            errors.append(error)

    leader = cluster.leader("stopped")
    for value in range(200):
        producer.produce("stopped", b"%d" % value, on_delivery=delivered)
        producer.poll(0.005)
        if value == 100:
            cluster.brokers[leader].process.send_signal(signal.SIGTERM)
    assert producer.flush(WAIT_S_MAX) == 0
    assert errors == []
    # Not told a second time while it lives: that would end it at once, if it is all but gone.
    cluster.brokers[leader].process.wait(WAIT_S_MAX)
    assert cluster.brokers[leader].stop() == 0
    assert cluster.leader("stopped") != leader
    cluster.start(leader)
    cluster.brokers[leader].wait_until_ready()
    wait_until(lambda: len(cluster.isr("stopped")) == 3, "the stopped broker is in sync again")


def test_the_last_one_to_stop_and_the_others_find_together_again(cluster: Cluster) -> None:
    cluster.create("all")
    assert send(cluster.producer(), "all", b"a") is None
    for broker_id in cluster.broker_ids:
        cluster.brokers[broker_id].kill()
    for broker_id in cluster.broker_ids:
        cluster.start(broker_id)
    for broker_id in cluster.broker_ids:
        cluster.brokers[broker_id].wait_until_ready()

    def all_in_sync() -> bool:
        try:
            return len(cluster.isr("all")) == 3
        except KafkaException:
            return False

    wait_until(all_in_sync, "a cluster whose brokers were all killed serves again")
    assert send(cluster.producer(), "all", b"b") is None
    wait_until(lambda: len(set(cluster.logs("all"))) == 1, "all have the same")


def test_after_all_were_stopped_one_after_the_other_everybody_is_in_sync_again(
    cluster: Cluster,
) -> None:
    """The last one to stop is the only one in sync; the first ones are let in again."""
    cluster.create("rested", partitions=6, min_insync_replicas="2")
    producer = cluster.producer()
    assert [send(producer, "rested", b"%d" % i) for i in range(6)] == [None] * 6
    for broker_id in cluster.broker_ids:
        assert cluster.brokers[broker_id].stop() == 0
    for broker_id in cluster.broker_ids:
        cluster.start(broker_id)
    for broker_id in cluster.broker_ids:
        cluster.brokers[broker_id].wait_until_ready()

    def all_in_sync() -> bool:
        try:
            return all(len(cluster.isr("rested", number)) == 3 for number in range(6))
        except KafkaException:
            return False

    wait_until(all_in_sync, "every ISR is complete again")
    assert send(cluster.producer(), "rested", b"after") is None
