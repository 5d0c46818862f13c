"""The folders of runs: making one, listing them, finding one by what a person types.

A run is a folder with ``history.cbor``, ``run.json`` (what was asked for, and the command that
repeats it), ``verdict.json`` (once it is judged), ``report.html`` and ``nodes/<name>/log``.
"""

import difflib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast

from quorate.dataclass import dataclass
from quorate.errors import QuorateError

DEFAULT_ROOT: Final = Path("quorate-verify")
LATEST: Final = "latest"
VERSION: Final = 1
"""Of run.json and verdict.json; grows when a field of theirs changes its meaning or goes."""

_NAMES_SHOWN: Final = 3


class RunNotFoundError(QuorateError):
    """No run is what the word says.

    Attributes:
        why: what there is instead.
        near: the name of a run that may have been meant, or "".
    """

    def __init__(self, what: str, *, why: str, near: str) -> None:
        self.what = what
        self.why = why
        self.near = near
        super().__init__(f"{what}: {why}")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where a run's files are."""

    path: Path

    @property
    def name(self) -> str:
        """The run's name."""
        return self.path.name

    @property
    def history(self) -> Path:
        """What happened."""
        return self.path / "history.cbor"

    @property
    def about(self) -> Path:
        """What was asked for."""
        return self.path / "run.json"

    @property
    def verdict(self) -> Path:
        """What was found."""
        return self.path / "verdict.json"

    @property
    def page(self) -> Path:
        """The report for a browser."""
        return self.path / "report.html"

    @property
    def nodes(self) -> Path:
        """A folder for each node, with its log."""
        return self.path / "nodes"

    @property
    def exists(self) -> bool:
        """Whether this is a run."""
        return self.history.is_file() or self.about.is_file()

    def read_about(self) -> dict[str, Any]:
        """Return run.json, or an empty document if there is none that can be read."""
        return read_document(self.about)

    def read_verdict(self) -> dict[str, Any]:
        """Return verdict.json, or an empty document if the run was not judged."""
        return read_document(self.verdict)

    def write_about(self, header: Mapping[str, Any], *, repeat: str, **more: Any) -> None:
        """Write run.json: the history's header, the command that repeats the run, and more."""
        document = {"kind": "run", "version": VERSION, "header": dict(header), "repeat": repeat}
        write_document(self.about, document | more)

    def write_verdict(self, document: Mapping[str, Any]) -> None:
        """Write verdict.json."""
        write_document(self.verdict, {"kind": "verdict", "version": VERSION, **document})


def create(root: Path, started: datetime, workloads: Sequence[str], seed: int) -> RunFolder:
    """Make the folder of a new run; another of the same second gets a number behind its name."""
    name = f"{started:%Y%m%dT%H%M%S}-{'+'.join(workloads)}-{seed}"
    root.mkdir(parents=True, exist_ok=True)
    for copy in range(1, 1_000):
        path = root / (name if copy == 1 else f"{name}.{copy}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return RunFolder(path)
    raise RunNotFoundError(f"{root} is full of runs named {name}", why="it has 999", near="")


def list_runs(root: Path) -> list[RunFolder]:
    """Return the runs under a folder, the newest first: their names begin with their time."""
    if not root.is_dir():
        return []
    folders = (RunFolder(path) for path in root.iterdir() if path.is_dir())
    return sorted((f for f in folders if f.exists), key=lambda f: f.name, reverse=True)


def find(root: Path, word: str) -> RunFolder:
    """Return the run that a word means: a folder, a name, the beginning of one, or ``latest``.

    Raises:
        RunNotFoundError: there is none, or more than one.
    """
    folder = RunFolder(Path(word))
    if folder.exists:
        return RunFolder(folder.path.resolve())
    runs = list_runs(root)
    if not runs:
        raise RunNotFoundError(f"there is no run {word!r}", why=f"no runs are in {root}", near="")
    if word == LATEST:
        return runs[0]
    exact = [run for run in runs if run.name == word]
    starting = exact or [run for run in runs if run.name.startswith(word)]
    if len(starting) == 1:
        return starting[0]
    if starting:
        names = ", ".join(run.name for run in starting[:_NAMES_SHOWN])
        more = f" and {len(starting) - _NAMES_SHOWN} more" if len(starting) > _NAMES_SHOWN else ""
        raise RunNotFoundError(
            f"{len(starting)} runs begin with {word!r}", why=names + more, near=starting[0].name
        )
    near = difflib.get_close_matches(word, [run.name for run in runs], n=1, cutoff=0.3)
    nearest = near[0] if near else runs[0].name
    raise RunNotFoundError(
        f"there is no run {word!r}",
        why=f"{root} has {len(runs)}; the nearest is {nearest}",
        near=nearest,
    )


def read_document(path: Path) -> dict[str, Any]:
    """Return a JSON object; an empty one if the file is not there, or torn, or something else."""
    try:
        document: object = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON object as a whole: whoever reads it meanwhile sees the old one, or the new."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    new.write_text(json.dumps(document, indent=2, ensure_ascii=False, default=_plain) + "\n")
    new.replace(path)


def _plain(value: object) -> object:
    """Return what JSON has no form for as something that it has one for."""
    return value.hex() if isinstance(value, bytes) else str(value)
