"""`python -m quorate.tools.bench.readers`: what readers have of partitions, and their peace.

- `curve`: readers that need a while for each record share partitions: twice as many of both read
  twice as much, until the processor is full (checklist 14).
- `crowd`: a reader's latency while a thousand others come, read and go (checklist 94).
- `compaction`: a reader's latency while another topic is compacted, as fast as it can be; and how
  well a limit of its rate is kept (checklist 101).

All of it is on one node of ours, each sample on a fresh one; readers are our client's.
"""

import json
import re
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import trio

from quorate.dataclass import dataclass

if __name__ == "__main__":
    # Benchmarks share their peers with the tests, which are not installed.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import quorate
from quorate.client import Admin, ConfigChange, ConfigResource, Consumer, Producer
from quorate.client.admin import raise_first
from quorate.tools.bench import command_line
from quorate.tools.bench.command import allow_many_connections
from quorate.tools.bench.crowd import READERS
from quorate.tools.bench.figures import Metric, Outcome, Sample
from quorate.tools.bench.measuring import MeasurementFailedError, wait_until_quiet
from quorate.tools.bench.runner import FAILURES
from tests.compat.peers import nodes
from tests.compat.peers.nodes import Node

SUBJECT: Final = "quorate"

PARTITIONS: Final = (1, 2, 4, 8, 16, 32)
WORK_S: Final = 0.002
"""What a reader of the curve does with a record: it waits for so long."""

RATE_PER_S: Final = 200
PERCENTILE: Final = 99
ALONE_S_MIN: Final = 10.0
"""The 99th percentile of fewer than 2,000 records says little."""
CROWD_RECORDS: Final = 100
CROWD_S_MAX: Final = 120.0
CROWD_TIMES_MAX: Final = 3.0
"""A steady reader's 99th percentile, in most seconds, may become so many times what it was: beyond
that the sample has failed (checklist 94)."""
CROWD_NICENESS: Final = 10
"""The crowd and the reader it must not disturb share a machine, which they would not elsewhere."""

DIRTY_BYTES: Final = 192 * 2**20
VALUE_BYTES: Final = 1024
KEYS: Final = 20_000
LIMIT_BYTES_PER_S: Final = 16_000_000
CLEANER: Final = {"log.cleaner.backoff.ms": "100", "log.retention.check.interval.ms": "100"}
COMPACTED: Final = re.compile(
    r"compacted filthy-0: .* bytes (\d+) to (\d+), records \d+ to \d+, ([\d.]+) MB/s"
)
HOUR_MS: Final = "3600000"
COMPACTION_S_MAX: Final = 300.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """Something to be measured on a node."""

    name: str
    title: str
    metrics: tuple[Metric, ...]
    measure: Callable[[Node, float], Awaitable[dict[str, float]]]


# --- the curve ----------------------------------------------------------------


async def curve(node: Node, seconds: float) -> dict[str, float]:
    """Have more and more readers of more and more partitions."""
    found: dict[str, float] = {}
    for partitions in PARTITIONS:
        topic = f"curve-{partitions}"
        async with Admin(node.bootstrap) as admin, Producer(node.bootstrap) as producer:
            await admin.create_topic(topic, partitions=partitions)
            for n in range(int(partitions * (seconds + 10) / WORK_S)):
                await producer.enqueue(topic, b"x" * 100, partition=n % partitions)
        cpu_s, begun_s = time.process_time() + node.cpu_seconds(), time.monotonic()
        found[f"p{partitions}_records_per_s"] = await read_slowly(
            node.bootstrap, topic, partitions, seconds
        )
        used_s = time.process_time() + node.cpu_seconds() - cpu_s
        found[f"p{partitions}_cores"] = used_s / (time.monotonic() - begun_s)
    return found


async def read_slowly(bootstrap: str, topic: str, partitions: int, seconds: float) -> float:
    """Return how many records a second so many readers of a partition each get through."""
    counts = [0] * partitions

    async def read(number: int) -> None:
        async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([(topic, number)])
            async for _ in consumer:
                await trio.sleep(WORK_S)
                counts[number] += 1

    async with trio.open_nursery() as nursery:
        for number in range(partitions):
            nursery.start_soon(read, number)
        while not all(counts):  # noqa: ASYNC110 - the readers shall not do more than they do
            await trio.sleep(0.01)
        before, begun_s = sum(counts), time.monotonic()
        await trio.sleep(seconds)
        rate = (sum(counts) - before) / (time.monotonic() - begun_s)
        nursery.cancel_scope.cancel()
    return rate


# --- a steady reader ----------------------------------------------------------


def percentile(latencies_ms: Sequence[float]) -> float:
    """Return the 99th percentile."""
    return statistics.quantiles(latencies_ms, n=100)[PERCENTILE - 1]


def in_most_seconds(latencies_ms: Sequence[float]) -> float:
    """Return the median of the seconds' 99th percentiles: a stall of the machine is in one."""
    seconds = [latencies_ms[n : n + RATE_PER_S] for n in range(0, len(latencies_ms), RATE_PER_S)]
    return statistics.median(percentile(each) for each in seconds if len(each) > 1)


