"""What is measured against a running broker by load from outside."""

import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from quorate.dataclass import dataclass
from quorate.tools.bench import figures, requests, topics
from quorate.tools.bench.brokers import Broker
from quorate.tools.bench.figures import Metric, Sample
from quorate.tools.bench.measuring import Bench, generator, run_generator
from tests.compat.peers import nodes

RECORDS_PER_CPU_S = Metric("records_per_broker_cpu_s", "per broker CPU second", "records/s", "more")
REQUESTS_PER_CPU_S = Metric(
    "requests_per_broker_cpu_s", "per broker CPU second", "requests/s", "more"
)
RSS = Metric("rss_bytes", "resident memory", "B", "less")

# More than any broker here serves in a second, so that a consumer does not run out of records.
PRELOAD_BYTES_PER_S = 600_000_000
PRELOAD_RECORDS_PER_S = 3_000_000
READ_BYTES = 1 << 20
FILES_GONE_S_MAX = 10.0
FILES_GONE_STEP_S = 0.1

# librdkafka's settings.  Its own: 5 ms, 1,000,000 B, 10,000 records; Java's: 5 ms, 16,384 B.
BATCHES: Mapping[str, tuple[str, ...]] = {
    "default batches": (),
    "large batches": ("linger.ms=50", "batch.num.messages=100000"),
    "16 KiB batches": ("linger.ms=5", "batch.size=16384"),
}


@dataclass(frozen=True, slots=True)
class Subject:
    """A broker and the node of it that runs through all scenarios, or a client used on it."""

    broker: Broker
    node: nodes.Node
    client: str

    @property
    def name(self) -> str:
        """What its figures are filed under."""
        return self.client or self.broker.name


class Scenario(Protocol):
    """Something to be measured on each broker in turn, several times.

    `prepare` and `clean` run once per broker, `measure` once per broker and round.
    """

    @property
    def name(self) -> str:
        """A short name for the command line."""
        ...

    @property
    def title(self) -> str:
        """A name for people."""
        ...

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What is reported of a sample; more is kept."""
        ...

    @property
    def clients(self) -> tuple[str, ...]:
        """The clients that are compared on the first broker; none: the brokers are compared."""
        ...

    def prepare(self, bench: Bench, subject: Subject) -> None:
        """Make ready what all rounds share."""
        ...

    def measure(self, bench: Bench, subject: Subject) -> Sample:
        """Measure once; raises MeasurementFailedError and what the peers raise."""
        ...

    def clean(self, bench: Bench, subject: Subject) -> None:
        """Remove what `prepare` made."""
        ...


class SelfContained:
    """A scenario whose rounds share nothing."""

    __slots__ = ()
    clients: tuple[str, ...] = ()

    def prepare(self, bench: Bench, subject: Subject) -> None:
        """Nothing is shared."""

    def clean(self, bench: Bench, subject: Subject) -> None:
        """Nothing is shared."""


@contextmanager
def temporary_topic(
    node: nodes.Node, *, partitions: int, config: Mapping[str, str]
) -> Generator[str]:
    """Give a topic that goes with its data."""
    # The number of partitions also tells brokers that make topics up when first asked for.
    topic = f"p{partitions}_{time.monotonic_ns()}"
    topics.create_topic(node.bootstrap, topic, partitions=partitions, config=config)
    try:
        yield topic
    finally:
        remove_topic(node.bootstrap, topic, [node.directory])


def remove_topic(bootstrap: str, topic: str, directories: Sequence[Path]) -> None:
    """Delete a topic and wait, within reason, until its files are gone from all directories.

    The memory of their pages becomes free then: before the next sample fills it, not while it runs.
    """
    topics.delete_topic(bootstrap, topic)
    deadline = time.monotonic() + FILES_GONE_S_MAX
    while time.monotonic() < deadline and any(
        name.startswith(f"{topic}-")
        for directory in directories
        for _, names, _ in os.walk(directory)  # which leaves out what vanishes meanwhile
        for name in names
    ):
        time.sleep(FILES_GONE_STEP_S)


def preload(
    bench: Bench, node: nodes.Node, *, topic: str, partitions: int, value_bytes: int, records: int
) -> None:
    """Fill a topic with exactly so many records."""
    load = [str(partitions), str(value_bytes), "0", "0", str(records)]
    run_generator(bench, node, [generator("produce"), node.bootstrap, topic, *load])


def have_in_memory(node: nodes.Node, topic: str) -> None:
    """Read a topic's files, so that who consumes it measures no disk.

    Other topics, and what fills the page cache, may have taken its place there.
    """
    chunk = bytearray(READ_BYTES)
    for path in node.directory.rglob("*.log"):
        if path.parent.name.rpartition("-")[0] == topic:
            with path.open("rb", buffering=0) as file:
                while file.readinto(chunk):
                    pass


@dataclass(frozen=True, slots=True)
class Produce(SelfContained):
    """librdkafka sends as fast as it can, acks=1."""

    value_bytes: int
    partitions: int
    batches: str

    @property
    def name(self) -> str:
        """A short name."""
        return f"produce-{self.value_bytes}-p{self.partitions}-{self.batches.split()[0].lower()}"

    @property
    def title(self) -> str:
        """A name for people."""
        return f"produce {self.value_bytes} B, {_partitions(self.partitions)}, {self.batches}"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Rate, and rate per CPU."""
        return figures.RECORDS_PER_S, RECORDS_PER_CPU_S

    def measure(self, bench: Bench, subject: Subject) -> Sample:
        """Send to a new topic for a while."""
        node = subject.node
        with temporary_topic(node, partitions=self.partitions, config={}) as topic:
            load = [str(self.partitions), str(self.value_bytes), str(bench.warmup_s)]
            load += [str(bench.seconds), "0", "acks=1", *BATCHES[self.batches]]
            return run_generator(bench, node, [generator("produce"), node.bootstrap, topic, *load])


