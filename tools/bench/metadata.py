"""`python -m quorate.tools.bench.metadata`: the metadata of a very large cluster in one process.

Thousands of brokers and hundreds of thousands of partitions go through a controller's decisions
and its state machine.  Prints what that costs: memory, time (of the clock and of the processor),
and how long a loop that has other things to do, such as heartbeats, had to wait at most.

With ``--controllers``, three processes with disks hold it, too: how soon another one acts when
their leader ends.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Generator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, TypeVar

import psutil
import trio

from quorate.dataclass import dataclass

if __name__ == "__main__":
    # Benchmarks share their peers with the tests, which are not installed.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from quorate.control import messages as m
from quorate.control.frames import Frame, encode_frame
from quorate.model import NO_LEADER, Endpoint
from quorate.net.collector import OF_CONTROLLERS, calm_collector
from quorate.quorum.control import brokers, topics
from quorate.quorum.control.decision import Decision
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.features import SUPPORTED, bootstrap_records
from quorate.quorum.metadata.machine import Committed, MetadataMachine, encode_command
from quorate.tools.bench import metadata_failover

RACKS: Final = 10
PER_REQUEST: Final = 10_000
LARGE_REQUEST: Final = 10_000
CHANGES: Final = 1000
TICK_S: Final = 0.001
MIB: Final = 2**20

T = TypeVar("T")


@dataclass(slots=True)
class Report:
    """What was measured; times are in ms."""

    figures: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def timed(self, name: str) -> Generator[None]:
        """Measure what happens inside, in this thread."""
        started_s, cpu_started_s = time.perf_counter(), time.thread_time()
        yield
        self.figures[f"{name}_ms"] = (time.perf_counter() - started_s) * 1000
        self.figures[f"{name}_cpu_ms"] = (time.thread_time() - cpu_started_s) * 1000


class Cluster:
    """Owns the state machine of one controller, and commits decisions to it."""

    def __init__(self, brokers_count: int, seed: int) -> None:
        self.machine = MetadataMachine()
        self.index = 0
        self.rng = Random(seed)  # noqa: S311 - nothing here is secret
        self.records = 0
        self.apply_cpu_s = 0.0
        self.commit(bootstrap_records("cluster", 0))
        self.commit(tuple(self._broker(number) for number in range(brokers_count)))

    def _broker(self, broker_id: int) -> r.BrokerRegistered:
        return r.BrokerRegistered(
            cause=f"broker {broker_id} registered",
            time_ms=0,
            broker_id=broker_id,
            broker_epoch=1,
            incarnation_id=self.rng.randbytes(16),
            directory_id=self.rng.randbytes(16),
            endpoints={"PLAINTEXT": Endpoint(f"host-{broker_id}.example.org", 9092)},
            rack=f"rack-{broker_id % RACKS}",
            fenced=False,
            features=tuple(SUPPORTED.values()),
        )

    def commit(self, records: Sequence[r.MetadataRecord]) -> int:
        """Commit records as a controller does, without the disk; return the command's size."""
        command = encode_command(self.machine.image.version, records)
        self.index += 1
        started_s = time.thread_time()
        result = self.machine.apply(self.index, 1, command)
        self.apply_cpu_s += time.thread_time() - started_s
        self.records += len(records)
        assert isinstance(result, Committed), result
        return len(command)

    def create(self, names: Sequence[str], partitions: int, replicas: int) -> m.CreateTopicsAnswer:
        """Create topics with one request."""
        decision = self.decide_creation(names, partitions, replicas)
        self.commit(decision.records)
        return decision.answer

    def decide_creation(
        self, names: Sequence[str], partitions: int, replicas: int
    ) -> Decision[m.CreateTopicsAnswer]:
        """Decide on one request for topics."""
        request = m.CreateTopics(tuple(m.NewTopic(name, partitions, replicas) for name in names))
        defaults = topics.TopicDefaults(1, 1)
        return topics.create_topics(self.machine.image, request, defaults, 0, self.rng)


def rss_mib() -> float:
    """Return the resident memory of this process."""
    return float(psutil.Process().memory_info().rss) / MIB


