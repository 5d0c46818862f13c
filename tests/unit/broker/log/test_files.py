"""The operating system's files behind the FileSystem seam."""

import ctypes
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.broker.log.files import (
    SYNC_ONE_BY_ONE_MAX,
    SYNC_PATIENTLY_MAX,
    FatalStorageError,
    OpenFiles,
    OsFileSystem,
    read_file,
    remove_tree,
    replace_file,
    replace_files,
    storage_error,
)
from quorate.broker.log.trash import Trash, remove_paths


@pytest.fixture
def fs() -> OsFileSystem:
    return OsFileSystem()


def test_a_file_is_written_read_cut_and_synced(fs: OsFileSystem, tmp_path: Path) -> None:
    path = f"{tmp_path}/file"
    file = fs.open(path, create=True)

    file.write_at(b"hello world", 0)
    file.write_at(memoryview(b"W"), 6)
    file.truncate(8)
    file.sync()

    assert file.read_at(100, 0) == b"hello Wo"
    assert file.read_at(2, 4) == b"o "
    assert file.size_bytes() == fs.size_bytes(path) == 8
    assert fs.modified_ms(path) > 0
    fs.set_modified(path, 1_700_000_000_123)
    assert fs.modified_ms(path) == 1_700_000_000_123
    file.allocate(5000)
    assert file.size_bytes() == 5000


def test_a_removed_file_can_be_read_by_who_has_it_open(fs: OsFileSystem, tmp_path: Path) -> None:
    path = f"{tmp_path}/file"
    file = fs.open(path, create=True)
    file.write_at(b"still here", 0)
    fs.remove(path)

    assert not fs.exists(path)
    assert file.read_at(100, 0) == b"still here"
    with pytest.raises(FileNotFoundError):
        fs.open(path, create=False)


def test_the_file_that_was_removed_while_it_was_read_is_closed_by_who_removes_files(
    fs: OsFileSystem, tmp_path: Path
) -> None:
    path = f"{tmp_path}/0.log.deleted"
    kept = fs.open(f"{tmp_path}/kept", create=True)
    read = fs.open(path, create=True)
    descriptors = kept.fd, read.fd
    remove_paths(fs, [path])

    del kept, read  # in the event loop, say: closing a large one would hold up everybody

    assert [is_open(fd) for fd in descriptors] == [False, True]
    remove_paths(fs, [])
    assert not is_open(descriptors[1])


