"""Three controllers that are killed, cut off and powered off keep what they acknowledged."""

from pathlib import Path

import pytest

from quorate.jepsen.lab.native import compiler
from tests.robustness.quorum import Plan, run
from tests.robustness.quorum_fuzz import run as fuzz

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="needs a C compiler, for shim.c and redirect.c"),
]

SEED = 1
FRAMES = 1500


def test_kills_power_cuts_and_partitions_lose_nothing_and_confuse_nobody(tmp_path: Path) -> None:
    plan = Plan(kills=1, full_kills=1, power_cuts=1, partitions=1, pauses=0, wipes=0, seed=SEED)
    tally = run(plan, tmp_path, progress=False)
    assert not tally.failures
    assert tally.acknowledged > 0
    assert tally.terms > 1
    assert (tally.full_kills, tally.power_cuts, tally.partitions) == (1, 1, 1)
    assert tally.blind == 0


def test_disks_that_lie_about_syncs_are_found_out(tmp_path: Path) -> None:
    plan = Plan(
        kills=0,
        full_kills=0,
        power_cuts=1,  # of all three
        partitions=0,
        pauses=0,
        wipes=0,
        seed=SEED,
        lying_disks=True,
        patience_s=5.0,
    )
    tally = run(plan, tmp_path, progress=False)
    assert tally.power_cuts > 0
    assert tally.failures


def test_damaged_and_hostile_frames_do_no_harm(tmp_path: Path) -> None:
    report = fuzz(FRAMES, SEED, tmp_path / "fuzz", progress=False)
    assert not report.problems
    assert report.frames >= FRAMES
    assert report.healthy_requests > 0
