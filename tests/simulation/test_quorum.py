"""A quorum of controllers keeps its promises in every world that a seed draws.

``make test`` runs some seeds, others each time; ``QUORUM_FIRST_SEED`` and ``QUORUM_SEEDS`` say
which and how many. ``make sim-quorum`` runs more, and one of them with all that happens in it.
"""

import os
from concurrent.futures import Executor

import pytest

from tests.conftest import FIRST_SEED
from tests.simulation.quorum.campaign import QUORUMS, run_seed
from tests.simulation.quorum.scenario import SHAPES
from tests.simulation.seeds import promises_are_kept, regressions, replayed

SEEDS = int(os.environ.get("QUORUM_SEEDS", "200"))
CHUNK = 20


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + SEEDS, CHUNK))
def test_promises_are_kept_in_worlds_never_seen_before(workers: Executor, first: int) -> None:
    seeds = range(first, min(first + CHUNK, FIRST_SEED + SEEDS))
    promises_are_kept(workers, QUORUMS, seeds, "sim-quorum")


def test_what_a_seed_found_once_stays_found(workers: Executor) -> None:
    promises_are_kept(workers, QUORUMS, regressions("quorum/regressions.txt"), "sim-quorum")


@pytest.mark.parametrize("seed", range(len(SHAPES)), ids=SHAPES)
def test_a_seed_is_the_same_to_the_byte_in_every_process(seed: int) -> None:
    first = replayed("quorum", seed, "1")
    assert "no violation" in first
    assert first == replayed("quorum", seed, "2")
    assert run_seed(seed).digest in first


def test_another_seed_is_another_world() -> None:
    assert run_seed(0).digest != run_seed(len(SHAPES)).digest
