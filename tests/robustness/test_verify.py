"""Runs of the harness on real processes: nothing is lost, repeated, or in another order."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quorate.jepsen.lab.native import compiler
from tests.compat.peers import cache, java

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="needs a C compiler, for the network"),
]

SECONDS_MAX = 240.0
VALID, UNKNOWN = 0, 4


def verify(folder: Path, *words: str, jars: Path | None = None) -> dict[str, Any]:
    """Carry out a run; return the verdict: nothing is wrong, though a busy machine shows less."""
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "quorate.tools.cli", "verify", "run", *words),
            *("--network", "proxy", "--dir", str(folder)),
        ],
        env=os.environ if jars is None else {**os.environ, "QUORATE_KAFKA_JARS": str(jars)},
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert ran.returncode in (VALID, UNKNOWN), ran.stdout + ran.stderr
    (found,) = folder.glob("*/verdict.json")
    verdict: dict[str, Any] = json.loads(found.read_text())
    assert not verdict["notes"], ran.stdout + ran.stderr
    assert verdict["faults_bit"] > 0
    assert verdict["figures"]["acknowledged"] > 100
    return verdict


def test_no_fault_loses_repeats_or_reorders_a_record_of_librdkafka(tmp_path: Path) -> None:
    words = ("append", "--client", "librdkafka", "--time", "20", "--seed", "1")
    verify(tmp_path, *words, "--faults", "kill,pause,partition,restart")


def test_no_fault_loses_repeats_or_reorders_a_record_of_java(tmp_path: Path) -> None:
    try:
        jars = java.kafka_folder()
    except cache.PeerUnavailableError as error:
        pytest.skip(error.reason)
    words = ("append", "--client", "java", "--schedule", "single", "--time", "5", "--seed", "1")
    verify(tmp_path, *words, "--faults", "kill:leader", jars=jars)


def test_losses_of_records_that_a_leader_acknowledged_alone_are_seen(tmp_path: Path) -> None:
    words = ("append", "--acks", "1", "--min-insync", "1", "--schedule", "single", "--seed", "1")
    verdict = verify(tmp_path, *words, "--time", "4", "--faults", "directed:sleeping-followers")
    assert verdict["allowed"]["acked-by-leader-only"] > 0


def test_a_group_owns_partitions_once_and_skips_nothing_whatever_happens(tmp_path: Path) -> None:
    words = ("groups", "--controllers", "1", "--time", "12", "--seed", "1")
    verify(tmp_path, *words, "--faults", "kill,pause")
