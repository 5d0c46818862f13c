"""Time travel on the screen: reads the log of metadata once, then walks through it."""

from typing import TYPE_CHECKING

from quorate.errors import QuorateError
from quorate.model import TopicPartition
from quorate.tools.metadata.decided import Decided
from quorate.tools.metadata.timeline import Timeline
from quorate.tools.metadata.travel import Point, parse_point
from quorate.tools.problems import explain
from quorate.tools.quorum_work import wall_clock_ms
from quorate.tools.tui import requests as ask
from quorate.tools.tui.dialogs import Field, FormScreen, TextScreen
from quorate.tools.tui.views import describing, places
from quorate.tools.tui.views.cells import Row
from quorate.tools.tui.views.past import Travel

if TYPE_CHECKING:
    from quorate.tools.tui.app import QuorateApp


class Travelling:
    """What is done in the past; keeps nothing but the program it belongs to."""

    def __init__(self, app: "QuorateApp") -> None:
        self._app = app

    def begin(self) -> None:
        """Go to the newest decision, or to that of a row of events; from the past, to a moment."""
        main = self._app.main
        if main.travel is not None:
            fields = [Field("goal", "to: an offset, -5m, 2026-03-01T10:00, now")]
            screen = FormScreen("to what moment?", fields)
            _ = self._app.push_screen(screen, self._filled)
            return
        subject = None if main.row is None else main.row.subject
        goal = str(subject.offset) if isinstance(subject, Decided) else ""
        self._app.do(ask.ReadTimeline(goal))

    def _filled(self, values: dict[str, str] | None) -> None:
        travel = self._app.main.travel
        if values is None or travel is None:
            return
        try:
            point = parse_point(values["goal"] or "now", wall_clock_ms())
        except QuorateError as error:
            self._app.complain(explain(error).what)
            return
        self._go(travel.timeline, point)

    def took(self, timeline: Timeline, goal: str) -> None:
        """Begin where somebody wanted to, in what was read."""
        if timeline.last < 0:
            self._app.complain("nothing was decided yet")
            return
        self._go(timeline, Point("now") if not goal else Point(goal, offset=int(goal)))

    def _go(self, timeline: Timeline, point: Point) -> None:
        self._app.main.travel_to(Travel(timeline, timeline.number_at(point)))

    def step(self, by: int) -> None:
        """Walk some decisions on, or back; from now, begin."""
        travel = self._app.main.travel
        if travel is None:
            self.begin()
        else:
            self._app.main.travel_to(travel.stepped(by))

    def describe(self, row: Row) -> None:
        """Show what was known of a row then."""
        main = self._app.main
        assert main.seen is not None, "it is the past"
        lines = describing.lines_of(main.place, row.subject, main.seen, {})
        told = describing.described_lines(lines)
        _ = self._app.push_screen(TextScreen("describe, back then", told))

    def why(self, subject: object) -> None:
        """Show why it was as it was, from what was decided by then."""
        main = self._app.main
        assert main.travel is not None, "it is the past"
        assert main.seen is not None, "it is the past"
        decided = main.travel.timeline.until(main.travel.at)
        try:
            if isinstance(subject, TopicPartition):
                lines = describing.why_partition_lines(decided, subject, main.seen)
            elif main.place.view == places.BROKERS and isinstance(subject, int):
                lines = describing.why_broker_lines(decided, subject)
            else:
                self._app.complain("the log of metadata does not tell why")
                return
        except QuorateError as error:
            self._app.complain(explain(error).what)
            return
        _ = self._app.push_screen(TextScreen("why, back then", lines))
