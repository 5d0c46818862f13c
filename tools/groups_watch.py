"""``quorate groups lag -w``: looks again and again, and tells where lags are going."""

import sys
import time
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from quorate.errors import KafkaError
from quorate.tools.arguments import GlobalOptions
from quorate.tools.groups.lag import GROWING, SHRINKING, Lag, Trend, summed, trend_of
from quorate.tools.groups.tables import lag_table
from quorate.tools.groups_work import Looked, look
from quorate.tools.output import Table, render
from quorate.tools.positions import time_text
from quorate.tools.problems import CommandError
from quorate.tools.session import print_table, run
from quorate.tools.topics import Client

STYLES = {GROWING: "bold red", SHRINKING: "green"}


class LagWatch:
    """Keeps the last two looks at the lags of some groups."""

    def __init__(self, client: Client, groups: Sequence[str], *, by_partition: bool) -> None:
        self._client = client
        self._groups = groups
        self._by_partition = by_partition
        self._before: dict[tuple[str, str, int | None], Lag] = {}
        self._lags: tuple[Lag, ...] = ()
        self._before_ms: int | None = None
        self._now_ms = 0

    def look(self, now_ms: int) -> tuple[Lag, ...]:
        """Look once more.

        Raises:
            QuorateError: It fails; then what was seen before stays.
        """
        looked: Looked = run(look, self._client, self._groups, now_ms, offsets=True, times=True)
        lags = tuple(summed(looked.lags, by_partition=self._by_partition))
        if self._lags or self._now_ms:
            self._before, self._before_ms = {lag.key: lag for lag in self._lags}, self._now_ms
        self._lags, self._now_ms = lags, now_ms
        return lags

    def trends(self) -> dict[tuple[str, str, int | None], Trend] | None:
        """Return where lags are going; None before the second look."""
        if self._before_ms is None:
            return None
        passed_ms = self._now_ms - self._before_ms
        found = {
            lag.key: trend_of(self._before[lag.key], lag, passed_ms)
            for lag in self._lags
            if lag.key in self._before
        }
        return {key: trend for key, trend in found.items() if trend is not None}

    def table(self) -> Table:
        """Return what was seen last."""
        return lag_table(self._lags, self._now_ms, self.trends())


def watch_lags(
    options: GlobalOptions, looking: LagWatch, interval_s: float, count: int | None
) -> tuple[Lag, ...]:
    """Show lags until Ctrl-C or ``count`` looks; return those seen last.

    On a terminal they stay in place; else every look is printed below the one before.

    Raises:
        QuorateError: The very first look fails.
    """
    lags = looking.look(_wall_clock_ms())
    looks = 1
    try:
        if options.format in {"table", "wide"} and sys.stdout.isatty():
            return _watch_screen(options, looking, interval_s, count)
        while True:
            print_table(options, looking.table())
            sys.stdout.flush()
            if looks == count:
                return lags
            time.sleep(interval_s)
            lags = looking.look(_wall_clock_ms())
            looks += 1
    except KeyboardInterrupt:
        return lags


def _watch_screen(
    options: GlobalOptions, looking: LagWatch, interval_s: float, count: int | None
) -> tuple[Lag, ...]:
    console = Console(highlight=False, no_color=not options.color)
    lags: tuple[Lag, ...] = ()
    trouble, looks = "", 1
    try:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                live.update(_framed(looking.table(), interval_s, trouble), refresh=True)
                if looks == count:
                    return lags
                time.sleep(interval_s)
                looks += 1
                try:
                    lags, trouble = looking.look(_wall_clock_ms()), ""
                except (KafkaError, CommandError) as error:
                    trouble = str(error)
    finally:  # which Live does itself, unless it is interrupted while it starts
        console.show_cursor()


def _framed(table: Table, interval_s: float, trouble: str) -> RenderableType:
    lines: list[RenderableType] = []
    for number, line in enumerate(render(table, "table").splitlines()):
        text = Text(line, style="dim" if number == 0 else "", no_wrap=True)
        for word, style in STYLES.items():
            text.highlight_words([word], style)
        lines.append(text)
    foot = f"{time_text(_wall_clock_ms())}, every {interval_s:g} s; Ctrl-C ends"
    lines += [Text(), Text(foot, style="dim")]
    if trouble:
        lines.append(Text(f"not current: {trouble}", style="bold red"))
    return Group(*lines)


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000
