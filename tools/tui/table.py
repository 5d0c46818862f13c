"""The table on the screen: draws the lines that can be seen, and only those that have changed.

Textual's DataTable keeps and measures every cell of every row; with 2,000 partitions that is a
second at every look. Here rows are values that somebody else made, and a line is made of them when
it is drawn.
"""

from collections.abc import Collection
from typing import ClassVar, Final

from rich.cells import set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from quorate.tools.output import text_width
from quorate.tools.tui.palette import CURSOR, HEADING, SORTED_HEADING, STYLES
from quorate.tools.tui.views.cells import Cell, Column, Part, Row, Tone
from quorate.tools.tui.views.lens import FALLING, RISING, Shown
from quorate.tools.tui.views.updating import changed_rows, cursor_after, is_laid_out_alike

GUTTER: Final = 2
"""Columns of the terminal left of the rows: the cursor, and marks."""

MARK: Final = "✓"

NO_SHOWN: Final = Shown("", (), (), (), (), 0, "")


class RowsTable(ScrollView, can_focus=True):
    """Owns the cursor and what is visible. The cursor is always on a row, if there is one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("home,g", "jump(0)", show=False),
        Binding("end,G", "jump(-1)", show=False),
        Binding("left", "scroll_left", show=False),
        Binding("right", "scroll_right", show=False),
        Binding("enter", "choose", show=False),
    ]

    class Chosen(Message):
        """Somebody pressed enter on a row, or clicked it twice."""

    class HeadingClicked(Message):
        """Somebody clicked the heading of a column."""

        def __init__(self, column: Column) -> None:
            super().__init__()
            self.column = column

    class Resized(Message):
        """There is more room now, or less."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = NO_SHOWN
        self.cursor = 0
        self._marks: Collection[str] = ()
        self._sign = MARK

    @property
    def row(self) -> Row | None:
        """The row with the cursor."""
        return self.shown.rows[self.cursor] if self.shown.rows else None

    # What is shown

    def show(
        self, shown: Shown, marks: Collection[str], *, anew: bool = False, sign: str = MARK
    ) -> None:
        """Show a table; with ``anew`` it is another one, which begins at its top.

        ``sign`` stands before the rows of ``marks``.
        """
        before, marked = self.shown, self._marks
        self._sign = sign
        key = None if self.row is None else self.row.key
        self.shown, self._marks = shown, frozenset(marks)
        was = self.cursor
        stays = anew or (shown.newest_first and was == 0)
        self.cursor = 0 if stays else cursor_after(shown.rows, key, was)
        width = GUTTER + sum(width + 2 for width in shown.widths)
        self.virtual_size = Size(width, len(shown.rows) + 1)
        if anew:
            self.scroll_to(0, 0, animate=False)
        if anew or marked != self._marks or not is_laid_out_alike(before, shown):
            self._reveal(self.cursor - was)
            self.refresh()
            return
        first = self.scroll_offset.y
        for index in changed_rows(before, shown, first, first + self.size.height):
            self._refresh_row(index)
        if was != self.cursor:
            self._move_to(self.cursor, was)

    def _refresh_row(self, index: int) -> None:
        y = index + 1 - self.scroll_offset.y
        if 0 < y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def _reveal(self, moved: int) -> None:
        """Keep the cursor visible; when its row moved, the table moves with it."""
        height = max(1, self.size.height - 1)
        top = self.scroll_offset.y
        if top <= self.cursor < top + height:
            return
        goal = top + moved if top <= self.cursor - moved < top + height else top
        goal = min(max(goal, self.cursor - height + 1), self.cursor)
        self.scroll_to(y=goal, animate=False, force=True)

    def _move_to(self, index: int, was: int) -> None:
        self.cursor = max(0, min(index, len(self.shown.rows) - 1))
        self._refresh_row(was)
        self._refresh_row(self.cursor)
        height = max(1, self.size.height - 1)
        top = self.scroll_offset.y
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, force=True)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, force=True)

    # Keys and mouse

    def action_move(self, by: int) -> None:
        """Move the cursor by rows."""
        self._move_to(self.cursor + by, self.cursor)

    def action_page(self, by: int) -> None:
        """Move the cursor by pages."""
        self._move_to(self.cursor + by * max(1, self.size.height - 2), self.cursor)

    def action_jump(self, to: int) -> None:
        """Move the cursor to the first row (0) or to the last (-1)."""
        self._move_to(len(self.shown.rows) - 1 if to else 0, self.cursor)

    def action_choose(self) -> None:
        """Tell that the row is chosen."""
        self.post_message(self.Chosen())

    def on_resize(self, event: events.Resize) -> None:
        """Tell it: only now is the new width known."""
        del event
        self.post_message(self.Resized())

    def on_click(self, event: events.Click) -> None:
        """Move the cursor where the mouse is, choose what it is on already, or sort."""
        if event.y == 0:
            column = self._column_at(event.x + self.scroll_offset.x)
            if column is not None:
                self.post_message(self.HeadingClicked(column))
            return
        index = event.y - 1 + self.scroll_offset.y
        if index >= len(self.shown.rows):
            return
        if index == self.cursor:
            self.action_choose()
        else:
            self._move_to(index, self.cursor)

    def _column_at(self, x: int) -> Column | None:
        left = GUTTER
        for column, width in zip(self.shown.columns, self.shown.widths, strict=True):
            if left <= x < left + width + 2:
                return column
            left += width + 2
        return None

    # Lines

    def render_line(self, y: int) -> Strip:
        """Draw a line: the headings, a row, or what there is to say if there are none."""
        width = self.size.width
        base = self.rich_style
        scroll_x, scroll_y = self.scroll_offset
        if y == 0:
            strip = Strip(self._heading_segments(base))
        elif y - 1 + scroll_y < len(self.shown.rows):
            strip = Strip(self._row_segments(y - 1 + scroll_y, base))
        else:
            lines = [] if self.shown.rows else self.shown.remark.split("\n")
            text = f"  {lines[y - 2]}" if 2 <= y < 2 + len(lines) else ""
            strip = Strip([Segment(text, base + STYLES[Tone.DIM])])
        return strip.crop_extend(scroll_x, scroll_x + width, base)

    def _heading_segments(self, base: Style) -> list[Segment]:
        segments = [Segment(" " * GUTTER, base)]
        shown = self.shown
        for column, heading, width in zip(shown.columns, shown.headings, shown.widths, strict=True):
            style = SORTED_HEADING if heading[-1] in (RISING, FALLING) else HEADING
            text = fitted_text(heading, width, right=column.is_number)
            segments.append(Segment(f" {text} ", base + style))
        return segments

    def _row_segments(self, index: int, base: Style) -> list[Segment]:
        row, is_here = self.shown.rows[index], index == self.cursor
        if is_here:
            base += CURSOR
        mark = self._sign if row.key in self._marks else " "
        gutter = ("▶" if is_here else " ") + mark
        segments = [Segment(gutter, base + STYLES[Tone.ACCENT])]
        for column, cell, width in zip(
            self.shown.columns, row.cells, self.shown.widths, strict=True
        ):
            segments += cell_segments(cell, width, base, right=column.is_number)
        if is_here:
            segments.append(Segment(" " * self.size.width, base))
        return segments


def cell_segments(cell: Cell, width: int, base: Style, *, right: bool) -> list[Segment]:
    """Return a cell, with a blank on both sides."""
    if not cell.parts or text_width(cell.text) > width:
        text = fitted_text(cell.text, width, right=right)
        tone = cell.tone if not cell.parts else cell.parts[0].tone
        return [Segment(" ", base), Segment(text, base + STYLES[tone]), Segment(" ", base)]
    padding = Segment(" " * (width - text_width(cell.text) + 1), base)
    return [Segment(" ", base), *part_segments(cell.parts, base), padding]


def part_segments(parts: Collection[Part], base: Style) -> list[Segment]:
    """Return texts in their tones."""
    return [Segment(part.text, base + STYLES[part.tone]) for part in parts]


def fitted_text(text: str, width: int, *, right: bool) -> str:
    """Return a text of exactly some width: cut off, or filled with blanks."""
    room = width - text_width(text)
    if room < 0:
        return set_cell_size(text, width - 1) + "…"
    return " " * room + text if right else text + " " * room
