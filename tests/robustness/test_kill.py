"""Nodes that are killed in the middle of their work, with and without the power going, too."""

from pathlib import Path

import pytest

from quorate.jepsen.lab.native import compiler
from tests.robustness.kill import Plan, run

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SEED = 1
needs_shim = pytest.mark.skipif(compiler() is None, reason="needs a C compiler, for shim.c")


def test_kills_lose_no_acknowledged_record(tmp_path: Path) -> None:
    tally = run(Plan(rounds=6, power=False, synced=False, seed=SEED), tmp_path, progress=False)
    assert not tally.failures
    assert tally.acked > 0


@needs_shim
def test_power_cuts_lose_no_acknowledged_record_if_each_is_synced(tmp_path: Path) -> None:
    tally = run(Plan(rounds=8, power=True, synced=True, seed=SEED), tmp_path, progress=False)
    assert not tally.failures
    assert tally.acked > 0
    assert tally.cuts_that_lost > 0  # what was not synced: the cuts are real


@needs_shim
def test_power_cuts_that_lose_acknowledged_records_are_seen(tmp_path: Path) -> None:
    tally = run(Plan(rounds=20, power=True, synced=False, seed=SEED), tmp_path, progress=False)
    (failure,) = tally.failures
    assert "acknowledged records are lost" in failure
