"""Presses keys of a screen whose gatherer is a fake: no cluster, no Trio."""

import asyncio  # noqa: TID251 - Textual's, not ours
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from textual.pilot import Pilot

from quorate.tools.tui.app import QuorateApp
from quorate.tools.tui.main_screen import Mode
from quorate.tools.tui.requests import Answer, Request
from quorate.tools.tui.source import Tell
from quorate.tools.tui.views.places import Place
from quorate.tools.tui.views.snapshot import Snapshot
from tests.unit.tools.tui import clusters

TOPICS = Place("topics")


@dataclass
class FakeSource:
    """Has one snapshot, and answers that somebody laid down; notes what it is asked for."""

    snapshot: Snapshot = field(default_factory=clusters.snapshot)
    answers: dict[type, Answer] = field(default_factory=dict[type, Answer])
    asked: list[Request] = field(default_factory=list[Request])
    watched: list[Place] = field(default_factory=list[Place])
    looks: int = 0
    pauses: list[bool] = field(default_factory=list[bool])
    stopped: bool = False
    tell: Tell | None = None

    def start(self, tell: Tell, place: Place) -> None:
        self.tell = tell
        self.watch(place)

    def watch(self, place: Place) -> None:
        self.watched.append(place)
        self.say(self.snapshot)

    def say(self, told: Snapshot | Answer) -> None:
        assert self.tell is not None, "it was started"
        self.tell(told)

    def look_now(self) -> None:
        self.looks += 1
        self.say(self.snapshot)

    def pause(self, *, paused: bool) -> None:
        self.pauses.append(paused)

    def ask(self, request: Request) -> None:
        self.asked.append(request)
        answer = self.answers.get(type(request))
        if answer is not None:
            self.say(answer)

    def stop(self) -> None:
        self.stopped = True


@dataclass
class Seat:
    """A screen, the keys of which a test presses."""

    app: QuorateApp
    pilot: Pilot[None]
    source: FakeSource

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        names = {" ": "space", "/": "slash", ":": "colon", "=": "equals_sign", "@": "at"}
        await self.press(*(names.get(character, character) for character in text))

    async def command(self, text: str) -> None:
        await self.press("colon")
        await self.type(text)
        await self.press("enter")

    @property
    def keys(self) -> list[str]:
        """The rows that are shown."""
        return [row.key for row in self.app.main.table.shown.rows]

    @property
    def place(self) -> str:
        return self.app.main.place.title

    @property
    def over(self) -> str:
        """What lies over the table: the name of the class of the screen."""
        return "" if self.app.screen is self.app.main else type(self.app.screen).__name__

    @property
    def text(self) -> str:
        """The lines of what lies over the table."""
        lines = getattr(self.app.screen, "lines", ())
        return "\n".join("".join(part.text for part in line) for line in lines)

    @property
    def notes(self) -> str:
        """What was said in passing."""
        return "\n".join(self.app.said)

    def drawn(self) -> list[str]:
        """The lines of the table as they are on the screen."""
        table = self.app.main.table
        return [table.render_line(y).text.rstrip() for y in range(table.size.height)]


def sit(
    body: Callable[[Seat], Awaitable[None]],
    *,
    view: Place = TOPICS,
    can_write: bool = True,
    chaos: bool = False,
    mode: Mode | None = None,
    size: tuple[int, int] = (100, 24),
    source: FakeSource | None = None,
) -> FakeSource:
    """Start the screen, have a test press keys, end it."""
    source = source or FakeSource()

    async def main() -> None:
        app = QuorateApp(source, view, mode or Mode(can_write, chaos=chaos))
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await body(Seat(app, pilot, source))

    asyncio.run(main())
    return source
