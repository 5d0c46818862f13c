"""``quorate controller start``."""

from pathlib import Path
from typing import Annotated

from quorate.tools.arguments import GlobalOptions
from quorate.tools.command_line import Noun, option
from quorate.tools.starting import StartArguments, start_controller

NOUN = Noun("Start a controller.")


@NOUN.verb("start")
def start(
    options: GlobalOptions,
    *,
    node_id: Annotated[int | None, option("--id", low=0, help="node.id.")] = None,
    listen: Annotated[str, option("--listen", help="host:port; 127.0.0.1:9190.")] = "",
    cluster_id: Annotated[
        str | None, option("--cluster-id", help="Of the cluster; a new one if empty.")
    ] = None,
    directory: Annotated[
        Path | None, option("--dir", help="Where data is kept; ./.quorate by default.")
    ] = None,
    config: Annotated[
        Path | None, option("--config", help="TOML file with node properties.")
    ] = None,
) -> None:
    """Start a controller; brokers of other processes register with it."""
    given = {"quorate.controller.listener": listen} if listen else {}
    arguments = StartArguments(config, directory, None, node_id, given)
    start_controller(options, arguments, cluster_id)
