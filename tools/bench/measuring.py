"""Runs load generators and watches a broker while they measure; waits for a quiet machine."""

import mmap
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Protocol

from quorate.dataclass import dataclass
from quorate.tools.bench import events, figures
from tests.compat.peers import cache, native, process

LOADGEN = Path(__file__).resolve().parent / "loadgen"
KAFKA_PROGRAMS = ("produce", "consume", "latency")
GENERATOR_TIMEOUT_S = 180.0

QUIET_CORES_MAX = 0.25
QUIET_FOR_S = 0.6
QUIET_STEP_S = 0.2
DIRTY_BYTES_MAX = 256 * 2**20
FREE_BYTES_KEPT = 256 * 2**20
"""What is left free is what is written first: on a virtual machine, the dearest pages."""
FREE_BYTES_MAX = 3 * FREE_BYTES_KEPT
FILLS_MAX = 3
TOUCHED_BYTES = 2**30
"""Whose pages are touched at a time."""


ONE_CORE = "1"
"""Where a load generator is kept, if it is."""


class MeasurementFailedError(Exception):
    """A load generator failed, or did not say what it measured."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What all measurements share: how long, on which cores, with which programs.

    `broker_cores` and `client_cores` are lists for taskset; empty means any core. With
    `tries_cores`, a librdkafka that is saturated is tried on `ONE_CORE`, too (`runner.placed`).
    """

    seconds: float
    warmup_s: float
    quiet_wait_s: float
    broker_cores: str
    client_cores: str
    startup_bytes: int
    folder: Path
    tries_cores: bool = False


class Watched(Protocol):
    """The processes whose costs are measured."""

    def cpu_seconds(self) -> float:
        """Return the CPU time used so far."""
        ...

    def memory(self) -> process.Memory:
        """Return the resident memory."""
        ...


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU used up to a moment, by the broker and by the whole machine."""

    broker_cpu_s: float
    machine_cpu_s: float


def generator(name: str) -> Path:
    """Return a load generator, compiled if it is not yet."""
    library = native.librdkafka() if name in KAFKA_PROGRAMS else native.NO_LIBRARY
    return native.compile_c(LOADGEN / f"{name}.c", library=library)


def usage_of(node: Watched) -> Usage:
    """Return the CPU used so far."""
    return Usage(node.cpu_seconds(), process.machine_cpu_seconds())


def run_generator(bench: Bench, node: Watched, command: Sequence[str | Path]) -> figures.Sample:
    """Run a load generator on the cores for clients; see `run_anywhere`."""
    pin = [cache.program("taskset"), "-c", bench.client_cores] if bench.client_cores else []
    return run_anywhere(node, [*pin, *command])


def run_anywhere(node: Watched, command: Sequence[str | Path]) -> figures.Sample:
    """Run a load generator to its end and return what it measured, with the broker's CPU.

    Raises MeasurementFailedError.
    """
    words = [str(word) for word in command]
    with (
        tempfile.TemporaryFile("w+") as complaints,
        _started(words, complaints) as child,
    ):
        timer = threading.Timer(GENERATOR_TIMEOUT_S, child.kill)
        timer.start()
        try:
            assert child.stdout is not None
            sample = _follow(child.stdout, node)
            child.wait()
        finally:
            timer.cancel()
            child.kill()
        complaints.seek(0)
        said = " / ".join(complaints.read().split("\n")[-4:]).strip(" /")
    if child.returncode != 0 or sample is None:
        raise MeasurementFailedError(said or f"the generator ended with {child.returncode}")
    return sample


def _started(words: Sequence[str], complaints: IO[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - words of our own
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=complaints,
        env={**os.environ, "PYTHONPATH": str(cache.ROOT)},
        text=True,
    )


def _follow(output: IO[str], node: Watched) -> figures.Sample | None:
    """Read events as they come and sample the broker at those that say so."""
    begun = stopped = None
    for event in _events(output):
        if event.name == "begin":
            begun = usage_of(node)
        elif event.name == "stop":
            stopped = usage_of(node)
        else:
            if begun is None or stopped is None:
                raise MeasurementFailedError("a result without begin and stop")
            _read_to_end(output)
            return sample_between(event, begun, stopped, node)
    return None


def _events(output: IO[str]) -> Iterator[events.Event]:
    for line in output:
        try:
            yield events.parse_event(line)
        except events.BadEventError as error:
            raise MeasurementFailedError(str(error)) from error


def _read_to_end(output: IO[str]) -> None:
    for _ in output:
        continue


def sample_between(
    result: events.Event, begun: Usage, stopped: Usage, node: Watched
) -> figures.Sample:
    """Return a generator's figures with the broker's CPU between two moments and its memory."""
    memory = node.memory()
    return figures.Sample(
        {
            **figures.with_cpu(
                result.figures,
                broker_cpu_s=stopped.broker_cpu_s - begun.broker_cpu_s,
                machine_cpu_s=stopped.machine_cpu_s - begun.machine_cpu_s,
            ),
            "rss_bytes": memory.rss_bytes,
        },
        failure="",
    )


def dirty_bytes() -> int:
    """Return how much of the page cache waits to be written to disk."""
    return _meminfo_bytes("Dirty:", "Writeback:")


def _meminfo_bytes(*names: str) -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(names))


class PageCache:
    """Owns a file of holes whose pages fill the memory that is free; to be closed.

    A host that has run for a while has no free memory: what is written takes the place of what was
    read. Where a virtual machine gives free memory back to its host, to write to a new page costs
    ten times as much, for whoever happens to be measured then.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close

    def fill(self) -> None:
        """Leave little memory free, also of what files that were deleted still give back."""
        for _ in range(FILLS_MAX):
            self._touch()
            if _meminfo_bytes("MemFree:") < FREE_BYTES_MAX:
                return
            time.sleep(QUIET_STEP_S)

    def _touch(self) -> None:
        """Use every page: what a while is not used, a host may take back (DAMON).

        Mapped, that takes a second where reading takes ten.
        """
        size_bytes = max(_meminfo_bytes("MemAvailable:") - FREE_BYTES_KEPT, mmap.PAGESIZE)
        os.ftruncate(self._file.fileno(), size_bytes)
        with (
            mmap.mmap(self._file.fileno(), size_bytes, prot=mmap.PROT_READ) as pages,
            memoryview(pages) as data,
        ):
            # Else these pages count as in use, and what a sample writes is pushed to disk before
            # its time.
            pages.madvise(mmap.MADV_SEQUENTIAL)
            for begin in range(0, size_bytes, TOUCHED_BYTES):
                with data[begin : begin + TOUCHED_BYTES : mmap.PAGESIZE] as one_of_each:
                    one_of_each.tobytes()

    def close(self) -> None:
        """Give the memory back."""
        self._file.close()


def wait_until_quiet(timeout_s: float) -> None:
    """Return when little runs and little waits to be written, or after the timeout."""
    deadline = time.monotonic() + timeout_s
    quiet_s = 0.0
    while time.monotonic() < deadline and quiet_s < QUIET_FOR_S:
        before = process.machine_cpu_seconds()
        time.sleep(QUIET_STEP_S)
        busy_cores = (process.machine_cpu_seconds() - before) / QUIET_STEP_S
        is_quiet = busy_cores < QUIET_CORES_MAX and dirty_bytes() < DIRTY_BYTES_MAX
        quiet_s = quiet_s + QUIET_STEP_S if is_quiet else 0.0
    if timeout_s > 0 and dirty_bytes() > DIRTY_BYTES_MAX:
        os.sync()  # else the next sample pays for the data of the last
