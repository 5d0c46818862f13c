"""A controller's directory: formatted once, locked, and never somebody else's."""

import base64
import json
from pathlib import Path

import pytest

from quorate.quorum.directory import (
    ControllerDirectory,
    ControllerDirectoryError,
    ControllerMeta,
    new_cluster_id,
    open_controller_directory,
)


def open_directory(
    path: Path, node_id: int = 1, *, cluster_id: str | None = None, format_if_empty: bool = True
) -> ControllerDirectory:
    return open_controller_directory(
        path, node_id, cluster_id=cluster_id, format_if_empty=format_if_empty
    )


@pytest.fixture
def formatted(tmp_path: Path) -> Path:
    open_directory(tmp_path, cluster_id="cluster-1").close()
    return tmp_path


def meta_file(path: Path) -> Path:
    return path / "controller" / "meta.json"


def test_cluster_ids_look_like_kafkas() -> None:
    ids = {new_cluster_id() for _ in range(200)}
    assert len(ids) == 200
    for cluster_id in ids:
        assert len(cluster_id) == 22
        assert cluster_id[0] != "-"
        assert len(base64.urlsafe_b64decode(cluster_id + "==")) == 16


def test_an_empty_directory_is_formatted_and_found_again(tmp_path: Path) -> None:
    first = open_directory(tmp_path / "node")
    assert first.meta == ControllerMeta(first.meta.cluster_id, 1, (1,))
    first.close()
    second = open_directory(tmp_path / "node", format_if_empty=False)
    assert second.meta == first.meta
    second.close()


def test_a_given_cluster_id_is_used(formatted: Path) -> None:
    directory = open_directory(formatted, cluster_id="cluster-1")
    assert directory.meta.cluster_id == "cluster-1"
    directory.close()


def test_an_empty_directory_is_not_formatted_unasked(tmp_path: Path) -> None:
    with pytest.raises(ControllerDirectoryError, match="is not formatted"):
        open_directory(tmp_path, format_if_empty=False)
    (tmp_path / "controller").mkdir()
    with pytest.raises(ControllerDirectoryError, match="is not formatted"):
        open_directory(tmp_path, format_if_empty=False)


def test_two_processes_do_not_share_a_directory(formatted: Path) -> None:
    first = open_directory(formatted)
    with pytest.raises(ControllerDirectoryError, match="in use by another"):
        open_directory(formatted)
    first.close()
    open_directory(formatted).close()


@pytest.mark.parametrize(
    ("node_id", "cluster_id", "complaint"),
    [
        (1, "other", "belongs to cluster cluster-1, not to other"),
        (2, None, "belongs to node 1, not to 2"),
    ],
)
def test_a_foreign_directory_is_refused_and_left_unlocked(
    formatted: Path, node_id: int, cluster_id: str | None, complaint: str
) -> None:
    with pytest.raises(ControllerDirectoryError, match=complaint) as caught:
        open_directory(formatted, node_id, cluster_id=cluster_id)
    assert "\n" not in str(caught.value)
    open_directory(formatted).close()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1, "cluster_id": "x"}', "\0"])
def test_a_damaged_description_is_refused(formatted: Path, text: str) -> None:
    meta_file(formatted).write_text(text)
    with pytest.raises(ControllerDirectoryError, match="damaged"):
        open_directory(formatted)


def test_a_description_that_cannot_be_read_is_refused(formatted: Path) -> None:
    meta_file(formatted).unlink()
    meta_file(formatted).mkdir()
    with pytest.raises(ControllerDirectoryError, match="cannot read"):
        open_directory(formatted)


def test_another_format_or_a_quorum_of_several_is_refused(formatted: Path) -> None:
    content = json.loads(meta_file(formatted).read_text())
    meta_file(formatted).write_text(json.dumps({**content, "format": 2}))
    with pytest.raises(ControllerDirectoryError, match="has format 2; this version knows 1"):
        open_directory(formatted)
    meta_file(formatted).write_text(json.dumps({**content, "voters": [1, 2, 3]}))
    with pytest.raises(ControllerDirectoryError, match="quorum of 3 voters"):
        open_directory(formatted)


def test_a_journal_without_a_description_is_refused(formatted: Path) -> None:
    meta_file(formatted).unlink()
    (formatted / "controller" / "journal").write_bytes(b"x")
    with pytest.raises(ControllerDirectoryError, match="whose is it"):
        open_directory(formatted)


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ControllerDirectoryError, match=r"cannot use .*: Not a directory"):
        open_directory(tmp_path / "file")
    (tmp_path / "controller").mkdir()
    (tmp_path / "controller" / "lock").mkdir()
    with pytest.raises(ControllerDirectoryError, match=r"cannot use .*: Is a directory"):
        open_directory(tmp_path)
