"""What a disk holds after a power cut, worked out of the journal that shim.c kept.

As mean as POSIX allows: of what was written to a file and not
synced since, any pages may be there or not, with any of the sizes that the file had; of the changes
of names in a folder since its last sync, some first part is there.
"""

import shutil
import struct
from collections.abc import Iterator, Sequence
from dataclasses import field
from enum import IntEnum
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from quorate.dataclass import dataclass

PAGE_BYTES: Final = 4096
ENTRY: Final = struct.Struct("=IBBHQq")
EMPTIED: Final = 1
"""Flag of a file that was emptied when it was opened."""


class Kind(IntEnum):
    """What was done; shim.c's ``enum kind``."""

    OPENED = 1
    WRITTEN = 2
    RESIZED = 3
    SYNCED = 4
    ALL_SYNCED = 5
    RENAMED = 6
    REMOVED = 7
    FOLDER_MADE = 8


class Entry(NamedTuple):
    """One change, as shim.c notes it."""

    position: int
    """Where it stands in the journal."""
    kind: int
    flag: int
    inode: int
    number: int
    first: bytes
    second: bytes

    @property
    def end(self) -> int:
        """Where the next one stands."""
        return self.position + ENTRY.size + len(self.first) + len(self.second)


def read_journal(data: bytes) -> Iterator[Entry]:
    """Yield the entries; a last one that is not whole belongs to a change that never returned."""
    position = 0
    while position + ENTRY.size <= len(data):
        size_bytes, kind, flag, first_bytes, inode, number = ENTRY.unpack_from(data, position)
        start = position + ENTRY.size
        if start + size_bytes > len(data):
            return
        first = data[start : start + first_bytes]
        second = data[start + first_bytes : start + size_bytes]
        yield Entry(position, kind, flag, inode, number, first, second)
        position = start + size_bytes


class Change(NamedTuple):
    """A change of a file's bytes; without data, of its size."""

    at: int
    """Where in the journal."""
    position: int
    data: bytes | None


@dataclass(eq=False)
class File:
    """What a file surely holds, and what was done to it since."""

    safe: bytearray
    changes: list[Change] = field(default_factory=list[Change])

    def sync(self, before: int) -> None:
        """Everything that stands in the journal before a place is safe now."""
        for change in self.changes:
            if change.at < before:
                _apply(self.safe, change)
        self.changes = [change for change in self.changes if change.at >= before]

    def lose_power(self, rng: Random) -> int:
        """Keep what is safe and, of the rest, nothing or some; return how many bytes are lost."""
        if not self.changes:
            return 0
        seen = self.seen()
        way = rng.randrange(3)
        if way == 1:  # written in order, the last one torn
            kept = rng.randrange(len(self.changes) + 1)
            self._keep(self.changes[:kept])
            self._keep([_torn(change, rng) for change in self.changes[kept : kept + 1]])
        elif way == 2:
            self._keep_some_pages(rng)
        self.changes = []
        pairs = _pages_of(seen, bytes(self.safe))
        return sum(before != after for before, after in pairs) * PAGE_BYTES

    def seen(self) -> bytes:
        """Return what a process reads while the power is on."""
        content = bytearray(self.safe)
        for change in self.changes:
            _apply(content, change)
        return bytes(content)

    def _keep(self, changes: Sequence[Change]) -> None:
        for change in changes:
            _apply(self.safe, change)

    def _keep_some_pages(self, rng: Random) -> None:
        sizes = [len(self.safe)]
        content = bytearray(self.safe)
        for change in self.changes:
            _apply(content, change)
            sizes.append(len(content))
        size = rng.choice(sizes)
        for change in self.changes:
            if change.data is None:
                continue
            for piece in _pieces(change):
                if rng.random() < 0.5:
                    _apply(self.safe, piece)
        _apply(self.safe, Change(0, size, None))


@dataclass(eq=False)
class Directory:
    """A folder's names as they surely are, as they seem to be, and the steps in between."""

    safe: dict[str, "File | Directory"]
    now: dict[str, "File | Directory"] = field(init=False)
    changes: list[tuple[int, dict[str, "File | Directory"]]] = field(init=False)

    def __post_init__(self) -> None:
        self.now = dict(self.safe)
        self.changes = []

    def change(self, at: int, entries: dict[str, "File | Directory"]) -> None:
        """Note that names changed, at a place in the journal."""
        self.now = entries
        self.changes.append((at, entries))

    def sync(self, before: int) -> None:
        """Every change of names before a place in the journal is safe now."""
        for at, entries in self.changes:
            if at < before:
                self.safe = entries
        self.changes = [change for change in self.changes if change[0] >= before]

    def lose_power(self, rng: Random) -> int:
        """Forget some last part of the changes; return how many bytes and names are lost."""
        survivors = [self.safe, *(entries for _, entries in self.changes)]
        self.safe = rng.choice(survivors)
        lost = len(survivors) - 1 - survivors.index(self.safe)
        return lost + sum(entry.lose_power(rng) for entry in self.safe.values())


