"""A controller's directory: one identity, formatted once, locked, and never somebody else's."""

import base64
import json
import secrets
from pathlib import Path

import pytest

from quorate.model import Endpoint
from quorate.quorum.directory import (
    ControllerDirectory,
    ControllerDirectoryError,
    ControllerMeta,
    new_cluster_id,
    open_controller_directory,
)
from quorate.quorum.raft.forming import cluster_id_of
from quorate.quorum.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterSet

HERE = Endpoint("127.0.0.1", 9190)


def open_directory(
    path: Path, node_id: int = 1, *, cluster_id: str | None = None
) -> ControllerDirectory:
    return open_controller_directory(path, node_id, cluster_id=cluster_id)


@pytest.fixture
def formatted(tmp_path: Path) -> Path:
    directory = open_directory(tmp_path)
    directory.found_alone("cluster-1", HERE)
    directory.close()
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


def test_no_id_looks_like_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = [bytes([first]) + bytes(15) for first in (0xF8, 0xFB, 0xFC, 0xF9, 0xF7)]
    assert [cluster_id_of(drawn)[0] for drawn in draws] == ["-", "-", "_", "-", "9"]

    def next_draw(size_bytes: int) -> bytes:
        assert size_bytes == 16
        return draws.pop(0)

    monkeypatch.setattr(secrets, "token_bytes", next_draw)
    assert new_cluster_id().startswith("_")
    directory = open_directory(tmp_path)
    assert directory.meta.key.directory_id[0] == 0xF7
    directory.close()


def test_a_controller_is_the_same_ever_after_its_first_start(tmp_path: Path) -> None:
    first = open_directory(tmp_path / "node")
    assert first.meta == ControllerMeta(first.meta.key, "", NO_VOTERS)
    assert not first.meta.is_formatted
    first.close()
    second = open_directory(tmp_path / "node", cluster_id="whichever")
    assert second.meta == first.meta
    second.close()


def test_every_directory_makes_another_controller(tmp_path: Path) -> None:
    directories = [open_directory(tmp_path / name) for name in "ab"]
    a, b = (directory.meta.key for directory in directories)
    assert a.node_id == b.node_id
    assert a != b
    for directory in directories:
        directory.close()


def test_a_formatted_directory_knows_its_cluster_and_the_founders(tmp_path: Path) -> None:
    first = open_directory(tmp_path)
    others = [Voter(ReplicaKey(n, bytes([n]) * 16), Endpoint("host", n)) for n in (2, 3)]
    founders = VoterSet.of([*others, Voter(first.meta.key, HERE)])
    first.format("cluster-1", founders)
    assert first.meta == ControllerMeta(first.meta.key, "cluster-1", founders)
    first.close()
    second = open_directory(tmp_path, cluster_id="cluster-1")
    assert second.meta == first.meta
    assert second.meta.is_formatted
    second.close()


def test_a_controller_alone_founds_a_cluster_once(tmp_path: Path) -> None:
    first = open_directory(tmp_path)
    first.found_alone(None, HERE)
    assert len(first.meta.cluster_id) == 22
    assert first.meta.founders == VoterSet.of([Voter(first.meta.key, HERE)])
    first.found_alone(None, HERE)
    first.close()
    second = open_directory(tmp_path)
    second.found_alone(None, HERE)
    assert second.meta == first.meta
    second.close()


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


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"format": 2, "cluster_id": "x"}', "\0", "\udcff"],
)
def test_a_damaged_description_is_refused(formatted: Path, text: str) -> None:
    meta_file(formatted).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ControllerDirectoryError, match="damaged"):
        open_directory(formatted)


@pytest.mark.parametrize(
    "change",
    [
        {"directory_id": "AAAA"},
        {"directory_id": 1},
        {"node_id": "one"},
        {"founders": [1]},
        {"founders": 3},
    ],
)
def test_a_description_with_a_wrong_value_is_refused(
    formatted: Path, change: dict[str, object]
) -> None:
    content = json.loads(meta_file(formatted).read_text())
    meta_file(formatted).write_text(json.dumps({**content, **change}))
    with pytest.raises(ControllerDirectoryError, match="damaged"):
        open_directory(formatted)


def test_founders_of_one_id_are_refused(formatted: Path) -> None:
    content = json.loads(meta_file(formatted).read_text())
    content["founders"] *= 2
    meta_file(formatted).write_text(json.dumps(content))
    with pytest.raises(ControllerDirectoryError, match="damaged"):
        open_directory(formatted)


def test_a_description_that_cannot_be_read_is_refused(formatted: Path) -> None:
    meta_file(formatted).unlink()
    meta_file(formatted).mkdir()
    with pytest.raises(ControllerDirectoryError, match="cannot read"):
        open_directory(formatted)


def test_another_format_is_refused(formatted: Path) -> None:
    content = json.loads(meta_file(formatted).read_text())
    meta_file(formatted).write_text(json.dumps({**content, "format": 1}))
    with pytest.raises(ControllerDirectoryError, match="has format 1; this version knows 2"):
        open_directory(formatted)


def test_a_journal_without_a_description_is_refused(formatted: Path) -> None:
    meta_file(formatted).unlink()
    (formatted / "controller" / "journal").write_bytes(b"x")
    with pytest.raises(ControllerDirectoryError, match="whose is it"):
        open_directory(formatted)


def test_a_journal_of_a_controller_that_is_in_no_cluster_is_refused(tmp_path: Path) -> None:
    open_directory(tmp_path).close()
    (tmp_path / "controller" / "journal").write_bytes(b"x")
    with pytest.raises(ControllerDirectoryError, match="whose is it"):
        open_directory(tmp_path)


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ControllerDirectoryError, match=r"cannot use .*: Not a directory"):
        open_directory(tmp_path / "file")
    (tmp_path / "controller").mkdir()
    (tmp_path / "controller" / "lock").mkdir()
    with pytest.raises(ControllerDirectoryError, match=r"cannot use .*: Is a directory"):
        open_directory(tmp_path)
