"""A progress bar of bytes, where a person looks; nothing where nobody does."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Self

from quorate.tools.arguments import GlobalOptions

SoFar = Callable[[int], None]
"""Hears of so many bytes more."""


class Bar(AbstractContextManager["Bar"]):
    """Shows on standard error how much of something is done, while the block lasts."""

    def __init__(self, options: GlobalOptions, what: str) -> None:
        self._shown = sys.stderr.isatty() and not options.quiet
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