class Disk:
    """The files below a directory, followed through the journal of one process."""

    def __init__(self, root: Path, safe_copy: Path) -> None:
        """Begin with what is in a copy of the directory, all of which is safe."""
        self._root = str(root.absolute())
        self._tree = _load(safe_copy)
        self._inodes: dict[int, File | Directory] = {}

    def replay(self, journal: bytes) -> None:
        """Follow the process until it ended."""
        for entry in read_journal(journal):
            self._follow(entry)

    def lose_power(self, rng: Random) -> int:
        """Forget what was not synced; return roughly how many bytes that were."""
        return self._tree.lose_power(rng)

    def store(self, target: Path) -> None:
        """Write out what is left."""
        _store(self._tree, target)

    def seen(self) -> dict[str, bytes]:
        """Return all files as a process sees them while the power is on."""
        return dict(_seen(self._tree, ""))

    def _follow(self, entry: Entry) -> None:
        match entry.kind:
            case Kind.OPENED:
                self._open(entry)
            case Kind.WRITTEN:
                self._note(entry, entry.second)
            case Kind.RESIZED:
                self._note(entry, None)
            case Kind.SYNCED:
                self._inodes[entry.inode].sync(entry.number)
            case Kind.ALL_SYNCED:
                _sync_all(self._tree, entry.number)
            case _:
                self._change_names(entry)

    def _open(self, entry: Entry) -> None:
        path = entry.first.decode()
        if path.rstrip("/") == self._root:
            self._inodes[entry.inode] = self._tree
            return
        folder, name = self._place(path)
        node = folder.now.get(name)
        if node is None:
            node = File(bytearray())
            folder.change(entry.position, {**folder.now, name: node})
        if entry.flag == EMPTIED:
            assert isinstance(node, File)
            node.changes.append(Change(entry.position, 0, None))
        self._inodes[entry.inode] = node

    def _change_names(self, entry: Entry) -> None:
        folder, name = self._place(entry.first.decode())
        entries = dict(folder.now)
        if entry.kind == Kind.FOLDER_MADE:
            entries[name] = Directory({})
        elif entry.kind == Kind.REMOVED:
            del entries[name]
        else:
            to_folder, to_name = self._place(entry.second.decode())
            assert to_folder is folder, "nothing is moved between folders"
            entries[to_name] = entries.pop(name)
        folder.change(entry.position, entries)

    def _note(self, entry: Entry, data: bytes | None) -> None:
        node = self._inodes[entry.inode]
        assert isinstance(node, File)
        node.changes.append(Change(entry.position, entry.number, data))

    def _place(self, path: str) -> tuple[Directory, str]:
        assert path.startswith(self._root + "/"), path
        *folders, name = path.removeprefix(self._root + "/").split("/")
        folder = self._tree
        for each in folders:
            entry = folder.now[each]
            assert isinstance(entry, Directory)
            folder = entry
        return folder, name


def copy_tree(source: Path, target: Path) -> None:
    """Copy a directory in place of another."""
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(source, target)


def cut_power(root: Path, safe_copy: Path, journal: Path, rng: Random) -> int:
    """Leave in a directory what a power cut would have left; return about how much is lost.

    Args:
        root: the directory; the process that used it has ended.
        safe_copy: a copy from before the process started.
        journal: what the shim noted of the process; removed.
        rng: decides what happens to bytes that were not synced.
    """
    disk = Disk(root, safe_copy)
    disk.replay(journal.read_bytes())
    lost = disk.lose_power(rng)
    shutil.rmtree(root)
    disk.store(root)
    journal.unlink()
    return lost


def _apply(content: bytearray, change: Change) -> None:
    if change.data is None:
        del content[change.position :]
        content.extend(bytes(change.position - len(content)))
        return
    if len(content) < change.position:
        content.extend(bytes(change.position - len(content)))
    content[change.position : change.position + len(change.data)] = change.data


def _torn(change: Change, rng: Random) -> Change:
    if change.data is None:
        return change
    return change._replace(data=change.data[: rng.randrange(len(change.data) + 1)])


def _pieces(change: Change) -> Iterator[Change]:
    """Yield a write cut at the boundaries of pages."""
    assert change.data is not None
    start = 0
    while start < len(change.data):
        position = change.position + start
        size = min(PAGE_BYTES - position % PAGE_BYTES, len(change.data) - start)
        yield Change(change.at, position, change.data[start : start + size])
        start += size


def _pages_of(first: bytes, second: bytes) -> Iterator[tuple[bytes, bytes]]:
    for start in range(0, max(len(first), len(second)), PAGE_BYTES):
        yield first[start : start + PAGE_BYTES], second[start : start + PAGE_BYTES]


def _sync_all(directory: Directory, before: int) -> None:
    for node in directory.now.values():
        if isinstance(node, Directory):
            _sync_all(node, before)
        else:
            node.sync(before)
    directory.sync(before)


def _load(path: Path) -> Directory:
    entries: dict[str, File | Directory] = {}
    for each in path.iterdir():
        entries[each.name] = _load(each) if each.is_dir() else File(bytearray(each.read_bytes()))
    return Directory(entries)


def _store(directory: Directory, path: Path) -> None:
    path.mkdir()
    for name, node in directory.safe.items():
        if isinstance(node, Directory):
            _store(node, path / name)
        else:
            (path / name).write_bytes(node.safe)


def _seen(directory: Directory, prefix: str) -> Iterator[tuple[str, bytes]]:
    for name, node in directory.now.items():
        if isinstance(node, Directory):
            yield from _seen(node, f"{prefix}{name}/")
        else:
            yield prefix + name, node.seen()
