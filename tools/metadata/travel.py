"""The metadata as they were: at an offset or a time, and what changed between two of them."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

from quorate.dataclass import dataclass
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.tools.metadata.decided import Batch
from quorate.tools.metadata.tree import Folder, contents, find, parse_path, root_of
from quorate.tools.output import Column, Table
from quorate.tools.positions import parse_time
from quorate.tools.problems import CommandError, UsageError


@dataclass(frozen=True, slots=True)
class Point:
    """A moment: after the record at an offset, or what held at a time; of neither, now."""

    text: str
    offset: int | None = None
    time_ms: int | None = None

    def has(self, batch: Batch) -> bool:
        """Whether a batch was there by then; where nobody knows its time, it was."""
        if self.offset is not None:
            return batch.offset <= self.offset
        if self.time_ms is None:
            return True
        times = [record.time_ms for record in batch.changes]
        return not times or max(times) <= self.time_ms


def parse_point(text: str, now_ms: int) -> Point:
    """Return the moment that a text names: ``now``, an offset, a time, or how long ago.

    Raises:
        UsageError: it names none.
    """
    if text == "now":
        return Point(text)
    if text.isdecimal() and len(text) < 12:
        return Point(text, offset=int(text))
    time_ms = parse_time(text.removeprefix("@"), now_ms)
    if time_ms is None:
        raise UsageError(
            f"{text!r} is no moment",
            why="a moment is an offset of quorate metadata cat, a time, how long ago, or now",
            hint="quorate metadata at 14, at -1h, at 2026-03-01T10:00",
        )
    return Point(text, time_ms=time_ms)


def image_at(batches: Iterable[Batch], point: Point) -> MetadataImage:
    """Return the metadata of a moment.

    Raises:
        CommandError: it was before the oldest that is known.
    """
    image = EMPTY_IMAGE
    for batch in batches:
        if not point.has(batch):
            if batch.image is not None:
                raise CommandError(
                    f"what was at {point.text} is not known any more",
                    why=f"the oldest that is left is a snapshot of offset {batch.offset}",
                    hint=f"quorate metadata at {batch.offset}",
                )
            break
        image = batch.applied_to(image)
    return image


def contents_of(image: MetadataImage, path: str) -> Any:
    """Return what is at a path, as JSON has it.

    Raises:
        CommandError: there is nothing.
    """
    node = find(root_of(image, None), parse_path(path, ()))
    if node is None:
        raise CommandError(
            f"there is no {path}", why="the metadata had no such thing then",
            hint="quorate metadata at now /",
        )  # fmt: skip
    return contents(node) if isinstance(node, Folder) else node


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values within, each with its path."""
    if isinstance(value, dict) and value:
        for name, inner in cast("dict[str, Any]", value).items():
            yield from leaves(inner, f"{path}/{name}")
    else:
        yield path or "/", value


def diff_table(before: MetadataImage, after: MetadataImage, path: str) -> Table:
    """Return a row for each value that differs; None where there is none."""
    old = dict(leaves(contents_of(before, path))) if _has(before, path) else {}
    new = dict(leaves(contents_of(after, path))) if _has(after, path) else {}
    columns = (Column("path"), Column("before"), Column("after"))
    prefix = path.rstrip("/")
    rows = tuple(
        (prefix + name, text_of(old.get(name)), text_of(new.get(name)))
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    )
    return Table("metadata_changes", columns, rows)


def _has(image: MetadataImage, path: str) -> bool:
    return find(root_of(image, None), parse_path(path, ())) is not None


def text_of(value: Any) -> str | None:
    """Return a value as a cell has it."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
