"""FileSystem: the few file operations we use, with what each one makes durable.

Everything in this package that touches a disk does it through here, so that tests can put a disk
underneath that forgets what was not synced, is full, or fails.  What a power cut may do:

- bytes written, sizes and truncations may be lost or half done until ``File.sync``;
- names (create, rename, remove) may be lost until ``sync_directory`` of the folder they stand in;
- after an error of a sync nothing is known about what was written before it: the kernel may have
  dropped the pages, and the next sync may succeed without them.  So a sync is never repeated.
"""
# ruff: noqa: D102, PTH102, PTH104, PTH106, PTH108, PTH116, PTH208
# The protocols document what their implementations do; paths are strings, the hot path's currency.

import ctypes
import errno
import fcntl
import itertools
import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from quorate.errors import ErrorCode, StorageError

BOOT_ID_PATH: Final = "/proc/sys/kernel/random/boot_id"
BOOT_ID_BYTES_MAX: Final = 64

SYNC_ONE_BY_ONE_MAX: Final = 8
"""From here on one ``syncfs`` is quicker than an ``fdatasync`` per file (facts: 24 files, 0.9 and
4.5 ms), although it also writes what others left in the page cache."""

SYNC_PATIENTLY_MAX: Final = 64
"""The same where nobody waits: what others left makes the file system's journal hold up appends
(with 400 MB, in three of ten tries, for 11 to 30 ms; ``fdatasync`` in none)."""

TEMPORARY_SUFFIX: Final = ".tmp"
"""Of a file that did not get its name yet; nobody misses it after a crash."""

_temporary_numbers = itertools.count()

OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})

