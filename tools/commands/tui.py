"""``quorate tui``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from quorate.tools.command_line import Command, command_app, options_of
from quorate.tools.problems import UsageError

app = command_app()


@app.command(
    cls=Command,
)
def tui(
    context: typer.Context,
    view: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[VIEW [NAME]]",
            help="topics, brokers, quorum, partitions [TOPIC], groups, offsets GROUP,"
            " txns, configs [topic/T|broker/ID], messages TOPIC [FROM], events, verify [FOLDER].",
        ),
    ] = None,
    *,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Of a cluster that quorate up made; ./.quorate by default."),
    ] = None,
    rw: Annotated[
        bool, typer.Option("--rw", help="Let keys change the cluster; one of quorate up, always.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Print one frame, and exit.")] = False,
    pattern: Annotated[
        str, typer.Option("--filter", help="Show rows that match: regex, !regex, column:regex.")
    ] = "",
    sort: Annotated[str, typer.Option("--sort", help="Sort by a column; -column turns it.")] = "",
) -> None:
    """Look at a cluster and operate it, on the whole terminal.

    Topics, partitions, replicas, controllers, groups, settings, messages and the controllers'
    decisions, kept up to date; ? shows the keys. Read-only without --rw, but for clusters of
    quorate up.
    """
    from quorate.tools.arguments import glancing
    from quorate.tools.tui import running
    from quorate.tools.tui.views.lens import Lens

    options = options_of(context)
    place = running.place_of(view or [])
    asked = running.asked_of(glancing(options) if once else options, directory)
    if once:
        lens = Lens(pattern, sort.lstrip("-"), sort.startswith("-"), options.format == "wide")
        running.print_once(asked, place, lens)
        return
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "there is no terminal to draw on",
            why="standard input or output goes elsewhere",
            hint="quorate tui --once prints one frame",
        )
    running.run_screen(asked, place, can_write=rw)
