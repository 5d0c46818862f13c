"""quorate verify mutants: which bugs there are, and what becomes of their runs."""

import json
import stat
from pathlib import Path

import pytest

from quorate.jepsen.mutants.registry import MUTANTS
from quorate.tools import verify_mutants
from quorate.tools.cli import run_command

RUN = """#!/bin/sh
while [ "$1" != --dir ]; do shift; done
mkdir -p "$2/20260101T000000-append-1"
cd "$2/20260101T000000-append-1"
echo '{}' > run.json
case "$*" in
*--inject-bug*) echo '{"kind": "verdict", "anomalies": {"lost-write": 2}}' > verdict.json; exit 3;;
*) echo '{"kind": "verdict", "anomalies": {}}' > verdict.json; exit %d;;
esac
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand for the quorate command: a run with a bug is red, one without ends as is written."""
    program = tmp_path / "quorate"
    program.write_text(RUN % 0)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(verify_mutants, "QUORATE", (str(program),))
    return program


def test_all_bugs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["verify", "mutants", "--list", "--format", "name"]) == 0
    assert capsys.readouterr().out.split() == list(MUTANTS)


def test_an_unknown_bug_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["verify", "mutants", "ack-before-irs"]) == 2
    assert "did you mean ack-before-isr?" in capsys.readouterr().err


def test_bugs_that_are_found_in_all_seeds_prove_the_harness(
    fake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["verify", "mutants", "ack-before-isr", "--seeds", "2", "--format", "json"]
    assert run_command([*words, "--dir", str(tmp_path / "runs")]) == 0
    said = capsys.readouterr()
    (row,) = json.loads(said.out)["items"]
    assert (row["mutant"], row["killed"], row["green"]) == ("ack-before-isr", "2/2", "2/2")
    assert row["found"] == "lost-write"
    assert "1 of 1 mutants are killed" in said.err


def test_a_run_without_the_bug_that_is_not_green_proves_nothing(
    fake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.write_text(RUN % 4)
    words = ["verify", "mutants", "ack-before-isr", "--seeds", "1"]
    assert run_command([*words, "--dir", str(tmp_path / "runs")]) == 3
    assert "without ack-before-isr, seed 1: NOT GREEN" in capsys.readouterr().err
