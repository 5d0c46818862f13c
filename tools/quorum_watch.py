"""The screen of ``quorate quorum watch``, kept up to date until somebody has seen enough."""

import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from quorate.errors import KafkaError
from quorate.tools.arguments import GlobalOptions
from quorate.tools.positions import time_text
from quorate.tools.quorum.screen import screen
from quorate.tools.quorum.view import QuorumView
from quorate.tools.quorum_work import look, wall_clock_ms
from quorate.tools.session import run


def watch_screen(options: GlobalOptions, interval_s: float, count: int | None) -> None:
    """Show the quorum until Ctrl-C or ``count`` looks; what was seen last stays on the terminal.

    A look that fails is told below the picture before, and tried again.

    Raises:
        KafkaError: the very first look fails.
    """
    console = Console(highlight=False, no_color=not options.color)
    before: QuorumView | None = None
    view: QuorumView = run(look, options)
    picture: RenderableType = screen(view, None)
    looks = 1
    with Live(_framed(picture, interval_s, ""), console=console, auto_refresh=False) as live:
        try:
            while True:
                live.update(_framed(picture, interval_s, ""), refresh=True)
                if count is not None and looks >= count:
                    break
                time.sleep(interval_s)
                looks += 1
                try:
                    before, view = view, run(look, options)
                except KafkaError as error:
                    live.update(_framed(picture, interval_s, error.message), refresh=True)
                    continue
                picture = screen(view, commits_per_s(before, view))
        except KeyboardInterrupt:
            return


def commits_per_s(before: QuorumView, after: QuorumView) -> float:
    """Return how fast entries were committed between two pictures."""
    passed_ms = after.now_ms - before.now_ms
    committed = after.high_watermark - before.high_watermark
    return max(0, committed) * 1000 / passed_ms if passed_ms > 0 else 0.0


def _framed(picture: RenderableType, interval_s: float, trouble: str) -> RenderableType:
    foot = f"{time_text(wall_clock_ms())}, every {interval_s:g} s; Ctrl-C ends"
    lines: list[RenderableType] = [picture, Text(), Text(foot, style="dim")]
    if trouble:
        lines.append(Text(f"not current: {trouble}", style="bold red"))
    return Group(*lines)