def in_peace(alone_ms: Sequence[float], meanwhile_ms: Sequence[float]) -> dict[str, float]:
    """Return what a crowd costs a reader in most seconds.

    Raises:
        MeasurementFailedError: more than it may.
    """
    alone, meanwhile = in_most_seconds(alone_ms), in_most_seconds(meanwhile_ms)
    if meanwhile > CROWD_TIMES_MAX * alone:
        raise MeasurementFailedError(
            f"the crowd makes a reader's p99 {meanwhile / alone:.1f} times what it is alone"
            f" ({alone:.2f} ms); it may be {CROWD_TIMES_MAX:g} times"
        )
    return {
        "idle_most_ms": alone,
        "crowd_most_ms": meanwhile,
        "most_ratio": meanwhile / alone,
    }


async def _latencies(bootstrap: str, during: Callable[[], Awaitable[None]]) -> list[float]:
    """Return how long each record meanwhile took from being sent to having been read, in ms."""
    found: list[float] = []
    over = trio.Event()

    async def write(producer: Producer) -> None:
        while not over.is_set():
            await producer.enqueue("steady", b"%.9f" % time.monotonic())
            await trio.sleep(1 / RATE_PER_S)

    async def read(consumer: Consumer) -> None:
        async for record in consumer:
            sent_s = float(record.value or b"0")
            found.append(1e3 * (time.monotonic() - sent_s))

    async with Producer(bootstrap, linger_ms=0) as producer, Consumer(bootstrap) as consumer:
        consumer.assign([("steady", 0)])
        await consumer.position(("steady", 0))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, producer)
            nursery.start_soon(read, consumer)
            await trio.sleep(1)
            found.clear()
            await during()
            over.set()
            nursery.cancel_scope.cancel()
    return found


