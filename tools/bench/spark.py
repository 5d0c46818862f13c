"""Measures the PySpark connector beside Spark's own Kafka source: one session, one topic, in turn.

CPU time a row is what to look at: wall times follow what else the machine does.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from quorate.client.sync import Admin, Producer
from quorate.dataclass import dataclass
from quorate.tools.bench import command_line, machine
from tests.compat import serving
from tests.compat.spark.conftest import PEER_VERSION, missing, peer_jars, temporary_files

VALUE_BYTES: Final = (100, 1024)
PARTITIONS: Final = 2
MICRO_BATCHES: Final = 12
GUARANTEES: Final = ("at least once", "exactly once")


@dataclass(frozen=True, slots=True)
class Processor:
    """Seconds of processor time so far."""

    jvm_s: float
    python_s: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of a query."""

    wall_s: float
    jvm_s: float
    python_s: float


def processor() -> Processor:
    """Return what the JVM and the Python workers below this process have used."""
    parents: dict[int, int] = {}
    used: dict[int, tuple[str, float, float]] = {}
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        number = int(path.parent.name)
        name = text[text.index("(") + 1 : text.rindex(")")]
        fields = text[text.rindex(")") + 2 :].split()
        parents[number] = int(fields[1])
        own, children = (int(fields[11]) + int(fields[12])), (int(fields[13]) + int(fields[14]))
        used[number] = name, own * tick_s, children * tick_s
    below = {os.getpid()}
    while more := {n for n, parent in parents.items() if parent in below} - below:
        below |= more
    jvm_s = sum(used[n][1] for n in below if used[n][0] == "java")
    others = [used[n] for n in below if n != os.getpid() and used[n][0] != "java"]
    return Processor(jvm_s, sum(own + children for _, own, children in others))


def measure(query: Callable[[], Any]) -> Sample:
    """Run a query, and return what it cost."""
    before, begin_s = processor(), time.perf_counter()
    query()
    wall_s, after = time.perf_counter() - begin_s, processor()
    return Sample(wall_s, after.jvm_s - before.jvm_s, after.python_s - before.python_s)


