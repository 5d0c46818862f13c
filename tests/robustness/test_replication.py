"""Leaders that are killed, paused, cut off and restarted under load: every record is there once."""

from pathlib import Path

import pytest

from quorate.jepsen.lab.native import compiler
from tests.compat.peers import cache
from tests.robustness.replication import Plan, Tally, run

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="needs a C compiler, for redirect.c"),
]

SEED = 1
SESSION_TIMEOUT_MS = 1_000


def disturb(
    folder: Path, *faults: str, client: str = "librdkafka", acks: str = "all", group: str = ""
) -> Tally:
    """Let these happen to three brokers and three controllers under load."""
    plan = Plan(
        faults,
        SEED,
        client=client,
        acks=acks,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        records_per_s=500,
        group=group,
    )
    try:
        return run(plan, folder, progress=False)
    except cache.PeerUnavailableError as error:
        pytest.skip(error.reason)


def test_no_fault_loses_repeats_or_reorders_a_record_of_librdkafka(tmp_path: Path) -> None:
    tally = disturb(tmp_path, "kill", "pause", "isolate", "rolling", "all-killed")
    assert not tally.failures
    assert tally.acked == tally.sent > 0
    assert tally.read >= tally.acked


def test_no_fault_loses_repeats_or_reorders_a_record_of_java(tmp_path: Path) -> None:
    tally = disturb(tmp_path, "kill", client="java")
    assert not tally.failures
    assert tally.acked == tally.sent > 0


def test_losses_of_records_that_a_leader_acknowledged_alone_are_seen(tmp_path: Path) -> None:
    tally = disturb(tmp_path, "isolate", acks="1")
    assert "acknowledged records are lost or elsewhere" in "\n".join(tally.failures)


def test_a_group_owns_partitions_once_and_skips_nothing_whatever_happens(tmp_path: Path) -> None:
    tally = disturb(tmp_path, "coordinator", "pause", group="classic")
    assert not tally.failures
