"""`python -m quorate.tools.bench.rolling`: three brokers, RF 3, each stopped and started in turn.

A producer of librdkafka (acks=all, idempotent) sends 1,000 records a second to six partitions
meanwhile: how long the longest of them had to wait for its acknowledgement, and how many failed.
"""

import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from statistics import quantiles
from typing import Any

from confluent_kafka import Producer

from quorate.dataclass import dataclass

if __name__ == "__main__":
    # Benchmarks share their peers with the tests, which are not installed.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import quorate
from quorate.tools.bench import command_line, topics
from quorate.tools.bench.clusters import BROKERS
from quorate.tools.bench.figures import Metric, Outcome, Sample
from quorate.tools.bench.measuring import MeasurementFailedError, wait_until_quiet
from quorate.tools.bench.partitions import SETTLED_S_MAX, SUBJECT, Many, sample
from tests.compat.peers.nodes import HOST

TOPIC = "rolled"
PARTITIONS = 6
BETWEEN_S = 2.0
PAUSE_S = 0.001

METRICS = (
    Metric("stall_ms", "longest wait for an acknowledgement", "ms", "less"),
    Metric("p99_ms", "p99", "ms", "less"),
    Metric("failed", "records that failed", "", "less"),
    Metric("records", "records", "", "more"),
)


@dataclass(slots=True)
class Load:
    """What became of the records; one thread writes it."""

    waits_ms: list[float] = field(default_factory=list[float])
    failed: int = 0

    def send(self, producer: Producer, sent_s: float, partition: int) -> None:
        """Hand over a record."""

        def delivered(error: Any, _: object) -> None:
            self.failed += error is not None
            self.waits_ms.append(1000 * (time.monotonic() - sent_s))

        producer.produce(TOPIC, b"value", partition=partition, on_delivery=delivered)
        producer.poll(0)


@contextmanager
def under_load(bootstrap: str) -> Generator[Load]:
    """Send all the while; at the end of the block wait for what is under way."""
    load, over = Load(), threading.Event()
    properties = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0}
    producer = Producer({**properties, "enable.idempotence": True})

    def run() -> None:
        sent = 0
        while not over.wait(PAUSE_S):
            load.send(producer, time.monotonic(), sent % PARTITIONS)
            sent += 1
        load.failed += producer.flush(SETTLED_S_MAX)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield load
    finally:
        over.set()
        thread.join()


def measure(many: Many) -> dict[str, float]:
    """Restart all brokers in turn.

    Raises:
        MeasurementFailedError: replicas did not get in sync again, or nothing was acknowledged.
    """
    first = f"{HOST}:{many.ports[0]}"
    config = {"min.insync.replicas": "2"}
    topics.create_topic(first, TOPIC, partitions=PARTITIONS, config=config, replicas=BROKERS)
    many.wait_until(many.all_in_sync)
    with under_load(many.bootstrap) as load:
        time.sleep(BETWEEN_S)
        load.waits_ms.clear()  # its first ones waited for connections and a producer id
        for place in range(BROKERS):
            many.restart(place)
            many.wait_until(many.all_in_sync)
            time.sleep(BETWEEN_S)
    if not load.waits_ms:
        raise MeasurementFailedError("nothing was acknowledged")
    return {
        "stall_ms": max(load.waits_ms),
        "p99_ms": quantiles(load.waits_ms, n=100)[-1],
        "failed": load.failed,
        "records": len(load.waits_ms),
    }


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code: 1 if a sample failed."""
    options = command_line.parser("rolling", __doc__, rounds=3).parse_args(arguments)
    samples: list[Sample] = []
    for _ in range(options.rounds):
        wait_until_quiet(options.quiet_wait)
        samples.append(sample(PARTITIONS, measure))
    outcome = Outcome("rolling", "rolling restart", METRICS, {SUBJECT: tuple(samples)})
    console, versions = command_line.console(), {SUBJECT: quorate.__version__}
    return command_line.finish(console, options, [outcome], versions=versions, settings={})


if __name__ == "__main__":
    command_line.run(main)
