"""Where a controller keeps its journal and snapshots: a seam, and real files behind it."""

import errno
import os
from pathlib import Path
from typing import Final, Protocol

FILE_MODE: Final = 0o644
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class StorageFullError(OSError):
    """There is no space left; what was there before is unharmed, and the call may be repeated."""


class Storage(Protocol):
    """A few named files.

    Bytes written are only promised to survive a power cut once ``sync`` has returned. Any
    exception other than :class:`StorageFullError` means that nobody knows what is on the disk:
    stop, and start again from what is found there.
    """

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or ``None`` if there is no such file."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Replace a file by another, durably: after a crash there is the old or the new one."""
        ...

    def write_at(self, name: str, position: int, data: bytes) -> None:
        """Write into a file, made if there is none; not durable before ``sync``."""
        ...

    def sync(self, name: str) -> None:
        """Make everything written to a file durable."""
        ...

    def close(self) -> None:
        """Let go of the files."""
        ...


class FileStorage:
    """Files in a directory, which must exist; owns the descriptors of those it writes to."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptors: dict[str, int] = {}

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or ``None`` if there is no such file."""
        try:
            return (self._directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def put(self, name: str, data: bytes) -> None:
        """Replace a file by another, durably."""
        temporary = self._directory / f"{name}.tmp"
        descriptor = _new_file(temporary, data)
        try:
            temporary.rename(self._directory / name)
            self._sync_directory()
        except BaseException:
            os.close(descriptor)
            raise
        replaced = self._descriptors.pop(name, None)
        if replaced is not None:
            os.close(replaced)
        self._descriptors[name] = descriptor

    def write_at(self, name: str, position: int, data: bytes) -> None:
        """Write into a file, made if there is none; not durable before ``sync``."""
        try:
            _write_all(self._descriptor(name), position, data)
        except OSError as error:
            raise _or_full(error, self._directory / name) from None

    def sync(self, name: str) -> None:
        """Make everything written to a file durable."""
        os.fdatasync(self._descriptor(name))

    def close(self) -> None:
        """Let go of the files."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def _descriptor(self, name: str) -> int:
        descriptor = self._descriptors.get(name)
        if descriptor is None:
            descriptor = self._descriptors[name] = self._open(name)
        return descriptor

    def _open(self, name: str) -> int:
        path = self._directory / name
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        if is_new:
            self._sync_directory()
        return descriptor

    def _sync_directory(self) -> None:
        descriptor = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _new_file(path: Path, data: bytes) -> int:
    """Write a file and sync it; return its descriptor. Without space, no file is left behind."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        raise _or_full(error, path) from None
    try:
        _write_all(descriptor, 0, data)
        os.fsync(descriptor)
    except OSError as error:
        os.close(descriptor)
        path.unlink()
        raise _or_full(error, path) from None
    return descriptor


def _or_full(error: OSError, path: Path) -> OSError:
    """Return the error, as one of a full disk if it is, with the file that needs room."""
    if error.errno in _NO_SPACE:
        return StorageFullError(error.errno, error.strerror, str(path))
    return error


def _write_all(descriptor: int, position: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, position)
        position += written
        rest = rest[written:]
