"""Look-ups that must not wait for the disk, in three steps on two threads.

On the loop a look-up goes through ``CachedFiles``: what is open, and in memory.  If that does not
do, it raises a ``ColdError`` with a ``ColdRead``, which looks the same thing up in a worker thread,
with files of its own, for the sole purpose that the system has it all in memory then.  After that
the look-up is repeated on the loop, where it may wait, but need not.
"""

import struct
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar, cast

from quorate.broker.log.files import File, Files, FileSystem, OpenFiles
from quorate.broker.log.lookup import LogSegment, Searchable
from quorate.errors import KafkaError, QuorateError
from quorate.records.slices import FileSlice

OWN_FILES_MAX: Final = 8
"""Files open at once in a look-up by itself; a segment has three."""

T = TypeVar("T")


class NotCachedError(QuorateError):
    """Only the disk knows."""


class ColdError(QuorateError):
    """The look-up would have to wait for the disk: run ``cold`` in a worker thread, then repeat."""

    def __init__(self, cold: "Cold") -> None:
        super().__init__("to be read from the disk first")
        self.cold = cold


class CachedFile:
    """A file of which only what is in memory is read; all of ``file``, by who may wait."""

    __slots__ = ("fd", "file")

    def __init__(self, file: File) -> None:
        self.file = file
        self.fd = file.fd

    def read_at(self, size_bytes: int, position: int) -> bytes:
        """Read so many bytes, or as many as there are.

        Raises:
            NotCachedError: some of them are not in memory.
        """
        data = self.file.read_cached(size_bytes, position)
        if data is None:
            raise NotCachedError
        return data

    def size_bytes(self) -> int:
        """The size, which the system knows of open files."""
        return self.file.size_bytes()


def read_slice(piece: FileSlice) -> bytes:
    """Read a slice, wherever it was looked up; waits for the disk."""
    owner = piece.owner
    file = owner.file if isinstance(owner, CachedFile) else cast("File", owner)
    return file.read_at(piece.size_bytes, piece.position)


class CachedFiles:
    """The files that are open: opening another one may take the disk."""

    __slots__ = ("_files",)

    def __init__(self, files: OpenFiles) -> None:
        self._files = files

    def get(self, path: str) -> File:
        """Return the file of that path.

        Raises:
            NotCachedError: it is not open.
        """
        file = self._files.get_open(path)
        if file is None:
            raise NotCachedError
        return cast("File", CachedFile(file))  # look-ups do nothing but read

    def size_bytes(self, _path: str) -> int:
        """Refuse: a file that is not open may not be known to the system.

        Raises:
            NotCachedError: always.
        """
        raise NotCachedError

    modified_ms = size_bytes


class ColdRead:
    """A look-up in a segment as it was when this was made."""

    __slots__ = ("_find", "_segment")

    def __init__(
        self, fs: FileSystem, segment: LogSegment, find: Callable[[Searchable], object]
    ) -> None:
        self._segment = segment.through(OpenFiles(fs, OWN_FILES_MAX))
        self._find = find

    def run(self) -> None:
        """Look it up; may run in a worker thread.

        What goes wrong, because the segment was deleted or cut meanwhile, say, is of no interest
        here: who repeats it will see.
        """
        try:
            self._find(self._segment)
        except (OSError, KafkaError, struct.error):
            return


class ColdLookup:
    """A look-up in several segments as they were when this was made."""

    __slots__ = ("_find", "_fs")

    def __init__(self, fs: FileSystem, find: Callable[[Files], object]) -> None:
        self._fs = fs
        self._find = find

    def run(self) -> None:
        """Look it up; see :meth:`ColdRead.run`."""
        try:
            self._find(OpenFiles(self._fs, OWN_FILES_MAX))
        except (OSError, KafkaError, struct.error):
            return


Cold: TypeAlias = ColdRead | ColdLookup
"""Runs in a worker thread, so that a look-up need not wait when it is repeated."""


def find_cached(files: OpenFiles, segment: LogSegment, find: Callable[[Searchable], T]) -> T:
    """Return what is found in the segment without waiting for the disk.

    Raises:
        ColdError: it is not to be found so.
    """
    try:
        return find(segment.through(CachedFiles(files)))
    except NotCachedError:
        raise ColdError(ColdRead(files.fs, segment, find)) from None
