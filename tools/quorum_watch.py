"""The screen of ``quorate quorum watch``, kept up to date until somebody has seen enough."""

import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from quorate.errors import KafkaError
from quorate.tools.arguments import GlobalOptions
from quorate.tools.positions import time_text
from quorate.tools.problems import CommandError
from quorate.tools.quorum.screen import screen
from quorate.tools.quorum.view import QuorumView
from quorate.tools.quorum_work import look, wall_clock_ms
from quorate.tools.session import run


def watch_screen(options: GlobalOptions, interval_s: float, count: int | None) -> None:
    """Show the quorum until Ctrl-C or ``count`` looks; what was seen last stays on the terminal.

    A look that fails is told below the picture before, and tried again.

    Raises:
        QuorateError: the very first look fails.
    """
    view: QuorumView = run(look, options)
    console = Console(highlight=False, no_color=not options.color)
    try:
        with Live(console=console, auto_refresh=False) as live:
            _watch(options, interval_s, count, view, live)
    except KeyboardInterrupt:
        return
    finally:  # which Live does itself, unless it is interrupted while it starts
        console.show_cursor()


def _watch(
    options: GlobalOptions, interval_s: float, count: int | None, view: QuorumView, live: Live
) -> None:
    picture = screen(view, None)
    trouble = ""
    looks = 1
    while True:
        live.update(_framed(picture, interval_s, trouble), refresh=True)
        if count is not None and looks >= count:
            return
        time.sleep(interval_s)
        looks += 1
        try:
            before, view = view, run(look, options)
        except (KafkaError, CommandError) as error:
            trouble = str(error)
        else:
            trouble = ""
            picture = screen(view, commits_per_s(before, view))


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
