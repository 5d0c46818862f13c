"""Sequence diagrams of the pages as pictures."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from quorate.tools.site_sequence import BLOCK, SequenceError, svg_of, with_pictures, wrapped

ROOT = Path(__file__).parents[3]
PAGES = [page for page in (ROOT / "docs").rglob("*.md") if "sequenceDiagram" in page.read_text()]
SMALL = """
    participant P as producer<br/>(acks=all)
    participant L
    P->>L: record & key
    L-->>P: offset 7
    L->>L: waits
    Note over P,L: both know
    Note right of L: alone
    loop every 2 s
        L->>F: fetch
    end
"""


def words(svg: str) -> list[str]:
    return [each.text or "" for each in ET.fromstring(svg).iter() if each.tag.endswith("}text")]


def test_everybody_and_everything_said_is_in_the_picture() -> None:
    assert words(svg_of(SMALL)) == [
        "producer", "(acks=all)", "L", "F", "record & key", "offset 7", "waits", "both know",
        "alone", "loop: every 2 s", "fetch",
    ]  # fmt: skip


def test_answers_are_dashed_and_what_goes_back_points_left() -> None:
    svg = svg_of("A->>B: ask\nB-->>A: tell\n")
    assert svg.count('class="arrow"') == 1
    assert svg.count('class="arrow dashed"') == 1


def test_long_texts_go_on_in_the_next_line() -> None:
    assert wrapped("word " * 20) == ["word " * 8 + "word", "word " * 8 + "word", "word word"]
    assert wrapped("one<br/>two") == ["one", "two"]


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(SequenceError, match="activate"):
        svg_of("A->>B: ask\nactivate B\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_diagram_of_the_pages_can_be_drawn(page: Path) -> None:
    text = page.read_text()
    assert with_pictures(text).count("<svg") == len(BLOCK.findall(text)) > 0
