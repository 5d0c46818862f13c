"""Lines of a file that grows, is renamed, or is cut off: where to read on (pure)."""

from __future__ import annotations

import re
from enum import Enum, auto
from hashlib import sha256
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from quorate.dataclass import dataclass
from quorate.errors import QuorateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HEAD_BYTES: Final = 256
"""How much of a file's beginning tells it from another one with the same number."""


class PositionError(QuorateError):
    """A position is not as this writes them."""


@dataclass(frozen=True, slots=True)
class Position:
    """How much of a file became records.

    Attributes:
        inode: The file's number, which stays when it is renamed.
        offset: In bytes; the next line begins there.
        head_bytes: How much of the file's beginning ``head`` is of: up to 256, and to the offset.
        head: Its SHA-256, in hexadecimal.
    """

    inode: int
    offset: int
    head_bytes: int
    head: str

    def to_json(self) -> dict[str, Any]:
        """Return what to write down."""
        return {
            "inode": self.inode,
            "offset": self.offset,
            "head_bytes": self.head_bytes,
            "head": self.head,
        }

    @classmethod
    def from_json(cls, value: Any) -> Position:
        """Return what was written down.

        Raises:
            PositionError: It was not.
        """
        try:
            inode, offset, head_bytes = (value[n] for n in ("inode", "offset", "head_bytes"))
            if any(type(n) is not int or n < 0 for n in (inode, offset, head_bytes)):
                raise PositionError(f"{value!r} is no position in a file")
            return cls(inode, offset, head_bytes, str(value["head"]))
        except (KeyError, TypeError) as error:
            raise PositionError(f"{value!r} is no position in a file") from error


def beginning_of(inode: int) -> Position:
    """Return the position before the first line of a file."""
    return Position(inode, 0, 0, digest(b""))


def digest(head: bytes) -> str:
    """Return what tells one beginning from another."""
    return sha256(head).hexdigest()


def moved(position: Position, offset: int, head: bytes) -> Position:
    """Return the position further on in the same file.

    Args:
        position: Where it was.
        offset: Where it is.
        head: The first 256 bytes of the file, or as many as it has.
    """
    size = min(HEAD_BYTES, offset)
    return Position(position.inode, offset, size, digest(head[:size]))


class Verdict(Enum):
    """What a file is to a position."""

    SAME = auto()
    """The file that it is of, at least as long."""

    CUT = auto()
    """That file, but cut off and begun anew."""

    OTHER = auto()
    """Another file."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it is now: its number, its size in bytes, its first 256 bytes at most."""

    inode: int
    size_bytes: int
    head: bytes


def judge(position: Position, seen: Seen) -> Verdict:
    """Return whether a file is the one that a position is of."""
    if seen.inode != position.inode:
        return Verdict.OTHER
    begins_alike = digest(seen.head[: position.head_bytes]) == position.head
    return Verdict.SAME if begins_alike and seen.size_bytes >= position.offset else Verdict.CUT


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a folder: its name, number and the time when it was last written to."""

    name: str
    inode: int
    modified_ns: int


def is_rotated(name: str, candidate: str) -> bool:
    """Whether a file is named as one that was renamed: by a number or a time behind the name."""
    rest = candidate.removeprefix(name)
    return candidate != rest and re.fullmatch(r"[._-]\d[\dTZ:._-]*", rest) is not None


NUMBER_DIGITS_MAX: Final = 5
"""More digits behind a name are a date, or a time."""


def _rank(name: str, candidate: str) -> tuple[bool, tuple[int, ...]]:
    """Return whether a renamed file has a date behind its name, and what is larger for newer ones.

    A date grows; a number is that of the renames since, so that the newest has the smallest.
    """
    numbers = re.findall(r"\d+", candidate.removeprefix(name))
    if len(numbers) == 1 and len(numbers[0]) <= NUMBER_DIGITS_MAX:
        return False, (-int(numbers[0]),)
    return True, tuple(map(int, numbers))


def rest_of(position: Position, name: str, entries: Iterable[Entry]) -> list[str] | None:
    """Return the files to read from a position on, oldest first, before the one of that name.

    The first is the one that the position is of; then come those that were renamed later, as their
    names say. Where names do not (one has a number, another a date) it is said by when they were
    last written to: those of the same time are taken for later, for no line may be left out. None
    if the first is not there any more.
    """
    rotated = [entry for entry in entries if is_rotated(name, entry.name)]
    mine = next((entry for entry in rotated if entry.inode == position.inode), None)
    if mine is None:
        return None
    ranks = {entry.name: _rank(name, entry.name) for entry in rotated}
    kind, rank = ranks[mine.name]
    by_name = sorted(rotated, key=lambda e: ranks[e.name])
    alike = [e for e in by_name if ranks[e.name][0] == kind and ranks[e.name][1] > rank]
    others = [e for e in by_name if ranks[e.name][0] != kind and e.modified_ns >= mine.modified_ns]
    later = sorted([*_timed(alike), *_timed(others)], key=itemgetter(0))
    return [mine.name, *(entry.name for _, entry in later)]


def _timed(entries: list[Entry]) -> Iterator[tuple[int, Entry]]:
    """Give files with times in which none is earlier than one that its name says is older."""
    times_ns = accumulate((entry.modified_ns for entry in entries), max)
    return zip(times_ns, entries, strict=True)


@dataclass(frozen=True, slots=True)
class Cut:
    """Lines without their ends, and how many bytes they were."""

    lines: list[bytes]
    size_bytes: int


def cut(chunk: bytes, *, line_bytes_max: int, is_all: bool) -> Cut:
    r"""Return the lines of a piece of a file.

    Args:
        chunk: What is there from the position on, or the first of it.
        line_bytes_max: A longer line becomes several.
        is_all: Whether nothing will come behind the chunk, so that what has no end is a line, too.

    A line ends in ``\n`` or ``\r\n``.
    """
    size_bytes = len(chunk) if is_all else chunk.rfind(b"\n") + 1
    if size_bytes == 0:
        is_long = len(chunk) > line_bytes_max + 1  # the end of a line may be of two bytes
        size_bytes = line_bytes_max if is_long else 0
        return Cut([chunk[:size_bytes]] if is_long else [], size_bytes)
    lines = chunk[:size_bytes].split(b"\n")
    if not lines[-1]:
        del lines[-1]
    lines = [line.removesuffix(b"\r") for line in lines]
    if max(map(len, lines), default=0) > line_bytes_max:
        lines = [piece for line in lines for piece in _pieces(line, line_bytes_max)]
    return Cut(lines, size_bytes)


def _pieces(line: bytes, size: int) -> list[bytes]:
    return [line[start : start + size] for start in range(0, max(1, len(line)), size)]
