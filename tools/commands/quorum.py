"""``quorate quorum status``."""

from quorate.tools.arguments import GlobalOptions
from quorate.tools.command_line import Noun
from quorate.tools.session import print_table, run

NOUN = Noun("Show the state of the metadata quorum.")


@NOUN.verb("status")
def status(options: GlobalOptions) -> None:
    """Ask a controller (-C host:port) who leads and how far the log is."""
    from quorate.client.routing.cluster import parse_bootstrap
    from quorate.tools.cluster import quorum_table

    endpoints = list(parse_bootstrap(options.controllers or "127.0.0.1:9190"))
    print_table(options, run(quorum_table, endpoints, options.timeout_s))
