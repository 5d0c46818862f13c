"""``quorate down``."""

from pathlib import Path
from typing import Annotated

import typer

from quorate.tools.command_line import Command, command_app, options_of
from quorate.tools.session import run, say

app = command_app()


@app.command(cls=Command)
def down(
    context: typer.Context,
    *,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where its data is; ./.quorate by default.")
    ] = None,
) -> None:
    """End a cluster that quorate up started: brokers first, then controllers. Its data stays."""
    from quorate.tools.cluster_directory import ClusterDirectory
    from quorate.tools.cluster_display import LineDisplay
    from quorate.tools.cluster_up import down as end
    from quorate.tools.nearby import DEFAULT_DIRECTORY

    options = options_of(context)
    where = ClusterDirectory(directory or DEFAULT_DIRECTORY)
    count: int = run(end, where, LineDisplay(options, ""))
    say(options, f"ended {count} nodes of {where}" if count else f"nothing runs of {where}")
