"""Shell: files that are read while they grow; synchronous, to be called in a thread."""

from __future__ import annotations

import os
import time
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING

from quorate.client.connect.lines import (
    HEAD_BYTES,
    Entry,
    Position,
    Seen,
    Verdict,
    beginning_of,
    cut,
    judge,
    moved,
    rest_of,
)
from quorate.client.connector import ConnectorError
from quorate.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from quorate.client.connect.config import FileSource


@dataclass(frozen=True, slots=True)
class Piece:
    """Some lines, and the position behind them.

    Attributes:
        lines: Without their ends; there may be none.
        position: Where the next one begins; None if there is no file.
        is_end: Whether there was no more than that: wait before the next look.
        is_last: Whether that was the end of the last file there is.
        notice: What a person should know; may be empty.
    """

    lines: list[bytes]
    position: Position | None
    is_end: bool = False
    is_last: bool = False
    notice: str = ""


class FollowedFile:
    """Owns an open file, the one that a position is of, and finds the next one.

    What became records is the user's to know: :meth:`read` starts anew at the position it is given.
    """

    def __init__(self, source: FileSource, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._clock = clock
        self._path = Path(source.path)
        self._descriptor = -1
        self._inode = -1
        self._still_since_s: float | None = None
        """Since when a renamed file has not grown, as far as was seen."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = self._inode = -1
        self._still_since_s = None

    def _open(self, path: Path) -> bool:
        """Open another file; whether it is there.

        Raises:
            ConnectorError: It is no regular file. A pipe would be waited for, by nobody who could
                be interrupted.
        """
        self._close()
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        state = os.fstat(self._descriptor)
        if not S_ISREG(state.st_mode):
            self._close()
            raise ConnectorError(f"{path} is no regular file: only those can be read again")
        self._inode = state.st_ino
        return True

    def _seen(self) -> Seen:
        state = os.fstat(self._descriptor)
        head = os.pread(self._descriptor, HEAD_BYTES, 0)
        return Seen(state.st_ino, state.st_size, head)

    # Where to begin

    def start(self, position: Position | None) -> Piece:
        """Find the file to go on with.

        Args:
            position: How far it was read before; None at the first time of all.
        """
        if position is None:
            if not self._open(self._path):
                notice = f"{self._path} is not there yet"
                return Piece([], None, is_end=True, is_last=True, notice=notice)
            first = beginning_of(self._inode)
            if self._source.start_at_end:
                seen = self._seen()
                first = moved(first, seen.size_bytes, seen.head)
            return Piece([], first)
        if self._open(self._path) and self._inode == position.inode:
            return self._check(position)
        rest = rest_of(position, self._path.name, self._entries())
        if (
            rest is not None
            and self._open(self._path.with_name(rest[0]))
            and judge(position, self._seen()) is Verdict.SAME
        ):
            return Piece([], position)
        lost = f"the file that was read is gone, perhaps with lines behind byte {position.offset}"
        notice = f"{lost}; {self._path} is read from its beginning"
        if not self._open(self._path):
            # To forget the position would be to begin for the first time, perhaps at the end.
            return Piece([], position, is_end=True, is_last=True, notice=notice)
        return Piece([], beginning_of(self._inode), notice=notice)

    def _check(self, position: Position) -> Piece:
        """Return the position, or the beginning if the file was cut off."""
        if judge(position, self._seen()) is Verdict.SAME:
            return Piece([], position)
        notice = f"{self._path} was cut off or written anew; it is read from its beginning"
        return Piece([], beginning_of(self._inode), notice=notice)

    def _entries(self) -> list[Entry]:
        try:
            with os.scandir(self._path.parent) as found:
                mine = [each for each in found if each.name.startswith(self._path.name)]
        except FileNotFoundError:  # the folder
            return []
        return [entry for each in mine if (entry := _entry_of(each)) is not None]

    # Reading

    def read(self, position: Position | None, *, is_last: bool) -> Piece:
        """Return the next lines behind a position.

        Args:
            position: Where, as the last piece said.
            is_last: Whether a line without an end is a line, too, where the file ends now.
        """
        if position is None or self._descriptor < 0:
            return self.start(position)
        checked = self._check(position)
        if checked.notice or checked.position is None:
            return checked
        source = self._source
        size = max(source.batch_bytes, source.line_bytes_max + 2)
        is_renamed = self._is_renamed()  # before: what is written until then is in the chunk
        chunk = os.pread(self._descriptor, size, position.offset)
        is_end = len(chunk) < size
        is_old = is_end and is_renamed
        is_over = is_old and (is_last or not self._may_grow(grew=b"\n" in chunk))
        found = cut(
            chunk,
            line_bytes_max=source.line_bytes_max,
            is_all=is_over or (is_end and is_last),
        )
        head = os.pread(self._descriptor, HEAD_BYTES, 0)
        after = moved(position, position.offset + found.size_bytes, head)
        if is_over and not found.lines:
            return self._next(after)
        return Piece(
            found.lines, after, is_end=is_end and not is_over, is_last=is_end and not is_old
        )

    def _is_renamed(self) -> bool:
        """Whether the path leads elsewhere now."""
        try:
            return self._path.stat().st_ino != self._inode
        except FileNotFoundError:
            return self._next_names() is not None

    def _next_names(self) -> list[str] | None:
        return rest_of(beginning_of(self._inode), self._path.name, self._entries())

    def _may_grow(self, *, grew: bool) -> bool:
        """Whether a renamed file may still be written to: for a while after its last line.

        That while begins with a look that saw it renamed: what is written in it is seen by another.
        """
        now_s = self._clock()
        if grew or self._still_since_s is None:
            self._still_since_s = now_s
        return (now_s - self._still_since_s) * 1000 < self._source.rotation_wait_ms

    def _next(self, position: Position) -> Piece:
        """Go on to the file that came after one that was renamed."""
        names = self._next_names() or []
        path = self._path.with_name(names[1]) if len(names) > 1 else self._path
        if not self._open(path):
            self._open_again(position)
            return Piece([], position, is_end=True, is_last=True)
        return Piece([], beginning_of(self._inode))

    def _open_again(self, position: Position) -> None:
        """Stay with the old file, while there is no new one."""
        names = rest_of(position, self._path.name, self._entries())
        if names:
            self._open(self._path.with_name(names[0]))
            self._still_since_s = -float("inf")  # it was waited for already


def _entry_of(found: os.DirEntry[str]) -> Entry | None:
    """Return a file of a folder; None for what is none, or was removed since the folder was read.

    Rotation removes the oldest file; those between it and the newest may have lines to be read.
    """
    try:
        state = found.stat()
    except FileNotFoundError:
        return None
    return Entry(found.name, state.st_ino, state.st_mtime_ns) if S_ISREG(state.st_mode) else None
