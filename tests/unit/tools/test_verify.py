"""quorate verify check, report, list and show, with runs that are made up."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from quorate.jepsen.checkers.meanings import MEANINGS
from quorate.jepsen.store import RunFolder
from quorate.tools.cli import run_command
from quorate.tools.examples import EXAMPLES
from quorate.tools.verify_running import Asked
from tests.unit.jepsen.report.histories import Maker, made_run
from tests.unit.jepsen.report.pages import Page


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run_command(["verify", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def good(root: Path) -> RunFolder:
    return made_run(root, Maker(7, 8, 100))


@pytest.fixture
def bad(root: Path) -> RunFolder:
    return made_run(root, Maker(8, 12, 100, lost=1), workloads=["idempotent"])


def is_told_in_three_lines(err: str) -> bool:
    lines = err.splitlines()[-3:]
    return [line.split(":")[0].strip() for line in lines] == ["error", "why", "try"]


def test_a_right_history_is_exit_code_0(
    good: RunFolder, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([str(good.history)], ["latest", "--dir", str(root)], [str(good.path)]):
        code, out, err = told(capsys, "check", *words)
        assert (code, out.splitlines()[0], err) == (0, "VALID", "")


def test_a_wrong_history_is_exit_code_3_and_the_proof_is_told(
    bad: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = told(capsys, "check", str(bad.path))
    assert code == 3
    assert out.startswith("INVALID: safety\n")
    assert "lost-write (1): " in out
    assert is_told_in_three_lines(err)


def test_who_reads_only_the_first_lines_does_not_change_the_exit_code(
    good: RunFolder, bad: RunFolder
) -> None:
    for folder, code in ((good, 0), (bad, 3)):
        reading, writing = os.pipe()
        os.close(reading)
        words = [sys.executable, "-m", "quorate.tools.cli", "verify", "check", str(folder.path)]
        ended = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, check=False)
        os.close(writing)
        assert ended.returncode == code
        assert b"Broken" not in ended.stderr
        assert b"Traceback" not in ended.stderr


def test_a_history_that_is_cut_off_is_judged_as_far_as_it_goes(
    good: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = good.history.read_bytes()
    good.history.write_bytes(whole[: len(whole) // 2])
    code, out, err = told(capsys, "check", str(good.history))
    assert (code, out.splitlines()[0]) == (4, "UNKNOWN")
    assert "judged as far as it goes" in " ".join(out.split())
    assert is_told_in_three_lines(err)
    assert told(capsys, "report", str(good.path))[0] == 0


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"not a history, but a text", "this is no history"),
        (b"", "this is no history"),
        (b"\xa1\x6fquorate-history\x18\x63", "a history of format 99; this version reads 1"),
        (b"\xa1\x6fquorate-hist", "ends in the middle"),
    ],
)
@pytest.mark.parametrize("verb", ["check", "report", "show"])
def test_what_is_no_history_is_refused(
    verb: str, data: bytes, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.cbor"
    path.write_bytes(data)
    code, out, err = told(capsys, verb, str(path))
    assert (code, out) == (1, "")
    assert why in err
    assert is_told_in_three_lines(err)


def test_garbage_behind_the_beginning_is_refused(
    good: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = good.history.read_bytes()
    good.history.write_bytes(whole[:5_000] + b"\xff" + whole[5_000:])
    for verb in ("check", "report", "show"):
        code, _, err = told(capsys, verb, "-n", "100000", str(good.path)) if verb == "show" else (
            told(capsys, verb, str(good.path))
        )  # fmt: skip
        assert code == 1, verb
        assert is_told_in_three_lines(err)


def test_of_an_unknown_run_the_nearest_is_told(
    good: RunFolder, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = told(capsys, "report", "20261122T080000-apend-7", "--dir", str(root))
    assert code == 1
    assert f"the nearest is {good.name}" in err
    assert is_told_in_three_lines(err)


def test_where_no_runs_are_that_is_said(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = told(capsys, "report", "--dir", str(root))
    assert code == 1
    assert "no runs are in" in err
    assert is_told_in_three_lines(err)
    code, out, err = told(capsys, "list", "--dir", str(root))
    assert (code, out.splitlines()[1:]) == (0, [])
    assert "quorate verify run" in err


def test_a_run_without_history_is_told_as_such(
    good: RunFolder, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good.history.unlink()
    code, _, err = told(capsys, "check", "latest", "--dir", str(root))
    assert code == 1
    assert "has no history" in err


def test_a_report_is_printed_and_a_page_written(
    bad: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = told(capsys, "report", str(bad.path))
    assert code == 0, "a report says what there is; check judges"
    assert "writes/s" in out
    assert max(map(len, out.splitlines())) <= 80
    assert str(bad.page) in err
    assert Page(bad.page.read_text()).said("b")[0] == "INVALID: safety"
    elsewhere = tmp_path / "elsewhere.html"
    assert told(capsys, "report", str(bad.path), "--html", str(elsewhere))[0] == 0
    assert elsewhere.read_text() == bad.page.read_text()


def test_the_command_that_repeats_a_run_can_be_pasted(
    good: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "quorate verify run append " + "--property name=value " * 10 + "--seed 7"
    good.write_about({}, repeat=command)
    assert f"again: {command}" in told(capsys, "report", str(good.path))[1].splitlines()


def test_the_example_of_an_anomaly_is_one_that_there_is() -> None:
    (example,) = EXAMPLES["verify show"]
    assert shlex.split(example)[-1] in MEANINGS


def test_programs_get_the_verdict_as_json(
    bad: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = told(capsys, "check", str(bad.path), "--json")
    document = json.loads(out)
    assert (code, document["exit_code"], document["validity"]) == (3, 3, "invalid-safety")
    assert document["anomalies"]["lost-write"] == 1
    assert document["operations"] == sum(
        sum(kinds.values()) for kinds in document["by_operation"].values()
    )
    for style in ("jsonl", "yaml"):
        assert "invalid-safety" in told(capsys, "check", str(bad.path), "--format", style)[1]


def test_runs_are_listed_the_newest_first(
    good: RunFolder, bad: RunFolder, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad.write_verdict({"validity": "invalid-safety", "anomalies": {"lost-write": 2}})
    _, out, _ = told(capsys, "list", "--dir", str(root), "--json")
    items = {item["name"]: item for item in json.loads(out)["items"]}
    assert list(items) == sorted(items, reverse=True)
    assert items[good.name]["verdict"] == "not judged"
    assert items[bad.name]["anomalies"] == ["lost-write"]
    _, out, _ = told(capsys, "list", "--dir", str(root), "--format", "name")
    assert set(out.split()) == {good.name, bad.name}


def test_operations_are_shown_as_asked_for(
    bad: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, err = told(capsys, "show", str(bad.path), "-n", "5")
    assert len(out.splitlines()) == 6
    assert "more than 5" in err
    _, out, _ = told(capsys, "show", str(bad.path), "--operation", "fault", "--json")
    faults = json.loads(out)["items"]
    assert {fault["process"] for fault in faults} == {0}
    assert faults[0]["asked"]["targets"]
    _, out, _ = told(capsys, "show", str(bad.path), "--process", "1", "--format", "jsonl")
    assert {json.loads(line)["operation"] for line in out.splitlines()} == {"view"}


def test_the_operations_that_prove_an_anomaly_are_shown(
    bad: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = told(capsys, "show", str(bad.path), "--anomaly", "lost-write", "--json")
    assert code == 0
    assert {item["operation"] for item in json.loads(out)["items"]} >= {"send"}
    code, _, err = told(capsys, "show", str(bad.path), "--anomaly", "lost-writes")
    assert code == 1
    assert "it has" in err
    assert is_told_in_three_lines(err)


def test_an_operation_that_a_run_does_not_have_is_refused(
    bad: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = told(capsys, "show", str(bad.path), "--operation", "nonsense")
    assert (code, out) == (1, "")
    assert "fault, heal, " in err
    assert is_told_in_three_lines(err)
    code, out, _ = told(capsys, "show", str(bad.path), "--operation", "send", "--process", "0")
    assert (code, len(out.splitlines())) == (0, 1), "nobody else's name is wrong"


def test_of_many_cases_of_an_anomaly_it_is_told_how_many_more_there_are(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(root, Maker(8, 12, 100, lost=5), workloads=["idempotent"])
    _, _, err = told(capsys, "show", str(run.path), "--anomaly", "lost-write")
    assert "and 2 more" in err.splitlines()


def test_the_noun_has_another_name(
    good: RunFolder, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["jepsen", "ls", "--dir", str(root), "--format", "name"]) == 0
    assert capsys.readouterr().out.strip() == good.name


def test_what_a_run_can_be_asked_for_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = told(capsys, "list", "--workloads", "--format", "name")
    assert (code, out.split()[0]) == (0, "append")
    code, out, _ = told(capsys, "list", "--faults", "--json")
    items = {item["name"]: item for item in json.loads(out)["items"]}
    assert items["kill"]["default"]
    assert "leader" in items["kill"]["variants"]
    assert {item["here"] for item in items.values()} <= {"whole", "reduced", "missing"}


def test_metadata_is_not_for_somebody_elses_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = told(capsys, "run", "metadata", "--against", "127.0.0.1:9")
    assert code == 2
    assert is_told_in_three_lines(err)
    assert "speaks to controllers of Quorate" in err


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--faults", "none,kill"], ["none stands alone", "try: --faults none, or --faults kill"]),
        (["--faults", "none,none"], ["none stands alone", "try: --faults none"]),
        (["--faults", ""], ["it is empty", "try: --faults none"]),
        (["--faults", " , "], ["it is empty", "try: --faults none"]),
        (["--faults", "kil"], ["did you mean kill?", "try: quorate verify list --faults"]),
        (["--faults", "xyz"], ["there are kill, ", "try: quorate verify list --faults"]),
        (["--faults", "kill:x"], ["there are ", "quorate verify list --faults --format wide"]),
        (["apend"], ["did you mean append?", "try: quorate verify list --workloads"]),
        (["reading"], ["there are append, ", "try: quorate verify list --workloads"]),
        (["--schedule", "rotations"], ["did you mean rotation?", "try: there are rotation, "]),
        (["--schedule", "x"], ["there are rotation, ", "try: quorate verify run --help"]),
        (["--inject-bug", "x"], ["there are ", "try: quorate verify mutants --list"]),
    ],
)
def test_of_a_name_that_nobody_knows_it_is_told_which_there_are(
    words: list[str], parts: list[str], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(capsys, root, words, parts)


def assert_refused(
    capsys: pytest.CaptureFixture[str], root: Path, words: list[str], parts: list[str]
) -> None:
    code, _, err = told(capsys, "run", *words, "--dir", str(root))
    assert code == 2
    assert is_told_in_three_lines(err)
    assert [part for part in parts if part not in err] == []
    assert not root.exists()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--controllers", "2"], ["an even number", "--controllers 1, or 3"]),
        (["--controllers", "4"], ["an even number", "--controllers 3, or 5"]),
        (
            ["--min-insync", "4"],
            ["replicas of a topic: 3; brokers: 3", "--min-insync 3, or --brokers 4 -r 4"],
        ),
        (
            ["-r", "1", "--min-insync", "2"],
            ["replicas of a topic: 1; brokers: 3", "--min-insync 1, or"],
        ),
        (["--brokers", "2", "--min-insync", "2"], ["one may be missing", "or --brokers 2 -r 2"]),
    ],
)
def test_a_number_that_cannot_be_is_refused_not_changed(
    words: list[str], parts: list[str], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(capsys, root, words, parts)


def test_numbers_that_nobody_chose_follow_those_that_were_chosen() -> None:
    for chosen in ({"brokers": 1}, {"replication_factor": 1}, {"controllers": 1}):
        Asked((), None, 8, 7, None, (), (), chosen).check_numbers()


def test_a_folder_that_cannot_be_written_to_is_told_in_words(
    good: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = tmp_path / "nowhere"
    code, out, err = told(capsys, "report", str(good.path), "--html", str(nowhere / "y.html"))
    assert (code, out) == (2, "")
    assert f"there is no folder {nowhere}" in err
    assert is_told_in_three_lines(err)
    code, _, err = told(capsys, "run", "append", "--dir", str(good.history))
    assert code == 2
    assert "a folder cannot be made there" in err
    assert is_told_in_three_lines(err)
