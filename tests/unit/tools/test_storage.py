"""Whose directories are, as what stands in them says."""

import json
from pathlib import Path

import pytest

from quorate.tools.problems import CommandError
from quorate.tools.storage import owned_in, owned_table

BROKER = {"kind": "quorate-directory", "body": {"cluster_id": "c", "node_id": 1}}
VOTER = {"cluster_id": "c", "node_id": 101, "directory_id": "d", "founders": [{"node_id": 102}]}


def write(folder: Path, document: object) -> None:
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps(document))


def test_the_directories_of_a_cluster_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path / "broker-1", BROKER)
    write(tmp_path / "controller-101" / "controller", VOTER)
    rows = owned_table(owned_in(tmp_path)).rows
    assert [row[1:5] for row in rows] == [("broker", 1, "c", ""), ("controller", 101, "c", "d")]
    assert all(row[5] > 0 for row in rows)


def test_a_node_alone_has_both_in_one(tmp_path: Path) -> None:
    write(tmp_path / "node" / "controller", VOTER)
    (tmp_path / "node" / "meta.json").write_text(json.dumps(BROKER))
    controller, broker = owned_in(tmp_path / "node")
    assert [controller.node_id, broker.node_id] == [101, 1]
    sizes = [len(json.dumps(VOTER)), len(json.dumps(BROKER))]
    assert [controller.size_bytes, broker.size_bytes] == sizes, "each byte is counted once"


def test_a_file_that_a_node_just_removed_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "node", BROKER)
    listed = Path.rglob

    def rglob(folder: Path, pattern: str) -> list[Path]:
        return [*listed(folder, pattern), folder / "removed"]

    monkeypatch.setattr(Path, "rglob", rglob)
    (owned,) = owned_in(tmp_path)
    assert owned.size_bytes == len(json.dumps(BROKER))


def test_what_belongs_to_nobody_or_is_damaged_is_told(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="belongs to no node"):
        owned_in(tmp_path)
    (tmp_path / "meta.json").write_text("{")
    with pytest.raises(CommandError, match="cannot read"):
        owned_in(tmp_path)
