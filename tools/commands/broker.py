"""``quorate broker start`` and ``quorate brokers list``."""

from pathlib import Path
from typing import Annotated

import typer

from quorate.tools.command_line import Command, noun_app, options_of
from quorate.tools.session import print_table, run

app = noun_app("Start a broker; list brokers.")


@app.command("start", cls=Command)
def start(
    context: typer.Context,
    *,
    node_id: Annotated[
        int | None, typer.Option("--id", min=0, help="node.id: this broker.")
    ] = None,
    controllers: Annotated[
        str, typer.Option("--controllers", help="host:port[,host:port] of the controllers.")
    ] = "",
    listen: Annotated[
        str, typer.Option("--listen", help="listeners: [PLAINTEXT://]host:port[,SSL://...].")
    ] = "",
    rack: Annotated[str, typer.Option("--rack", help="broker.rack: where the broker stands.")] = "",
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65_535, help="On 127.0.0.1.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where data is kept; ./.quorate by default.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML file with node properties.")
    ] = None,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Start a broker whose controllers are other processes."""
    from quorate.tools.starting import StartArguments, start_broker

    options = options_of(context)
    defaults = {
        "controller.quorum.bootstrap.servers": controllers or options.controllers,
        "listeners": listen,
        "broker.rack": rack,
    }
    given = {name: text for name, text in defaults.items() if text}
    start_broker(options, StartArguments(config, directory, port, node_id, given, with_parent))


@app.command("list", cls=Command)
def list_brokers(context: typer.Context) -> None:
    """List the brokers that are alive."""
    from quorate.tools.cluster import brokers_table
    from quorate.tools.topic_options import client_of

    options = options_of(context)
    print_table(options, run(brokers_table, client_of(options)))
