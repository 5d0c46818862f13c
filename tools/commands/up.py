"""``quorate up``."""

from pathlib import Path
from typing import Annotated

from quorate.tools.arguments import GlobalOptions
from quorate.tools.command_line import Noun, option
from quorate.tools.starting import StartArguments, start_up

NOUN = Noun("")


@NOUN.command
def up(
    options: GlobalOptions,
    *,
    directory: Annotated[
        Path | None, option("--dir", help="Where data is kept; ./.quorate by default.")
    ] = None,
    port: Annotated[
        int | None,
        option("--port", low=0, high=65_535, help="Port on 127.0.0.1; 9092 or the next free one."),
    ] = None,
    config: Annotated[
        Path | None, option("--config", help="TOML file with node properties.")
    ] = None,
) -> None:
    """Start a node on this machine: controller and broker in one process.

    Properties have Kafka's names and stand in the file or in -X: -X segment.bytes=1M. Data goes to
    a directory that is formatted by itself.
    """
    start_up(options, StartArguments(config, directory, port, None, {}))
