"""``quorate controller start``."""

from pathlib import Path
from typing import Annotated

import typer

from quorate.tools.command_line import Command, noun_app, options_of

app = noun_app("Start a controller.")


@app.command("start", cls=Command)
def start(
    context: typer.Context,
    *,
    node_id: Annotated[int | None, typer.Option("--id", min=0, help="node.id.")] = None,
    listen: Annotated[str, typer.Option("--listen", help="host:port; 127.0.0.1:9190.")] = "",
    join: Annotated[
        str,
        typer.Option("--join", help="host:port[,host:port] of all controllers of the quorum."),
    ] = "",
    cluster_id: Annotated[
        str | None, typer.Option("--cluster-id", help="Of the cluster; a new one if empty.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where data is kept; ./.quorate by default.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML file with node properties.")
    ] = None,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Start a controller: alone, or with those it is to share the metadata with (--join).

    Give all of them the same --join, their own address included. One that is started later, or
    with a new disk, becomes an observer, until "quorate quorum add" lets it vote.
    """
    from quorate.tools.starting import StartArguments
    from quorate.tools.starting_controller import start_controller

    options = options_of(context)
    defaults = {"quorate.controller.listener": listen, "quorate.controller.join": join}
    given = {name: text for name, text in defaults.items() if text}
    arguments = StartArguments(config, directory, None, node_id, given, with_parent)
    start_controller(options, arguments, cluster_id)
