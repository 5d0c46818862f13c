"""How a table is looked at: which rows, in which order, which columns, how wide."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from quorate.dataclass import dataclass
from quorate.tools.output import text_width
from quorate.tools.tui.views.cells import Cell, Column, Frame, Row

NARROWEST: Final = 8
WIDEST: Final = 60
PADDING: Final = 2
"""What the screen adds to each column: a blank on both sides."""

RISING: Final = "↑"
FALLING: Final = "↓"


@dataclass(frozen=True, slots=True)
class Lens:
    """What somebody wants to see of a table.

    Attributes:
        pattern: A regular expression; ``!`` before it turns it round, ``column:`` before it limits
            it to a column. Empty for all rows.
        sort: The column to sort by; empty for the natural order.
        falling: Whether the largest come first.
        wide: Whether all columns are shown.
    """

    pattern: str = ""
    sort: str = ""
    falling: bool = False
    wide: bool = False

    def sorted_by(self, column: Column) -> "Lens":
        """Return the lens after somebody asked for an order; asking again turns it round."""
        if self.sort == column.name:
            return replace(self, falling=not self.falling)
        return replace(self, sort=column.name, falling=column.falls)


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown: columns with their widths, rows with a cell for each of them."""

    title: str
    columns: tuple[Column, ...]
    headings: tuple[str, ...]
    widths: tuple[int, ...]
    rows: tuple[Row, ...]
    total: int
    remark: str
    newest_first: bool = False


class PatternError(Exception):
    """A filter is no regular expression."""


def row_filter(pattern: str, columns: Sequence[Column]) -> Callable[[Row], bool]:
    """Return whether a row is wanted.

    Small letters stand for capitals, too.

    Raises:
        PatternError: the pattern is no regular expression.
    """
    inverse = pattern.startswith("!")
    text = pattern[1:] if inverse else pattern
    at: int | None = None
    name, colon, rest = text.partition(":")
    if colon:
        wanted = name.lower().replace(" ", "_")
        places = [i for i, column in enumerate(columns) if column.name == wanted]
        if places:
            at, text = places[0], rest
    try:
        flags = re.IGNORECASE if text == text.lower() else 0
        search = re.compile(text, flags).search
    except re.error as error:
        raise PatternError(f"{text!r} is no regular expression: {error}") from None

    def wants(row: Row) -> bool:
        cells = row.cells if at is None else (row.cells[at],)
        return any(search(cell.text) for cell in cells) != inverse

    return wants


def _order(cell: Cell) -> tuple[float, str]:
    if isinstance(cell.order, str):
        return 0, cell.order
    assert cell.order is not None, "those go last"
    return cell.order, ""


def sorted_rows(rows: Iterable[Row], at: int, *, falling: bool) -> list[Row]:
    """Return rows by a column; those that have nothing there come last, whichever way it goes."""
    known: list[Row] = []
    unknown: list[Row] = []
    for row in rows:
        (unknown if row.cells[at].order is None else known).append(row)
    known.sort(key=lambda row: _order(row.cells[at]), reverse=falling)
    return known + unknown


def look(frame: Frame, lens: Lens, width: int) -> Shown:
    """Return what is shown of a table on a screen of some width.

    Raises:
        PatternError: the lens's pattern is no regular expression.
    """
    rows: Sequence[Row] = frame.rows
    if lens.pattern and lens.pattern != "!":
        wants = row_filter(lens.pattern, frame.columns)
        rows = [row for row in rows if wants(row)]
    at = next((i for i, c in enumerate(frame.columns) if c.name == lens.sort), None)
    if at is not None:
        rows = sorted_rows(rows, at, falling=lens.falling)
    places = _places(frame.columns, rows, lens, width)
    columns = tuple(frame.columns[i] for i in places)
    arrow = FALLING if lens.falling else RISING
    headings = tuple(c.heading + (arrow if c.name == lens.sort else "") for c in columns)
    if len(places) < len(frame.columns):
        rows = [Row(row.key, tuple([row.cells[i] for i in places]), row.subject) for row in rows]
    widths = fitted(columns, headings, rows, width, wide=lens.wide)
    remark = frame.remark if not frame.rows else f"nothing matches {lens.pattern}"
    return Shown(
        frame.title, columns, headings, widths, tuple(rows), len(frame.rows),
        "" if rows else remark, frame.newest_first and not lens.sort,
    )  # fmt: skip


def _places(columns: Sequence[Column], rows: Sequence[Row], lens: Lens, width: int) -> list[int]:
    """Return which columns are shown: all, or those that matter and as many more as there is room.

    A column by which rows are sorted is always shown.
    """
    if lens.wide:
        return list(range(len(columns)))
    widths = [_needed(columns[i].heading, rows, i) + PADDING for i in range(len(columns))]
    room = width - sum(w for w, c in zip(widths, columns, strict=True) if not c.wide_only)
    places: list[int] = []
    for i, column in enumerate(columns):
        if column.wide_only and column.name != lens.sort:
            room -= widths[i]
            if room < 0:
                continue
        places.append(i)
    return places


def _needed(heading: str, rows: Sequence[Row], at: int) -> int:
    return max([text_width(heading), *(text_width(row.cells[at].text) for row in rows)])


def fitted(
    columns: Sequence[Column],
    headings: Sequence[str],
    rows: Sequence[Row],
    width: int,
    *,
    wide: bool,
) -> tuple[int, ...]:
    """Return how wide columns are: what they need, less where the screen has too little.

    What may be cut off gives way, the widest first; with ``wide`` nothing does.
    """
    needed = [_needed(heading, rows, i) for i, heading in enumerate(headings)]
    if wide:
        return tuple(needed)
    room = width - PADDING * len(columns)
    last = max((i for i, column in enumerate(columns) if column.shrinks), default=None)
    for i, column in enumerate(columns):
        if column.shrinks and i != last:
            needed[i] = min(needed[i], WIDEST)
    soft = [i for i, column in enumerate(columns) if column.shrinks]
    excess = sum(needed) - room
    while excess > 0:
        widest = max(soft, key=lambda i: needed[i], default=None)
        if widest is None or needed[widest] <= NARROWEST:
            break
        most = max((needed[i] for i in soft if i != widest), default=NARROWEST)
        goal = most if most < needed[widest] else needed[widest] - 1  # alike: one after the other
        goal = max(goal, NARROWEST)
        cut = min(excess, needed[widest] - goal) or 1
        needed[widest] -= cut
        excess -= cut
    return tuple(needed)
