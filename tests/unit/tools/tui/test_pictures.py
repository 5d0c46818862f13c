"""The screens as pictures, compared with those that somebody has looked at.

``REWRITE=1`` writes ``tests/golden/tui`` anew; then look at what changed before it is committed.
"""

import os
import re
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
import textual

from quorate.model import TopicPartition
from quorate.tools.tui import requests as ask
from quorate.tools.tui.requests import Answer
from quorate.tools.tui.views import describing
from quorate.tools.tui.views.places import Place
from tests.unit.tools.tui import clusters, histories
from tests.unit.tools.tui.piloting import FakeSource, Seat, sit
from tests.unit.tools.tui.test_keys import planned

GOLDEN = Path(__file__).parents[3] / "golden" / "tui"
FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
NUMBERED = re.compile(r"terminal-\d+")
CLIPS = re.compile(
    r'<clipPath id="terminal-line-.*?</clipPath>\s*| clip-path="url\(#terminal-line-\d+\)"',
    re.DOTALL,
)
VERSIONS = f"textual {textual.__version__}, rich {version('rich')}\n"
"""Others may draw otherwise what is just as well."""


def source() -> FakeSource:
    """A cluster in trouble, as it has been for a while, with answers to what is asked."""
    snapshot = clusters.later(clusters.snapshot())
    events = tuple(histories.timeline().until(5))
    partition = TopicPartition("orders", 0)
    why = describing.why_partition_lines(events, partition, snapshot)
    lines = describing.described_lines(
        describing.lines_of(Place("partitions", "orders"), partition, snapshot, {})
    )
    made = FakeSource(replace(snapshot, events=events))
    made.answers = {
        ask.ReadTimeline: Answer(ask.ReadTimeline(), value=histories.timeline()),
        ask.Why: Answer(ask.Why(Place("partitions"), partition), lines=why),
        ask.Describe: Answer(ask.Describe(Place("partitions"), partition), lines=lines),
        ask.PlanReset: Answer(ask.PlanReset("billing", "earliest", ()), value=planned(1)),
        ask.ReadConfigs: Answer(
            ask.ReadConfigs("topic/orders"), value=snapshot.configs["topic/orders"]
        ),
    }
    return made


SCREENS: dict[str, tuple[str, tuple[str, ...]]] = {
    "topics": ("topics", ()),
    "partitions": ("partitions", ()),
    "brokers": ("brokers", ()),
    "quorum": ("quorum", ()),
    "groups": ("groups", ()),
    "offsets": ("offsets billing", ()),
    "txns": ("txns", ()),
    "configs": ("configs topic/orders", ()),
    "messages": ("messages orders", ()),
    "events": ("events", ()),
    "verify": ("verify", ()),
    "past": ("partitions orders", ("t", "less_than_sign")),
    "help": ("topics", ("question_mark",)),
    "why": ("partitions orders", ("w",)),
    "describe": ("partitions orders", ("d",)),
    "raw": ("partitions orders", ("y",)),
    "chaos": ("brokers", ("x",)),
    "delete": ("topics", ("down", "ctrl+d")),
    "reset": ("groups", ("r", "enter", "enter")),
    "create": ("topics", ("ctrl+n",)),
    "edit": ("topics", ("down", "e")),
    "command": ("topics", ("colon", "p", "a")),
}
"""What is taken a picture of: a command, and keys after it."""

WIDE = ("topics", "partitions", "past")


def picture(seat: Seat) -> str:
    """Return the screen as SVG, without what differs from one run to the next."""
    text = FONT.sub("", seat.app.export_screenshot(title="quorate"))
    return CLIPS.sub("", NUMBERED.sub("terminal", text))


@pytest.mark.parametrize(
    ("size", "names"), [((80, 24), tuple(SCREENS)), ((200, 50), WIDE)], ids=["80x24", "200x50"]
)
def test_screens_look_as_they_did_when_somebody_looked(
    size: tuple[int, int], names: tuple[str, ...]
) -> None:
    made_with = GOLDEN / "versions.txt"
    if os.environ.get("REWRITE"):
        GOLDEN.mkdir(exist_ok=True)
        made_with.write_text(VERSIONS)
    elif made_with.read_text() != VERSIONS:
        pytest.skip(f"the pictures are of {made_with.read_text().strip()}")
    taken: dict[str, str] = {}

    async def body(seat: Seat) -> None:
        for name in names:
            view, keys = SCREENS[name]
            command, _, argument = view.partition(" ")
            seat.app.go(Place(command, argument))
            await seat.press(*keys)
            taken[name] = picture(seat)
            while seat.over or seat.app.main.prompt_is_open or seat.app.main.travel:
                await seat.press("escape")

    sit(body, size=size, source=source(), chaos=True)
    wrong: list[str] = []
    for name, svg in taken.items():
        path = GOLDEN / f"{name}-{size[0]}x{size[1]}.svg"
        if os.environ.get("REWRITE"):
            path.write_text(svg)
        elif path.read_text() != svg:
            wrong.append(path.name)
    assert not wrong, f"{wrong} look otherwise: see with REWRITE=1 and git diff"
