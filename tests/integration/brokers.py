"""Brokers and a controller as processes, which are killed, stopped, paused and started again."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Producer
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import AdminClient

from quorate.net.ports import free_ports
from tests.robustness.node import Process

LAG_S = 1.5
SESSION_S = 3.0
WAIT_S_MAX = 60.0
ANY = -1
"""The partition of a record that may be in any."""

BROKER_PROPERTIES = {"broker.heartbeat.interval.ms": "300"}


def words_of(properties: Mapping[str, str]) -> list[str]:
    return [word for name, value in properties.items() for word in ("-X", f"{name}={value}")]


@dataclass(frozen=True)
class Security:
    """Over which protocol brokers are reached, and what they and their clients need for it."""

    protocol: str = "PLAINTEXT"
    broker: Mapping[str, str] = field(default_factory=dict[str, str])
    client: Mapping[str, Any] = field(default_factory=dict[str, Any])


PLAIN = Security()


class Cluster:
    """The processes, and clients of theirs."""

    def __init__(
        self,
        directory: Path,
        broker_ids: Sequence[int] = (1, 2, 3),
        security: Security = PLAIN,
        session_s: float | None = SESSION_S,
        racks: Mapping[int, str] | None = None,
        *,
        variables: Mapping[int, Mapping[str, str]] | None = None,
        lag_s: float = LAG_S,
    ) -> None:
        """Start a controller, with its own session timeout unless told, and the brokers.

        ``variables`` are what some brokers have in their environment.
        """
        self.directory = directory
        self.broker_ids = tuple(broker_ids)
        self.security = security
        self.racks = racks or {}
        self.variables = variables or {}
        self.properties = {**BROKER_PROPERTIES, "replica.lag.time.max.ms": str(int(lag_s * 1000))}
        self.controller_port, *ports = free_ports(1 + len(self.broker_ids))
        self.ports = dict(zip(self.broker_ids, ports, strict=True))
        sessions = (
            {} if session_s is None else {"broker.session.timeout.ms": str(int(session_s * 1000))}
        )
        self.brokers: dict[int, Process] = {}
        words = ["--listen", f"127.0.0.1:{self.controller_port}", *words_of(sessions)]
        self.controller = self._start("controller", "100", words, {})
        try:
            self.controller.wait_until_ready()
            for broker_id in self.broker_ids:
                self.start(broker_id)
            for broker in self.brokers.values():
                broker.wait_until_ready()
        except BaseException:
            self.close()
            raise
        servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        self.options: dict[str, Any] = {
            "bootstrap.servers": servers, "log_level": 0, **security.client
        }  # fmt: skip
        self.admin = AdminClient(self.options)

    def _start(
        self, role: str, node_id: str, words: list[str], variables: Mapping[str, str]
    ) -> Process:
        directory = self.directory / f"{role}-{node_id}"
        directory.mkdir(exist_ok=True)
        words = [role, "start", "--id", node_id, "--dir", str(directory), *words]
        return Process(words, self.directory / f"{role}-{node_id}.log", variables)

    def start(self, broker_id: int) -> None:
        properties = {**self.properties, **self.security.broker}
        if broker_id in self.racks:
            properties["broker.rack"] = self.racks[broker_id]
        listen = f"{self.security.protocol}://127.0.0.1:{self.ports[broker_id]}"
        words = ["--controllers", f"127.0.0.1:{self.controller_port}", "--listen", listen]
        words += words_of(properties)
        variables = self.variables.get(broker_id, {})
        self.brokers[broker_id] = self._start("broker", str(broker_id), words, variables)

    def close(self) -> None:
        for process in [*self.brokers.values(), self.controller]:
            process.kill()

    def create(self, topic: str, *, partitions: int = 1, **configs: str) -> None:
        """Create a topic with a replica on every broker."""
        properties = {name.replace("_", "."): value for name, value in configs.items()}
        count = len(self.broker_ids)
        admin: Any = kafka_admin
        client: Any = self.admin
        new = admin.NewTopic(topic, partitions, count, config=properties)
        client.create_topics([new])[topic].result()
        wait_until(lambda: len(self.isr(topic)) == count, "everybody is in sync at first")

    def partition(self, topic: str, number: int = 0) -> Any:
        return self.admin.list_topics(topic, timeout=10).topics[topic].partitions[number]

    def leader(self, topic: str) -> int:
        return int(self.partition(topic).leader)

    def isr(self, topic: str, number: int = 0) -> set[int]:
        return set(self.partition(topic, number).isrs)

    def isr_at(self, broker_id: int, topic: str) -> set[int]:
        """Return the ISR as one broker has it."""
        server = f"127.0.0.1:{self.ports[broker_id]}"
        admin = AdminClient({**self.options, "bootstrap.servers": server})
        return set(admin.list_topics(topic, timeout=10).topics[topic].partitions[0].isrs)

    def producer(self, **options: Any) -> Producer:
        return Producer({**self.options, "acks": "all", "linger.ms": 0, **options})

    def logs(self, topic: str, number: int = 0) -> list[bytes]:
        """Return what each broker has of a partition, as bytes."""
        paths = [self.directory / f"broker-{i}" / f"{topic}-{number}" for i in self.broker_ids]
        return [b"".join(f.read_bytes() for f in sorted(p.glob("*.log"))) for p in paths]


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + WAIT_S_MAX
    while not holds():
        assert time.monotonic() < deadline_s, f"not within {WAIT_S_MAX} s: {what}"
        time.sleep(0.05)


def send(producer: Producer, topic: str, value: bytes, number: int = ANY) -> KafkaError | None:
    """Produce a record, wait for what became of it, and return the error if it was one."""
    heard: list[KafkaError | None] = []
    producer.produce(
        topic, value, partition=number, on_delivery=lambda error, _: heard.append(error)
    )
    producer.flush(WAIT_S_MAX)
    return heard[0]
