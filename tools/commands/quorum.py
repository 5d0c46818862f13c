"""``quorate quorum status``."""

import typer

from quorate.tools.command_line import Command, noun_app, options_of
from quorate.tools.session import print_table, run

app = noun_app("Show the state of the metadata quorum.")


@app.command("status", cls=Command)
def status(context: typer.Context) -> None:
    """Ask a broker, or with -C a controller, who leads and how far the metadata log is."""
    from quorate.client.routing.cluster import parse_bootstrap
    from quorate.tools.cluster import controller_table, quorum_table
    from quorate.tools.topic_options import client_of

    options = options_of(context)
    if options.controllers and not options.bootstrap:
        endpoints = list(parse_bootstrap(options.controllers))
        print_table(options, run(controller_table, endpoints, options.timeout_s))
    else:
        print_table(options, run(quorum_table, client_of(options)))
