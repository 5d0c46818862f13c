"""Brokers that replicate keep their promises in every world that a seed draws.

``make test`` runs some seeds, others each time; ``QUORUM_FIRST_SEED`` and ``BROKERS_SEEDS`` say
which and how many. ``make sim-brokers`` runs more, ``make sim SEED=`` one with all that happens.
"""

import os
from concurrent.futures import Executor

import pytest

from tests.conftest import FIRST_SEED
from tests.simulation.replication.campaign import BROKERS, look_at_seed
from tests.simulation.replication.recreating_campaign import RECREATIONS
from tests.simulation.replication.scenario import SHAPES
from tests.simulation.replication.transactional_campaign import TRANSACTIONS
from tests.simulation.report import Look
from tests.simulation.seeds import promises_are_kept, regressions, replayed

SEEDS = int(os.environ.get("BROKERS_SEEDS", "120"))
CHUNK = 10


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + SEEDS, CHUNK))
def test_promises_are_kept_in_worlds_never_seen_before(workers: Executor, first: int) -> None:
    seeds = range(first, min(first + CHUNK, FIRST_SEED + SEEDS))
    promises_are_kept(workers, BROKERS, seeds, "sim")


@pytest.mark.parametrize("first", [FIRST_SEED])
def test_transactions_are_shown_as_they_were_decided(workers: Executor, first: int) -> None:
    promises_are_kept(workers, TRANSACTIONS, range(first, first + SEEDS // 40), "sim-transactions")


@pytest.mark.parametrize("first", [FIRST_SEED])
def test_a_topic_has_nothing_of_those_that_had_its_name(workers: Executor, first: int) -> None:
    promises_are_kept(workers, RECREATIONS, range(first, first + SEEDS // 10), "sim-recreations")


def test_what_a_seed_found_once_stays_found(workers: Executor) -> None:
    promises_are_kept(workers, BROKERS, regressions("replication/regressions.txt"), "sim")


def test_what_a_topic_made_anew_found_once_stays_found(workers: Executor) -> None:
    found = regressions("replication/recreations.txt")
    promises_are_kept(workers, RECREATIONS, found, "sim-recreations")


@pytest.mark.parametrize("seed", range(len(SHAPES)), ids=SHAPES)
def test_a_seed_is_the_same_to_the_byte_in_every_process(seed: int) -> None:
    first = replayed("replication", seed, "1", "--steps", "20000")
    assert "no violation" in first
    assert first == replayed("replication", seed, "2", "--steps", "20000")
    assert look_at_seed(seed, Look(steps_max=20_000)).digest in first
