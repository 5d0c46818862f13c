"""Starts the screen, or prints one frame of it."""

import json
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio
from rich.console import Console
from rich.segment import Segment
from rich.style import Style

from quorate.broker.log.directory import META_NAME
from quorate.errors import QuorateError
from quorate.tools.arguments import GlobalOptions
from quorate.tools.cluster_directory import cluster_around
from quorate.tools.nearby import DEFAULT_DIRECTORY, nearby_bootstrap
from quorate.tools.problems import UsageError, root_error
from quorate.tools.reaching import client_of
from quorate.tools.session import names_a_cluster
from quorate.tools.tui.asked import Asked
from quorate.tools.tui.following import (
    Pause,
    follow_directory,
    follow_events,
    follow_records,
)
from quorate.tools.tui.looking import Looker
from quorate.tools.tui.palette import HEADING
from quorate.tools.tui.table import cell_segments, fitted_text, part_segments
from quorate.tools.tui.views import places
from quorate.tools.tui.views.cluster import header_lines
from quorate.tools.tui.views.frames import frame_of
from quorate.tools.tui.views.lens import Lens, PatternError, Shown, look
from quorate.tools.tui.views.places import Place, parse_command
from quorate.tools.tui.views.snapshot import Snapshot
from quorate.tools.verify_runs import runs_in

STREAM_WAIT_S: Final = 3.0
"""How long one frame of messages or events waits for them."""

STREAM_SILENCE_S: Final = 0.5


def place_of(words: list[str]) -> Place:
    """Return the place that words of the command line name.

    Raises:
        UsageError: they name none.
    """
    command = parse_command(" ".join(words) or places.TOPICS)
    if command.place is None:
        raise UsageError(
            command.error or f"{' '.join(words)!r} is no view",
            why="there are " + ", ".join(places.VIEWS), hint="quorate tui partitions orders",
        )  # fmt: skip
    return command.place


def local_cluster(directory: Path) -> tuple[str, frozenset[str]]:
    """Return where brokers of ``quorate up`` in a directory listen, and the cluster's ids.

    Both are empty if there is none in the directory, nor around it.
    """
    ids: set[str] = set()
    for path in (directory / META_NAME, *sorted(directory.glob(f"*/{META_NAME}"))):
        try:
            document: Any = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        ids |= {text for text in _texts(document, "cluster_id") if text}
    home = cluster_around(directory)
    bootstrap = home.layout().bootstrap if home.exists else nearby_bootstrap(directory)
    return bootstrap, frozenset(ids)


def _texts(document: Any, name: str) -> list[str]:
    """Return the texts of a name, wherever in a document it stands."""
    if not isinstance(document, dict):
        return []
    found: list[str] = []
    for key, value in document.items():  # pyright: ignore[reportUnknownVariableType]
        if key == name and isinstance(value, str):
            found.append(value)
        found += _texts(value, name)
    return found


def is_loopback(bootstrap: str) -> bool:
    """Whether all brokers named are on this machine."""
    hosts = [text.rpartition(":")[0] for text in bootstrap.split(",")]
    return all(host in ("localhost", "[::1]") or host.startswith("127.") for host in hosts)


def asked_of(options: GlobalOptions, directory: Path | None) -> Asked:
    """Return whom the screen asks, and what is in a directory of ``quorate up``.

    The brokers that run from a directory are asked if it was named, and no brokers were.

    Raises:
        QuorateError: the options contradict each other.
    """
    where = DEFAULT_DIRECTORY if directory is None else directory
    found, ids = local_cluster(where)
    if directory is not None and not names_a_cluster(options, os.environ):
        options = with_bootstrap(options, found)
    several = cluster_around(where).exists
    alone, cluster = (None, where) if several else (where, None)
    client = client_of(options, os.environ)
    return Asked(options, client, alone if ids else None, cluster, ids)


def run_screen(asked: Asked, place: Place, *, can_write: bool) -> None:
    """Show the screen until somebody quits."""
    from quorate.tools.tui.app import QuorateApp
    from quorate.tools.tui.gathering import Gatherer
    from quorate.tools.tui.main_screen import Mode

    alarm = can_write and not is_loopback(asked.client.bootstrap)
    QuorateApp(
        Gatherer(asked), place, Mode(can_write, alarm, asked.cluster is not None, asked.ids)
    ).run()


