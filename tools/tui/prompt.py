"""The line in which commands and filters are typed."""

from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input

from quorate.tools.tui.views.places import completions
from quorate.tools.tui.views.snapshot import Snapshot

COMMAND: Final = ":"
FILTER: Final = "/"


class _Completer(Suggester):
    """Completes names of views, topics, groups."""

    def __init__(self, prompt: "Prompt") -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._prompt = prompt

    async def get_suggestion(self, value: str) -> str | None:
        """Return what the text most likely becomes."""
        found = self._prompt.completions(value)
        return found[0] if found else None


class Prompt(Input):
    """A line that is there only while somebody types into it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", show=False),
        Binding("escape", "close", show=False),
    ]

    class Closed(Message):
        """Nothing is to be done."""

    def __init__(self) -> None:
        super().__init__(id="prompt", compact=True)
        self.suggester = _Completer(self)
        self.kind = COMMAND
        self.is_open = False
        self.known: Snapshot | None = None

    def open(self, kind: str, text: str, known: Snapshot | None) -> None:
        """Be there, for a command or a filter."""
        self.kind = kind
        self.known = known
        self.value = text
        self.is_open = True
        self.placeholder = (
            "topics, brokers, partitions, groups, quorum, txns, configs, messages T, events, verify"
            if kind == COMMAND
            else "regex, !regex, column:regex"
        )
        self.screen.set_focus(self)  # now: the next key is for it
        self.cursor_position = len(text)

    def completions(self, value: str) -> list[str]:
        """Return what a command may become."""
        if self.kind != COMMAND:
            return []
        topics = [] if self.known is None else [topic.name for topic in self.known.topics]
        groups = [] if self.known is None else [group.group_id for group in self.known.groups]
        return completions(value, topics, groups)

    def action_complete(self) -> None:
        """Take over the suggestion."""
        found = self.completions(self.value)
        if found:
            self.value = found[0]
            self.cursor_position = len(self.value)

    def action_close(self) -> None:
        """Do nothing."""
        self.post_message(self.Closed())
