"""A planted bug is found by a real run: the harness is not blind."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from quorate.jepsen.lab.native import compiler
from quorate.jepsen.mutants.proving import INVALID, command_of
from quorate.jepsen.mutants.registry import MUTANTS

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="needs a C compiler, for the network"),
]

SMALLER = ("--controllers", "1", "--time", "3")
"""The same in less time; the last one that is said holds."""

SECONDS_MAX = 150.0


def test_acknowledgements_before_the_isr_has_the_record_are_found(tmp_path: Path) -> None:
    mutant = MUTANTS["ack-before-isr"]
    words = command_of(mutant, seed=1, planted=True, directory=str(tmp_path))
    ran = subprocess.run(
        [sys.executable, "-m", "quorate.tools.cli", *words, *SMALLER],
        check=False, capture_output=True, text=True, timeout=SECONDS_MAX,
    )  # fmt: skip
    assert ran.returncode == INVALID, ran.stderr
    (verdict,) = tmp_path.glob("*/verdict.json")
    assert not mutant.anomalies.isdisjoint(json.loads(verdict.read_text())["anomalies"])
