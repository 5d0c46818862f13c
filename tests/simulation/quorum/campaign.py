"""Runs seeds by the thousand, or one of them with all that happens in it.

    python -m tests.simulation.quorum.campaign --count 3000 --jobs 2
    python -m tests.simulation.quorum.campaign --seed 4711

A seed is everything: what it finds, it finds again.
"""
# ruff: noqa: T201 - it talks

import argparse
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from time import monotonic
from typing import Final

from tests.simulation.quorum.run import Report, run
from tests.simulation.quorum.scenario import SHAPES, draw, shape_of

SHOWN: Final = (
    ("crashes", ("crash",)),
    ("elections", ("LEADER",)),
    ("commands", ("Answer",)),
    ("operations", ("operations",)),
    ("changes of voters", ("VotersChanged",)),
)
PROGRESS_S: Final = 1.0
BATCH: Final = 8


def run_seed(seed: int) -> Report:
    """Run a seed as it comes."""
    return run(seed, draw(seed, shape_of(seed)))


def reports(seeds: Sequence[int], jobs: int, until_s: float) -> Iterator[Report]:
    """Run seeds in order, several at once, for as long as there is time."""
    with ProcessPoolExecutor(jobs) as pool:
        for batch in range(0, len(seeds), BATCH * jobs):
            if monotonic() < until_s:
                yield from pool.map(run_seed, seeds[batch : batch + BATCH * jobs])


class Tally:
    """Owns the sums over all runs of a campaign."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._began_s = monotonic()
        self._simulated_s = 0.0
        self._shapes = Counter[str]()
        self._counts = Counter[str]()
        self.violations = list[Report]()

    def add(self, report: Report) -> None:
        self._shapes[shape_of(report.seed)] += 1
        self._simulated_s += report.simulated_s
        self._counts += report.counts
        if report.violation is not None:
            self.violations.append(report)

    def line(self) -> str:
        took_s = monotonic() - self._began_s
        return (
            f"{self._shapes.total()} of {self._total} seeds, {len(self.violations)} violations, "
            f"{self._simulated_s:.0f} simulated s in {took_s:.0f} s"
        )

    def summary(self) -> str:
        shapes = ", ".join(f"{self._shapes[shape]} {shape}" for shape in SHAPES)
        sums = ", ".join(
            f"{sum(self._counts[part] for part in parts)} {name}" for name, parts in SHOWN
        )
        return f"{self.line()}\n{shapes}\n{sums}"


def campaign(seeds: Sequence[int], jobs: int, seconds_max: float) -> int:
    """Run seeds, show how far they are, and what they found; return the exit status."""
    until_s = monotonic() + seconds_max
    tally, shown_s, live = Tally(len(seeds)), monotonic(), sys.stdout.isatty()
    for report in reports(seeds, jobs, until_s):
        tally.add(report)
        if report.violation is not None:
            print(f"seed {report.seed} ({shape_of(report.seed)}): {report.violation}", flush=True)
        if live and monotonic() - shown_s > PROGRESS_S:
            shown_s = monotonic()
            print(f"\r{tally.line()} ", end="", flush=True)
    print("\r" * live + tally.summary())
    return 1 if tally.violations else 0


def replay(seed: int, *, show: bool) -> int:
    """Run one seed and show what happens in it; return the exit status."""
    report = run(seed, draw(seed, shape_of(seed)), print if show else None)
    print(f"seed {seed} ({shape_of(seed)}): {report.violation or 'no violation'}")
    print(f"trace {report.digest} over {report.simulated_s:.3f} simulated s")
    return 1 if report.violation else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--seed", type=int, help="run this one, and show what happens in it")
    parser.add_argument("--quiet", action="store_true", help="with --seed: only how it ends")
    parser.add_argument("--first", type=int, default=0, help="the first seed of a campaign")
    parser.add_argument("--count", type=int, default=100, help="how many seeds")
    parser.add_argument("--shape", choices=SHAPES, help="only seeds of this shape")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin none after these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.seed is not None:
        return replay(options.seed, show=not options.quiet)
    step = 1 if options.shape is None else len(SHAPES)
    first = options.first
    while options.shape is not None and shape_of(first) != options.shape:
        first += 1
    seeds = range(first, first + step * options.count, step)
    return campaign(seeds, options.jobs, options.seconds)


if __name__ == "__main__":
    sys.exit(main())
