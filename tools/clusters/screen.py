"""A cluster as a screen: what ``quorate up`` keeps showing, and ``status`` prints on a terminal."""

from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from quorate.tools.clusters.picture import (
    FENCED,
    HEADINGS,
    IN_SERVICE,
    LEADER,
    READ_ONLY,
    TROUBLED,
    Picture,
    deaths,
    rows,
    summary,
)

RIGHT: Final = frozenset({"PID", "LEADS", "REPLICAS", "BEHIND", "MEMORY", "UP"})
STATE: Final = HEADINGS.index("STATE")
BEHIND: Final = HEADINGS.index("BEHIND")


def screen(picture: Picture) -> RenderableType:
    """Return the picture."""
    parts: list[RenderableType] = [_summary_grid(picture), Text(), _nodes_table(picture)]
    dead = deaths(picture)
    if dead:
        parts += [
            Text(),
            *(Text(line, style="red", no_wrap=True, overflow="ellipsis") for line in dead),
        ]
    return Group(*parts)


def _summary_grid(picture: Picture) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    health = picture.look.health
    for label, said in summary(picture):
        text = Text(said)
        if label == "partitions" and health is not None and health.partitions:
            bad = "bold red" if health.offline else "yellow"
            text.stylize("green" if health.is_good else bad)
        if label == "controllers" and picture.look.leader_id is None:
            text.stylize("bold red")
        grid.add_row(label, text)
    return grid


def _nodes_table(picture: Picture) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in RIGHT else "left", no_wrap=True)
    for cells in rows(picture):
        texts = [Text(cell) for cell in cells]
        texts[STATE].stylize(_style(cells[STATE]))
        if cells[BEHIND].strip("-0"):
            texts[BEHIND].stylize("yellow")
        table.add_row(*texts)
    return table


def _style(state: str) -> str:
    if state in TROUBLED:
        return "yellow" if state in {FENCED, READ_ONLY} else "bold red"
    return {LEADER: "bold green", IN_SERVICE: "green"}.get(state, "")