@dataclass(frozen=True, slots=True)
class Consume:
    """librdkafka reads from the beginning what was written shortly before (from the page cache)."""

    value_bytes: int
    partitions: int
    clients: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A short name, which is the topic's too."""
        return f"consume-{self.value_bytes}-p{self.partitions}"

    @property
    def title(self) -> str:
        """A name for people."""
        return f"consume {self.value_bytes} B, {_partitions(self.partitions)}"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Rate, and rate per CPU."""
        return figures.RECORDS_PER_S, RECORDS_PER_CPU_S

    @property
    def topic(self) -> str:
        """Where the records are."""
        return f"p{self.partitions}_consume_{self.value_bytes}"

    def records(self, bench: Bench) -> int:
        """Return how many records make the consumer busy for the time wanted."""
        per_second = min(PRELOAD_RECORDS_PER_S, PRELOAD_BYTES_PER_S // self.value_bytes)
        return int(per_second * bench.seconds)

    def prepare(self, bench: Bench, subject: Subject) -> None:
        """Fill the topic."""
        node = subject.node
        topics.create_topic(node.bootstrap, self.topic, partitions=self.partitions, config={})
        preload(
            bench,
            node,
            topic=self.topic,
            partitions=self.partitions,
            value_bytes=self.value_bytes,
            records=self.records(bench),
        )

    def measure(self, bench: Bench, subject: Subject) -> Sample:
        """Read it."""
        node = subject.node
        have_in_memory(node, self.topic)
        load = [str(self.partitions), str(self.records(bench)), str(bench.seconds)]
        return run_generator(bench, node, [generator("consume"), node.bootstrap, self.topic, *load])

    def clean(self, bench: Bench, subject: Subject) -> None:  # noqa: ARG002 - of the protocol
        """Remove the topic."""
        remove_topic(subject.node.bootstrap, self.topic, [subject.node.directory])


@dataclass(frozen=True, slots=True)
class Flood(SelfContained):
    """Prepared Produce requests over plain sockets: the broker is the bottleneck, no client is."""

    value_bytes: int
    records: int
    connections: int
    depth: int

    @property
    def name(self) -> str:
        """A short name."""
        return f"requests-{self.records}x{self.value_bytes}-c{self.connections}-d{self.depth}"

    @property
    def title(self) -> str:
        """A name for people."""
        records = "1 record" if self.records == 1 else f"{self.records} records"
        load = f"{self.connections} connection{'s' if self.connections > 1 else ''}"
        deep = f", {self.depth} in flight" if self.depth > 1 else ""
        return f"Produce requests of {records} of {self.value_bytes} B, {load}{deep}"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Rate, rate per CPU, and time to answers."""
        return figures.REQUESTS_PER_S, REQUESTS_PER_CPU_S, figures.P50, figures.P99

    def measure(self, bench: Bench, subject: Subject) -> Sample:
        """Flood a new topic."""
        node = subject.node
        with temporary_topic(node, partitions=1, config={}) as topic:
            request = requests.produce_request(
                topic, partitions=1, records=self.records, value_bytes=self.value_bytes, acks=1
            )
            file = bench.folder / "request"
            file.write_bytes(request.frame)
            errors = (request.error_offset, request.error_stride, request.error_count)
            load = [node.port, self.connections, self.depth, file, *errors]
            times = [bench.warmup_s, bench.seconds]
            sample = run_generator(bench, node, [generator("flood"), *map(str, [*load, *times])])
            records_per_s = sample.figures["requests_per_s"] * request.records
            return replace(sample, figures={**sample.figures, "records_per_s": records_per_s})


@dataclass(frozen=True, slots=True)
class Latency(SelfContained):
    """One record at a time, or end to end at a steady rate."""

    mode: str  # sync or e2e, as the generator calls them
    rate_per_s: int
    config: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """A short name."""
        return "-".join([self.mode, *(f"{key}-{value}" for key, value in self.config)])

    @property
    def title(self) -> str:
        """A name for people."""
        what = (
            f"end to end at {self.rate_per_s:,} records/s"
            if self.mode == "e2e"
            else "one record at a time, to its acknowledgement"
        )
        return ", ".join([what, *(f"{key}={value}" for key, value in self.config)])

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Quantiles."""
        return figures.P50, figures.P99, figures.P999

    def measure(self, bench: Bench, subject: Subject) -> Sample:
        """Measure on a new topic; longer than a throughput, for the quantiles' sake."""
        node = subject.node
        with temporary_topic(node, partitions=1, config=dict(self.config)) as topic:
            load = ["100", self.rate_per_s, bench.warmup_s, 2 * bench.seconds, "acks=1"]
            words = [self.mode, node.bootstrap, topic, *map(str, load)]
            return run_generator(bench, node, [generator("latency"), *words])


@dataclass(frozen=True, slots=True)
class MemoryUnderLoad(SelfContained):
    """The highest resident memory of the node that all scenarios before this one used."""

    @property
    def name(self) -> str:
        """A short name."""
        return "memory-load"

    @property
    def title(self) -> str:
        """A name for people."""
        return "highest resident memory in this run"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Memory."""
        return (replace(RSS, label=""),)

    def measure(self, bench: Bench, subject: Subject) -> Sample:  # noqa: ARG002 - of the protocol
        """Ask the kernel."""
        return Sample({"rss_bytes": subject.node.memory().rss_bytes_max}, failure="")


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"
