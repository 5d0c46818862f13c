"""LogContext: what all logs of a directory share."""

from collections.abc import Callable
from dataclasses import field

from quorate.broker.log.files import FileSystem, OpenFiles
from quorate.broker.log.lookup import LogSegment
from quorate.broker.log.trash import DELETED_SUFFIX, Trash
from quorate.dataclass import dataclass
from quorate.errors import StorageError
from quorate.model import TopicPartition


@dataclass(slots=True, eq=False)
class DiskRefusals:
    """How often logs could not be written to for now, and why since somebody last took note."""

    count: int = 0
    _first: StorageError | None = None

    def note(self, error: StorageError) -> None:
        """Note that a log could not be written to."""
        self.count += 1
        self._first = self._first or error

    def take(self) -> StorageError | None:
        """Return why one could not, once."""
        first, self._first = self._first, None
        return first


@dataclass(frozen=True, slots=True)
class LogContext:
    """The disk below the logs of one directory."""

    directory: str
    fs: FileSystem
    files: OpenFiles
    trash: Trash
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

    refusals: DiskRefusals = field(default_factory=DiskRefusals)

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
