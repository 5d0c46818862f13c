"""`python -m quorate.tools.bench.replicated`: three brokers, RF 3, acks=all; beside Apache Kafka's.

Both clusters run through all scenarios, one after the other and never at once: six processes, or
three JVMs, are as much as two cores can bear. The rounds take turns.
"""

import sys
import time
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

from quorate.dataclass import dataclass

if __name__ == "__main__":
    # Benchmarks share their peers with the tests, which are not installed.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from quorate.tools.bench import command_line, figures, topics
from quorate.tools.bench.clusters import BROKERS, Cluster, Kind, kinds
from quorate.tools.bench.figures import Metric, Sample
from quorate.tools.bench.measuring import (
    Bench,
    PageCache,
    generator,
    run_generator,
    wait_until_quiet,
)
from quorate.tools.bench.runner import FAILURES, attempt
from quorate.tools.bench.scenarios import BATCHES, RECORDS_PER_CPU_S, remove_topic

CONSOLE_COLUMNS = 160
MIN_IN_SYNC = {"min.insync.replicas": "2"}
SETTLE_S = 2.0
MEMORY = Metric("rss_bytes", "resident memory of all processes", "B", "less")


class Scenario(command_line.Measurable, Protocol):
    """Something to be measured on each cluster."""

    def measure(self, bench: Bench, cluster: Cluster) -> Sample:
        """Measure once; raises MeasurementFailedError and what the peers raise."""
        ...


@contextmanager
def replicated_topic(cluster: Cluster, partitions: int) -> Generator[str]:
    """Give a topic on all three brokers that goes with its data."""
    topic = f"p{partitions}_{time.monotonic_ns()}"
    first = cluster.brokers[0].bootstrap
    topics.create_topic(
        first, topic, partitions=partitions, config=MIN_IN_SYNC, replicas=len(cluster.brokers)
    )
    try:
        yield topic
    finally:
        remove_topic(first, topic, [broker.directory for broker in cluster.brokers])


@dataclass(frozen=True, slots=True)
class Produce:
    """librdkafka sends as fast as it can, acks=all."""

    value_bytes: int
    partitions: int

    @property
    def name(self) -> str:
        """A short name."""
        return f"produce-{self.value_bytes}-p{self.partitions}"

    @property
    def title(self) -> str:
        """A name for people."""
        return f"produce {self.value_bytes} B, {self.partitions} partition(s), RF 3, acks=all"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Rate, rate per CPU, and memory."""
        return figures.RECORDS_PER_S, RECORDS_PER_CPU_S, MEMORY

    def measure(self, bench: Bench, cluster: Cluster) -> Sample:
        """Send to a new topic for a while."""
        with replicated_topic(cluster, self.partitions) as topic:
            load = [str(self.partitions), str(self.value_bytes), str(bench.warmup_s)]
            load += [str(bench.seconds), "0", "acks=all", *BATCHES["default batches"]]
            return run_generator(
                bench, cluster, [generator("produce"), cluster.bootstrap, topic, *load]
            )


@dataclass(frozen=True, slots=True)
class Latency:
    """One record at a time, acks=all, to its acknowledgement."""

    name = "sync"
    title = "one record at a time, RF 3, acks=all, to its acknowledgement"
    metrics = (figures.P50, figures.P99, figures.P999)

    def measure(self, bench: Bench, cluster: Cluster) -> Sample:
        """Measure on a new topic; longer than a throughput, for the quantiles' sake."""
        with replicated_topic(cluster, 1) as topic:
            load = ["100", "0", str(bench.warmup_s), str(2 * bench.seconds), "acks=all"]
            return run_generator(
                bench, cluster, [generator("latency"), "sync", cluster.bootstrap, topic, *load]
            )


def scenarios() -> list[Scenario]:
    """Return all scenarios in the order in which they run."""
    produced = [Produce(size, partitions) for size in (100, 1024) for partitions in (1, 6)]
    return [Latency(), *produced]


def measure_kind(
    kind: Kind, chosen: Sequence[Scenario], bench: Bench, samples: dict[str, list[Sample]]
) -> None:
    """Start a cluster, warm it up, and run every scenario on it once."""
    try:
        with kind.running() as cluster, closing(PageCache()) as page_cache:
            time.sleep(SETTLE_S)
            attempt(lambda: Produce(100, 1).measure(bench, cluster))
            for scenario in chosen:
                page_cache.fill()
                wait_until_quiet(bench.quiet_wait_s)
                sample = attempt(lambda s=scenario: s.measure(bench, cluster))  # type: ignore[misc]
                ended = cluster.log_tail() if sample.failure else ""
                samples[scenario.name].append(
                    Sample(
                        sample.figures, f"{sample.failure}; {ended}" if ended else sample.failure
                    )
                )
    except FAILURES as error:
        for scenario in chosen:
            samples[scenario.name].append(Sample({}, failure=str(error)))


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code: 1 if a sample failed."""
    session = command_line.begin("replicated", __doc__, arguments, scenarios(), kinds, rounds=2)
    return session.finish(session.kind_by_kind(measure_kind), brokers=BROKERS)


if __name__ == "__main__":
    command_line.run(main)
