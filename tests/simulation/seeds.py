"""What the tests of all simulations do with seeds."""

import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import Executor
from pathlib import Path

from tests.simulation.campaign import Simulation

ROOT = Path(__file__).parents[2]
SIMULATIONS = Path(__file__).parent


def promises_are_kept(
    workers: Executor, simulation: Simulation, seeds: Iterable[int], again: str
) -> None:
    """Run seeds; ``again`` is the command that shows what happens in one."""
    for report in workers.map(simulation.run_seed, seeds):
        violation, seed = report.violation, report.seed
        assert violation is None, f"seed {seed}: {violation}; make {again} SEED={seed}"


def regressions(path: str) -> list[int]:
    """Return the seeds that once found something, of a file beside a simulation."""
    lines = (SIMULATIONS / path).read_text().splitlines()
    return [int(line.split()[0]) for line in lines if not line.startswith("#")]


def replayed(name: str, seed: int, hash_seed: str, *options: str) -> str:
    """Return what a process of its own says of a seed, where sets have another order."""
    command = [sys.executable, "-m", f"tests.simulation.{name}.campaign", "--seed", str(seed)]
    done = subprocess.run(
        [*command, *options],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
