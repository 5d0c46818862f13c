"""``quorate broker start`` and ``quorate brokers list``."""

from pathlib import Path
from typing import Annotated

from quorate.tools.arguments import GlobalOptions
from quorate.tools.command_line import Noun, option
from quorate.tools.session import print_table, run

NOUN = Noun("Start a broker; list brokers.")


@NOUN.verb("start")
def start(
    options: GlobalOptions,
    *,
    node_id: Annotated[int | None, option("--id", low=0, help="node.id: this broker.")] = None,
    controllers: Annotated[
        str, option("--controllers", help="host:port[,host:port] of the controllers.")
    ] = "",
    listen: Annotated[
        str, option("--listen", help="listeners: PLAINTEXT://host:port[,SSL://...].")
    ] = "",
    rack: Annotated[str, option("--rack", help="broker.rack: where the broker stands.")] = "",
    port: Annotated[int | None, option("--port", low=0, high=65_535, help="On 127.0.0.1.")] = None,
    directory: Annotated[
        Path | None, option("--dir", help="Where data is kept; ./.quorate by default.")
    ] = None,
    config: Annotated[
        Path | None, option("--config", help="TOML file with node properties.")
    ] = None,
) -> None:
    """Start a broker whose controllers are other processes."""
    from quorate.tools.starting import StartArguments, start_broker

    defaults = {
        "controller.quorum.bootstrap.servers": controllers or options.controllers,
        "listeners": listen,
        "broker.rack": rack,
    }
    given = {name: text for name, text in defaults.items() if text}
    start_broker(options, StartArguments(config, directory, port, node_id, given))


@NOUN.verb("list")
def list_brokers(options: GlobalOptions) -> None:
    """List the brokers that are alive."""
    from quorate.tools.cluster import brokers_table
    from quorate.tools.topic_options import client_of

    print_table(options, run(brokers_table, client_of(options)))