def print_once(asked: Asked, place: Place, lens: Lens) -> None:
    """Print one frame.

    Raises:
        QuorateError: nobody answers.
        UsageError: the filter is no regular expression.
    """
    try:
        snapshot = trio.run(partial(_look_once, asked, place))
    except BaseExceptionGroup as group:
        raise root_error(group) from group
    console = Console(highlight=False, no_color=not asked.options.color)
    frame = frame_of(place, snapshot)
    width = console.width if sys.stdout.isatty() else 200
    try:
        shown = look(frame, lens, width)
    except PatternError as error:
        raise UsageError(str(error), why="it is given to --filter", hint="'orders.*'") from None
    if sys.stdout.isatty():
        console.print(*_segments_printer(snapshot, shown), sep="", end="")
    else:
        sys.stdout.write(plain_frame(snapshot, shown))


async def _look_once(asked: Asked, place: Place) -> Snapshot:
    looker = Looker(asked)
    if place.view == places.VERIFY:
        looker.take_stream(runs=runs_in(Path(place.argument) if place.argument else None))
        return looker.snapshot
    async with asked.client.admin() as admin:
        await looker.look(admin, place)
    if place.view in (places.MESSAGES, places.EVENTS):
        await _stream_once(asked, place, looker)
    return looker.snapshot


async def _stream_once(asked: Asked, place: Place, looker: Looker) -> None:
    """Take what there is, until nothing came for a moment."""
    errors: list[Exception] = []
    directory = asked.directory_of(looker.snapshot.cluster_id)
    with trio.move_on_after(STREAM_WAIT_S) as patience:

        def take(name: str, found: Any) -> None:
            looker.take_stream(**{name: found})
            patience.deadline = trio.current_time() + STREAM_SILENCE_S

        events = partial(take, "events")
        if place.view == places.MESSAGES:
            tell = partial(take, "records")
            await follow_records(asked.client, place.argument, Pause(), tell, errors.append)
        elif directory is not None:
            await follow_directory(directory, events, errors.append)
        else:
            await follow_events(asked.options, dict(os.environ), events, errors.append)
    if errors and isinstance(errors[0], QuorateError):
        raise errors[0]


def plain_frame(snapshot: Snapshot, shown: Shown) -> str:
    """Return a frame as text."""
    lines = ["".join(part.text for part in line).rstrip() for line in header_lines(snapshot)]
    titles = zip(shown.columns, shown.headings, shown.widths, strict=True)
    lines.append("")
    lines.append("  ".join(fitted_text(h, w, right=c.is_number) for c, h, w in titles).rstrip())
    for row in shown.rows:
        cells = zip(shown.columns, row.cells, shown.widths, strict=True)
        texts = (fitted_text(cell.text, w, right=c.is_number) for c, cell, w in cells)
        lines.append("  ".join(texts).rstrip())
    if shown.remark:
        lines.append(shown.remark)
    return "\n".join(lines) + "\n"


def _segments_printer(snapshot: Snapshot, shown: Shown) -> list[Any]:
    from rich.segment import Segments

    base = Style()
    segments: list[Segment] = []
    for line in header_lines(snapshot):
        segments += [*part_segments(line, base), Segment("\n")]
    segments.append(Segment("\n"))
    for column, heading, width in zip(shown.columns, shown.headings, shown.widths, strict=True):
        text = fitted_text(heading, width, right=column.is_number)
        segments.append(Segment(f" {text} ", HEADING))
    segments.append(Segment("\n"))
    for row in shown.rows:
        for column, cell, width in zip(shown.columns, row.cells, shown.widths, strict=True):
            segments += cell_segments(cell, width, base, right=column.is_number)
        segments.append(Segment("\n"))
    if shown.remark:
        segments.append(Segment(f" {shown.remark}\n"))
    return [Segments(segments)]


def with_bootstrap(options: GlobalOptions, bootstrap: str) -> GlobalOptions:
    """Return options that name brokers, if they named none."""
    return replace(options, bootstrap=bootstrap) if bootstrap else options
