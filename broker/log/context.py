"""LogContext: what all logs of a directory share."""

import sys
from collections.abc import Callable
from dataclasses import field
from typing import Final

from quorate.broker.log.files import FileSystem, OpenFiles, Space
from quorate.broker.log.lookup import LogSegment
from quorate.broker.log.trash import DELETED_SUFFIX, Trash
from quorate.dataclass import dataclass
from quorate.model import TopicPartition

ROOM_BYTES: Final = 1 << 20
"""A disk with less room than this would refuse the next records of somebody."""

REFUSED_MS: Final = 60_000
"""So long after it refused something a disk may refuse again, unless it was full and is not now."""

MUCH_ROOM: Final = 20
"""A disk of which one part in so many is free will not be full again in a moment."""


class DiskRefusals:
    """How often the disk refused for now what logs were to write, and whether it still would."""

    __slots__ = ("_directory", "_fs", "_since_ms", "_told", "_was_full", "count", "last")

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._directory = directory
        self.count = 0
        self._told = 0
        self._since_ms = 0
        self._was_full = False
        self.last = False
        """What was answered last when somebody asked whether it goes on."""

    def note(self) -> None:
        """Note that a log could not be written to."""
        self.count += 1
        self._was_full = self._space().usable_bytes < ROOM_BYTES

    def go_on(self, now_ms: int) -> bool:
        """Whether the disk refuses, as far as is known: it did so lately, or has had no room since.

        A full disk to which nobody writes refuses nothing, but would. One that was full is relied
        on again as soon as it has much room; with little, or if it refused for another reason, it
        would only come and go.
        """
        refused = self.count > self._told
        self._told = self.count
        if refused:
            self.last, self._since_ms = True, now_ms
        if self.last:
            total_bytes, usable_bytes = self._space()
            if usable_bytes < ROOM_BYTES:
                self._was_full, self._since_ms = True, now_ms
            elif not refused:
                has_much = self._was_full and usable_bytes * MUCH_ROOM >= total_bytes
                self.last = not has_much and now_ms - self._since_ms < REFUSED_MS
        return self.last

    def _space(self) -> Space:
        try:
            return self._fs.space(self._directory)
        except OSError:  # who cannot tell may have a little, and is heard of when it is written to
            return Space(sys.maxsize, ROOM_BYTES)


@dataclass(frozen=True, slots=True)
class LogContext:
    """The disk below the logs of one directory."""

    directory: str
    fs: FileSystem
    files: OpenFiles
    trash: Trash
    refusals: DiskRefusals
    save_checkpoints: Callable[[], None]
    """Writes down durably how far each log may be relied on after a crash.

    Before a log takes back what a checkpoint may say of it (by truncation) it lowers its own
    promise and has it written down, or else a crash would find the new records under the old one.
    """
    promised: Callable[[TopicPartition], int | None]
    """The offset that a checkpoint on disk may name at most of a log of that name, if any does."""
    sync_errors: list[OSError] = field(default_factory=list[OSError])
    """Of syncs that failed; any thread may add one.

    The system tells of what it could not write once, to whoever syncs next. So after the first such
    error no sync in the directory says anything any more, nor does one that was under way then.
    """

    def set_aside(self, path: str, delay_ms: int) -> None:
        """Take a file's name away; what it stands for is removed later, not on the loop.

        Raises:
            OSError: the disk failed.
        """
        self.files.forget(path)
        self.fs.rename(path, path + DELETED_SUFFIX)
        self.trash.add([path + DELETED_SUFFIX], delay_ms)


def paths_of(segment: LogSegment) -> list[str]:
    """Return the files of a segment in the order of removing them: the log file comes first."""
    return [segment.stem + suffix for suffix in reversed(segment.suffixes)]
