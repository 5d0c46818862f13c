"""Measures the log alone, without sockets: do appends stay flat, and what does a seek cost?

python -m quorate.tools.bench.storage --gigabytes 20 --segments 10000 --json storage.json
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

from quorate.broker.log.files import OsFileSystem
from quorate.broker.log.log import Log
from quorate.broker.log.store import LogStore, open_store
from quorate.model import TopicPartition
from quorate.records.compression import Codec
from quorate.records.record import NO_PRODUCER, RecordBatchBuilder, record_bytes_max
from quorate.settings import TopicConfig
from quorate.tools.bench.machine import machine_facts

TOPIC_ID: Final = bytes(16)
CLUSTER_ID: Final = "x" * 22
VALUE_BYTES: Final = 1000
BATCH_RECORDS: Final = 1000
SLICES: Final = 10
SEEKS: Final = 2000


def batch(record_count: int, value_bytes: int) -> bytearray:
    """Return a batch of records with random values."""
    builder = RecordBatchBuilder()
    rng = random.Random(1)  # noqa: S311 - test data
    for _ in range(record_count):
        value = rng.randbytes(value_bytes)
        builder.append(now_ms(), None, value, b"", record_bytes_max(None, value, b""))
    return builder.build(Codec.NONE, NO_PRODUCER)


def now_ms() -> int:
    """Return the time of day."""
    return time.time_ns() // 1_000_000


def new_log(directory: Path, config: TopicConfig) -> tuple[LogStore, Log]:
    """Return an empty log in a data directory of its own."""
    directory.mkdir()
    store = open_store(
        OsFileSystem(), str(directory), cluster_id=CLUSTER_ID, node_id=1, now_ms=now_ms()
    )
    partition = TopicPartition("measured", 0)
    return store, store.create(partition, TOPIC_ID, config, now_ms=now_ms())


class BareFile:
    """What an append would cost if there were nothing to it but writing the bytes."""

    def __init__(self, directory: Path, segment_bytes: int) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._segments = 0
        self._fd = -1
        self._position = segment_bytes

    def append(self, data: bytearray) -> None:
        """Write behind the last bytes, into files as large as segments."""
        if self._position + len(data) > self._segment_bytes:
            self.close()
            path = self._directory / f"bare-{self._segments}"
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            self._segments += 1
            self._position = 0
        self._position += os.pwrite(self._fd, data, self._position)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


class Costs:
    """What appends of one kind took, in microseconds."""

    def __init__(self) -> None:
        self.cpu_us: list[float] = []
        self.wall_us: list[float] = []

    def measure(self, append: Callable[[], object]) -> None:
        """Append, and note what it took."""
        cpu_s, wall_s = time.thread_time(), time.perf_counter()
        append()
        self.wall_us.append((time.perf_counter() - wall_s) * 1e6)
        self.cpu_us.append((time.thread_time() - cpu_s) * 1e6)

    def figures(self) -> dict[str, float]:
        """Return the median CPU time, and of the time on the clock the median and the mean."""
        return {
            "cpu_p50_us": median(self.cpu_us),
            "wall_p50_us": median(self.wall_us),
            "wall_mean_us": mean(self.wall_us),
        }


def measure_appends(directory: Path, gigabytes: float) -> dict[str, Any]:
    """Append batches of 1 MB, in turn with bare writes; print and return both per tenth of the way.

    What the system does to both (write-back, a full page cache) is none of our doing: ours is the
    ratio.
    """
    config = TopicConfig()
    store, log = new_log(directory, config)
    records = batch(BATCH_RECORDS, VALUE_BYTES)
    bare_file = BareFile(directory, config.segment_bytes)
    appends = max(1, int(gigabytes * 1e9 / len(records) / SLICES))
    print(f"appends of {len(records)} bytes, to {gigabytes} GB, in us:")
    print("               ours: CPU   wall   mean   bare: CPU   wall   mean   CPU ratio")
    tenths: list[dict[str, Any]] = []
    for tenth in range(1, SLICES + 1):
        ours, bare = Costs(), Costs()
        for _ in range(appends):
            ours.measure(lambda: log.append(memoryview(records), leader_epoch=0, now_ms=now_ms()))
            bare.measure(lambda: bare_file.append(records))
        tenths.append(
            {
                "at_gigabytes": tenth * gigabytes / SLICES,
                "ours": ours.figures(),
                "bare": bare.figures(),
                "cpu_ratio": median(ours.cpu_us) / median(bare.cpu_us),
            }
        )
        print(line_of(tenths[-1]), flush=True)
    bare_file.close()
    store.close(clean=False, now_ms=now_ms())
    return {"batch_bytes": len(records), "gigabytes": gigabytes, "tenths": tenths}


def line_of(tenth: dict[str, Any]) -> str:
    """Return a tenth of the way for a person."""
    ours, bare = (
        " ".join(f"{figure:6.0f}" for figure in tenth[who].values()) for who in ("ours", "bare")
    )
    at = f"  at {tenth['at_gigabytes']:5.1f} GB:"
    return f"{at}   {ours}      {bare}      {tenth['cpu_ratio']:6.2f}"


def measure_seeks(directory: Path, segments: int) -> dict[str, float]:
    """Make many small segments; print and return what reading from a random offset costs."""
    config = TopicConfig(segment_bytes=1024)
    store, log = new_log(directory, config)
    records = batch(1, 900)
    for _ in range(segments):
        log.append(memoryview(records), leader_epoch=0, now_ms=now_ms())
    rng = random.Random(2)  # noqa: S311 - test data
    costs_us: list[float] = []
    for _ in range(SEEKS):
        offset = rng.randrange(log.log_end_offset)
        began_s = time.perf_counter()
        found = log.read(offset, max_bytes=4096, limit_offset=log.log_end_offset, at_least_one=True)
        costs_us.append((time.perf_counter() - began_s) * 1e6)
        assert found is not None, "every offset below the end can be read"
    costs_us.sort()
    figures = {
        "segments": log.segment_count,
        "p50_us": median(costs_us),
        "p99_us": costs_us[int(SEEKS * 0.99)],
    }
    print(
        f"seeks in {figures['segments']} segments: median {figures['p50_us']:.1f} us,"
        f" p99 {figures['p99_us']:.1f} us"
    )
    store.close(clean=False, now_ms=now_ms())
    return figures


def main(words: Sequence[str]) -> None:
    """Measure, print, write it into a file if one was named, and leave nothing else behind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--segments", type=int, default=10_000)
    parser.add_argument("--json", type=Path, help="write the figures into this file, too")
    arguments = parser.parse_args(words)
    directory = Path(tempfile.mkdtemp(prefix="quorate-storage-"))
    try:
        seeks = measure_seeks(directory / "seeks", arguments.segments)
        appends = measure_appends(directory / "appends", arguments.gigabytes)
    finally:
        shutil.rmtree(directory)
    if arguments.json is not None:
        told = {"machine": machine_facts(), "seeks": seeks, "appends": appends}
        arguments.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
