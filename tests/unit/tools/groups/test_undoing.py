"""What offsets were, kept and brought back."""

import json
from pathlib import Path

import pytest

from quorate.client.groups.results import OffsetAndMetadata
from quorate.model import TopicPartition
from quorate.tools.groups.resetting import Change
from quorate.tools.groups.undoing import (
    Before,
    before_of,
    decode_before,
    encode_before,
    kept_table,
    plan_undo,
)
from quorate.tools.problems import CommandError
from quorate.tools.undo_files import KEPT_MAX, UndoFiles, state_directory

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
HAD = OffsetAndMetadata(9, 2, "é")
BEFORE = Before("g", 1_800_000_000_000, "reset --to-earliest", {T0: HAD, T1: None})


def test_only_what_changes_is_kept() -> None:
    changes = [Change(T0, HAD, OffsetAndMetadata(0)), Change(T1, None, HAD), Change(T2, HAD, HAD)]
    assert before_of("g", BEFORE.time_ms, BEFORE.why, changes) == BEFORE


def test_what_is_kept_comes_back() -> None:
    assert decode_before(encode_before(BEFORE)) == BEFORE


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 9}', '{"version": 1, "offsets": 3}'])
def test_what_is_no_such_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_before(text)


def test_the_way_back_restores_offsets_and_forgets_those_that_were_none() -> None:
    back = plan_undo(BEFORE, {T0: OffsetAndMetadata(0), T1: HAD})
    assert back == [
        Change(T0, OffsetAndMetadata(0), HAD),
        Change(T1, HAD, None, "it is forgotten"),
    ]


def test_what_can_be_undone_is_listed() -> None:
    assert kept_table([BEFORE]).rows == (
        ("g", "2027-01-15T08:00:00.000Z", 2, "reset --to-earliest"),
    )


def test_files_are_kept_newest_first_and_forgotten(tmp_path: Path) -> None:
    files = UndoFiles(tmp_path, "cluster", "a/../group of ours")
    older = Before("g", 5, "older", {T0: None})
    files.keep(older)
    files.keep(BEFORE)
    assert files.read() == [BEFORE, older]
    files.forget(BEFORE)
    assert UndoFiles(tmp_path, "cluster", "a/../group of ours").read() == [older]
    assert UndoFiles(tmp_path, "cluster", "another").read() == []
    assert UndoFiles(tmp_path, "other", "a/../group of ours").read() == []
    assert [path.name for path in (tmp_path / "group-offsets" / "cluster").iterdir()] == [
        "a%2F..%2Fgroup%20of%20ours"
    ]


@pytest.mark.parametrize("group_id", ["..", ".", "é" * 249, "", "CON"])
def test_every_group_has_a_folder(tmp_path: Path, group_id: str) -> None:
    UndoFiles(tmp_path, "cluster", group_id).keep(BEFORE)
    assert UndoFiles(tmp_path, "cluster", group_id).read() == [BEFORE]
    assert {path.name for path in tmp_path.iterdir()} == {"group-offsets"}


def test_no_more_than_fifty_are_kept(tmp_path: Path) -> None:
    files = UndoFiles(tmp_path, "cluster", "g")
    for time_ms in range(KEPT_MAX + 3):
        files.keep(Before("g", time_ms, "", {}))
    assert [before.time_ms for before in files.read()] == list(range(KEPT_MAX + 2, 2, -1))


def test_what_cannot_be_kept_or_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "group-offsets").write_text("in the way")
    with pytest.raises(CommandError, match="could not be undone"):
        UndoFiles(tmp_path, "cluster", "g").keep(BEFORE)
    files = UndoFiles(tmp_path / "other", "cluster", "g")
    files.keep(BEFORE)
    (path,) = (tmp_path / "other").rglob("*.json")
    path.write_text(json.dumps({"version": 99}))
    with pytest.raises(CommandError, match="cannot read"):
        files.read()


def test_the_state_directory_is_that_of_the_user() -> None:
    assert state_directory({"XDG_STATE_HOME": "/s"}) == Path("/s/quorate")
    assert state_directory({}) == Path.home() / ".local/state/quorate"
