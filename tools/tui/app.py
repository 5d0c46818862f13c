"""The program: keys to actions, and what the gatherer tells to the screen."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final

from textual.app import App
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.notifications import SeverityLevel

from quorate.model import TopicPartition
from quorate.tools.groups_work import Planned
from quorate.tools.metadata.timeline import Timeline
from quorate.tools.output import SCHEMA_VERSION, cell_text, harmless
from quorate.tools.tui import requests as ask
from quorate.tools.tui.dialogs import (
    Field,
    FormScreen,
    TextScreen,
    plain_lines,
    reading_width,
)
from quorate.tools.tui.flows import Flows
from quorate.tools.tui.main_screen import AGE_COLUMNS, STATE_COLUMNS, ClusterScreen, Mode
from quorate.tools.tui.prompt import COMMAND, FILTER, Prompt
from quorate.tools.tui.source import Source
from quorate.tools.tui.style import STYLE
from quorate.tools.tui.table import RowsTable
from quorate.tools.tui.travelling import Travelling
from quorate.tools.tui.views import places
from quorate.tools.tui.views.cells import Line, Part, Tone
from quorate.tools.tui.views.describing import document_of, saved_rows
from quorate.tools.tui.views.keys import KEYS, keys_of
from quorate.tools.tui.views.lens import Lens
from quorate.tools.tui.views.places import Place, parse_command
from quorate.tools.tui.views.snapshot import Snapshot
from quorate.tools.verify_runs import Run

TITLES: Final[dict[type, str]] = {ask.Why: "why", ask.Report: "report"}


class Seen(Message):
    """The gatherer told of a newer snapshot."""


class Answered(Message):
    """The gatherer told what came of a request."""

    def __init__(self, answer: ask.Answer) -> None:
        super().__init__()
        self.answer = answer


class QuorateApp(App[None]):
    """Owns the gatherer while it runs.

    Snapshots that come faster than they can be drawn are left out, but for the last.
    """

    CSS = STYLE
    TITLE = "quorate"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit_now", show=False, priority=True)  # from dialogs, too
    ]

    def __init__(self, source: Source, place: Place, mode: Mode) -> None:
        super().__init__()
        self._source = source
        self._flows = Flows(self)
        self._travelling = Travelling(self)
        self.main = ClusterScreen(place, mode)
        self._newest: Snapshot | None = None
        self.said: list[str] = []
        """What was told in passing."""

    def on_mount(self) -> None:
        """Begin to look."""
        _ = self.push_screen(self.main)
        self._source.start(self._tell, self.main.place)

    def on_unmount(self) -> None:
        """End the gatherer."""
        self._source.stop()

    def _tell(self, told: Snapshot | ask.Answer) -> None:
        """Leave a message; any thread may call it."""
        if isinstance(told, ask.Answer):
            self.post_message(Answered(told))
            return
        is_due = self._newest is not None
        self._newest = told
        if not is_due:
            self.post_message(Seen())

    def on_seen(self, message: Seen) -> None:
        """Show the newest snapshot."""
        del message
        newest, self._newest = self._newest, None
        if newest is not None:
            self.main.take(newest)

    def on_answered(self, message: Answered) -> None:
        """Show what came of a request."""
        answer = message.answer
        request = answer.request
        if answer.problem is not None:
            lines = (text.strip() for text in answer.problem.lines())
            self.notify("\n".join(lines), severity="error", timeout=10)
        elif isinstance(answer.value, Timeline):
            assert isinstance(request, ask.ReadTimeline), "nobody else asks for it"
            self._travelling.took(answer.value, request.goal)
        elif isinstance(request, ask.ReadConfigs) and answer.value is not None:
            assert not isinstance(answer.value, Planned), "settings were asked for"
            self._flows.edit_read(request.resource, answer.value)
        elif isinstance(answer.value, Planned):
            self._flows.reset_planned(answer.value)
        elif answer.lines:
            title = TITLES.get(type(request), "describe")
            _ = self.push_screen(TextScreen(title, answer.lines))
        elif answer.said:
            self.notify(answer.said)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Tell something in passing, as it is: names have no markup."""
        message = harmless(message, "\n\t")
        self.said.append(message)
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def do(self, request: ask.Request) -> None:
        """Have the gatherer do something."""
        self._source.ask(request)

    def complain(self, text: str) -> None:
        """Say what is wrong."""
        self.notify(text, severity="error")

    def go(self, place: Place, lens: Lens | None = None) -> None:
        """Go to another place."""
        self._go(lambda: self.main.go(self.main.history.went(place), lens))

    def _go(self, move: Callable[[], None]) -> None:
        before = self.main.place
        self.main.paused = False
        move()
        self._source.pause(paused=False)
        if self.main.place != before:
            self._source.watch(self.main.place)

    # Prompt

    def on_input_submitted(self, event: Prompt.Submitted) -> None:
        """Do what was typed into the prompt."""
        if not isinstance(event.input, Prompt):
            return
        kind = event.input.kind
        self.main.close_prompt()
        if kind == FILTER:
            self.main.look_through(replace(self.main.lens, pattern=event.value))
            return
        if not event.value.strip():
            return
        command = parse_command(event.value)
        if command.error:
            self.complain(command.error)
        elif command.quits:
            self.exit()
        elif command.helps:
            self.action_help()
        elif command.place is not None:
            self.go(command.place)

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let keys do something only where they can; say why where somebody may wonder."""
        del parameters
        key = next((key for key in KEYS if key.action == action), None)
        if key is None or self.screen is not self.main:
            return key is None or action == "quit_now"
        return not (self.main.prompt_is_open and action in ("command", "filter"))

    def _refuses(self, action: str) -> bool:
        """Whether a key does nothing here, and say so."""
        key = next(key for key in KEYS if key.action == action)
        view = self.main.place.view
        if key.views and view not in key.views:
            self.notify(f"{key.shown} works in {', '.join(key.views)}")
            return True
        if key.writes and self.main.travel is not None:
            self.notify("this is the past: esc comes back to now", severity="warning")
            return True
        if key.writes and not self.main.mode.can_write:
            self.notify("read-only: start with --rw to change the cluster", severity="warning")
            return True
        return False

    def action_help(self) -> None:
        """Show the keys and views."""
        _ = self.push_screen(TextScreen("help", help_lines(self.main)))

    def action_command(self) -> None:
        """Open the prompt for a command."""
        self.main.open_prompt(COMMAND)

    def action_filter(self) -> None:
        """Open the prompt for a filter."""
        self.main.open_prompt(FILTER)

    def action_leave(self) -> None:
        """Clear the filter, else the marks, else come back from the past, else go back."""
        main = self.main
        if main.lens.pattern:
            main.look_through(replace(main.lens, pattern=""))
        elif main.marks:
            main.marks = frozenset()
            main.draw()
        elif main.travel is not None:
            main.travel_to(None)
        else:
            self.action_go_back()

    def on_rows_table_chosen(self, message: RowsTable.Chosen) -> None:
        """Drill in."""
        del message
        row, view = self.main.row, self.main.place.view
        if row is None:
            return
        match view:
            case places.TOPICS:
                self.go(Place(places.PARTITIONS, str(row.subject)), Lens())
            case places.BROKERS:
                self.go(Place(places.PARTITIONS), Lens(pattern=f"leader:^{row.subject}$"))
            case places.GROUPS:
                self.go(Place(places.OFFSETS, str(row.subject)), Lens())
            case places.VERIFY if isinstance(row.subject, Run):
                self.notify(f"judging {row.subject.name} ...", timeout=2)
                self.do(ask.Report(row.subject, reading_width(self.size.width)))
            case places.OFFSETS if isinstance(row.subject, TopicPartition):
                self.go(Place(places.PARTITIONS, row.subject.topic), Lens())
            case _:
                self.action_describe()

    def action_describe(self) -> None:
        """Show all that is known of the row."""
        row = self.main.row
        if row is None:
            return
        if self.main.travel is not None:
            self._travelling.describe(row)
        else:
            self.do(ask.Describe(self.main.place, row.subject))

    def action_why(self) -> None:
        """Show why the row is as it is."""
        row = self.main.row
        if row is None or self._refuses("why"):
            return
        place, subject = self.main.place, row.subject
        if place.view == places.TOPICS:
            place = Place(places.PARTITIONS, str(subject))
            subject = worst_partition(self.main.seen, str(subject))
        if self.main.travel is not None:
            self._travelling.why(subject)
        else:
            self.do(ask.Why(place, subject))

    def action_raw(self) -> None:
        """Show the row as JSON."""
        if self.main.row is not None and self.main.frame is not None:
            key = self.main.row.key
            row = next(row for row in self.main.frame.rows if row.key == key)
            text = json.dumps(document_of(self.main.frame, row), indent=2, ensure_ascii=False)
            _ = self.push_screen(TextScreen("json", plain_lines(text.splitlines())))

    def action_tail(self) -> None:
        """Follow the messages of the topic."""
        row = self.main.row
        if row is None or self._refuses("tail"):
            return
        if isinstance(row.subject, TopicPartition):
            lens = Lens(pattern=f"partition:^{row.subject.partition}$")
            self.go(Place(places.MESSAGES, row.subject.topic), lens)
        else:
            self.go(Place(places.MESSAGES, str(row.subject)), Lens())

    def action_pause(self) -> None:
        """Stop following and refreshing, or go on."""
        self.main.paused = not self.main.paused
        self._source.pause(paused=self.main.paused)
        self.main.draw()

    def action_mark(self) -> None:
        """Mark the row."""
        self.main.toggle_mark()

    def action_sort_next(self) -> None:
        """Sort by the next column."""
        self.main.sort_by_next()

    def action_sort_turn(self) -> None:
        """Turn the order round."""
        lens = self.main.lens
        self.main.look_through(replace(lens, falling=not lens.falling))

    def action_sort_name(self) -> None:
        """Sort by the first column."""
        if self.main.frame is not None:
            self.main.sort_by((self.main.frame.columns[0].name,))

    def action_sort_age(self) -> None:
        """Sort by what grows."""
        self.main.sort_by(AGE_COLUMNS)

    def action_sort_state(self) -> None:
        """Sort by state."""
        self.main.sort_by(STATE_COLUMNS)

    def action_wide(self) -> None:
        """Show all columns, or those that fit."""
        lens = self.main.lens
        self.main.look_through(replace(lens, wide=not lens.wide))

    def action_refresh(self) -> None:
        """Look now."""
        self._source.look_now()

    def action_last(self) -> None:
        """Go to the view before; going again comes back."""
        history = self.main.history
        if history.at > 0:
            self.go(history.back().here)

    def action_go_back(self) -> None:
        """Go back in the history."""
        self._go(lambda: self.main.go(self.main.history.back()))

    def action_go_forward(self) -> None:
        """Go forward in the history."""
        self._go(lambda: self.main.go(self.main.history.forward()))

    def action_quit_now(self) -> None:
        """End."""
        self.exit()

    def action_travel(self) -> None:
        """Go to the past, or to another moment of it."""
        if not self._refuses("travel"):
            self._travelling.begin()

    def action_earlier(self) -> None:
        """In the past, go one decision back."""
        self._travelling.step(-1)

    def action_later(self) -> None:
        """In the past, go one decision on."""
        self._travelling.step(1)

    def action_save(self) -> None:
        """Save the rows that are shown."""

        def filled(values: dict[str, str] | None) -> None:
            if values is not None and values["path"]:
                self._save(Path(values["path"]).expanduser())

        name = self.main.place.title.replace("/", "-").replace(" ", "-")
        field = Field("path", "file, .csv or .json", f"quorate-{name}.csv")
        _ = self.push_screen(FormScreen("save the rows", [field]), filled)

    def _save(self, path: Path) -> None:
        frame = self.main.frame
        assert frame is not None, "something is shown"
        keys = [row.key for row in self.main.table.shown.rows]
        by_key = {row.key: row for row in frame.rows}
        items = saved_rows(frame, [by_key[key] for key in keys if key in by_key])
        text = saved_text(self.main.place.view, items, as_json=path.suffix == ".json")
        try:
            path.write_text(text)
        except OSError as error:
            self.complain(f"{path}: {error.strerror}")
        else:
            self.notify(f"saved {len(items)} rows to {path}")

    # Keys that change the cluster

    def action_create(self) -> None:
        """Create a topic."""
        if not self._refuses("create"):
            self._flows.create()

    def action_add_partitions(self) -> None:
        """Add partitions."""
        if not self._refuses("add_partitions"):
            self._flows.add_partitions()

    def action_edit(self) -> None:
        """Edit settings."""
        if not self._refuses("edit"):
            self._flows.edit()

    def action_delete(self) -> None:
        """Delete topics or groups."""
        if not self._refuses("delete"):
            self._flows.delete()

    def action_elect(self) -> None:
        """Elect preferred leaders."""
        if not self._refuses("elect"):
            self._flows.elect()

    def action_drain(self) -> None:
        """Drain a broker."""
        if not self._refuses("drain"):
            self._flows.drain()

    def action_reset(self) -> None:
        """Reset offsets."""
        if not self._refuses("reset"):
            self._flows.reset()

    def action_chaos(self) -> None:
        """Kill, pause, continue or start a node."""
        if not self._refuses("chaos"):
            self._flows.chaos()


def worst_partition(snapshot: Snapshot | None, topic: str) -> TopicPartition:
    """Return the partition of a topic about which there is most to say."""
    told = None if snapshot is None else snapshot.topic(topic)
    if told is None or not told.partitions:
        return TopicPartition(topic, 0)
    worst = min(told.partitions, key=lambda p: (p.leader_id >= 0, len(p.isr) - len(p.replicas)))
    return TopicPartition(topic, worst.partition)


def help_lines(main: ClusterScreen) -> list[Line]:
    """Return the keys and the views."""
    here = keys_of(main.place.view, can_write=main.mode.can_write)
    lines: list[Line] = [(Part("keys", Tone.STRONG),)]
    for key in KEYS:
        tone = Tone.PLAIN if key in here else Tone.DIM
        needs = "  needs --rw" if key.writes and not main.mode.can_write else ""
        text = f"{key.meaning}{needs}"
        lines.append((Part(f"  {key.shown:<10}", Tone.ACCENT), Part(text, tone)))
    lines += [(Part(""),), (Part("views", Tone.STRONG),)]
    for view, meaning in places.VIEWS.items():
        lines.append((Part(f"  :{view:<11}", Tone.ACCENT), Part(meaning)))
    lines += [(Part(""),), (Part("signs", Tone.STRONG),)]
    lines.append(
        (
            Part("  ▸1", Tone.LEADER_BLOCK), Part(" leader  "),
            Part("●2", Tone.GOOD_BLOCK), Part(" in sync  "),
            Part("○3", Tone.WARN_BLOCK), Part(" behind  "),
            Part("✗4", Tone.BAD_BLOCK), Part(" out of service   "),
            Part("████", Tone.ACCENT), Part("▒▒", Tone.WARN), Part(" committed, and not yet"),
        )
    )  # fmt: skip
    return lines


def saved_text(view: str, items: list[dict[str, object]], *, as_json: bool) -> str:
    """Return rows as a file has them."""
    if as_json:
        document = {"kind": view, "version": SCHEMA_VERSION, "items": items}
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    out = io.StringIO()
    names = list(dict.fromkeys(name for item in items for name in item))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([cell_text(item.get(name)) for name in names] for item in items)
    return out.getvalue()
