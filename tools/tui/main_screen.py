"""The screen that all views share: header, table, prompt, keys."""

import itertools
from dataclasses import replace
from textwrap import wrap
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Input, Static

from quorate.dataclass import dataclass
from quorate.tools.output import harmless
from quorate.tools.problems import Problem
from quorate.tools.tui.dialogs import text_of
from quorate.tools.tui.prompt import FILTER, Prompt
from quorate.tools.tui.source import INTERVAL_S
from quorate.tools.tui.table import GUTTER, RowsTable
from quorate.tools.tui.views.cells import Frame, Line, Part, Row, Tone
from quorate.tools.tui.views.cluster import header_lines
from quorate.tools.tui.views.frames import frame_of
from quorate.tools.tui.views.keys import KEYS, footer_of
from quorate.tools.tui.views.lens import Lens, PatternError, look
from quorate.tools.tui.views.past import (
    Travel,
    changed_keys,
    past_frame,
    past_header,
    past_snapshot,
)
from quorate.tools.tui.views.places import VERIFY, History, Place
from quorate.tools.tui.views.snapshot import Snapshot

STATE_COLUMNS = ("state", "role", "source", "record", "verdict", "trend")
SCROLLBAR = 1
AT_ONCE = ("quit_now", "command", "filter")
"""What is done before the next key is looked at: that one may be for the prompt."""

CHANGED = "±"
"""Stands before rows that the last decision changed, in the past."""

AGE_COLUMNS = ("time", "lag", "rate/s", "behind", "log_end", "replicas", "open_for")


def told_of(problem: Problem, width: int) -> str:
    """Return why nobody answers, in lines: what, why, what to try; and that it goes on."""
    told = [*problem.lines(), "", f"It is asked again every {INTERVAL_S:.0f} s."]
    indent = " " * len("error: ")
    lines = (wrap(text, width, subsequent_indent=indent) or [""] for text in told)
    return "\n".join(itertools.chain.from_iterable(lines))


@dataclass(frozen=True, slots=True)
class Mode:
    """Whether the cluster may be changed from here; ``alarm`` if that is none of this machine.

    ``chaos``: its nodes are processes that ``quorate up`` started, which may be killed.
    ``ours`` are the ids of the clusters that it made here: these may be changed, and it is only
    their nodes that may be killed. Empty if it made none.
    """

    can_write: bool
    alarm: bool = False
    chaos: bool = False
    ours: frozenset[str] = frozenset()

    def toward(self, cluster_id: str) -> "Mode":
        """Return what may be done to a cluster, now that it is known which it is."""
        if not self.ours or not cluster_id:
            return self
        is_ours = cluster_id in self.ours
        return replace(self, can_write=self.can_write or is_ours, chaos=self.chaos and is_ours)


