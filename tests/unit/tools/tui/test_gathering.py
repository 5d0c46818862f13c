"""What goes wrong in Trio's thread is shown: without that thread, the screen would stand still."""

import queue
import struct
from collections.abc import Generator
from pathlib import Path

import pytest
import trio

from quorate.tools.arguments import GlobalOptions
from quorate.tools.reaching import client_of
from quorate.tools.tui import gathering
from quorate.tools.tui.acting import Actor
from quorate.tools.tui.asked import Asked
from quorate.tools.tui.gathering import Gatherer
from quorate.tools.tui.looking import Looker
from quorate.tools.tui.requests import AddPartitions, Answer
from quorate.tools.tui.views.snapshot import Snapshot
from tests.unit.tools.tui.piloting import TOPICS

NOWHERE = GlobalOptions(bootstrap="127.0.0.1:1")


class Screen:
    """Keeps what a gatherer tells."""

    def __init__(self) -> None:
        self.told = queue.SimpleQueue[Snapshot | Answer]()
        self.gatherer = Gatherer(Asked(NOWHERE, client_of(NOWHERE, {})))

    def next_with_problem(self) -> str:
        while True:
            told = self.told.get(timeout=10)
            if told.problem is not None:
                return told.problem.why


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[Screen]:
    monkeypatch.setenv("QUORATE_PROFILES", str(tmp_path / "none"))
    made = Screen()
    yield made
    made.gatherer.stop()


async def unforeseen(*_: object) -> None:
    raise struct.error("argument out of range")


async def unending(*_: object) -> None:
    await trio.sleep_forever()


def test_an_action_that_fails_in_a_way_nobody_foresaw_is_answered(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Actor, "do", unforeseen)
    monkeypatch.setattr(Looker, "look_on", unending)
    screen.gatherer.start(screen.told.put, TOPICS)
    for _ in range(2):  # it goes on
        screen.gatherer.ask(AddPartitions("t", 99_999_999_999))
        assert screen.next_with_problem() == "argument out of range"


def test_a_look_that_fails_in_a_way_nobody_foresaw_is_shown_and_tried_again(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Looker, "look_on", unforeseen)
    monkeypatch.setattr(gathering, "INTERVAL_S", 0.01)
    screen.gatherer.start(screen.told.put, TOPICS)
    for _ in range(2):
        assert screen.next_with_problem() == "argument out of range"
