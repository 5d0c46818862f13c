"""SimDisk: a file system in memory that forgets what was not synced.

It is as mean as POSIX allows.  At a power cut

- of every file, each sector written since the last sync is there or not, on its own, in any of the
  versions it has had since; the size is any that the file has had since;
- of every folder, only some first part of the changes of names since its last sync is there.

A process that is killed loses nothing that it wrote.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from quorate.broker.log.files import File, Space, sync_each_directory, sync_paths

SECTOR_BYTES = 512
SPACE_BYTES = 2**40
"""What a disk without a capacity says that it has."""


class PowerCut(BaseException):
    """The machine lost power in the middle of an operation."""


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def out_of_descriptors(*_: object, **__: object) -> Any:
    """Stand in for what needs a file descriptor, of which there is none."""
    raise _error(errno.EMFILE)


@dataclass(eq=False)
class Inode:
    """A file's bytes: as written, as synced, and all that it was in between."""

    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    versions: dict[int, list[bytes]] = field(default_factory=dict[int, list[bytes]])
    sizes: list[int] = field(default_factory=list[int])
    modified_ms: int = 0

    def change(self, data: bytearray) -> None:
        """Replace the content, remembering which sectors changed to what."""
        sectors = range(max(len(data), len(self.data)) // SECTOR_BYTES + 1)
        for sector in sectors:
            cut = slice(sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES)
            if data[cut] != self.data[cut]:
                self.versions.setdefault(sector, []).append(bytes(data[cut]))
        self.sizes.append(len(data))
        self.data = data

    def sync(self) -> None:
        self.synced = bytes(self.data)
        self.versions.clear()
        self.sizes.clear()

    def lose_power(self, rng: Random) -> None:
        size = rng.choice([len(self.synced), *self.sizes])
        data = bytearray(self.synced.ljust(size, b"\0"))[:size]
        for sector, versions in self.versions.items():
            version = rng.choice([None, *versions])
            start = sector * SECTOR_BYTES
            if version is not None and start < size:
                end = min(start + SECTOR_BYTES, size)
                data[start:end] = version.ljust(SECTOR_BYTES, b"\0")[: end - start]
        self.data = data
        self.sync()


@dataclass(eq=False)
class Folder:
    """Names, as they are and as they were synced, and the changes in between."""

    entries: dict[str, "Inode | Folder"] = field(default_factory=dict[str, "Inode | Folder"])
    synced: dict[str, "Inode | Folder"] = field(default_factory=dict[str, "Inode | Folder"])
    changes: list[dict[str, "Inode | Folder"]] = field(
        default_factory=list[dict[str, "Inode | Folder"]]
    )

    def change(self, entries: dict[str, "Inode | Folder"]) -> None:
        self.changes.append(entries)
        self.entries = entries

    def sync(self) -> None:
        self.synced = self.entries
        self.changes.clear()

    def lose_power(self, rng: Random) -> None:
        self.entries = rng.choice([self.synced, *self.changes])
        self.sync()
        for entry in self.entries.values():
            entry.lose_power(rng)

    def walk(self) -> Iterator[Inode]:
        for entry in self.entries.values():
            if isinstance(entry, Folder):
                yield from entry.walk()
            else:
                yield entry


class SimFile:
    """An open file; it outlives its name, as on a real disk."""

    def __init__(self, disk: "SimDisk", inode: Inode) -> None:
        self.fd = -1
        self.disk = disk
        self.inode = inode

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        content = bytearray(self.inode.data.ljust(position, b"\0"))
        allowed = self.disk.admit(max(position + len(data) - len(self.inode.data), 0), len(data))
        content[position : position + allowed] = bytes(data)[:allowed]
        self.inode.change(content)
        self.inode.modified_ms = self.disk.now_ms
        self.disk.after_write(complete=allowed == len(data))

    def read_at(self, size_bytes: int, position: int) -> bytes:
        self.disk.reads += 1
        return bytes(self.inode.data[position : position + size_bytes])

    def read_cached(self, size_bytes: int, position: int) -> bytes | None:
        return self.read_at(size_bytes, position)

    def size_bytes(self) -> int:
        return len(self.inode.data)

    def truncate(self, size_bytes: int) -> None:
        self.disk.step()
        self.inode.change(bytearray(self.inode.data.ljust(size_bytes, b"\0")[:size_bytes]))

    def allocate(self, size_bytes: int) -> None:
        growth_bytes = max(size_bytes - len(self.inode.data), 0)
        allowed = self.disk.admit(growth_bytes, growth_bytes)
        size_bytes = len(self.inode.data) + allowed
        self.inode.change(bytearray(self.inode.data.ljust(size_bytes, b"\0")))
        self.disk.after_write(complete=allowed == growth_bytes)

    def sync(self) -> None:
        self.disk.step()
        self.disk.sync_or_fail(self.inode)


class SimLock:
    def __init__(self, disk: "SimDisk", path: str) -> None:
        self.disk = disk
        self.path = path

    def release(self) -> None:
        self.disk.locks.discard(self.path)


class SimDisk:
    """A FileSystem that can lose power at any change, be full, and fail to sync.

    Args:
        rng: decides what a power cut leaves.
    """

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.root = Folder()
        self.locks: set[str] = set()
        self.steps = 0
        self.cut_at_step: int | None = None
        self.capacity_bytes: int | None = None
        self.syncs_fail = False
        self.syncs = 0
        self.reads = 0
        self.boots = 1
        self.now_ms = 0
        """When it is, for files that are written."""
        self._tear = False

    # What tests do to it

    def lose_power(self) -> None:
        """Forget what was not synced, and start the machine again."""
        self.root.lose_power(self.rng)
        self.boots += 1
        self.cut_at_step = None
        self.restart()

    def restart(self) -> None:
        """End the process that uses the disk; nothing is lost."""
        self.locks.clear()

    def used_bytes(self) -> int:
        return sum(len(inode.data) for inode in self.root.walk())

    # What files and folders ask of it

    def step(self) -> None:
        """Count a change; the power may go instead of it."""
        self.steps += 1
        if self.steps == self.cut_at_step:
            raise PowerCut

    def admit(self, growth_bytes: int, size_bytes: int) -> int:
        """Return how many bytes of a write happen before the power goes or the disk is full."""
        self.steps += 1
        self._tear = self.steps == self.cut_at_step
        if self._tear:
            return self.rng.randint(0, size_bytes)
        if self.capacity_bytes is not None:
            over_bytes = self.used_bytes() + growth_bytes - self.capacity_bytes
            return max(size_bytes - max(over_bytes, 0), 0)
        return size_bytes

    def after_write(self, *, complete: bool) -> None:
        if self._tear:
            raise PowerCut
        if not complete:
            raise _error(errno.ENOSPC)

    def sync_or_fail(self, inode: Inode) -> None:
        self.syncs += 1
        if self.syncs_fail:
            seen = bytes(inode.data)  # the page cache goes on showing what the disk never got
            inode.lose_power(self.rng)
            inode.data = bytearray(seen)
            raise _error(errno.EIO)
        inode.sync()

    # FileSystem

    def open(self, path: str, *, create: bool) -> SimFile:
        folder, name = self._place(path)
        inode = folder.entries.get(name)
        if isinstance(inode, Inode):
            if create:
                SimFile(self, inode).truncate(0)
            return SimFile(self, inode)
        if not create:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self.step()
        inode = Inode()
        folder.change({**folder.entries, name: inode})
        return SimFile(self, inode)

    def exists(self, path: str) -> bool:
        try:
            folder, name = self._place(path)
        except FileNotFoundError:
            return False
        return name in folder.entries

    def list_directory(self, path: str) -> list[str]:
        return list(self._folder(path).entries)

    def make_directory(self, path: str) -> None:
        self.step()
        folder, name = self._place(path)
        folder.change({**folder.entries, name: Folder()})

    def rename(self, old: str, new: str) -> None:
        self.step()
        folder, old_name = self._place(old)
        new_folder, new_name = self._place(new)
        assert folder is new_folder, "nothing is moved between folders"
        if old_name not in folder.entries:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
        entries = dict(folder.entries)
        entries[new_name] = entries.pop(old_name)
        folder.change(entries)

    def remove(self, path: str) -> None:
        self.step()
        folder, name = self._place(path)
        if name not in folder.entries:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        folder.change({key: entry for key, entry in folder.entries.items() if key != name})

    def remove_directory(self, path: str) -> None:
        assert not self._folder(path).entries
        self.remove(path)

    def close_removed(self) -> None:
        """Nothing is left open: memory has no descriptors."""

    def size_bytes(self, path: str) -> int:
        return self.open(path, create=False).size_bytes()

    def modified_ms(self, path: str) -> int:
        return self.open(path, create=False).inode.modified_ms

    def set_modified(self, path: str, modified_ms: int) -> None:
        self.step()
        self.open(path, create=False).inode.modified_ms = modified_ms

    def sync_directory(self, path: str) -> None:
        self.step()
        self.syncs += 1
        if self.syncs_fail:
            raise _error(errno.EIO)
        self._folder(path).sync()

    def sync_directories(self, paths: Sequence[str]) -> dict[str, OSError]:
        return sync_each_directory(self, paths)

    def sync_files(self, files: Sequence[File], paths: Sequence[str], *, hurry: bool) -> None:
        for file in files:
            file.sync()
        sync_paths(self, paths)

    def lock(self, path: str) -> SimLock | None:
        if path in self.locks:
            return None
        self.locks.add(path)
        return SimLock(self, path)

    def space(self, path: str) -> Space:
        self._folder(path)
        total_bytes = SPACE_BYTES if self.capacity_bytes is None else self.capacity_bytes
        return Space(total_bytes, max(total_bytes - self.used_bytes(), 0))

    def random_bytes(self, count: int) -> bytes:
        return self.rng.randbytes(count)

    def boot_id(self) -> str:
        return f"boot {self.boots}"

    def _folder(self, path: str) -> Folder:
        folder = self.root
        for name in filter(None, path.split("/")):
            entry = folder.entries.get(name)
            if not isinstance(entry, Folder):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            folder = entry
        return folder

    def _place(self, path: str) -> tuple[Folder, str]:
        parent, _, name = path.strip("/").rpartition("/")
        return (self._folder(parent) if parent else self.root), name
