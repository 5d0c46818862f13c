"""The runs of ``quorate verify`` that are on disk, as they are listed."""

import contextlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from quorate.dataclass import dataclass
from quorate.jepsen import store
from quorate.jepsen.store import RunFolder

NOT_JUDGED: Final = "not judged"


@dataclass(frozen=True, slots=True)
class Run:
    """A run, as its files tell of it; what they do not tell is None or empty.

    Attributes:
        folder: Where it is.
        header: What was asked for.
        verdict: What was found; empty if it was not judged.
        repeat: The command that repeats it.
    """

    folder: RunFolder
    header: Mapping[str, Any]
    verdict: Mapping[str, Any]
    repeat: str = ""

    @property
    def name(self) -> str:
        """Its name."""
        return self.folder.name

    @property
    def validity(self) -> str:
        """What was found, in a word."""
        return str(self.verdict.get("validity", NOT_JUDGED))

    @property
    def anomalies(self) -> tuple[str, ...]:
        """What was wrong."""
        return tuple(self.verdict.get("anomalies", ()))

    @property
    def started_ms(self) -> int | None:
        """When it began; None if that is not known."""
        with contextlib.suppress(ValueError):
            return round(datetime.fromisoformat(str(self.header.get("started"))).timestamp() * 1000)
        return None


def run_of(folder: RunFolder) -> Run:
    """Return a run, as far as its files can be read."""
    about = folder.read_about()
    header = about.get("header", {})
    return Run(folder, header, folder.read_verdict(), str(about.get("repeat", "")))


def runs_in(root: Path | None) -> tuple[Run, ...]:
    """Return the runs under a folder, ``./quorate-verify`` by default, the newest first."""
    where = store.DEFAULT_ROOT if root is None else root
    return tuple(run_of(folder) for folder in store.list_runs(where))
