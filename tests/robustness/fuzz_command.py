"""The command line that the fuzzers share."""

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol


class Report(Protocol):
    """What a fuzzer has found."""

    problems: list[str]

    def line(self) -> str:
        """Sum it up."""
        ...


Run = Callable[[int, int, Path], Report]


def fuzz_command(module: str, about: str | None, frames: int, run: Run) -> int:
    """Run a fuzzer with so many frames and a seed, and say what it found; keep what has failed."""
    parser = argparse.ArgumentParser(prog=f"tests.robustness.{module}", description=about)
    parser.add_argument("--frames", type=int, default=frames)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix=f"quorate-{module}-{arguments.seed}-"))
    report = run(arguments.frames, arguments.seed, work)
    for problem in report.problems:
        print(problem)  # noqa: T201
    print(report.line())  # noqa: T201
    if report.problems:
        print(f"kept in {work}")  # noqa: T201
        return 1
    shutil.rmtree(work)
    return 0
