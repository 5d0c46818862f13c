"""Tables as values: cells with a tone and an order, rows with what they are about."""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from quorate.dataclass import dataclass
from quorate.tools.output import harmless

UNKNOWN: Final = "-"


class Tone(Enum):
    """What a text means; which color that is, is the screen's business.

    Nothing is told by a tone alone: whoever sees no colors sees other signs.
    """

    PLAIN = "plain"
    DIM = "dim"
    STRONG = "strong"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    ACCENT = "accent"
    LEADER_BLOCK = "leader block"
    GOOD_BLOCK = "good block"
    WARN_BLOCK = "warn block"
    BAD_BLOCK = "bad block"


class Part(NamedTuple):
    """A piece of a text in one tone."""

    text: str
    tone: Tone = Tone.PLAIN


Line = tuple[Part, ...]


class Cell(NamedTuple):
    """A cell. A tuple, because a screen of 2,000 partitions makes 20,000 of them at every look.

    ``order`` is what it is sorted by, ``None`` sorts last; ``parts`` are its text in several tones.
    """

    text: str
    tone: Tone = Tone.PLAIN
    order: str | float | None = None
    parts: Line = ()


class Row(NamedTuple):
    """A row: ``key`` names it over time, ``subject`` is what it is about."""

    key: str
    cells: tuple[Cell, ...]
    subject: object


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        name: What filters and saved files call it.
        is_number: Whether it stands to the right.
        wide_only: Whether it is shown only when somebody wants to see everything.
        shrinks: Whether its texts may be cut off where the screen is narrow.
        falls: Whether sorting by it begins with the largest.
        title: What stands above it, if that is not its name.
    """

    name: str
    is_number: bool = False
    wide_only: bool = False
    shrinks: bool = False
    falls: bool = False
    title: str = ""

    @property
    def heading(self) -> str:
        """What stands above it."""
        return self.title or self.name.upper().replace("_", " ")


@dataclass(frozen=True, slots=True)
class Frame:
    """A table: what it is called, its columns and all its rows, in their natural order.

    Attributes:
        remark: What stands where there are no rows.
        newest_first: Whether new rows come at the top, and a cursor that is there stays there.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    remark: str = ""
    newest_first: bool = False


def text_cell(text: str | None, tone: Tone = Tone.PLAIN) -> Cell:
    """Return a cell that is sorted by its text."""
    if not text:
        return Cell(UNKNOWN, Tone.DIM)
    return Cell(harmless(text), tone, text)


def number_cell(value: int | None, tone: Tone = Tone.PLAIN) -> Cell:
    """Return a cell with a whole number."""
    return Cell(UNKNOWN, Tone.DIM) if value is None else Cell(f"{value:,}", tone, value)


def id_cell(value: int | None, tone: Tone = Tone.PLAIN) -> Cell:
    """Return a cell with a number that is a name: without commas."""
    return Cell(UNKNOWN, Tone.DIM) if value is None else Cell(str(value), tone, value)


def count_cell(value: int, tone: Tone) -> Cell:
    """Return a cell with a count that is of interest if there is anything to count."""
    return Cell("0", Tone.DIM, 0) if value == 0 else Cell(f"{value:,}", tone, value)


def parts_cell(parts: Sequence[Part], order: str | float | None) -> Cell:
    """Return a cell of several tones."""
    return Cell("".join(part.text for part in parts), Tone.PLAIN, order, tuple(parts))
