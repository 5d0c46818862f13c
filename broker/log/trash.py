"""Trash: files that are deleted already and only wait for their space to be given back.

Unlinking a gigabyte takes the file system a while, so it happens later and in a worker thread.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from quorate.broker.log.files import FileSystem, remove_tree

DELETED_SUFFIX: Final = ".deleted"
"""Of a file whose segment is no longer part of the log (as Kafka names them)."""


class Doomed:
    """A path to be removed; its delay runs from the first time somebody looks."""

    __slots__ = ("delay_ms", "due_ms", "path")

    def __init__(self, path: str, delay_ms: int) -> None:
        self.path = path
        self.delay_ms = delay_ms
        self.due_ms = -1


class Trash:
    """Paths to remove, in the order they came; nothing in the logs refers to them any more."""

    __slots__ = ("_doomed",)

    def __init__(self) -> None:
        self._doomed: list[Doomed] = []

    def __len__(self) -> int:
        return len(self._doomed)

    def add(self, paths: Iterable[str], delay_ms: int) -> None:
        """Remove the files or folders some time from now."""
        self._doomed += (Doomed(path, delay_ms) for path in paths)

    def take_due(self, now_ms: int) -> list[str]:
        """Return what is to be removed now; it is forgotten here."""
        due: list[str] = []
        waiting: list[Doomed] = []
        for doomed in self._doomed:
            if doomed.due_ms < 0:
                doomed.due_ms = now_ms + doomed.delay_ms
            if doomed.due_ms <= now_ms:
                due.append(doomed.path)
            else:
                waiting.append(doomed)
        self._doomed = waiting
        return due


def remove_paths(fs: FileSystem, paths: Sequence[str]) -> None:
    """Remove files and folders, and give their space back; may run in a worker thread.

    What cannot be removed now is found and tried again when the directory is opened next.
    """
    for path in paths:
        try:
            if path.endswith(DELETED_SUFFIX):
                fs.remove(path)
            else:
                remove_tree(fs, path)
        except OSError:
            continue
    fs.close_removed()
