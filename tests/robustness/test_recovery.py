"""A node that was killed looks at what was written since the last checkpoint, and at no more."""

from pathlib import Path

import pytest

from tests.robustness.recovery import Recovery

pytestmark = [pytest.mark.integration, pytest.mark.slow]

DATA_BYTES = 100_000_000
SINCE_BYTES = 5_000_000
NOISE_BYTES = 2_000_000
START_S_MAX = 5.0
"""Generous: other tests run at the same time.  ``recovery.py`` measures."""


def test_recovery_reads_what_was_written_since_the_last_checkpoint(tmp_path: Path) -> None:
    often = {"log.flush.offset.checkpoint.interval.ms": "200"}
    recovery = Recovery(tmp_path, often)
    node, empty = recovery.start()
    with node:
        recovery.fill(node, DATA_BYTES)
        recovery.wait_for_checkpoint()
    seldom = Recovery(tmp_path, {"log.flush.offset.checkpoint.interval.ms": "3600000"})
    node, checkpointed = seldom.start()
    with node:
        assert checkpointed.read_bytes - empty.read_bytes < NOISE_BYTES
        assert checkpointed.acked_s < START_S_MAX
        seldom.fill(node, SINCE_BYTES)
    node, behind = seldom.start()
    with node:
        read_bytes = behind.read_bytes - empty.read_bytes
        assert SINCE_BYTES * 0.9 < read_bytes < SINCE_BYTES + NOISE_BYTES
        assert node.stop() == 0
    node, clean = seldom.start()
    with node:
        assert clean.read_bytes - empty.read_bytes < NOISE_BYTES
        assert clean.rss_bytes < empty.rss_bytes * 1.2