PASSING: Final = OUT_OF_DESCRIPTORS | {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors that may be over when it is tried again: a lack of space, or of file descriptors."""


class FatalStorageError(StorageError):
    """The directory can no longer be trusted: a sync failed, or an error could not be undone."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


def storage_error(error: OSError, what: str) -> StorageError:
    """Translate the operating system's error; only a passing one is worth another try."""
    message = f"{what}: {error.strerror}"
    if error.errno in PASSING:
        return StorageError(message)
    return FatalStorageError(message)


class File(Protocol):
    """An open file.  It is closed when nobody holds it any more, slices included.

    If it was removed before that, ``FileSystem.close_removed`` closes it.
    """

    @property
    def fd(self) -> int:
        """The descriptor, for ``sendfile``."""
        ...

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of it, or raise OSError; then any part of it may have been written.

        In both cases nobody has a view of ``data`` any more, which may be about to grow or shrink.
        """
        ...

    def read_at(self, size_bytes: int, position: int) -> bytes:
        """Read so many bytes, or as many as there are."""
        ...

    def read_cached(self, size_bytes: int, position: int) -> bytes | None:
        """Read what ``read_at`` would; None if that meant waiting for the disk."""
        ...

    def size_bytes(self) -> int:
        """The size as the file system has it."""
        ...

    def truncate(self, size_bytes: int) -> None:
        """Cut the file, or lengthen it with zeros."""
        ...

    def allocate(self, size_bytes: int) -> None:
        """Reserve space up to that size, and lengthen the file to it with zeros."""
        ...

    def sync(self) -> None:
        """Make everything written and the size durable."""
        ...


class Lock(Protocol):
    """An exclusive hold on a directory."""

    def release(self) -> None:
        """Let others have it."""
        ...


class Space(NamedTuple):
    """How large a disk is, and how much of that we may still write."""

    total_bytes: int
    usable_bytes: int


class FileSystem(Protocol):
    """What we ask of an operating system."""

    def open(self, path: str, *, create: bool) -> File:
        """Open for reading and writing; ``create`` makes the file or empties it."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or folder has that name."""
        ...

    def list_directory(self, path: str) -> list[str]:
        """The names in a folder, in no order."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a folder; its parent must exist."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a file or folder another name, in one step, replacing a file of that name."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file's name; who has the file open keeps it."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty folder."""
        ...

    def close_removed(self) -> None:
        """Close the files that were removed before the last who held them let them go.

        Only that gives their space back, which takes as long as they are large (1 GB: 0.2 s).
        """
        ...

    def size_bytes(self, path: str) -> int:
        """The size of a file that need not be open."""
        ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written."""
        ...

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Let a file count as last written then."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make the names in a folder durable."""
        ...

    def sync_directories(self, paths: Sequence[str]) -> dict[str, OSError]:
        """Do that for folders, the quickest way for that many; return what failed, by path."""
        ...

    def sync_files(self, files: Sequence[File], paths: Sequence[str], *, hurry: bool) -> None:
        """Make these files durable: in a hurry the quickest way, else the one that harms nobody.

        Files that are given by path are opened for it; those that were removed meanwhile are left
        out.
        """
        ...

    def lock(self, path: str) -> Lock | None:
        """Take the lock of that name, or None if somebody has it."""
        ...

    def space(self, path: str) -> Space:
        """The space on the disk that holds a folder."""
        ...

    def random_bytes(self, count: int) -> bytes:
        """Bytes nobody else has, for identifiers."""
        ...

    def boot_id(self) -> str:
        """Another text each time the machine starts; empty if there is none.

        While it is the same, everything that was written is still there, synced or not.
        """
        ...


class Files(Protocol):
    """Where those who look something up get the files from."""

    def get(self, path: str) -> File:
        """Return the file of that path, open."""
        ...

    def size_bytes(self, path: str, /) -> int:
        """Return the size of a file that need not be open."""
        ...

    def modified_ms(self, path: str, /) -> int:
        """Return when a file was last written."""
        ...


def read_file(fs: FileSystem, path: str) -> bytes:
    """Return everything in a (small) file."""
    file = fs.open(path, create=False)
    return file.read_at(file.size_bytes(), 0)


def replace_file(fs: FileSystem, path: str, data: bytes) -> None:
    """Put new content under a name so that a crash leaves the old content or the new, durably."""
    for error in replace_files(fs, {path: data}).values():
        raise error


def replace_files(fs: FileSystem, contents: Mapping[str, bytes]) -> dict[str, OSError]:
    """Replace files like ``replace_file``, but sync them together; return what failed, by path."""
    errors: dict[str, OSError] = {}
    written: dict[str, Temporary] = {}
    for path, data in contents.items():
        try:
            written[path] = _write_temporary(fs, _folder_of(path), data)
        except OSError as error:
            errors[path] = error
    try:
        fs.sync_files([temporary.file for temporary in written.values()], [], hurry=False)
    except OSError as error:
        for temporary in written.values():
            _remove_temporary(fs, temporary.path)
        return errors | dict.fromkeys(written, error)
    for path, temporary in written.items():
        try:
            fs.rename(temporary.path, path)
        except OSError as error:
            errors[path] = error
            _remove_temporary(fs, temporary.path)
    renamed = [path for path in written if path not in errors]
    unsynced = fs.sync_directories(list(dict.fromkeys(map(_folder_of, renamed))))
    for path in renamed:
        if _folder_of(path) in unsynced:
            errors[path] = unsynced[_folder_of(path)]
    return errors


class Temporary(NamedTuple):
    """A file that did not get its name yet."""

    path: str
    file: File


def _write_temporary(fs: FileSystem, folder: str, data: bytes) -> Temporary:
    # Two flushes that overlap may write the same file: neither may rename the other's away.
    path = f"{folder}/{next(_temporary_numbers)}{TEMPORARY_SUFFIX}"
    file = fs.open(path, create=True)
    try:
        file.write_at(data, 0)
    except OSError:
        _remove_temporary(fs, path)
        raise
    return Temporary(path, file)


def _remove_temporary(fs: FileSystem, path: str) -> None:
    """Remove what will not get its name: on a full disk, attempts follow each other."""
    with suppress(OSError):  # else the next start does
        fs.remove(path)


def sync_each_directory(fs: FileSystem, paths: Sequence[str]) -> dict[str, OSError]:
    """Make the names in these folders durable, one after the other; return what failed, by path."""
    errors: dict[str, OSError] = {}
    for path in paths:
        try:
            fs.sync_directory(path)
        except OSError as error:
            errors[path] = error
    return errors


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def sync_paths(fs: FileSystem, paths: Sequence[str]) -> None:
    """Make the files of these names durable, one after the other, if they are still there."""
    for path in paths:
        try:
            file = fs.open(path, create=False)
        except FileNotFoundError:
            continue
        file.sync()


def remove_tree(fs: FileSystem, path: str) -> None:
    """Remove a folder of files (our folders are one level deep)."""
    for name in fs.list_directory(path):
        fs.remove(f"{path}/{name}")
    fs.remove_directory(path)


class OpenFiles:
    """Files open for reading, the most recently used ones, by path.

    Invariant: at most ``files_max`` are kept.  One that is let go closes when the last slice of it
    that waits to be sent is gone.
    """

    __slots__ = ("_files", "_files_max", "fs")

    def __init__(self, fs: FileSystem, files_max: int) -> None:
        self.fs = fs
        self._files_max = files_max
        self._files: dict[str, File] = {}

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: str) -> File:
        """Return the file of that path, opened if it was not."""
        file = self.get_open(path)
        if file is None:
            file = self.fs.open(path, create=False)
            self.put(path, file)
        return file

    def get_open(self, path: str) -> File | None:
        """Return the file of that path if it is open."""
        file = self._files.pop(path, None)
        if file is not None:
            self._files[path] = file
        return file

    def size_bytes(self, path: str) -> int:
        """Return the size of a file that need not be open."""
        return self.fs.size_bytes(path)

    def modified_ms(self, path: str) -> int:
        """Return when a file was last written."""
        return self.fs.modified_ms(path)

    def put(self, path: str, file: File) -> None:
        """Keep a file that was opened elsewhere."""
        self._files.pop(path, None)
        self._make_room()
        self._files[path] = file

    def _make_room(self) -> None:
        if len(self._files) >= self._files_max:
            del self._files[next(iter(self._files))]

    def forget(self, path: str) -> None:
        """Let a file go that is about to be removed or renamed."""
        self._files.pop(path, None)

    def forget_directory(self, directory: str) -> None:
        """Let all files of a folder go."""
        for path in [path for path in self._files if path.startswith(f"{directory}/")]:
            del self._files[path]


