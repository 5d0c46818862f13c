"""How fast histories are judged, and in how much memory.

``python -m tests.robustness.judging_speed --operations 1000000``

Makes a history of a cluster that does all right, in a file, and judges it in a process of its own;
the figures are CPU time and the most memory that it had.
"""

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

from quorate.jepsen.history import HistoryReader, HistoryWriter, operations
from quorate.jepsen.judging import judge
from tests.unit.jepsen.correct import HEADER, correct_history


def write(path: Path, seed: int, count: int) -> None:
    """Write a history of about so many operations."""
    with path.open("wb") as file:
        writer = HistoryWriter(file, HEADER)
        for event in correct_history(seed, count):
            writer.add(event)


def report(path: Path) -> None:
    """Judge a history and say what it took."""
    begun_s = time.process_time()
    counted = 0
    with path.open("rb") as file:
        for _ in operations(HistoryReader(file)):
            counted += 1
    read_s = time.process_time() - begun_s
    with path.open("rb") as file:
        reader = HistoryReader(file)
        verdict = judge(reader.header, operations(reader))
    took_s = time.process_time() - begun_s - read_s
    most_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(  # noqa: T201
        f"{counted} operations ({path.stat().st_size / 1e6:.0f} MB): {verdict.validity};"
        f" {took_s:.1f} s of CPU, of which reading {read_s:.1f} s; {most_mb:.0f} MB"
    )
    print(verdict.figures)  # noqa: T201


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quorate-judging-") as folder:
        path = Path(folder) / "history"
        spawn = multiprocessing.get_context("spawn")
        for target, arguments in (
            (write, (path, chosen.seed, chosen.operations)),
            (report, (path,)),
        ):
            process = spawn.Process(target=target, args=arguments)
            process.start()
            process.join()
            if process.exitcode:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
