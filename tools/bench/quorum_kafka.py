"""One topic of very many partitions, made by an AdminClient: Quorate beside Apache Kafka.

Each sample is taken on nodes of its own, warmed up with smaller topics.
"""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from quorate.dataclass import dataclass
from quorate.tools.bench import topics
from quorate.tools.bench.brokers import fresh_node, kafka_broker, quorate_broker
from quorate.tools.bench.figures import Metric, Outcome, Sample
from quorate.tools.bench.measuring import MeasurementFailedError, wait_until_quiet
from quorate.tools.bench.quorum_cluster import QUORATE, quorum
from quorate.tools.bench.runner import FAILURES, Announce
from quorate.tools.bench.topics import Address
from tests.compat.peers import nodes
from tests.compat.peers.nodes import Node

PARTITIONS = 9_900
"""Kafka makes at most 10,000 records out of one request, and some are not partitions."""
WARM_UPS = 5
WARM_UP_PARTITIONS = 200
TIMEOUT_S = 120.0
POLL_S = 0.05

METRICS = (
    Metric("answered_ms", "answered", "ms", "less"),
    Metric("led_ms", "all partitions have a leader", "ms", "less"),
    Metric("cpu_ms", "CPU time of the broker's process until then", "ms", "less"),
)

Serving = Callable[[], AbstractContextManager[Node]]
"""Runs a broker and its controllers on fresh disks; gives the broker."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Who is measured."""

    name: str
    serving: Serving


@contextmanager
def three_controllers_and_a_broker() -> Generator[Node]:
    """Run four processes of ours."""
    with quorum() as controllers:
        port = nodes.free_port()
        directory = controllers.folder / "broker"
        words = ["--controllers", controllers.bootstrap, "--dir", str(directory / "data")]
        node = nodes.launch(
            "broker",
            [*QUORATE, "broker", "start", "--id", "101", "--port", str(port), *words],
            port=port,
            directory=directory,
            cores="",
            env=nodes.QUORATE_ENV,
        )
        with nodes.running(node):
            yield node


def subjects(*, with_kafka: bool) -> list[Subject]:
    """Return who is measured: one node of ours, one of Kafka's, and a quorum of ours."""
    ours = quorate_broker()
    alone = Subject(ours.name, lambda: fresh_node(ours, cores=""))
    three = Subject("quorate, 3 controllers", three_controllers_and_a_broker)
    if not with_kafka:
        return [alone, three]
    kafka = kafka_broker()
    return [alone, Subject(kafka.name, lambda: fresh_node(kafka, cores="")), three]


def compare(chosen: Sequence[Subject], *, rounds: int, announce: Announce) -> Outcome:
    """Measure all in turn, so many times."""
    samples: dict[str, list[Sample]] = {subject.name: [] for subject in chosen}
    for number in range(1, rounds + 1):
        for subject in chosen:
            announce(f"AdminClient: {subject.name}, round {number} of {rounds}")
            samples[subject.name].append(_sample(subject))
    return Outcome(
        f"admin-create-{PARTITIONS}",
        f"AdminClient creates {PARTITIONS:,} partitions in one request",
        METRICS,
        {name: tuple(found) for name, found in samples.items()},
    )


def _sample(subject: Subject) -> Sample:
    try:
        with subject.serving() as node:
            return _measure(node)
    except (*FAILURES, KafkaException) as error:
        return Sample({}, failure=str(error) or type(error).__name__)


def _measure(node: Node) -> Sample:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    for number in range(WARM_UPS):
        _create(admin, f"warm-up-{number}", WARM_UP_PARTITIONS)
        _wait_for_leaders(node, f"warm-up-{number}", WARM_UP_PARTITIONS)
    wait_until_quiet(5.0)
    begun_s, cpu_s = time.monotonic(), node.cpu_seconds()
    _create(admin, "large", PARTITIONS)
    answered_s = time.monotonic() - begun_s
    _wait_for_leaders(node, "large", PARTITIONS)
    led_s = time.monotonic() - begun_s
    figures = {
        "answered_ms": 1000 * answered_s,
        "led_ms": 1000 * led_s,
        "cpu_ms": 1000 * (node.cpu_seconds() - cpu_s),
    }
    return Sample({**figures, "rss_bytes": node.memory().rss_bytes}, failure="")


def _create(admin: AdminClient, name: str, partitions: int) -> None:
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1)
    created = cast("Any", admin).create_topics(
        [topic], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S
    )
    created[name].result(TIMEOUT_S)


def _wait_for_leaders(node: Node, name: str, partitions: int) -> None:
    address, body = Address.parse(node.bootstrap), topics.metadata_body(name)
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        answer = topics.ask(address, topics.METADATA, topics.METADATA_VERSION, body)
        leaders = topics.leaders_in(answer)
        if len(leaders) == partitions and min(leaders) >= 0:
            return
        time.sleep(POLL_S)
    raise MeasurementFailedError(f"{name} has no leaders after {TIMEOUT_S} s")
