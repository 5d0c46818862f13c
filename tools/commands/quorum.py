"""``quorate quorum status``."""

import typer

from quorate.tools.command_line import Command, noun_app, options_of
from quorate.tools.session import print_table, run

app = noun_app("Show the state of the metadata quorum.")


@app.command("status", cls=Command)
def status(context: typer.Context) -> None:
    """Ask a controller (-C host:port) who leads and how far the log is."""
    from quorate.client.routing.cluster import parse_bootstrap
    from quorate.tools.cluster import quorum_table

    options = options_of(context)
    endpoints = list(parse_bootstrap(options.controllers or "127.0.0.1:9190"))
    print_table(options, run(quorum_table, endpoints, options.timeout_s))
