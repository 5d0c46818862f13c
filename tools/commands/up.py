"""``quorate up``."""

from pathlib import Path
from typing import Annotated

import typer

from quorate.tools.command_line import Command, command_app, options_of
from quorate.tools.nearby import DEFAULT_DIRECTORY, LAYOUT_NAME

app = command_app()


@app.command(cls=Command)
def up(
    context: typer.Context,
    *,
    brokers: Annotated[
        int | None,
        typer.Option("--brokers", min=1, max=99, help="A cluster with so many, as processes."),
    ] = None,
    controllers: Annotated[
        int | None,
        typer.Option("--controllers", min=1, max=9, help="With so many controllers: 1, 3, 5."),
    ] = None,
    racks: Annotated[
        str, typer.Option("--racks", help="a,b,c: where the brokers stand, in turn.")
    ] = "",
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="A cluster that goes on by itself.")
    ] = False,
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
    metrics: Annotated[
        bool, typer.Option("--metrics", help="Serve metrics for Prometheus on a free port.")
    ] = False,
    chaos: Annotated[
        bool,
        typer.Option("--chaos", help="A cluster for quorate chaos partition, skew and slow-disk."),
    ] = False,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Start a node on this machine, or a cluster: --brokers 3 --controllers 3.

    A single node is controller and broker in one process. The nodes of a cluster are processes of
    their own, brokers on --port and the next ones; once more on the same directory starts what is
    missing. Properties have Kafka's names and stand in the file or in -X: -X segment.bytes=1M. Data
    goes to a directory that is formatted by itself.
    """
    options = options_of(context)
    is_cluster = bool(brokers or controllers or racks or detach or chaos)
    if not is_cluster and not ((directory or DEFAULT_DIRECTORY) / LAYOUT_NAME).exists():
        from quorate.tools.starting import StartArguments, local_defaults
        from quorate.tools.starting_up import start_up

        defaults = local_defaults(1)
        if metrics:
            defaults["quorate.metrics.listener"] = "127.0.0.1:0"
        alone = StartArguments(config, directory, port, None, defaults, with_parent)
        start_up(options, alone)
        return

    from quorate.tools.cluster_up import UpRequest, up
    from quorate.tools.clusters.layout import Wish
    from quorate.tools.session import run

    wish = Wish(brokers, controllers, tuple(filter(None, racks.split(","))))
    request = UpRequest(wish, directory, port, config, detach, with_parent, metrics, chaos)
    run(up, options, request)
