"""A history in a file, read as far as it goes, as often as one wants."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from quorate.jepsen.history import (
    Event,
    HistoryError,
    HistoryReader,
    Operation,
    TruncatedHistoryError,
    operations,
)

_EVENTS_BETWEEN_NEWS: Final = 4_096

Progress = Callable[[int], None]
"""Is told how many bytes of the file have been read."""


class HistoryFile:
    """A history that may still be written, or whose writer was killed.

    Attributes:
        header: what the history says of itself.
        events: how many whole ones the last pass met.
        start_ns: the time of the first event, which all times are told from; 0 if there is none.
        cut_off: after a whole pass, whether the last event was torn.
    """

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        """Read the header, and when it begins.

        Raises:
            HistoryError: it is no history, or one of another format.
            OSError: it cannot be read.
        """
        self.path = path
        self._progress = progress
        self.events = 0
        self.start_ns = 0
        self.cut_off = False
        with path.open("rb") as file:
            reader = HistoryReader(file)
            self.header: dict[str, Any] = reader.header
            with contextlib.suppress(HistoryError):  # which a whole pass tells of
                self.start_ns = next((event.time_ns for event in reader), 0)

    @property
    def size_bytes(self) -> int:
        """How large the file is."""
        return self.path.stat().st_size

    def operations(self) -> Iterator[Operation]:
        """Yield what was done, each as it ends; in the end those that never did.

        Raises:
            HistoryError: something in the middle of it is no event, or cannot come there.
        """
        return operations(self._events())

    def _events(self) -> Iterator[Event]:
        self.events, self.cut_off = 0, False
        with self.path.open("rb") as file:
            try:
                for event in HistoryReader(file):
                    self.events += 1
                    if self._progress is not None and not self.events % _EVENTS_BETWEEN_NEWS:
                        self._progress(file.tell())
                    yield event
            except TruncatedHistoryError:
                self.cut_off = True
