"""Whose directories are: what nodes wrote into them when they first started, read only."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final, cast

from quorate.dataclass import dataclass
from quorate.quorum.directory import META, SUBDIRECTORY
from quorate.tools.output import Column, Table
from quorate.tools.problems import CommandError

PLACES: Final = (META, f"*/{META}", f"*/{SUBDIRECTORY}/{META}")
"""Brokers and controllers call it alike."""


@dataclass(frozen=True, slots=True)
class Owned:
    """A node's directory: of a broker, or of a controller; ``node_id`` is -1 if nobody's yet."""

    path: Path
    role: str
    node_id: int
    cluster_id: str
    directory_id: str
    size_bytes: int


def owned_in(directory: Path) -> list[Owned]:
    """Return whose a directory is, and those in it: of a node, or of a cluster of ``quorate up``.

    Raises:
        CommandError: nobody's, or what it says cannot be read.
    """
    metas = sorted({path for pattern in PLACES for path in directory.glob(pattern)})
    if not metas:
        raise CommandError(
            f"{directory} belongs to no node",
            why=f"no {META} in it, nor in the directories below it",
            hint="the --dir of a node or of quorate up; nodes format theirs by themselves",
        )
    return [_owned(path) for path in metas]


def owned_by(meta: Path) -> Owned | None:
    """Return whose a directory is by its ``meta.json``; None if there is none.

    Raises:
        CommandError: it cannot be read.
    """
    return _owned(meta) if meta.exists() else None


def _owned(meta: Path) -> Owned:
    try:
        found = dict(_leaves(json.loads(meta.read_text())))
    except (OSError, ValueError) as error:
        raise CommandError(
            f"cannot read {meta}", why=str(error), hint="put it back from a copy"
        ) from None
    is_controller = meta.parent.name == SUBDIRECTORY
    return Owned(
        meta.parent,
        "controller" if is_controller else "broker",
        int(found.get("node_id", -1)),
        str(found.get("cluster_id", "")),
        str(found.get("directory_id", "")),
        _size_bytes(meta.parent, besides=None if is_controller else meta.parent / SUBDIRECTORY),
    )


def _size_bytes(directory: Path, *, besides: Path | None) -> int:
    """Return what the files of a directory take, without those of another one in it."""
    size_bytes = 0
    for path in directory.rglob("*"):
        if besides is None or besides not in path.parents:
            with suppress(FileNotFoundError):  # nodes that run remove and rename files
                state = path.stat()
                size_bytes += state.st_size if S_ISREG(state.st_mode) else 0
    return size_bytes


def _leaves(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and plain values, wherever they stand; those further out come last, and hold."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        for _, inner in items:
            yield from _leaves(inner)
        for name, inner in items:
            if isinstance(inner, str | int):
                yield name, inner


def owned_table(owned: list[Owned]) -> Table:
    """Return a row for each directory."""
    columns = (
        Column("path"), Column("role"), Column("node_id"), Column("cluster_id"),
        Column("directory_id"), Column("size_bytes"),
    )  # fmt: skip
    rows = tuple(
        (str(o.path), o.role, o.node_id, o.cluster_id, o.directory_id, o.size_bytes) for o in owned
    )
    return Table("directories", columns, rows)
