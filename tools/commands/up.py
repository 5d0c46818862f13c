"""``quorate up``."""

from pathlib import Path
from typing import Annotated

import typer

from quorate.tools.command_line import Command, command_app, options_of

app = command_app()


@app.command(cls=Command)
def up(
    context: typer.Context,
    *,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where data is kept; ./.quorate by default.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65_535, help="Port on 127.0.0.1; 9092 or the next free one."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML file with node properties.")
    ] = None,
) -> None:
    """Start a node on this machine: controller and broker in one process.

    Properties have Kafka's names and stand in the file or in -X: -X segment.bytes=1M. Data goes to
    a directory that is formatted by itself.
    """
    from quorate.tools.starting import StartArguments, start_up

    options = options_of(context)
    start_up(options, StartArguments(config, directory, port, None, {}))
