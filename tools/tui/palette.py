"""Colors of what tones mean: Okabe and Ito's, which people who see fewer colors tell apart."""

from typing import Final

from rich.style import Style

from quorate.tools.tui.views.cells import Tone

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

CURSOR: Final = Style(bgcolor=RAISED)
HEADING: Final = Style(color=BLUE, bold=True)
SORTED_HEADING: Final = Style(color="#ffffff", bold=True)
