"""Damaged frames neither end, block, nor bloat a node, and nothing wrong comes into its logs."""

from pathlib import Path

import pytest

from tests.robustness.fuzz_wire import run

pytestmark = [pytest.mark.integration, pytest.mark.slow]

FRAMES = 20_000
SEED = 3


def test_damaged_frames_of_every_api_do_no_harm(tmp_path: Path) -> None:
    report = run(FRAMES, SEED, tmp_path, progress=False)
    assert not report.problems
    assert report.frames >= FRAMES
    assert report.healthy_requests > 0
    assert report.batches_read > 0
