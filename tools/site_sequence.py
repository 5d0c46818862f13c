"""Sequence diagrams as SVG, so that the site shows them without a script from elsewhere (pure).

Of Mermaid's language it knows what our pages use: participants, arrows, notes, loop, par, alt.
"""

import re
from dataclasses import field
from html import escape
from typing import Final

from quorate.dataclass import dataclass

BLOCK: Final = re.compile(r"^```mermaid\nsequenceDiagram\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PARTICIPANT: Final = re.compile(r"participant (\w+)(?: as (.+))?")
ARROW: Final = re.compile(r"(\w+)\s*(--?)(>>|[x)])\s*(\w+)\s*:\s*(.*)")
NOTE: Final = re.compile(r"Note (over|right of|left of) (\w+)(?:,\s*(\w+))?\s*:\s*(.*)")
FRAME: Final = re.compile(r"(loop|par|alt|opt|else|and)\b\s*(.*)")
BREAK: Final = re.compile(r"<br\s*/?>")

LETTER: Final = 6.7
"""About how wide a letter is, at 13 px."""

LINE: Final = 17
MARGIN: Final = 12
GAP_MIN: Final = 90
GAP_MAX: Final = 300
WRAP: Final = 44
"""Longer texts of notes and arrows go on in the next line."""


class SequenceError(ValueError):
    """A line is none that is known here."""


@dataclass(slots=True)
class _Drawing:
    """Owns the marks made so far and how far down they go."""

    places: dict[str, float]
    marks: list[str] = field(default_factory=list[str])
    y: float = 0.0

    def text(self, x: float, lines: list[str], *, anchor: str = "middle", style: str = "") -> None:
        """Write lines, from here down."""
        for line in lines:
            self.y += LINE
            self.marks.append(
                f'<text x="{x:.0f}" y="{self.y:.0f}" text-anchor="{anchor}" class="{style}">'
                f"{escape(line)}</text>"
            )


def wrapped(text: str) -> list[str]:
    """Return a text in lines, where it says so and where it becomes too long."""
    found: list[str] = []
    for part in BREAK.split(text):
        line = ""
        for word in part.split():
            if line and len(line) + len(word) >= WRAP:
                found.append(line)
                line = word
            else:
                line = f"{line} {word}".strip()
        found.append(line)
    return found


def _width(lines: list[str]) -> float:
    return max((len(line) for line in lines), default=0) * LETTER


def _places(names: dict[str, str], lines: list[str]) -> dict[str, float]:
    """Return where the participants stand: as far apart as what is said between them needs."""
    order = list(names)
    gaps = [float(GAP_MIN)] * max(0, len(order) - 1)
    for i in range(len(gaps)):
        both = _width(wrapped(names[order[i]])) + _width(wrapped(names[order[i + 1]]))
        gaps[i] = max(gaps[i], both / 2 + 30)
    for line in lines:
        arrow = ARROW.fullmatch(line)
        if arrow is None:
            continue
        one, other = sorted((order.index(arrow[1]), order.index(arrow[4])))
        need = min(GAP_MAX, _width(wrapped(arrow[5])) + 24)
        if one == other:
            if one < len(gaps):
                gaps[one] = max(gaps[one], need + 20)
            continue
        lacking = need - sum(gaps[one:other])
        for i in range(one, other):
            gaps[i] += max(0.0, lacking) / (other - one)
    x = MARGIN + max(45.0, _width(wrapped(names[order[0]])) / 2 + 8)
    places = {order[0]: x}
    for name, gap in zip(order[1:], gaps, strict=True):
        x += gap
        places[name] = x
    return places


def _draw_arrow(drawing: _Drawing, arrow: re.Match[str]) -> None:
    start, end = drawing.places[arrow[1]], drawing.places[arrow[4]]
    dashed = " dashed" if arrow[2] == "--" else ""
    lines = wrapped(arrow[5])
    if start == end:
        drawing.text(start + 30, lines, anchor="start")
        y = drawing.y - LINE * len(lines) / 2
        path = f"M{start:.0f} {y - 6:.0f}h22v14h-18"
        drawing.marks.append(f'<path class="arrow{dashed}" d="{path}" marker-end="url(#sq)"/>')
        drawing.y += 8
        return
    drawing.text((start + end) / 2, lines)
    drawing.y += 7
    end += -3 if end > start else 3
    path = f"M{start:.0f} {drawing.y:.0f}H{end:.0f}"
    drawing.marks.append(f'<path class="arrow{dashed}" d="{path}" marker-end="url(#sq)"/>')
    drawing.y += 5


def _draw_note(drawing: _Drawing, note: re.Match[str]) -> None:
    lines = wrapped(note[4])
    here = drawing.places[note[2]]
    there = drawing.places[note[3] or note[2]]
    width = max(_width(lines) + 18, abs(there - here) + 60)
    middle = (here + there) / 2
    middle += {"right of": width / 2 + 12, "left of": -width / 2 - 12}.get(note[1], 0)
    left = max(2.0, middle - width / 2)
    drawing.y += 4
    drawing.marks.append(
        f'<rect class="note" x="{left:.0f}" y="{drawing.y:.0f}" width="{width:.0f}"'
        f' height="{LINE * len(lines) + 8}" rx="3"/>'
    )
    drawing.text(left + width / 2, lines)
    drawing.y += 12


def svg_of(text: str) -> str:
    """Return a sequence diagram, from its lines after ``sequenceDiagram``, as one line of SVG.

    Raises:
        SequenceError: a line is none that is known here.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [match for line in lines if (match := PARTICIPANT.fullmatch(line))]
    names = {match[1]: match[2] or match[1] for match in told}
    for line in lines:
        arrow = ARROW.fullmatch(line)
        for name in (arrow[1], arrow[4]) if arrow else ():
            names.setdefault(name, name)
    drawing = _Drawing(_places(names, lines))
    heads = {name: wrapped(label) for name, label in names.items()}
    top = LINE * max(map(len, heads.values())) + 12
    for name, label in heads.items():
        x, width = drawing.places[name], max(60.0, _width(label) + 16)
        drawing.y = (top - LINE * len(label)) / 2 - 4
        drawing.marks.append(
            f'<rect class="who" x="{x - width / 2:.0f}" y="1" width="{width:.0f}"'
            f' height="{top}" rx="3"/>'
        )
        drawing.text(x, label, style="who")
    drawing.y = top + 10
    lifelines = len(drawing.marks)
    for line in lines:
        _draw(drawing, line)
    bottom = drawing.y + 8
    drawing.marks[lifelines:lifelines] = [
        f'<path class="life" d="M{x:.0f} {top + 1}V{bottom:.0f}"/>' for x in drawing.places.values()
    ]
    return _framed(drawing.marks, bottom + 4)


def _draw(drawing: _Drawing, line: str) -> None:
    if arrow := ARROW.fullmatch(line):
        _draw_arrow(drawing, arrow)
    elif note := NOTE.fullmatch(line):
        _draw_note(drawing, note)
    elif frame := FRAME.fullmatch(line):
        drawing.y += 6
        drawing.text(MARGIN, [f"{frame[1]}: {frame[2]}"], anchor="start", style="frame")
        drawing.y += 4
    elif line == "end":
        drawing.y += 10
    elif not PARTICIPANT.fullmatch(line):
        raise SequenceError(f"{line!r} is no line of a sequence diagram that is known here")


def _framed(marks: list[str], height: float) -> str:
    body = "".join(marks)
    rights = [
        float(x) + float(w) for x, w in re.findall(r'x="(-?\d+)" y="\d+" width="(\d+)"', body)
    ]
    for x, anchor, text in re.findall(
        r'<text x="(\d+)" y="\d+" text-anchor="(\w+)".*?>(.*?)<', body
    ):
        share = 1.0 if anchor == "start" else 0.5
        rights.append(float(x) + share * len(text) * LETTER)
    width = max(rights) + MARGIN
    return (
        f'<svg class="sequence" viewBox="0 0 {width:.0f} {height:.0f}" role="img"'
        f' style="max-width: {width:.0f}px" xmlns="http://www.w3.org/2000/svg">'
        '<defs><marker id="sq" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8"'
        ' markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
        f"{body}</svg>"
    )


def with_pictures(markdown: str) -> str:
    """Return a page with its sequence diagrams drawn."""
    return BLOCK.sub(lambda match: f"<div>{svg_of(match[1])}</div>", markdown)
