"""quorate verify mutants: which bugs there are, and what becomes of their runs."""

import json
from pathlib import Path

import pytest

from quorate.jepsen.mutants.registry import MUTANTS
from quorate.tools import cli
from quorate.tools.cli import run_command

# Runs are forked from this process, in which there are threads of other tests.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


class Runs:
    """Stands for the quorate command: a run with a bug is red, one without ends as is said."""

    def __init__(self) -> None:
        self.clean_exit_code = 0

    def __call__(self, words: list[str]) -> int:
        planted = "--inject-bug" in words
        folder = Path(words[words.index("--dir") + 1], "20260101T000000-append-1")
        folder.mkdir(parents=True)  # a run that is made again would fail here
        (folder / "run.json").write_text("{}")
        anomalies = {"lost-write": 2} if planted else {}
        verdict = {"kind": "verdict", "anomalies": anomalies}
        (folder / "verdict.json").write_text(json.dumps(verdict))
        return 3 if planted else self.clean_exit_code


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    made = Runs()
    # It is looked up where a run begins, in another process.
    monkeypatch.setattr(cli, "run_command", made)
    return made


def test_all_bugs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["verify", "mutants", "--list", "--format", "name"]) == 0
    assert capsys.readouterr().out.split() == list(MUTANTS)


def test_an_unknown_bug_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["verify", "mutants", "ack-before-irs"]) == 2
    assert "did you mean ack-before-isr?" in capsys.readouterr().err


def test_bugs_that_are_found_in_all_seeds_prove_the_harness(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["verify", "mutants", "ack-before-isr", "--seeds", "3", "--format", "json"]
    assert run_command([*words, "--dir", str(tmp_path / "runs")]) == 0
    said = capsys.readouterr()
    (row,) = json.loads(said.out)["items"]
    assert (row["mutant"], row["killed"], row["green"]) == ("ack-before-isr", "3/3", "2/2")
    assert row["found"] == "lost-write"
    assert "1 of 1 mutants are killed" in said.err


def test_a_run_without_the_bug_that_is_not_green_proves_nothing(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.clean_exit_code = 4
    words = ["verify", "mutants", "ack-before-isr", "--seeds", "1"]
    assert run_command([*words, "--dir", str(tmp_path / "runs")]) == 3
    assert "without ack-before-isr, seed 1: NOT GREEN" in capsys.readouterr().err


def test_what_was_run_is_not_run_again(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["verify", "mutants", "ack-before-isr", "--clean", "0", "--dir", str(tmp_path / "runs")]
    assert run_command([*words, "--seeds", "1"]) == 0
    assert "ack-before-isr, seed 1: killed" in capsys.readouterr().err
    assert run_command([*words, "--seeds", "2", "--format", "json"]) == 0
    said = capsys.readouterr()
    (row,) = json.loads(said.out)["items"]
    assert (row["killed"], row["green"]) == ("2/2", "0/0")
    assert "ack-before-isr, seed 1: killed" not in said.err
    assert "ack-before-isr, seed 2: killed" in said.err
