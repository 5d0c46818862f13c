"""Storage: real files, and the simulated disk that stands for them."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from quorate.quorum.raft.simulated_storage import SimulatedCrash, SimulatedStorage
from quorate.quorum.raft.storage import FileStorage, Storage, StorageFullError


@pytest.fixture(params=["files", "simulated"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return FileStorage(tmp_path) if request.param == "files" else SimulatedStorage(Random(1))


def test_a_file_that_was_never_put_is_not_there(storage: Storage) -> None:
    assert storage.read("a") is None


def test_files_are_replaced_and_overwritten(storage: Storage) -> None:
    storage.put("a", b"one")
    storage.put("b", b"other")
    storage.put("a", b"longer")
    storage.write_at("a", 4, b"ERS and more")
    storage.sync("a")
    assert storage.read("a") == b"longERS and more"
    assert storage.read("b") == b"other"
    storage.close()


def test_an_existing_file_can_be_written_after_a_restart(tmp_path: Path) -> None:
    first = FileStorage(tmp_path)
    first.put("a", b"abc")
    first.close()
    second = FileStorage(tmp_path)
    second.write_at("a", 1, b"X")
    second.sync("a")
    second.close()
    assert (tmp_path / "a").read_bytes() == b"aXc"


def failing_write(code: int) -> Callable[..., int]:
    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return fail


def test_no_space_leaves_the_old_file_and_no_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = FileStorage(tmp_path)
    storage.put("a", b"old")
    monkeypatch.setattr(os, "pwrite", failing_write(errno.ENOSPC))
    with pytest.raises(StorageFullError) as found:
        storage.put("a", b"new")
    assert found.value.filename == str(tmp_path / "a.tmp"), "who makes room has to know where"
    with pytest.raises(StorageFullError) as found:
        storage.write_at("a", 0, b"new")
    assert found.value.filename == str(tmp_path / "a")
    monkeypatch.undo()
    assert storage.read("a") == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    storage.put("a", b"new")
    assert storage.read("a") == b"new"
    storage.close()


def test_no_space_for_a_new_file_is_a_full_disk_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = FileStorage(tmp_path)
    monkeypatch.setattr(os, "open", failing_write(errno.ENOSPC))
    with pytest.raises(StorageFullError) as found:
        storage.put("a", b"new")
    assert found.value.filename == str(tmp_path / "a.tmp")
    storage.close()


def test_other_errors_of_the_disk_are_not_called_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = FileStorage(tmp_path)
    monkeypatch.setattr(os, "pwrite", failing_write(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        storage.put("a", b"new")
    storage.close()


def test_a_replacement_that_fails_is_an_error_and_not_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = FileStorage(tmp_path)
    storage.put("a", b"old")

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="Input/output error"):
        storage.put("a", b"new")
    monkeypatch.undo()
    assert storage.read("a") == b"old"
    storage.close()


def test_a_power_cut_loses_unsynced_sectors_and_nothing_else() -> None:
    outcomes: set[bytes] = set()
    for seed in range(40):
        storage = SimulatedStorage(Random(seed))
        storage.put("a", bytes(2048))
        storage.write_at("a", 0, b"s" * 512)
        storage.sync("a")
        storage.write_at("a", 512, b"u" * 1536)
        storage.crash(power_cut=True)
        content = storage.read("a")
        assert content is not None
        assert content[:512] == b"s" * 512
        outcomes.add(content)
    assert len(outcomes) > 3


def test_a_killed_process_loses_nothing_that_it_wrote() -> None:
    storage = SimulatedStorage(Random(1))
    storage.put("a", b"")
    storage.write_at("a", 0, b"unsynced")
    storage.crash(power_cut=False)
    assert storage.read("a") == b"unsynced"


def test_on_a_full_disk_nothing_is_replaced() -> None:
    storage = SimulatedStorage(Random(1))
    storage.put("a", b"old")
    storage.full = True
    with pytest.raises(StorageFullError):
        storage.put("a", b"new")
    assert storage.read("a") == b"old"


def test_the_fuse_kills_and_a_dead_process_does_nothing_more() -> None:
    storage = SimulatedStorage(Random(1))
    storage.fuse = 1
    with pytest.raises(SimulatedCrash):
        storage.put("a", b"")
    with pytest.raises(SimulatedCrash):
        storage.put("a", b"")
    storage.crash(power_cut=True)
    assert storage.read("a") is None
    storage.put("a", b"1")
