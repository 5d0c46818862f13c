"""Python clients against each other, on the first of the brokers."""

import sys

from quorate.dataclass import dataclass
from quorate.tools.bench import figures, topics
from quorate.tools.bench.client_load import CONSUMERS, PRODUCERS
from quorate.tools.bench.figures import Metric, Sample
from quorate.tools.bench.measuring import Bench, run_anywhere
from quorate.tools.bench.scenarios import (
    SelfContained,
    Subject,
    have_in_memory,
    preload,
    remove_topic,
    temporary_topic,
)

RECORDS_PER_CLIENT_CPU_S = Metric(
    "records_per_client_cpu_s", "per client CPU second", "records/s", "more"
)
PRELOAD_RECORDS_PER_S = 1_500_000
PRELOAD_BYTES_PER_S = 300_000_000
"""How much is there to read for each second; a client that is faster is measured for less."""


def client_command(subject: Subject, action: str) -> list[str]:
    """Return the start of the command line that runs the subject's client.

    It is not pinned to a core: confluent-kafka has threads that can use a second one.
    """
    module = [sys.executable, "-m", "quorate.tools.bench.client_load"]
    return [*module, action, subject.name, subject.node.bootstrap]


@dataclass(frozen=True, slots=True)
class ClientProduce(SelfContained):
    """Each client sends as fast as it can, acks=1, one partition."""

    value_bytes: int
    clients: tuple[str, ...] = tuple(PRODUCERS)

    @property
    def name(self) -> str:
        """A short name."""
        return f"client-produce-{self.value_bytes}"

    @property
    def title(self) -> str:
        """A name for people."""
        return f"client sends {self.value_bytes} B"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Rate, and rate per CPU."""
        return figures.RECORDS_PER_S, RECORDS_PER_CLIENT_CPU_S

    def measure(self, bench: Bench, subject: Subject) -> Sample:
        """Send to a new topic for a while."""
        with temporary_topic(subject.node, partitions=1, config={}) as topic:
            load = [topic, self.value_bytes, bench.warmup_s, bench.seconds, 0]
            command = [*client_command(subject, "produce"), *map(str, load)]
            return run_anywhere(subject.node, command)


@dataclass(frozen=True, slots=True)
class ClientConsume:
    """Each client reads from the beginning: what it assigns itself, and in a group of its own."""

    value_bytes: int
    clients: tuple[str, ...] = tuple(CONSUMERS)

    @property
    def name(self) -> str:
        """A short name."""
        return f"client-consume-{self.value_bytes}"

    @property
    def title(self) -> str:
        """A name for people."""
        return f"client reads {self.value_bytes} B"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Rate, and rate per CPU."""
        return figures.RECORDS_PER_S, RECORDS_PER_CLIENT_CPU_S

    def prepare(self, bench: Bench, subject: Subject) -> None:
        """Fill a topic for this client."""
        node, topic = subject.node, self._topic(subject)
        topics.create_topic(node.bootstrap, topic, partitions=1, config={})
        preload(
            bench,
            node,
            topic=topic,
            partitions=1,
            value_bytes=self.value_bytes,
            records=self._records(bench),
        )

    def measure(self, bench: Bench, subject: Subject) -> Sample:
        """Read it."""
        have_in_memory(subject.node, self._topic(subject))
        load = [self._topic(subject), self.value_bytes, 0, bench.seconds, self._records(bench)]
        command = [*client_command(subject, "consume"), *map(str, load)]
        return run_anywhere(subject.node, command)

    def clean(self, bench: Bench, subject: Subject) -> None:  # noqa: ARG002 - of the protocol
        """Remove the topic."""
        node = subject.node
        remove_topic(node.bootstrap, self._topic(subject), [node.directory])

    def _topic(self, subject: Subject) -> str:
        return f"p1_read_by_{subject.name}_{self.value_bytes}"

    def _records(self, bench: Bench) -> int:
        per_second = min(PRELOAD_RECORDS_PER_S, PRELOAD_BYTES_PER_S // self.value_bytes)
        return int(per_second * bench.seconds)
