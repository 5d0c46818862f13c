"""A quorum of controllers keeps its promises in every world that a seed draws.

``make test`` runs some seeds, others each time; ``QUORUM_FIRST_SEED`` and ``QUORUM_SEEDS`` say
which and how many. ``make sim-quorum`` runs more, and one of them with all that happens in it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.conftest import FIRST_SEED
from tests.simulation.quorum.campaign import run_seed
from tests.simulation.quorum.scenario import SHAPES

ROOT = Path(__file__).parents[2]
REGRESSIONS = Path(__file__).parent / "quorum" / "regressions.txt"
SEEDS = int(os.environ.get("QUORUM_SEEDS", "400"))
CHUNK = 20


def promises_are_kept(seed: int) -> None:
    violation = run_seed(seed).violation
    assert violation is None, f"seed {seed}: {violation}; make sim-quorum SEED={seed}"


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
    command = [sys.executable, "-m", "tests.simulation.quorum.campaign", "--seed", str(seed)]
    done = subprocess.run(
        command,
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
    assert run_seed(seed).digest in first


def test_another_seed_is_another_world() -> None:
    assert run_seed(0).digest != run_seed(len(SHAPES)).digest
