"""The quorum as a screen: what ``status`` prints on a terminal, and ``watch`` prints again."""

from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from quorate.tools.quorum.text import DISK_FULL, HEADINGS, SILENT, rows, summary
from quorate.tools.quorum.view import LEADER, OBSERVER, QuorumView, Replica

RIGHT: Final = frozenset({"LOG-END", "LAG", "BEHIND", "LOG", "SNAPSHOT", "UP"})
ROLE_COLUMN: Final = HEADINGS.index("ROLE")
LAG_COLUMN: Final = HEADINGS.index("LAG")


def screen(view: QuorumView, commits_per_s: float | None) -> RenderableType:
    """Return the picture; the rate is of commits since the picture before, if there was one."""
    return Group(_summary_grid(view, commits_per_s), Text(), _replicas_table(view))


def _summary_grid(view: QuorumView, commits_per_s: float | None) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column()
    for label, said in summary(view):
        text = Text(said)
        if label == "leader":
            text.stylize("bold green" if view.leader is not None else "bold red")
        if label in {SILENT, DISK_FULL}:
            text.stylize("bold red")
        if label == "committed" and commits_per_s is not None:
            text.append(f"; {commits_per_s:.1f} a second")
        grid.add_row(label, text)
    return grid


def _replicas_table(view: QuorumView) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in RIGHT else "left", no_wrap=True)
    for replica, cells in zip(view.replicas, rows(view), strict=True):
        texts = [Text(cell) for cell in cells]
        texts[ROLE_COLUMN].stylize(_role_style(view, replica))
        if view.lag(replica):
            texts[LAG_COLUMN].stylize("yellow")
        table.add_row(*texts)
    return table


def _role_style(view: QuorumView, replica: Replica) -> str:
    if replica in view.silent or replica.disk_full:
        return "red"
    return {LEADER: "bold green", OBSERVER: "cyan"}.get(replica.role, "")
