"""Progress bars, where a person looks; nothing where nobody does."""

import math
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Self

from quorate.tools.arguments import GlobalOptions

if TYPE_CHECKING:
    from rich.progress import Progress

SoFar = Callable[[int], None]
"""Hears of so many bytes more."""
Between = Callable[[int, str], None]
"""Hears at a moment at which nothing is measured how many are done, of what."""
DRAWN_EVERY_S: Final = 1.0


class Bar(AbstractContextManager["Bar"]):
    """Shows on standard error how much of something is done, while the block lasts."""

    def __init__(self, options: GlobalOptions, what: str) -> None:
        self._shown = _somebody_looks(options)
        self._color = options.color
        self._what = what

    def __enter__(self) -> Self:
        """Begin to show."""
        if self._shown:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
                TransferSpeedColumn,
            )

            columns = (
                TextColumn("{task.description}"), BarColumn(), DownloadColumn(),
                TransferSpeedColumn(), TimeRemainingColumn(),
            )  # fmt: skip
            console = Console(stderr=True, no_color=not self._color)
            self._progress = Progress(*columns, console=console, transient=True)
            self._progress.start()
            self._task = self._progress.add_task(self._what, total=None)
        return self

    def __exit__(self, *error: object) -> None:
        """Take it off the screen."""
        if self._shown:
            self._progress.stop()

    def set_total(self, total: int) -> None:
        """Say how much there is to do."""
        if self._shown:
            self._progress.update(self._task, total=total)

    def advance(self, by: int) -> None:
        """Say that more is done."""
        if self._shown:
            self._progress.advance(self._task, by)

    def show(self, done: int, total: int, what: str) -> None:
        """Say how much is done, of how much, and of what."""
        if self._shown:
            self._progress.update(self._task, completed=done, total=total, description=what)


class Tally(AbstractContextManager["Tally"]):
    """Shows how many of something are done, and draws when it is told that it may: it takes 1 ms.

    Nothing appears before that, and nothing is drawn at other times.
    """

    def __init__(self, options: GlobalOptions, total: int) -> None:
        self._shown = _somebody_looks(options)
        self._color = options.color
        self._total = total
        self._progress: Progress | None = None
        self._drawn_s = -math.inf

    def __exit__(self, *error: object) -> None:
        """Take it off the screen."""
        if self._progress is not None:
            self._progress.stop()

    def between(self, done: int, what: str) -> None:
        """Draw how many are done, of what, unless that was a moment ago."""
        if not self._shown or time.monotonic() - self._drawn_s < DRAWN_EVERY_S:
            return
        if self._progress is None:
            self._progress = self._begin()
        (task,) = self._progress.task_ids
        self._progress.update(task, completed=done, description=what, refresh=True)
        self._drawn_s = time.monotonic()

    def _begin(self) -> "Progress":
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TimeRemainingColumn(),
        )  # fmt: skip
        console = Console(stderr=True, no_color=not self._color)
        progress = Progress(*columns, console=console, transient=True, auto_refresh=False)
        progress.add_task("", total=self._total)
        progress.start()
        return progress


def _somebody_looks(options: GlobalOptions) -> bool:
    return sys.stderr.isatty() and not options.quiet
