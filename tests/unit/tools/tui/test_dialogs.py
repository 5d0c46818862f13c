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
)
from tests.unit.tools.tui.piloting import Seat, sit

TITLE = "reset [/x] of [bold]b"


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