async def _with_topic(bootstrap: str, name: str, **configs: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topic(name, partitions=1, configs=configs)


# --- a crowd ------------------------------------------------------------------


async def crowd(node: Node, seconds: float) -> dict[str, float]:
    """Time a reader before, while and after others come and go, who are a process of their own."""
    await _with_topic(node.bootstrap, "steady")
    await _with_topic(node.bootstrap, "busy")
    async with Producer(node.bootstrap) as producer:
        for _ in range(CROWD_RECORDS):
            await producer.enqueue("busy", bytes(VALUE_BYTES))
    told: dict[str, float] = {}

    async def come_and_go() -> None:
        words = [node.bootstrap, "busy", str(CROWD_RECORDS - 1)]
        command = [sys.executable, "-m", "quorate.tools.bench.crowd", *words]
        nice = ["nice", "-n", str(CROWD_NICENESS), *command]
        with trio.fail_after(CROWD_S_MAX):
            done = await trio.run_process(nice, capture_stdout=True)
        told.update(json.loads(done.stdout))

    alone = partial(trio.sleep, max(seconds, ALONE_S_MIN))
    before = await _latencies(node.bootstrap, alone)
    cpu_s = node.cpu_seconds()
    meanwhile = await _latencies(node.bootstrap, come_and_go)
    cpu_s = node.cpu_seconds() - cpu_s
    after = await _latencies(node.bootstrap, alone)
    idle_ms = percentile(before + after)
    return {
        "idle_p99_ms": idle_ms,
        "crowd_p99_ms": percentile(meanwhile),
        "ratio": percentile(meanwhile) / idle_ms,
        **in_peace(before + after, meanwhile),
        "readers": told["finished"],
        "at_once": told["there_at_once"],
        "seconds": told["seconds"],
        "requests_per_s": told["requests"] / told["seconds"],
        "broker_cores": cpu_s / told["seconds"],
    }


# --- compaction ---------------------------------------------------------------


async def compaction(node: Node, seconds: float) -> dict[str, float]:
    """Time a reader alone and while a topic is compacted; then compact another within a limit."""
    await _with_topic(node.bootstrap, "steady")
    await _fill(node.bootstrap)
    alone = partial(trio.sleep, max(seconds, ALONE_S_MIN))
    idle_ms = percentile(await _latencies(node.bootstrap, alone))
    busy_ms = percentile(await _latencies(node.bootstrap, partial(_compact, node)))
    compacted = _outcome(node)
    async with Admin(node.bootstrap) as admin:
        raise_first(await admin.delete_topics(["filthy"]))
        limit = ConfigChange("log.cleaner.io.max.bytes.per.second", str(LIMIT_BYTES_PER_S))
        raise_first(await admin.alter_configs({ConfigResource.broker(None): [limit]}))
    await _fill(node.bootstrap)
    await _compact(node)
    return {
        "idle_p99_ms": idle_ms,
        "compaction_p99_ms": busy_ms,
        "ratio": busy_ms / idle_ms,
        "io_bytes_per_s": compacted,
        "limit_kept": _outcome(node) / LIMIT_BYTES_PER_S,
    }


async def _fill(bootstrap: str) -> None:
    """Write a topic full of keys that come again and again, which must not be compacted yet."""
    configs = {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": HOUR_MS,
        "segment.bytes": "16777216",
    }
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        await admin.create_topic("filthy", partitions=1, configs=configs)
        value = bytes(VALUE_BYTES)
        for n in range(DIRTY_BYTES // VALUE_BYTES):
            await producer.enqueue("filthy", value, key=b"%d" % (n % KEYS))


async def _compact(node: Node) -> None:
    """Let the topic be compacted, and return when it is."""
    before = len(_told(node))
    async with Admin(node.bootstrap) as admin:
        change = ConfigChange("min.compaction.lag.ms", "0")
        raise_first(await admin.alter_configs({ConfigResource.topic("filthy"): [change]}))
    with trio.fail_after(COMPACTION_S_MAX):
        while len(_told(node)) == before:  # noqa: ASYNC110 - it is another process's log
            await trio.sleep(0.05)


def _told(node: Node) -> list[re.Match[str]]:
    return list(COMPACTED.finditer(node.log.read_text(errors="replace")))


def _outcome(node: Node) -> float:
    """Return how fast the last compaction read and wrote: all twice, and what is left once."""
    before, after, mb_per_s = map(float, _told(node)[-1].groups())
    return (2 * before + after) / (before / 1e6 / mb_per_s)


# --- all ----------------------------------------------------------------------

P99 = "p99 of a reader"
SCENARIOS: Final = (
    Scenario(
        "curve",
        f"p partitions, p readers that need {1000 * WORK_S:g} ms for a record",
        tuple(
            metric
            for p in PARTITIONS
            for metric in (
                Metric(f"p{p}_records_per_s", f"p = {p}", "records/s", "more"),
                Metric(f"p{p}_cores", f"p = {p}: broker and readers", "cores", "less"),
            )
        ),
        curve,
    ),
    Scenario(
        "crowd",
        f"{READERS:,} readers come and go",
        (
            Metric("idle_p99_ms", f"{P99} alone", "ms", "less"),
            Metric("crowd_p99_ms", f"{P99} meanwhile", "ms", "less"),
            Metric("ratio", "times as much", "", "less"),
            Metric("idle_most_ms", f"{P99} alone, in most seconds", "ms", "less"),
            Metric("crowd_most_ms", f"{P99} meanwhile, in most seconds", "ms", "less"),
            Metric("most_ratio", f"times as much (at most {CROWD_TIMES_MAX:g})", "", "less"),
            Metric("readers", "that came, read all and went", "", "more"),
            Metric("at_once", "of them there at once", "", "more"),
            Metric("seconds", "from the first to the last", "s", "less"),
            Metric("requests_per_s", "their requests", "/s", "more"),
            Metric("broker_cores", "broker meanwhile", "cores", "less"),
        ),
        crowd,
    ),
    Scenario(
        "compaction",
        f"{DIRTY_BYTES >> 20} MiB are compacted",
        (
            Metric("idle_p99_ms", f"{P99} before", "ms", "less"),
            Metric("compaction_p99_ms", f"{P99} meanwhile", "ms", "less"),
            Metric("ratio", "times as much", "", "less"),
            Metric("io_bytes_per_s", "read and written", "B/s", "more"),
            Metric("limit_kept", f"of a limit of {LIMIT_BYTES_PER_S // 10**6} MB/s", "", "more"),
        ),
        compaction,
    ),
)


def sample(scenario: Scenario, seconds: float) -> Sample:
    """Measure on a node of its own; a failure becomes the sample."""
    try:
        with nodes.temporary_folder() as directory:
            port = nodes.free_port()
            more = [word for name, value in CLEANER.items() for word in ("-X", f"{name}={value}")]
            command = [*nodes.quorate_command(port=port, directory=directory), "-v", *more]
            started = nodes.launch(SUBJECT, command, port=port, directory=directory, cores="")
            with nodes.running(started) as node:
                return Sample(trio.run(scenario.measure, node, seconds), "")
    except (*FAILURES, trio.TooSlowError) as error:
        return Sample({}, str(error) or type(error).__name__)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code: 1 if a sample failed."""
    parser = command_line.parser("readers", __doc__, rounds=1)
    command_line.add_scenarios(parser)
    options = parser.parse_args(arguments)
    allow_many_connections()
    outcomes: list[Outcome] = []
    console = command_line.console()
    for scenario in SCENARIOS:
        if options.scenarios and scenario.name not in options.scenarios:
            continue
        samples: list[Sample] = []
        for number in range(1, options.rounds + 1):
            announcement = f"{scenario.title}, round {number} of {options.rounds}"
            command_line.announce(console, announcement)
            wait_until_quiet(options.quiet_wait)
            samples.append(sample(scenario, options.seconds))
        outcome = Outcome(
            scenario.name, scenario.title, scenario.metrics, {SUBJECT: tuple(samples)}
        )
        outcomes.append(outcome)
    versions = {SUBJECT: quorate.__version__}
    settings = {"seconds": options.seconds}
    return command_line.finish(console, options, outcomes, versions=versions, settings=settings)


if __name__ == "__main__":
    command_line.run(main)
