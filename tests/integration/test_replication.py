"""Three brokers and a controller as processes: what acks=all is worth when they are ended."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import AdminClient

from quorate.tools.log_files import batches_of
from tests.robustness.node import Process
from tests.robustness.quorum_network import free_ports

pytestmark = pytest.mark.slow

BROKER_IDS = (1, 2, 3)
LAG_S = 1.5
SESSION_S = 3.0
WAIT_S_MAX = 60.0

BROKER_PROPERTIES = {
    "replica.lag.time.max.ms": str(int(LAG_S * 1000)),
    "broker.heartbeat.interval.ms": "300",
}


def words_of(properties: dict[str, str]) -> list[str]:
    return [word for name, value in properties.items() for word in ("-X", f"{name}={value}")]


class Cluster:
    """The processes, and clients of theirs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.controller_port, *self.ports = free_ports(1 + len(BROKER_IDS))
        self.controller = self._start("controller", "100", self.controller_port)
        self.brokers: dict[int, Process] = {}
        for broker_id in BROKER_IDS:
            self.start(broker_id)
        for broker in self.brokers.values():
            broker.wait_until_ready()
        servers = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self.options: dict[str, Any] = {"bootstrap.servers": servers, "log_level": 0}
        self.admin = AdminClient(self.options)

    def _start(self, role: str, node_id: str, port: int) -> Process:
        directory = self.directory / f"{role}-{node_id}"
        directory.mkdir(exist_ok=True)
        words = [role, "start", "--id", node_id, "--dir", str(directory)]
        if role == "controller":
            words += ["--listen", f"127.0.0.1:{port}"]
            words += words_of({"broker.session.timeout.ms": str(int(SESSION_S * 1000))})
        else:
            words += ["--controllers", f"127.0.0.1:{self.controller_port}", "--port", str(port)]
            words += words_of(BROKER_PROPERTIES)
        process = Process(words, self.directory / f"{role}-{node_id}.log", {})
        if role == "controller":
            process.wait_until_ready()
        return process

    def start(self, broker_id: int) -> None:
        self.brokers[broker_id] = self._start("broker", str(broker_id), self.ports[broker_id - 1])

    def close(self) -> None:
        for process in [*self.brokers.values(), self.controller]:
            process.kill()

    def create(self, topic: str, **configs: str) -> None:
        properties = {name.replace("_", "."): value for name, value in configs.items()}
        admin: Any = kafka_admin
        client: Any = self.admin
        client.create_topics([admin.NewTopic(topic, 1, 3, config=properties)])[topic].result()
        wait_until(lambda: len(self.isr(topic)) == 3, "everybody is in sync at first")

    def partition(self, topic: str) -> Any:
        return self.admin.list_topics(topic, timeout=10).topics[topic].partitions[0]

    def leader(self, topic: str) -> int:
        return int(self.partition(topic).leader)

    def isr(self, topic: str) -> set[int]:
        return set(self.partition(topic).isrs)

    def isr_at(self, broker_id: int, topic: str) -> set[int]:
        """Return the ISR as one broker has it."""
        server = f"127.0.0.1:{self.ports[broker_id - 1]}"
        admin = AdminClient({**self.options, "bootstrap.servers": server})
        return set(admin.list_topics(topic, timeout=10).topics[topic].partitions[0].isrs)

    def producer(self, **options: Any) -> Producer:
        return Producer({**self.options, "acks": "all", "linger.ms": 0, **options})

    def logs(self, topic: str) -> list[bytes]:
        """Return what each broker has of the topic, as bytes."""
        paths = [self.directory / f"broker-{i}" / f"{topic}-0" for i in BROKER_IDS]
        return [b"".join(f.read_bytes() for f in sorted(p.glob("*.log"))) for p in paths]


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + WAIT_S_MAX
    while not holds():
        assert time.monotonic() < deadline_s, f"not within {WAIT_S_MAX} s: {what}"
        time.sleep(0.05)


def send(producer: Producer, topic: str, value: bytes) -> KafkaError | None:
    """Produce a record, wait for what became of it, and return the error if it was one."""
    heard: list[KafkaError | None] = []
    producer.produce(topic, value, on_delivery=lambda error, _: heard.append(error))
    producer.flush(WAIT_S_MAX)
    return heard[0]


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


def test_a_record_that_a_paused_follower_lacks_is_acknowledged_once_the_smaller_isr_is_committed(
    cluster: Cluster,
) -> None:
    cluster.create("paused")
    producer = cluster.producer()
    assert send(producer, "paused", b"a") is None
    leader = cluster.leader("paused")
    paused = next(broker_id for broker_id in BROKER_IDS if broker_id != leader)
    process = cluster.brokers[paused].process
    process.send_signal(signal.SIGSTOP)
    try:
        started_s = time.monotonic()
        assert send(producer, "paused", b"b") is None
        waited_s = time.monotonic() - started_s
        assert waited_s > LAG_S / 2
        assert paused not in cluster.isr_at(leader, "paused")
    finally:
        process.send_signal(signal.SIGCONT)
    wait_until(lambda: paused in cluster.isr("paused"), "it is in sync when it goes on")
    wait_until(lambda: len(set(cluster.logs("paused"))) == 1, "it has what it missed")


def test_with_too_few_in_sync_acks_all_is_refused_and_acks_1_is_not(cluster: Cluster) -> None:
    cluster.create("few", min_insync_replicas="3")
    assert send(cluster.producer(), "few", b"a") is None
    leader = cluster.leader("few")
    stopped = next(broker_id for broker_id in BROKER_IDS if broker_id != leader)
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
    assert cluster.brokers[leader].stop() == 0
    assert cluster.leader("stopped") != leader
    cluster.start(leader)
    cluster.brokers[leader].wait_until_ready()
    wait_until(lambda: len(cluster.isr("stopped")) == 3, "the stopped broker is in sync again")


def test_the_last_one_to_stop_and_the_others_find_together_again(cluster: Cluster) -> None:
    cluster.create("all")
    assert send(cluster.producer(), "all", b"a") is None
    for broker_id in BROKER_IDS:
        cluster.brokers[broker_id].kill()
    for broker_id in BROKER_IDS:
        cluster.start(broker_id)
    for broker_id in BROKER_IDS:
        cluster.brokers[broker_id].wait_until_ready()

    def all_in_sync() -> bool:
        try:
            return len(cluster.isr("all")) == 3
        except KafkaException:
            return False

    wait_until(all_in_sync, "a cluster whose brokers were all killed serves again")
    assert send(cluster.producer(), "all", b"b") is None
    wait_until(lambda: len(set(cluster.logs("all"))) == 1, "all have the same")