def session() -> Any:
    """Return a session with the compiler that is for speed, and the jars of the other source."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYTHONPATH"] = os.pathsep.join((os.getcwd(), os.environ.get("PYTHONPATH", "")))  # noqa: PTH109
    builder: Any = SparkSession.builder
    builder = builder.master("local[2]").appName("quorate bench")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": temporary_files(),
        "spark.local.dir": tempfile.gettempdir(),
        "spark.jars": peer_jars(),
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "OFF",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def fill(servers: str, topic: str, rows: int, value_bytes: int) -> None:
    """Write a topic of values that do not repeat, with keys."""
    with Admin(servers) as admin:
        admin.create_topic(topic, partitions=PARTITIONS)
    noise = os.urandom(1 << 20)
    with Producer(servers, batch_size_bytes=256 * 1024) as producer:
        for i in range(rows):
            at = i * 7919 % (len(noise) - value_bytes)
            producer.enqueue(topic, noise[at : at + value_bytes], key=b"key-%d" % (i % 10_000))


class Bench:
    """Runs queries of both sources in turn, and prints medians."""

    def __init__(self, spark: Any, servers: str, rounds: int, folder: Path) -> None:
        self.spark = spark
        self.servers = servers
        self.rounds = rounds
        self.folder = folder
        self.sources = ["quorate", "kafka"] if spark.conf.get("spark.jars", "") else ["quorate"]
        self.figures: list[dict[str, Any]] = []

    def note(self, name: str, source: str, text: str, **figures: float) -> None:
        """Print figures, and keep them."""
        print(f"{name:24} {source:8} {text}", flush=True)
        self.figures.append({"name": name, "source": source, **figures})

    def frame(self, source: str, topic: str) -> Any:
        """Return a topic as a frame."""
        reader = self.spark.read.format(source).option("kafka.bootstrap.servers", self.servers)
        return reader.option("subscribe", topic).load()

    def compare(self, name: str, rows: int, query: Callable[[str], Any]) -> None:
        """Print what a query costs with each source."""
        samples: dict[str, list[Sample]] = {source: [] for source in self.sources}
        for turn in range(self.rounds + 1):
            for source in self.sources:
                sample = measure(partial(query, source))
                if turn:
                    samples[source].append(sample)
        rates: dict[str, float] = {}
        for source, taken in samples.items():
            wall_s = statistics.median(sample.wall_s for sample in taken)
            jvm_s = statistics.median(sample.jvm_s for sample in taken)
            python_s = statistics.median(sample.python_s for sample in taken)
            rates[source] = rows / wall_s
            micros = 1e6 / rows
            self.note(
                name,
                source,
                f"{rates[source] / 1e6:6.3f} M rows/s {wall_s:7.2f} s   CPU a row:"
                f" JVM {jvm_s * micros:5.2f} us, Python {python_s * micros:5.2f} us",
                rows_per_s=round(rates[source]),
                jvm_us=round(jvm_s * micros, 3),
                python_us=round(python_s * micros, 3),
            )
        if len(rates) == 2:
            ratio = rates["quorate"] / rates["kafka"]
            self.note(name, "ratio", f"{ratio:.2f}x of Spark's own", ratio=round(ratio, 2))

    def read(self, topic: str, rows: int, value_bytes: int) -> None:
        """Compare reads of one topic."""
        name = f"{value_bytes} B"
        self.compare(
            f"sum(length) {name}",
            rows,
            lambda source: self.frame(source, topic).selectExpr("sum(length(value))").collect(),
        )
        target = str(self.folder / "out.parquet")
        self.compare(
            f"parquet {name}",
            rows,
            lambda source: self.frame(source, topic).write.mode("overwrite").parquet(target),
        )

    def fixed(self, topic: str) -> None:
        """Print what a query costs that reads next to nothing."""
        for source in self.sources:
            samples = [measure(partial(self._first, source, topic)) for _ in range(8)][1:]
            wall_s = statistics.median(sample.wall_s for sample in samples)
            text = f"{wall_s:6.2f} s a warm query of 2 rows"
            self.note("fixed cost", source, text, seconds=round(wall_s, 3))

    def _first(self, source: str, topic: str) -> None:
        end = json.dumps({topic: {str(i): 1 for i in range(PARTITIONS)}})
        reader = self.spark.read.format(source).option("kafka.bootstrap.servers", self.servers)
        reader.option("subscribe", topic).option("endingOffsets", end).load().collect()

    def micro_batches(self, topic: str) -> None:
        """Print what a micro-batch costs beside its rows."""
        for source in self.sources:
            taken = self._micro_batches(source, topic, "noop", {})
            seconds = statistics.median(taken)
            text = f"{seconds:6.3f} s each (100 rows, written nowhere)"
            self.note("micro-batch", source, text, seconds=round(seconds, 3))

    def exactly_once(self, topic: str, sink: str) -> None:
        """Print what it adds to a micro-batch of two tasks that every row is written once."""
        taken: dict[str, list[float]] = {name: [] for name in GUARANTEES}
        sinking = {"kafka.bootstrap.servers": self.servers, "topic": sink}
        for turn in range(4):
            name = GUARANTEES[turn % 2]
            words = {"transactional": "true", "kafka.transactional.id": f"bench-{turn}"}
            options = sinking | (words if turn % 2 else {})
            taken[name] += self._micro_batches("quorate", topic, "quorate", options)
        seconds = {name: statistics.median(taken[name]) for name in GUARANTEES}
        for name in GUARANTEES:
            text = f"{seconds[name]:6.3f} s each (100 rows, topic to topic, two tasks)"
            self.note(f"written {name}", "quorate", text, seconds=round(seconds[name], 3))
        added = seconds[GUARANTEES[1]] - seconds[GUARANTEES[0]]
        text = f"{added * 1_000:6.0f} ms a micro-batch"
        self.note("exactly once adds", "quorate", text, seconds=round(added, 3))

    def _micro_batches(
        self, source: str, topic: str, sink: str, options: dict[str, str]
    ) -> list[float]:
        """Return how long micro-batches took, in seconds, without the first two."""
        reader = self.spark.readStream.format(source)
        reader = reader.option("kafka.bootstrap.servers", self.servers)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        frame = reader.option("maxOffsetsPerTrigger", 100).load().select("key", "value")
        checkpoint = tempfile.mkdtemp(prefix="checkpoint-", dir=self.folder)
        writer = frame.writeStream.format(sink).options(**options)
        query = writer.option("checkpointLocation", checkpoint).start()
        while len(query.recentProgress) < MICRO_BATCHES and query.isActive:
            time.sleep(0.2)
        query.stop()
        return [p.durationMs["triggerExecution"] / 1_000 for p in query.recentProgress][2:]


def main(words: Sequence[str]) -> int:
    """Run the benchmark."""
    options = argparse.ArgumentParser(description="Compares two Kafka sources of Spark.")
    options.add_argument("--rows", type=int, default=1_000_000, help="of 100 B; a fifth of 1 KiB")
    options.add_argument("--rounds", type=int, default=5, help="samples of each (%(default)s)")
    options.add_argument("--json", type=Path, help="write the figures into this file, too")
    chosen = options.parse_args(words)
    reason = missing()
    if reason is not None:
        print(reason, file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="quorate-bench-spark-"))
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)  # for Spark and its workers, too
    try:
        with serving.quorate({}, folder / "node") as node:
            figures = _run(node.server.bootstrap, chosen.rows, chosen.rounds, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if chosen.json is not None:
        told = {
            "machine": machine.machine_facts(),
            "versions": {"pyspark": version("pyspark"), "spark-sql-kafka-0-10": PEER_VERSION},
            "rounds": chosen.rounds,
            "figures": figures,
        }
        chosen.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0


def _run(servers: str, rows: int, rounds: int, folder: Path) -> list[dict[str, Any]]:
    spark = session()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    try:
        bench = Bench(spark, servers, rounds, folder)
        for value_bytes in VALUE_BYTES:
            count = rows if value_bytes == VALUE_BYTES[0] else rows // 5
            fill(servers, f"values-{value_bytes}", count, value_bytes)
            bench.read(f"values-{value_bytes}", count, value_bytes)
        bench.fixed(f"values-{VALUE_BYTES[0]}")
        bench.micro_batches(f"values-{VALUE_BYTES[0]}")
        with Admin(servers) as admin:
            admin.create_topic("copies", partitions=PARTITIONS)
        bench.exactly_once(f"values-{VALUE_BYTES[0]}", "copies")
    finally:
        spark.stop()
    return bench.figures


if __name__ == "__main__":
    command_line.run(main)
