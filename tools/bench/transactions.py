"""`python -m quorate.tools.bench.transactions`: transactions, RF 3; beside Apache Kafka's.

A client sends 100 records of 100 bytes to three partitions and commits them, again and again; then
it does the same without transactions, and waits for the acknowledgements instead. The ratio of the
two is the price of exactly-once.
"""

import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from quorate.dataclass import dataclass

if __name__ == "__main__":
    # Benchmarks share their peers with the tests, which are not installed.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import quorate
from quorate.net.ports import free_ports
from quorate.tools.bench import command_line, figures
from quorate.tools.bench.clusters import (
    BROKERS,
    Cluster,
    Kind,
    format_kraft_nodes,
    three_brokers_and_three_controllers,
)
from quorate.tools.bench.figures import Metric, Outcome, Sample
from quorate.tools.bench.measuring import LOADGEN, Bench, run_anywhere, wait_until_quiet
from quorate.tools.bench.replicated import replicated_topic
from quorate.tools.bench.runner import FAILURES, attempt
from tests.compat.peers import java, nodes

RECORDS: Final = 100
VALUE_BYTES: Final = 100
PARTITIONS: Final = 3
CLIENTS: Final = ("java", "librdkafka", "quorate")
SETTLE_S: Final = 2.0
TURNS = Metric("turns_per_s", "", "/s", "more")
CPU = Metric("broker_cpu_ms_per_turn", "CPU of all nodes for one", "ms", "less")

REPLICATED: Final = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
"""What Kafka has by default, and what a single node of a test has not."""


@contextmanager
def three_kraft_nodes() -> Generator[Cluster]:
    """Run three nodes of Kafka that keep their coordinators' state on all three."""
    with nodes.temporary_folder() as folder, ExitStack() as stack:
        ports, controller_ports = free_ports(BROKERS), free_ports(BROKERS)
        files = format_kraft_nodes(folder, ports, controller_ports, REPLICATED)
        brokers = [
            nodes.launch_kafka(file, port=port, directory=file.parent, cores="")
            for port, file in zip(ports, files, strict=True)
        ]
        for broker in brokers:
            stack.callback(broker.stop)
        for broker in brokers:
            broker.wait_until_it_listens(nodes.START_TIMEOUT_S)
        yield Cluster(tuple(brokers), ())


def kinds(*, with_kafka: bool) -> list[Kind]:
    """Return ours, and Kafka's; raises PeerUnavailableError where it cannot be had."""
    ours = Kind("quorate", quorate.__version__, three_brokers_and_three_controllers)
    if not with_kafka:
        return [ours]
    java.kafka_folder()
    return [ours, Kind("kafka", java.KAFKA_VERSION, three_kraft_nodes)]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One client, with transactions or without."""

    client: str
    transactional: bool

    @property
    def name(self) -> str:
        """A short name for the command line."""
        return f"{self.client}-{'transactions' if self.transactional else 'plain'}"

    @property
    def title(self) -> str:
        """A name for people."""
        what = "committed" if self.transactional else "acknowledged, without transactions"
        return f"{self.client}: {RECORDS} records of {VALUE_BYTES} B, {what}, RF 3"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """How many times a second, how long one takes, what it costs."""
        return TURNS, figures.P50, figures.P99, CPU

    def measure(self, bench: Bench, cluster: Cluster) -> Sample:
        """Send to a new topic for a while."""
        with replicated_topic(cluster, PARTITIONS) as topic:
            kind = "transactional" if self.transactional else "plain"
            load = [cluster.bootstrap, topic, PARTITIONS, VALUE_BYTES, RECORDS, bench.warmup_s]
            words = [*map(str, load), str(bench.seconds), kind]
            sample = run_anywhere(cluster, [*self._program(), *words])
        turns = sample.figures["turns_per_s"] * sample.figures["seconds"]
        cpu_ms = 1e3 * sample.figures["broker_cores"] * sample.figures["seconds"] / turns
        return Sample({**sample.figures, "broker_cpu_ms_per_turn": cpu_ms}, failure="")

    def _program(self) -> list[str]:
        if self.client != "java":
            return [sys.executable, "-m", "quorate.tools.bench.transaction_load", self.client]
        classes = java.compile_java(LOADGEN / "java")
        options = ("-Xmx256M", "-XX:+UseSerialGC")
        return java.java_command("TransactionLoad", [], options=options, classes=[classes])


def scenarios() -> list[Scenario]:
    """Return all scenarios in the order in which they run."""
    return [Scenario(client, kind) for client in CLIENTS for kind in (True, False)]


def measure_kind(
    kind: Kind, chosen: Sequence[Scenario], bench: Bench, samples: dict[str, list[Sample]]
) -> None:
    """Start a cluster, warm it up, and run every scenario on it once."""
    try:
        with kind.running() as cluster:
            time.sleep(SETTLE_S)
            attempt(lambda: Scenario("librdkafka", transactional=True).measure(bench, cluster))
            for scenario in chosen:
                wait_until_quiet(bench.quiet_wait_s)
                sample = attempt(lambda s=scenario: s.measure(bench, cluster))  # type: ignore[misc]
                samples[scenario.name].append(sample)
    except FAILURES as error:
        for scenario in chosen:
            samples[scenario.name].append(Sample({}, failure=str(error)))


def prices(outcomes: Sequence[Outcome], names: Sequence[str]) -> list[str]:
    """Return what exactly-once costs, by client and cluster: transactional to plain."""
    by_name = {outcome.name: outcome for outcome in outcomes}
    lines: list[str] = []
    for client in CLIENTS:
        pair = [by_name.get(f"{client}-{kind}") for kind in ("transactions", "plain")]
        if pair[0] is None or pair[1] is None:
            continue
        for name in names:
            with_, without = (each.median(name, TURNS.key) for each in pair if each is not None)
            if with_ and without:
                lines.append(f"{client} on {name}: {with_ / without:.2f} of plain")
    return lines


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code: 1 if a sample failed."""
    session = command_line.begin("transactions", __doc__, arguments, scenarios(), kinds, rounds=2)
    outcomes = session.kind_by_kind(measure_kind)
    code = session.finish(outcomes, brokers=BROKERS, records=RECORDS)
    session.console.print("The price of exactly-once:")
    for line in prices(outcomes, [kind.name for kind in session.kinds]):
        session.console.print(f"  {line}")
    return code


if __name__ == "__main__":
    command_line.run(main)
