"""Screens that lie over the table: texts to read, questions to answer, forms to fill in."""

from collections.abc import Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Label, Static, TextArea

from quorate.dataclass import dataclass
from quorate.tools.output import harmless
from quorate.tools.tui.palette import STYLES
from quorate.tools.tui.views.cells import Line, Part, Tone

HANGING_MAX: Final = 300
"""Longer texts are one widget: their long lines go on at the left."""


def reading_width(screen_width: int) -> int:
    """Return how long lines of something to read may be: see ``.dialog`` in the style."""
    return min(140, screen_width * 9 // 10) - 5  # two borders, two blanks, a scrollbar


def text_of(lines: Sequence[Line]) -> Text:
    """Return lines as Textual draws them."""
    text = Text(no_wrap=False)
    for i, line in enumerate(lines):
        if i:
            text.append("\n")
        for part in line:
            text.append(harmless(part.text, "\n\t"), STYLES[part.tone])
    return text


def plain_lines(lines: Sequence[str]) -> list[Line]:
    """Return texts as lines of one tone."""
    return [(Part(line),) for line in lines]


def statics_of(lines: Sequence[Line]) -> list[Static]:
    """Return widgets for lines that keep their indentation where they are too long for one."""
    if len(lines) > HANGING_MAX:
        return [Static(text_of(lines), markup=False)]
    found: list[Static] = []
    for line in lines:
        indent = len(line[0].text) if line and not line[0].text.strip() else 0
        static = Static(text_of([line[1:] if indent else line]), markup=False)
        static.styles.padding = (0, 0, 0, indent)
        found.append(static)
    return found


class TextScreen(ModalScreen[None]):
    """Something to read."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "close", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("pagedown,space", "scroll(15)", show=False),
        Binding("pageup", "scroll(-15)", show=False),
    ]

    def __init__(self, title: str, lines: Sequence[Line]) -> None:
        super().__init__()
        self._title = title
        self.lines = tuple(lines)

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        with VerticalScroll(classes="dialog reading") as box:
            box.border_title = Text(harmless(self._title))  # a text would be markup
            box.border_subtitle = "esc closes"
            yield from statics_of(self.lines)

    def action_close(self) -> None:
        """Go back."""
        _ = self.dismiss()

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)


class ConfirmScreen(ModalScreen[bool]):
    """A question; with a ``word``, that is to be typed before the answer is yes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "no", show=False),
        Binding("y,enter", "yes", show=False),
    ]

    def __init__(self, title: str, lines: Sequence[Line], word: str = "") -> None:
        super().__init__()
        self._title = title
        self.lines = tuple(lines)
        self._word = word

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        with Vertical(classes="dialog asking") as box:
            box.border_title = Text(harmless(self._title))  # a text would be markup
            with VerticalScroll(classes="preview") as preview:
                preview.can_focus = not self._word  # else it is the word that is typed
                yield Static(text_of(self.lines), markup=False)
            if self._word:
                yield Label(f"type {self._word} to go ahead; esc does nothing", markup=False)
                yield Input(classes="field")
            else:
                yield Label("enter or y goes ahead; esc or n does nothing")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go ahead if the word is right."""
        if event.value.strip() == self._word:
            _ = self.dismiss(True)  # noqa: FBT003 - Textual's way to return it
        else:
            self.query_one(Label).update(f"that is not {self._word}; esc does nothing")

    def action_yes(self) -> None:
        """Go ahead, where no word is to be typed."""
        if not self._word:
            _ = self.dismiss(True)  # noqa: FBT003

    def action_no(self) -> None:
        """Do nothing."""
        _ = self.dismiss(False)  # noqa: FBT003


class ChoiceScreen(ModalScreen[str | None]):
    """A menu: its keys choose, and so does the mouse. Options are keys, names, meanings."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "close", show=False)]

    def __init__(self, title: str, options: Sequence[tuple[str, str, str]]) -> None:
        super().__init__()
        self._title = title
        self._names = {key: name for key, name, _ in options}
        self.lines: tuple[Line, ...] = tuple(
            (Part(f" {key} ", Tone.LEADER_BLOCK), Part(f"  {name:<8}"), Part(meaning, Tone.DIM))
            for key, name, meaning in options
        )

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        with Vertical(classes="dialog asking") as box:
            box.border_title = Text(harmless(self._title))  # a text would be markup
            box.border_subtitle = "esc does nothing"
            yield Static(text_of(self.lines), markup=False)

    def on_key(self, event: events.Key) -> None:
        """Choose what a key stands for."""
        if event.key in self._names:
            _ = event.stop()
            _ = self.dismiss(self._names[event.key])

    def on_click(self, event: events.Click) -> None:
        """Choose the line that is clicked."""
        at = event.get_content_offset(self.query_one(Static))
        if at is not None and at.y < len(self.lines):
            _ = self.dismiss(list(self._names.values())[at.y])

    def action_close(self) -> None:
        """Do nothing."""
        _ = self.dismiss(None)


@dataclass(frozen=True, slots=True)
class Field:
    """Something to fill in."""

    name: str
    label: str
    value: str = ""


class FormScreen(ModalScreen[dict[str, str] | None]):
    """Fields to fill in: enter goes to the next one, and behind the last goes ahead."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", show=False)]

    def __init__(self, title: str, fields: Sequence[Field]) -> None:
        super().__init__()
        self._title = title
        self._fields = tuple(fields)

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        with Vertical(classes="dialog asking") as box:
            box.border_title = Text(harmless(self._title))  # a text would be markup
            box.border_subtitle = "enter goes on; esc does nothing"
            for field in self._fields:
                yield Label(field.label, markup=False)
                yield Input(field.value, id=f"field-{field.name}", classes="field")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go to the next field, or go ahead."""
        inputs = list(self.query(Input))
        at = inputs.index(event.input)
        if at + 1 < len(inputs):
            inputs[at + 1].focus()
            return
        values = [each.value.strip() for each in inputs]
        names = [field.name for field in self._fields]
        _ = self.dismiss(dict(zip(names, values, strict=True)))

    def action_close(self) -> None:
        """Do nothing."""
        _ = self.dismiss(None)


class EditScreen(ModalScreen[str | None]):
    """A text to edit."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", show=False),
        Binding("ctrl+s", "done", show=False, priority=True),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        with Vertical(classes="dialog editing") as box:
            box.border_title = Text(harmless(self._title))  # a text would be markup
            box.border_subtitle = "ctrl-s shows the diff; esc does nothing"
            yield TextArea(self._text, show_line_numbers=False, soft_wrap=True)

    def on_mount(self) -> None:
        """Begin at the end, where a line can be added."""
        area = self.query_one(TextArea)
        area.move_cursor(area.document.end)

    def action_done(self) -> None:
        """Hand the text back."""
        _ = self.dismiss(self.query_one(TextArea).text)

    def action_close(self) -> None:
        """Do nothing."""
        _ = self.dismiss(None)
