"""Brokers that replicate keep their promises in every world that a seed draws.

``make test`` runs some seeds, others each time; ``QUORUM_FIRST_SEED`` and ``BROKERS_SEEDS`` say
which and how many. ``make sim-brokers`` runs more, ``make sim SEED=`` one with all that happens.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.conftest import FIRST_SEED
from tests.simulation.replication.campaign import look_at_seed, run_seed
from tests.simulation.replication.scenario import SHAPES
from tests.simulation.report import Look

ROOT = Path(__file__).parents[2]
REGRESSIONS = Path(__file__).parent / "replication" / "regressions.txt"
SEEDS = int(os.environ.get("BROKERS_SEEDS", "120"))
CHUNK = 10


def promises_are_kept(seed: int) -> None:
    violation = run_seed(seed).violation
    assert violation is None, f"seed {seed}: {violation}; make sim SEED={seed}"


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + SEEDS, CHUNK))
def test_promises_are_kept_in_worlds_never_seen_before(first: int) -> None:
    for seed in range(first, min(first + CHUNK, FIRST_SEED + SEEDS)):
        promises_are_kept(seed)


def regressions() -> list[int]:
    lines = REGRESSIONS.read_text().splitlines()
    return [int(line.split()[0]) for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("seed", regressions())
def test_what_a_seed_found_once_stays_found(seed: int) -> None:
    promises_are_kept(seed)


def replayed(seed: int, hash_seed: str) -> str:
    command = [sys.executable, "-m", "tests.simulation.replication.campaign", "--seed", str(seed)]
    done = subprocess.run(
        [*command, "--steps", "20000"],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("seed", range(len(SHAPES)), ids=SHAPES)
def test_a_seed_is_the_same_to_the_byte_in_every_process(seed: int) -> None:
    first = replayed(seed, "1")
    assert "no violation" in first
    assert first == replayed(seed, "2")
    assert look_at_seed(seed, Look(steps_max=20_000)).digest in first