class ClusterScreen(Screen[None]):
    """Owns where one is and how one looks at it; shows the last snapshot through that."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key.keys, f"app.{key.action}", show=False, priority=key.action in AT_ONCE)
        for key in KEYS
        if key.keys != "enter"  # the table tells of it
    ]

    def __init__(self, place: Place, mode: Mode) -> None:
        super().__init__()
        self.history = History((place,))
        self._asked_for = mode
        self.snapshot: Snapshot | None = None
        self.frame: Frame | None = None
        self.paused = False
        self.travel: Travel | None = None
        self._past: Snapshot | None = None
        self.marks: frozenset[str] = frozenset()
        self._lenses: dict[str, Lens] = {}
        self.table = RowsTable()
        self._header = Static(id="header")
        self._footer = Static(id="footer")
        self._box = Vertical(self.table, id="frame")
        self._prompt = Prompt()
        self._sign = Static(id="sign")
        self._line = Horizontal(self._sign, self._prompt, id="line")

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        yield self._header
        yield self._box
        yield self._line
        yield self._footer

    def on_mount(self) -> None:
        """Begin with the table."""
        self.table.focus()
        if self.mode.alarm:
            self._box.add_class("alarm")
        self.draw(anew=True)

    def on_rows_table_resized(self, message: RowsTable.Resized) -> None:
        """Fit the columns into the new width."""
        del message
        self.draw()

    # What is seen

    @property
    def mode(self) -> Mode:
        """What may be done to the cluster that is seen; little while none is."""
        return self._asked_for.toward("" if self.snapshot is None else self.snapshot.cluster_id)

    @property
    def place(self) -> Place:
        """Where one is."""
        return self.history.here

    @property
    def lens(self) -> Lens:
        """How one looks at it; each view has its own."""
        return self._lenses.get(self.place.view, Lens())

    @property
    def row(self) -> Row | None:
        """The row with the cursor."""
        return self.table.row

    @property
    def chosen(self) -> list[Row]:
        """The marked rows, or the one with the cursor."""
        marked = [row for row in self.table.shown.rows if row.key in self.marks]
        return marked or ([] if self.row is None else [self.row])

    @property
    def seen(self) -> Snapshot | None:
        """What is shown: the last snapshot, or the past."""
        return self.snapshot if self.travel is None else self._past

    def travel_to(self, travel: Travel | None) -> None:
        """Show the cluster as it was after some decision; None for now."""
        now = self.snapshot or Snapshot(0)
        self._past = None if travel is None else past_snapshot(travel, now)
        anew = (travel is None) != (self.travel is None)
        self.travel = travel
        self.marks = frozenset()
        self.draw(anew=anew)

    def take(self, snapshot: Snapshot) -> None:
        """Show a newer snapshot."""
        self.snapshot = snapshot
        self.draw()

    def draw(self, *, anew: bool = False) -> None:
        """Show the snapshot as it is looked at."""
        self._header.update(text_of(self._header_lines()))
        self._draw_footer()
        self.frame = self._frame()
        width = max(20, self.table.outer_size.width - GUTTER - SCROLLBAR)
        try:
            shown = look(self.frame, self.lens, width)
        except PatternError as error:
            self.notify(str(error), severity="error", markup=False)
            self.look_through(replace(self.lens, pattern=""))
            return
        if self.travel is None:
            self.table.show(shown, self.marks, anew=anew)
        else:
            changed = changed_keys(self.place, self.travel, self.snapshot or Snapshot(0))
            self.table.show(shown, changed | self.marks, anew=anew, sign=CHANGED)
        box = self._box
        count = f"{len(shown.rows):,}"
        count += f" of {shown.total:,}" if len(shown.rows) != shown.total else ""
        box.border_title = Text(f"{harmless(shown.title)} [{count}]")
        box.border_subtitle = Text(self.subtitle)

    def _frame(self) -> Frame:
        if self._past is not None:
            return past_frame(self.place, self._past)
        frame = frame_of(self.place, self.snapshot or Snapshot(0))
        if self.place.view == VERIFY:
            return frame  # no broker need answer for it
        if self.snapshot is None or self.snapshot.answered_ms is None:
            problem = None if self.snapshot is None else self.snapshot.problem
            width = max(20, self.table.size.width - 2 * GUTTER)
            remark = "nothing seen yet" if problem is None else told_of(problem, width)
            return replace(frame, remark=remark)
        return frame

    def _header_lines(self) -> tuple[Line, ...]:
        if self.travel is None or self._past is None:
            return header_lines(self.snapshot)
        now_ms = self.travel.timeline.time_ms(self.travel.timeline.last) or 0
        if self.snapshot is not None:
            now_ms = self.snapshot.now_ms
        return past_header(self.travel, self._past, now_ms)

    @property
    def subtitle(self) -> str:
        """How one looks at the table, in words."""
        lens = self.lens
        said = [f"/{lens.pattern}"] if lens.pattern else []
        said += [f"{len(self.marks)} marked"] if self.marks else []
        said += ["all columns"] if lens.wide else []
        said += ["paused"] if self.paused else []
        said += [] if self.travel is None else ["the past: < > walk, t jumps, esc comes back"]
        said += [] if self.mode.can_write else ["read-only"]
        return "  ".join(said)

    def _draw_footer(self) -> None:
        parts: list[Part] = []
        for shown, label in footer_of(
            self.place.view, can_write=self.mode.can_write, width=self.size.width or 80
        ):
            parts += [Part(f" {shown}", Tone.ACCENT), Part(f" {label} ", Tone.DIM)]
        line: Line = tuple(parts)
        self._footer.update(text_of([line]))

    # What changes how one looks

    def look_through(self, lens: Lens) -> None:
        """Look at the same place in another way."""
        self._lenses[self.place.view] = lens
        self.draw()

    def go(self, history: History, lens: Lens | None = None) -> None:
        """Go somewhere."""
        self.history = history
        self.marks = frozenset()
        if lens is not None:
            self._lenses[self.place.view] = lens
        self.draw(anew=True)

    def toggle_mark(self) -> None:
        """Mark the row, or take the mark away; go on to the next."""
        if self.row is not None:
            self.marks = self.marks ^ {self.row.key}
            self.draw()
            self.table.action_move(1)

    def sort_by(self, names: tuple[str, ...]) -> None:
        """Sort by the first of these columns that there is; again, the other way round.

        If there is none, say so.
        """
        columns = () if self.frame is None else self.frame.columns
        for name in names:
            for column in columns:
                if column.name == name:
                    self.look_through(self.lens.sorted_by(column))
                    return
        self.notify(f"{self.place.view} has no such column: shift-o sorts by the next one")

    def sort_by_next(self) -> None:
        """Sort by the next column that is shown."""
        columns = self.table.shown.columns
        if columns:
            names = [column.name for column in columns]
            at = names.index(self.lens.sort) + 1 if self.lens.sort in names else 0
            self.look_through(self.lens.sorted_by(columns[at % len(columns)]))

    def on_rows_table_heading_clicked(self, message: RowsTable.HeadingClicked) -> None:
        """Sort by a column whose heading was clicked."""
        self.look_through(self.lens.sorted_by(message.column))

    # The prompt

    def open_prompt(self, kind: str) -> None:
        """Let somebody type."""
        text = self.lens.pattern if kind == FILTER else ""
        self._sign.update(f" {kind}")
        self._line.display = True
        self._prompt.open(kind, text, self.snapshot)

    @property
    def prompt_is_open(self) -> bool:
        """Whether somebody types a command or a filter."""
        return self._prompt.is_open

    def close_prompt(self) -> None:
        """Go back to the table."""
        self._line.display = False
        self._prompt.is_open = False
        self.table.focus()

    def on_prompt_closed(self) -> None:
        """Forget what was typed."""
        self.close_prompt()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while somebody types, as soon as it is an expression."""
        prompt = self._prompt
        if event.input is prompt and prompt.is_open and prompt.kind == FILTER:
            lens = replace(self.lens, pattern=event.value)
            try:
                if self.frame is not None:
                    look(self.frame, lens, 80)
            except PatternError:
                return
            self.look_through(lens)

    @property
    def header_text(self) -> str:
        """What stands at the top, without colors."""
        lines = self._header_lines()
        return "\n".join("".join(part.text for part in line) for line in lines)
