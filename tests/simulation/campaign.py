"""Runs seeds by the thousand, or one of them with all that happens in it; says what they found."""
# ruff: noqa: T201 - it talks

import argparse
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import Final

from tests.simulation.report import Look, Report

PROGRESS_S: Final = 1.0
LOGGED_PROGRESS_S: Final = 60.0
"""So often a log is told how far a campaign is: if it is ended, what it did until then counts."""

BATCH: Final = 8


@dataclass(frozen=True, slots=True)
class Simulation:
    """What is simulated.

    Attributes:
        about: what the command says of itself.
        run_seed: runs a seed as it comes; at the top of a module, for other processes.
        shape_of: the shape of a seed's world.
        shapes: all shapes; they take turns.
        shown: names of sums, and which counts each adds up.
    """

    about: str | None
    run_seed: Callable[[int], Report]
    look_at_seed: Callable[[int, Look], Report]
    shape_of: Callable[[int], str]
    shapes: tuple[str, ...]
    shown: tuple[tuple[str, tuple[str, ...]], ...]


def reports(
    simulation: Simulation, seeds: Sequence[int], jobs: int, until_s: float
) -> Iterator[Report]:
    """Run seeds in order, several at once, for as long as there is time."""
    with ProcessPoolExecutor(jobs) as pool:
        for batch in range(0, len(seeds), BATCH * jobs):
            if monotonic() < until_s:
                yield from pool.map(simulation.run_seed, seeds[batch : batch + BATCH * jobs])


class Tally:
    """Owns the sums over all runs of a campaign."""

    def __init__(self, simulation: Simulation, total: int) -> None:
        self._simulation = simulation
        self._total = total
        self._began_s = monotonic()
        self._simulated_s = 0.0
        self._shapes = Counter[str]()
        self._counts = Counter[str]()
        self.violations = list[Report]()

    def add(self, report: Report) -> None:
        self._shapes[self._simulation.shape_of(report.seed)] += 1
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
        shapes = ", ".join(f"{self._shapes[shape]} {shape}" for shape in self._simulation.shapes)
        sums = ", ".join(
            f"{sum(self._counts[part] for part in parts)} {name}"
            for name, parts in self._simulation.shown
        )
        return f"{self.line()}\n{shapes}\n{sums}"


def campaign(simulation: Simulation, seeds: Sequence[int], jobs: int, seconds_max: float) -> int:
    """Run seeds, show how far they are, and what they found; return the exit status."""
    until_s = monotonic() + seconds_max
    tally, shown_s = Tally(simulation, len(seeds)), monotonic()
    live = sys.stdout.isatty()
    for report in reports(simulation, seeds, jobs, until_s):
        tally.add(report)
        if report.violation is not None:
            shape = simulation.shape_of(report.seed)
            print(f"seed {report.seed} ({shape}): {report.violation}", flush=True)
        if monotonic() - shown_s > (PROGRESS_S if live else LOGGED_PROGRESS_S):
            shown_s = monotonic()
            print(
                f"\r{tally.line()} " if live else tally.line(), end="" if live else "\n", flush=True
            )
    print("\r" * live + tally.summary())
    return 1 if tally.violations else 0


def replay(simulation: Simulation, seed: int, look: Look) -> int:
    """Run one seed and show what happens in it; return the exit status."""
    report = simulation.look_at_seed(seed, look)
    print(f"seed {seed} ({simulation.shape_of(seed)}): {report.violation or 'no violation'}")
    print(f"trace {report.digest} over {report.simulated_s:.3f} simulated s")
    return 1 if report.violation else 0


def main(simulation: Simulation) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(description=simulation.about, allow_abbrev=False)
    parser.add_argument("--seed", type=int, help="run this one, and show what happens in it")
    parser.add_argument("--quiet", action="store_true", help="with --seed: only how it ends")
    parser.add_argument("--steps", type=float, default=math.inf, help="with --seed: so many events")
    parser.add_argument("--first", type=int, default=0, help="the first seed of a campaign")
    parser.add_argument("--count", type=int, default=100, help="how many seeds")
    parser.add_argument("--shape", choices=simulation.shapes, help="only seeds of this shape")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin none after these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.seed is not None:
        show = None if options.quiet else print
        return replay(simulation, options.seed, Look(show, options.steps))
    shapes = simulation.shapes
    step = 1 if options.shape is None else len(shapes)
    first = options.first
    while options.shape is not None and simulation.shape_of(first) != options.shape:
        first += 1
    seeds = range(first, first + step * options.count, step)
    return campaign(simulation, seeds, options.jobs, options.seconds)
