"""What is measured on nodes of its own: start-up, and what idle connections cost."""

import os
import resource
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from statistics import median

from quorate.dataclass import dataclass
from quorate.tools.bench import requests, topics
from quorate.tools.bench.brokers import fresh_node
from quorate.tools.bench.figures import Metric, Sample
from quorate.tools.bench.measuring import Bench, MeasurementFailedError
from quorate.tools.bench.scenarios import RSS, SelfContained, Subject, preload
from tests.compat.peers import nodes

STARTUP_TIMEOUT_S = 120.0
RETRY_INTERVAL_S = 0.001
SETTLE_S = 2.0
TOPIC = "p1_startup"
PRELOAD_VALUE_BYTES = 1024

# ApiVersions version 0 of client "b", which every broker answers before anything else.
API_VERSIONS = struct.pack(">ihhih", 11, 18, 0, 1, 1) + b"b"


def first_ack(port: int, request: requests.PreparedRequest, *, deadline_s: float) -> None:
    """Send a Produce request, over and over, until the broker that is starting acknowledges it."""
    while time.monotonic() < deadline_s:
        try:
            with socket.create_connection((nodes.HOST, port), timeout=5.0) as connection:
                while time.monotonic() < deadline_s:
                    connection.sendall(request.frame)
                    if requests.error_code(request, topics.receive_frame(connection)) == 0:
                        return
                    time.sleep(RETRY_INTERVAL_S)
        except OSError:  # not listening yet, or listening and not ready
            time.sleep(RETRY_INTERVAL_S)
    raise MeasurementFailedError("no write was acknowledged in time")


@dataclass(frozen=True, slots=True)
class Startup(SelfContained):
    """From starting the process, cleanly stopped before, to the first acknowledged write."""

    @property
    def name(self) -> str:
        """A short name."""
        return "startup"

    @property
    def title(self) -> str:
        """A name for people."""
        return "start to first acknowledged write"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Time, and memory of a node that does nothing."""
        idle = Metric("rss_bytes", "then idle: resident memory", "B", "less")
        return Metric("start_ms", "", "ms", "less"), idle

    def measure(self, bench: Bench, subject: Subject) -> Sample:
        """Start, fill, stop, start again and wait for an acknowledgement."""
        request = requests.produce_request(TOPIC, partitions=1, records=1, value_bytes=100, acks=1)
        broker, cores = subject.broker, bench.broker_cores
        with nodes.temporary_folder() as directory:
            port = nodes.free_port()
            broker.prepare(directory, port)
            with nodes.running(broker.launch(directory, port, cores)) as node:
                self._fill(bench, node)
            begin = time.monotonic()
            node = broker.launch(directory, port, cores)
            try:
                first_ack(port, request, deadline_s=begin + STARTUP_TIMEOUT_S)
                start_ms = (time.monotonic() - begin) * 1e3
                time.sleep(SETTLE_S)
                rss_bytes = node.memory().rss_bytes
            finally:
                node.stop()
        return Sample({"start_ms": start_ms, "rss_bytes": rss_bytes}, failure="")

    def _fill(self, bench: Bench, node: nodes.Node) -> None:
        topics.create_topic(node.bootstrap, TOPIC, partitions=1, config={})
        preload(
            bench,
            node,
            topic=TOPIC,
            partitions=1,
            value_bytes=PRELOAD_VALUE_BYTES,
            records=max(1, bench.startup_bytes // PRELOAD_VALUE_BYTES),
        )


@dataclass(frozen=True, slots=True)
class CliStart(SelfContained):
    """What somebody waits for who lists topics: our command line, asking either broker."""

    runs: int

    @property
    def name(self) -> str:
        """A short name."""
        return "cli-start"

    @property
    def title(self) -> str:
        """A name for people."""
        return "quorate topics list, with the answer"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Time, and the processor's share of it."""
        return Metric("wall_ms", "", "ms", "less"), Metric("cpu_ms", "processor", "ms", "less")

    def measure(self, bench: Bench, subject: Subject) -> Sample:
        """Run the command again and again; the first time fills caches."""
        with fresh_node(subject.broker, cores=bench.broker_cores) as node:
            command = [sys.executable, "-m", "quorate.tools.cli", "topics", "list"]
            command += ["-b", node.bootstrap]
            env = {**os.environ, **nodes.QUORATE_ENV}
            subprocess.run(command, check=True, capture_output=True, env=env)  # noqa: S603
            walls: list[float] = []
            cpu_s = _cpu_of_children()
            for _ in range(self.runs):
                begin = time.monotonic()
                subprocess.run(command, check=True, capture_output=True, env=env)  # noqa: S603
                walls.append((time.monotonic() - begin) * 1e3)
            cpu_ms = (_cpu_of_children() - cpu_s) / self.runs * 1e3
        return Sample({"wall_ms": median(walls), "cpu_ms": cpu_ms}, failure="")


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True, slots=True)
class IdleConnections(SelfContained):
    """What connections cost on which nothing happens after the first request."""

    connections: int

    @property
    def name(self) -> str:
        """A short name."""
        return f"idle-{self.connections}"

    @property
    def title(self) -> str:
        """A name for people."""
        return f"{self.connections:,} idle connections"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Memory and CPU."""
        cores = Metric("broker_cores", "CPU", "cores", "less")
        return Metric("added_bytes", "added resident memory", "B", "less"), cores, RSS

    def measure(self, bench: Bench, subject: Subject) -> Sample:
        """Compare a node's memory with and without them."""
        with fresh_node(subject.broker, cores=bench.broker_cores) as node:
            with connected(node, 10):  # what the first connections bring with them stays
                time.sleep(SETTLE_S)
            before = node.memory().rss_bytes
            with connected(node, self.connections):
                time.sleep(SETTLE_S)
                cpu_s, begin = node.cpu_seconds(), time.monotonic()
                time.sleep(bench.seconds)
                used_s, seconds = node.cpu_seconds() - cpu_s, time.monotonic() - begin
                after = node.memory().rss_bytes
        figures = {
            "seconds": seconds,
            "broker_cores": used_s / seconds,
            "added_bytes": max(0, after - before),
            "rss_bytes": after,
        }
        return Sample(figures, failure="")


@contextmanager
def connected(node: nodes.Node, count: int) -> Generator[None]:
    """Hold so many connections on which one request was answered."""
    with ExitStack() as stack:
        for _ in range(count):
            connection = socket.create_connection((nodes.HOST, node.port), timeout=10.0)
            stack.enter_context(connection)
            connection.sendall(API_VERSIONS)
            topics.receive_frame(connection)
        yield