def test_what_is_in_memory_is_read_at_once_and_nothing_else(
    fs: OsFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = fs.open(f"{tmp_path}/file", create=True)
    file.write_at(b"hello world", 0)
    assert file.read_cached(5, 6) == b"world"
    assert file.read_cached(100, 6) == b"world"
    assert file.read_cached(100, 11) == b""

    monkeypatch.setattr("quorate.broker.log.files.os.preadv", refusing(errno.EAGAIN))
    assert file.read_cached(5, 6) is None
    monkeypatch.setattr("quorate.broker.log.files.os.preadv", refusing(errno.EOPNOTSUPP))
    assert file.read_cached(5, 6) == b"world", "a file system that cannot tell"
    monkeypatch.undo()
    plain_preadv = os.preadv

    def short(fd: int, buffers: list[bytearray], position: int, _flags: int) -> int:
        return plain_preadv(fd, [memoryview(buffers[0])[:2]], position)

    monkeypatch.setattr("quorate.broker.log.files.os.preadv", short)
    assert file.read_cached(5, 6) is None, "the next page is not in memory"


def refusing(code: int) -> Callable[..., int]:
    def refuse(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return refuse


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_a_file_is_replaced_in_one_step(fs: OsFileSystem, tmp_path: Path) -> None:
    path = f"{tmp_path}/file"
    replace_file(fs, path, b"old")
    before = fs.open(path, create=False)

    replace_file(fs, path, b"new")

    assert read_file(fs, path) == b"new"
    assert before.read_at(10, 0) == b"old"
    assert fs.list_directory(str(tmp_path)) == ["file"]


def test_folders_are_made_renamed_listed_and_removed(fs: OsFileSystem, tmp_path: Path) -> None:
    fs.make_directory(f"{tmp_path}/a")
    fs.open(f"{tmp_path}/a/file", create=True)
    fs.rename(f"{tmp_path}/a", f"{tmp_path}/b")
    fs.sync_directory(str(tmp_path))

    assert fs.list_directory(f"{tmp_path}/b") == ["file"]
    remove_tree(fs, f"{tmp_path}/b")
    assert not fs.exists(f"{tmp_path}/b")


@pytest.mark.parametrize("count", [0, 1, SYNC_ONE_BY_ONE_MAX, SYNC_ONE_BY_ONE_MAX + 1])
def test_any_number_of_files_is_synced(fs: OsFileSystem, tmp_path: Path, count: int) -> None:
    files = [fs.open(f"{tmp_path}/{number}", create=True) for number in range(count)]
    for file in files:
        file.write_at(b"data", 0)

    for hurry in (True, False):
        fs.sync_files(files, [f"{tmp_path}/0", f"{tmp_path}/removed"], hurry=hurry)
        fs.sync_files([], [f"{tmp_path}/{number}" for number in range(count)], hurry=hurry)


@pytest.mark.parametrize(
    ("count", "hurry", "together"),
    [
        (SYNC_ONE_BY_ONE_MAX, True, False),
        (SYNC_ONE_BY_ONE_MAX + 1, True, True),
        (SYNC_PATIENTLY_MAX, False, False),
        (SYNC_PATIENTLY_MAX + 1, False, True),
    ],
)
def test_what_others_left_to_be_written_is_synced_along_only_for_many_files_or_in_a_hurry(
    fs: OsFileSystem,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    hurry: bool,
    together: bool,
) -> None:
    synced: list[int] = []

    def sync(fd: int) -> int:
        synced.append(fd)
        return 0

    monkeypatch.setattr(os, "fdatasync", sync)
    monkeypatch.setattr(fs, "_syncfs", sync)
    files = [fs.open(f"{tmp_path}/{number}", create=True) for number in range(count)]
    fs.sync_files(files, [], hurry=hurry)
    assert synced == [file.fd for file in files[: 1 if together else None]]


@pytest.mark.parametrize("count", [0, 1, SYNC_PATIENTLY_MAX, SYNC_PATIENTLY_MAX + 1])
def test_any_number_of_folders_is_synced(fs: OsFileSystem, tmp_path: Path, count: int) -> None:
    paths = [f"{tmp_path}/{number}" for number in range(count)]
    for path in paths[1:]:
        fs.make_directory(path)

    errors = fs.sync_directories(paths)

    assert list(errors) == paths[:1], "the first is not there, but the others are"


def test_a_failed_sync_of_many_counts_for_all_and_is_not_repeated(
    fs: OsFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def fail(fd: int) -> int:
        calls.append(fd)
        ctypes.set_errno(errno.EIO)
        return -1

    monkeypatch.setattr(fs, "_syncfs", fail)
    paths = [f"{tmp_path}/{number}" for number in range(SYNC_PATIENTLY_MAX + 1)]
    for path in paths:
        fs.make_directory(path)
    files = {f"{path}/file": b"data" for path in paths}

    assert {error.errno for error in fs.sync_directories(paths).values()} == {errno.EIO}
    assert len(calls) == 1
    assert set(replace_files(fs, files)) == set(files)
    assert len(calls) == 2
    assert not any(fs.exists(path) for path in files)


def test_reads_and_writes_that_the_system_does_by_halves_are_completed(
    fs: OsFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite, pread = os.pwrite, os.pread
    file = fs.open(f"{tmp_path}/file", create=True)
    data = bytes(range(100))

    def write_less(fd: int, data: bytes, position: int) -> int:
        return pwrite(fd, data[:30], position)

    def read_less(fd: int, size_bytes: int, position: int) -> bytes:
        return pread(fd, min(size_bytes, 30), position)

    monkeypatch.setattr(os, "pwrite", write_less)
    monkeypatch.setattr(os, "pread", read_less)
    file.write_at(data, 5)
    assert file.read_at(1000, 5) == data
    assert file.read_at(70, 5) == data[:70]


def test_what_a_disk_took_a_part_of_can_grow_and_shrink_though_somebody_keeps_the_error(
    fs: OsFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = fs.open(f"{tmp_path}/file", create=True)
    pwrite, room = os.pwrite, [3, 2]

    def fill(fd: int, data: bytes, position: int) -> int:
        if not room:
            raise OSError(errno.ENOSPC, "full")
        return pwrite(fd, bytes(data)[: room.pop(0)], position)

    monkeypatch.setattr(os, "pwrite", fill)
    pending = bytearray(b"entries")
    with pytest.raises(OSError, match="full") as kept:
        file.write_at(pending, 0)
    pending += b" and more"
    pending.clear()
    assert kept.value.errno == errno.ENOSPC
    assert file.read_at(100, 0) == b"entri"


def test_folders_that_are_all_gone_are_named(fs: OsFileSystem, tmp_path: Path) -> None:
    paths = [f"{tmp_path}/{number}" for number in range(SYNC_PATIENTLY_MAX + 1)]
    assert list(fs.sync_directories(paths)) == paths


def test_a_file_whose_folder_cannot_be_synced_is_named(
    fs: OsFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        fs.make_directory(f"{tmp_path}/{name}")
    fsync = os.fsync

    def fail_once(fd: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        raise OSError(errno.EIO, "of the first")

    monkeypatch.setattr(os, "fsync", fail_once)
    contents = {f"{tmp_path}/{path}": b"data" for path in ("a/file", "b/file")}
    assert list(replace_files(fs, contents)) == [f"{tmp_path}/a/file"]


def test_what_cannot_be_replaced_is_named_and_the_rest_is_done(
    fs: OsFileSystem, tmp_path: Path
) -> None:
    fs.make_directory(f"{tmp_path}/taken")
    contents = {f"{tmp_path}/{name}": b"data" for name in ("nowhere/file", "taken", "fine")}

    errors = replace_files(fs, contents)

    assert set(errors) == {f"{tmp_path}/nowhere/file", f"{tmp_path}/taken"}
    assert read_file(fs, f"{tmp_path}/fine") == b"data"


def test_a_directory_is_locked_until_it_is_released(fs: OsFileSystem, tmp_path: Path) -> None:
    lock = fs.lock(f"{tmp_path}/.lock")
    assert lock is not None
    assert fs.lock(f"{tmp_path}/.lock") is None
    lock.release()
    again = fs.lock(f"{tmp_path}/.lock")
    assert again is not None
    again.release()


def test_a_system_names_the_time_since_it_was_started_or_does_not(
    fs: OsFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "boot_id"
    monkeypatch.setattr("quorate.broker.log.files.BOOT_ID_PATH", str(path))
    assert fs.boot_id() == ""
    path.write_text("0-1-2\n")
    assert fs.boot_id() == "0-1-2"


def test_random_bytes_differ(fs: OsFileSystem) -> None:
    assert fs.random_bytes(16) != fs.random_bytes(16)


def test_space_is_what_the_disk_has(fs: OsFileSystem, tmp_path: Path) -> None:
    space = fs.space(str(tmp_path))
    assert space.total_bytes == shutil.disk_usage(tmp_path).total
    assert 0 < space.usable_bytes < space.total_bytes
    with pytest.raises(FileNotFoundError):
        fs.space(f"{tmp_path}/nowhere")


def test_only_the_most_recently_used_files_stay_open(fs: OsFileSystem, tmp_path: Path) -> None:
    paths = [f"{tmp_path}/{number}" for number in range(3)]
    files = OpenFiles(fs, 2)
    first = fs.open(paths[0], create=True)
    files.put(paths[0], first)
    for path in paths[1:]:
        fs.open(path, create=True)

    second = files.get(paths[1])
    assert files.get(paths[0]) is first
    files.get(paths[2])
    assert len(files) == 2
    assert files.get(paths[0]) is first
    assert files.get(paths[1]) is not second
    files.forget(paths[1])
    files.forget("never heard of")
    files.forget_directory(str(tmp_path))
    assert len(files) == 0


@pytest.mark.parametrize(
    ("code", "fatal"),
    [(errno.ENOSPC, False), (errno.EDQUOT, False), (errno.EIO, True), (errno.EROFS, True)],
)
def test_only_a_lack_of_space_is_worth_another_try(*, code: int, fatal: bool) -> None:
    error = storage_error(OSError(code, "why"), "where")

    assert isinstance(error, FatalStorageError) == fatal
    assert str(error) == "where: why (KAFKA_STORAGE_ERROR)"


def test_trash_is_removed_after_its_delay_and_failures_do_not_matter(
    fs: OsFileSystem, tmp_path: Path
) -> None:
    fs.make_directory(f"{tmp_path}/t-0.id-delete")
    fs.open(f"{tmp_path}/t-0.id-delete/file", create=True)
    fs.open(f"{tmp_path}/x.log.deleted", create=True)
    trash = Trash()
    trash.add([f"{tmp_path}/t-0.id-delete", f"{tmp_path}/gone.deleted"], 100)
    assert trash.take_due(1000) == []
    trash.add([f"{tmp_path}/x.log.deleted"], 0)

    assert trash.take_due(1000) == [f"{tmp_path}/x.log.deleted"]
    due = trash.take_due(1100)
    remove_paths(fs, due)

    assert len(due) == 2
    assert fs.list_directory(str(tmp_path)) == ["x.log.deleted"]
    assert len(trash) == 0