def fill(options: argparse.Namespace, report: Report) -> Cluster:
    """Make the cluster with all of its topics."""
    before_mib = rss_mib()
    cluster = Cluster(options.brokers, options.seed)
    names = [f"topic-{n:06d}" for n in range(options.partitions // options.per_topic)]
    at_once = max(1, PER_REQUEST // options.per_topic)
    cluster.records, cluster.apply_cpu_s = 0, 0.0
    with report.timed("created"):
        for first in range(0, len(names), at_once):
            cluster.create(names[first : first + at_once], options.per_topic, options.replicas)
    report.figures["records"] = cluster.records
    report.figures["applied_records_per_cpu_s"] = cluster.records / cluster.apply_cpu_s
    report.figures["rss_growth_mib"] = rss_mib() - before_mib
    return cluster


def one_large_request(cluster: Cluster, options: argparse.Namespace, report: Report) -> None:
    """Create one topic of very many partitions: each step stalls the loop for its time."""
    count = min(LARGE_REQUEST, options.partitions)
    with report.timed("large_request_decided"):
        decision = cluster.decide_creation(["large"], count, options.replicas)
    with report.timed("large_request_encoded"):
        command = encode_command(cluster.machine.image.version, decision.records)
    cluster.index += 1
    with report.timed("large_request_applied"):
        result = cluster.machine.apply(cluster.index, 1, command)
    with report.timed("large_request_answered"):
        encode_frame(Frame(1, decision.answer))
    assert isinstance(result, Committed)
    report.figures["large_request_command_bytes"] = len(command)


def small_changes(cluster: Cluster, report: Report) -> None:
    """Change one partition after the other, a command for each."""
    names = list(cluster.machine.image.topics)
    with report.timed("small_changes"):
        for _ in range(CHANGES):
            topic = cluster.machine.image.topics[cluster.rng.choice(names)]
            state = topic.partitions[0]
            change = r.PartitionChanged(
                cause="AlterPartition",
                time_ms=0,
                topic_id=topic.topic_id,
                partition=0,
                leader_id=state.leader_id,
                leader_epoch=state.leader_epoch,
                isr=(state.leader_id,) if len(state.isr) > 1 else state.replicas,
            )
            cluster.commit((change,))
    report.figures["small_changes_per_cpu_s"] = (
        CHANGES * 1000 / report.figures["small_changes_cpu_ms"]
    )


def fail_over(cluster: Cluster, gone: AbstractSet[int], name: str, report: Report) -> None:
    """Fence brokers that fall silent together; what they led moves."""
    sessions = brokers.Sessions(0, timeout_ms=1)
    for broker_id in cluster.machine.image.brokers:
        if broker_id not in gone:
            sessions.touch(broker_id, 1000)
    moved = commands = 0
    longest_s = 0.0
    with report.timed(name):
        while True:
            begun_s = time.thread_time()
            records = brokers.fence_stale(cluster.machine.image, sessions, brokers.Now(1000, 0))
            if not records:
                break
            cluster.commit(records)
            longest_s = max(longest_s, time.thread_time() - begun_s)
            moved += sum(isinstance(record, r.PartitionChanged) for record in records)
            commands += 1
    report.figures[f"{name}_partitions"] = moved
    report.figures[f"{name}_commands"] = commands
    report.figures[f"{name}_longest_command_cpu_ms"] = 1000 * longest_s
    left = [s for t in cluster.machine.image.topics.values() for s in t.partitions]
    assert not any(state.leader_id in gone for state in left)
    report.figures[f"{name}_leaderless"] = sum(s.leader_id == NO_LEADER for s in left)


def fail_overs(cluster: Cluster, report: Report) -> None:
    """Lose the broker that leads the first partition, and then a rack of others."""
    image = cluster.machine.image
    victim = next(iter(image.topics.values())).partitions[0].leader_id
    fail_over(cluster, {victim}, "failover", report)
    rack = next(b.rack for b in image.brokers.values() if b.rack != image.brokers[victim].rack)
    racked = {b.broker_id for b in image.brokers.values() if b.rack == rack}
    fail_over(cluster, racked, "rack_failover", report)


class Watch:
    """Sees how long the loop is kept from its other tasks."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def run(self) -> None:
        """Look at the clock all the time."""
        while True:
            before_s = time.perf_counter()
            await trio.sleep(TICK_S)
            self.longest_s = max(self.longest_s, time.perf_counter() - before_s - TICK_S)


async def in_thread(report: Report, name: str, work: Callable[[], T]) -> T:
    """Do work in a thread as a node does, and note how long it took and kept the loop waiting."""
    watch = Watch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        await trio.sleep(TICK_S)
        result = await trio.to_thread.run_sync(partial(timed_work, report, name, work))
        await trio.sleep(2 * TICK_S)
        nursery.cancel_scope.cancel()
    report.figures[f"{name}_longest_stall_ms"] = watch.longest_s * 1000
    return result


def timed_work(report: Report, name: str, work: Callable[[], T]) -> T:
    """Do work and note how long it took."""
    with report.timed(name):
        return work()


async def snapshots(cluster: Cluster, report: Report) -> None:
    """Write a snapshot, write the next one, and read it on another node."""
    data = await in_thread(report, "snapshot_written", cluster.machine.freeze())
    report.figures["snapshot_bytes"] = len(data)
    small_changes(cluster, Report())
    data = await in_thread(report, "next_snapshot_written", cluster.machine.freeze())
    other = MetadataMachine()
    take_over = await in_thread(report, "snapshot_read", lambda: other.prepare(data))
    with report.timed("snapshot_taken_over"):
        take_over()
    assert other.image.version == cluster.machine.image.version
    assert len(other.image.topics) == len(cluster.machine.image.topics)


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Do everything in turn."""
    report = Report()
    cluster = fill(options, report)
    one_large_request(cluster, options, report)
    fail_overs(cluster, report)
    small_changes(cluster, report)
    trio.run(snapshots, cluster, report)
    report.figures["rss_mib"] = rss_mib()
    return report.figures


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    options = argparse.ArgumentParser(
        prog="python -m quorate.tools.bench.metadata", description=__doc__
    )
    options.add_argument("--brokers", type=int, default=2000)
    options.add_argument("--partitions", type=int, default=200_000)
    options.add_argument("--per-topic", type=int, default=10, help="partitions (%(default)s)")
    options.add_argument("--replicas", type=int, default=3)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--controllers", action="store_true", help="fail over three of them, too")
    options.add_argument("--json", action="store_true", help="for programs")
    return options


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    options = parser().parse_args(arguments)
    calm_collector(OF_CONTROLLERS)
    figures = measure(options)
    if options.controllers:
        load = metadata_failover.Load(
            options.brokers, RACKS, options.partitions, LARGE_REQUEST // 2, options.replicas
        )
        figures |= metadata_failover.measure(load)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:<36}{value:>16,.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
