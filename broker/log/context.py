"""LogContext: what all logs of a directory share."""

from collections.abc import Callable
from dataclasses import dataclass

from quorate.broker.log.files import FileSystem, OpenFiles
from quorate.broker.log.trash import Trash


@dataclass(frozen=True, slots=True)
class LogContext:
    """The disk below the logs of one directory."""

    directory: str
    fs: FileSystem
    files: OpenFiles
    trash: Trash
    save_checkpoints: Callable[[], None]
    """Writes down durably how far each log may be relied on after a crash.

    Before a log takes back what it promised (by truncation) it lowers its own promise and has it
    written down, or else a crash would find the new records under the old promise.
    """
