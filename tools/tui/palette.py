"""Colors of what tones mean: Okabe and Ito's, which people who see fewer colors tell apart."""

import itertools
from typing import Final

from rich.style import Style
from rich.text import Text

from quorate.tools.tui.views.cells import Line, Part, Tone

BLUE: Final = "#56b4e9"
GREEN: Final = "#2fbf8f"
ORANGE: Final = "#e69f00"
VERMILION: Final = "#ff7043"
DARK: Final = "#10151c"
SURFACE: Final = "#161d27"
RAISED: Final = "#223044"
GREY: Final = "#7d8a9a"
LIGHT: Final = "#d7dee8"

STYLES: Final = {
    Tone.PLAIN: Style(color=LIGHT),
    Tone.DIM: Style(color=GREY),
    Tone.STRONG: Style(color="#ffffff", bold=True),
    Tone.GOOD: Style(color=GREEN),
    Tone.WARN: Style(color=ORANGE, bold=True),
    Tone.BAD: Style(color=VERMILION, bold=True),
    Tone.ACCENT: Style(color=BLUE),
    Tone.LEADER_BLOCK: Style(color=DARK, bgcolor=BLUE, bold=True),
    Tone.GOOD_BLOCK: Style(color=DARK, bgcolor="#1f8f6b"),
    Tone.WARN_BLOCK: Style(color=DARK, bgcolor=ORANGE, bold=True),
    Tone.BAD_BLOCK: Style(color="#ffffff", bgcolor="#c23b0e", bold=True),
}

OF_COLORS: Final = {
    "red": Tone.BAD, "yellow": Tone.WARN, "green": Tone.GOOD, "cyan": Tone.ACCENT,
    "blue": Tone.ACCENT, "magenta": Tone.ACCENT,
}  # fmt: skip
"""What the colors of other commands' output are here."""

CURSOR: Final = Style(bgcolor=RAISED)
HEADING: Final = Style(color=BLUE, bold=True)
SORTED_HEADING: Final = Style(color="#ffffff", bold=True)


def line_of(text: Text) -> Line:
    """Return what another command prints in colors, in the tones that come next to them."""
    ends = {0, len(text), *(at for span in text.spans for at in (span.start, span.end))}
    parts: list[Part] = []
    for first, last in itertools.pairwise(sorted(ends)):
        styles = [text.style, *(s.style for s in text.spans if s.start <= first and last <= s.end)]
        style = Style.combine(s if isinstance(s, Style) else Style.parse(s) for s in styles)
        parts.append(Part(text.plain[first:last], _tone_of(style)))
    return tuple(parts)


def _tone_of(style: Style) -> Tone:
    if style.color is not None and style.color.name in OF_COLORS:
        return OF_COLORS[style.color.name]
    if style.bold:
        return Tone.STRONG
    return Tone.DIM if style.dim else Tone.PLAIN
