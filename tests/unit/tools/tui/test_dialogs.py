"""Titles are names that people gave: what looks like markup in them is none."""

import pytest
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen

from quorate.tools.tui.dialogs import (
    ChoiceScreen,
    ConfirmScreen,
    EditScreen,
    FormScreen,
    TextScreen,
    plain_lines,
    text_of,
)
from quorate.tools.tui.views.cells import text_cell
from tests.unit.tools.tui.piloting import Seat, sit

TITLE = "reset [/x] of [bold]b"
EVIL, SHOWN = "g\x1b[2J", r"g\x1b[2J"


@pytest.mark.parametrize(
    "screen",
    [
        lambda: TextScreen(TITLE, ()),
        lambda: ConfirmScreen(TITLE, ()),
        lambda: ChoiceScreen(TITLE, ()),
        lambda: FormScreen(TITLE, ()),
        lambda: EditScreen(TITLE, ""),
    ],
)
def test_a_title_is_shown_as_it_is(screen: type[ModalScreen[object]]) -> None:
    async def body(seat: Seat) -> None:
        _ = seat.app.push_screen(screen())
        await seat.pilot.pause()
        box = seat.app.screen.query(".dialog").first()
        assert isinstance(box, Vertical | VerticalScroll)
        title = box._border_title  # pyright: ignore[reportPrivateUsage]
        assert title is not None
        assert title.plain == TITLE

    sit(body)


def test_what_clients_call_themselves_reaches_no_terminal_as_it_is() -> None:
    assert text_cell(EVIL).text == SHOWN
    assert text_of(plain_lines([EVIL])).plain == SHOWN

    async def body(seat: Seat) -> None:
        seat.app.notify(EVIL)
        assert seat.app.said[-1] == SHOWN
        _ = seat.app.push_screen(TextScreen(EVIL, ()))
        await seat.pilot.pause()
        title = seat.app.screen.query(".dialog").first(VerticalScroll)._border_title  # pyright: ignore[reportPrivateUsage]
        assert title is not None
        assert title.plain == SHOWN

    sit(body)