class OsFile:
    """A file of the operating system.

    The last reference to one may go anywhere, in the event loop, too.  There the descriptor of a
    file without a name is not closed, because that is when the system frees what was in it: it is
    left in ``removed``.
    """

    __slots__ = ("_removed", "fd")

    def __init__(self, fd: int, removed: deque[int]) -> None:
        self.fd = fd
        self._removed = removed

    def __del__(self) -> None:
        if os.fstat(self.fd).st_nlink:
            os.close(self.fd)
        else:
            self._removed.append(self.fd)

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        written = os.pwrite(self.fd, data, position)
        if written != len(data):
            self._write_rest(data, written, position)

    def _write_rest(
        self, data: bytes | bytearray | memoryview, written: int, position: int
    ) -> None:
        # A disk that fills up takes a part first and says why it took no more only when asked
        # again.  Views are let go of, or whoever keeps the error would keep them, too.
        with memoryview(data) as view:
            while written < len(view):
                with view[written:] as rest:
                    written += os.pwrite(self.fd, rest, position + written)

    def read_at(self, size_bytes: int, position: int) -> bytes:
        data = os.pread(self.fd, size_bytes, position)
        while len(data) < size_bytes:
            more = os.pread(self.fd, size_bytes - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def read_cached(self, size_bytes: int, position: int) -> bytes | None:
        buffer = bytearray(size_bytes)
        try:
            size_read = os.preadv(self.fd, [buffer], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError:
            return self.read_at(size_bytes, position)  # not every file system can tell
        if size_read == size_bytes:
            return bytes(buffer)
        # It stops at the first byte that is not in memory, and at the end.
        return bytes(buffer[:size_read]) if position + size_read >= self.size_bytes() else None

    def size_bytes(self) -> int:
        return os.fstat(self.fd).st_size

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self.fd, size_bytes)

    def allocate(self, size_bytes: int) -> None:
        os.posix_fallocate(self.fd, 0, size_bytes)

    def sync(self) -> None:
        os.fdatasync(self.fd)


class OsLock:
    """A flock; the system releases it when the process ends, however it ends."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        os.close(self._fd)


class OsFileSystem:
    """The operating system's files (Linux)."""

    __slots__ = ("_removed", "_syncfs")

    def __init__(self) -> None:
        self._removed: deque[int] = deque()  # any thread may append, and take
        libc = ctypes.CDLL(None, use_errno=True)
        # Before Linux 5.8 syncfs kept quiet about failed writes.
        self._syncfs = getattr(libc, "syncfs", None) if _kernel() >= (5, 8) else None

    def open(self, path: str, *, create: bool) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC
        if create:
            flags |= os.O_CREAT | os.O_TRUNC
        return OsFile(os.open(path, flags, 0o644), self._removed)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def list_directory(self, path: str) -> list[str]:
        return os.listdir(path)

    def make_directory(self, path: str) -> None:
        os.mkdir(path, 0o755)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def close_removed(self) -> None:
        with suppress(IndexError):  # another thread may take the last one
            while True:
                os.close(self._removed.popleft())

    def size_bytes(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_directories(self, paths: Sequence[str]) -> dict[str, OSError]:
        if len(paths) <= SYNC_PATIENTLY_MAX or self._syncfs is None:
            return sync_each_directory(self, paths)
        errors: dict[str, OSError] = {}
        for path in paths:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as error:
                errors[path] = error  # it was deleted; any other will do
                continue
            try:
                self._sync_all(OsFile(fd, self._removed))
            except OSError as error:
                return dict.fromkeys(paths, error)
            break
        return errors

    def sync_files(self, files: Sequence[File], paths: Sequence[str], *, hurry: bool) -> None:
        one_by_one_max = SYNC_ONE_BY_ONE_MAX if hurry else SYNC_PATIENTLY_MAX
        if files and len(files) + len(paths) > one_by_one_max and self._syncfs is not None:
            self._sync_all(files[0])
            return
        for file in files:
            file.sync()
        sync_paths(self, paths)

    def _sync_all(self, file: File) -> None:
        """Make everything durable in the file system that holds the file."""
        assert self._syncfs is not None
        if self._syncfs(file.fd) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    def lock(self, path: str) -> OsLock | None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return OsLock(fd)

    def space(self, path: str) -> Space:
        found = os.statvfs(path)
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def boot_id(self) -> str:
        try:
            fd = os.open(BOOT_ID_PATH, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return ""
        try:
            return os.read(fd, BOOT_ID_BYTES_MAX).decode().strip()
        finally:
            os.close(fd)


def _kernel() -> tuple[int, int]:
    """The version of the running kernel."""
    numbers = os.uname().release.replace("-", ".").split(".")
    return int(numbers[0]), int(numbers[1])
