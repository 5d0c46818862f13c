"""The folders of runs."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from quorate.jepsen.store import RunFolder, RunNotFoundError, create, find, list_runs

WHEN = datetime(2026, 11, 22, 8, 0, 5, tzinfo=UTC)


def run(root: Path, second: int, workload: str = "append", seed: int = 7) -> RunFolder:
    folder = create(root, WHEN.replace(second=second), [workload], seed)
    folder.write_about({"seed": seed}, repeat=f"quorate verify run {workload} --seed {seed}")
    return folder


def test_a_run_is_named_by_its_time_workloads_and_seed(tmp_path: Path) -> None:
    folder = create(tmp_path / "runs", WHEN, ["append", "groups"], 7)
    assert folder.name == "20261122T080005-append+groups-7"
    assert folder.path.is_dir()


def test_two_runs_of_one_second_have_folders_of_their_own(tmp_path: Path) -> None:
    names = {create(tmp_path, WHEN, ["append"], 7).name for _ in range(3)}
    assert len(names) == 3


def test_the_newest_run_is_listed_first_and_is_the_latest(tmp_path: Path) -> None:
    runs = [run(tmp_path, second) for second in (1, 3, 2)]
    (tmp_path / "20991231T235959-nothing-in-it").mkdir()
    assert [folder.name for folder in list_runs(tmp_path)] == [runs[i].name for i in (1, 2, 0)]
    assert find(tmp_path, "latest") == runs[1]


def test_a_run_is_found_by_folder_by_name_and_by_the_beginning_of_its_name(tmp_path: Path) -> None:
    first, second = run(tmp_path, 1), run(tmp_path, 12)
    for word in (str(first.path), first.name, "20261122T080001"):
        assert find(tmp_path, word) == first
    assert find(tmp_path, "20261122T080012-app") == second


def test_a_name_that_begins_others_is_found_as_it_is(tmp_path: Path) -> None:
    first, _ = run(tmp_path, 1), run(tmp_path, 1)
    assert find(tmp_path, first.name) == first


def test_the_beginning_of_several_names_is_refused_and_they_are_named(tmp_path: Path) -> None:
    for second in range(5):
        run(tmp_path, second)
    with pytest.raises(RunNotFoundError, match="5 runs begin with '2026'") as caught:
        find(tmp_path, "2026")
    assert "and 2 more" in caught.value.why


def test_of_an_unknown_run_the_nearest_is_told(tmp_path: Path) -> None:
    run(tmp_path, 1, "append", 7)
    other = run(tmp_path, 2, "groups", 4711)
    with pytest.raises(RunNotFoundError) as caught:
        find(tmp_path, "20261122T080002-group-4712")
    assert caught.value.near == other.name


def test_where_no_runs_are_nothing_is_found(tmp_path: Path) -> None:
    for word in ("latest", "x"):
        with pytest.raises(RunNotFoundError, match="no runs are in"):
            find(tmp_path / "nowhere", word)


def test_documents_are_read_as_they_were_written_and_torn_ones_are_empty(tmp_path: Path) -> None:
    folder = run(tmp_path, 1)
    folder.write_verdict({"validity": "valid", "figures": {"digest": b"\x01\x02", "at": WHEN}})
    assert folder.read_about()["header"] == {"seed": 7}
    assert folder.read_verdict()["figures"] == {"digest": "0102", "at": str(WHEN)}
    folder.verdict.write_text('{"validity": ')
    assert folder.read_verdict() == {}
    assert list(folder.path.glob("*.new")) == []
