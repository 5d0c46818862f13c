"""``quorate version``."""

import platform

import typer

from quorate import __version__
from quorate.tools.command_line import Command, command_app, options_of
from quorate.tools.output import Column, Table
from quorate.tools.session import print_table, say

app = command_app()


@app.command(cls=Command)
def version(context: typer.Context) -> None:
    """Print the version."""
    options = options_of(context)
    python = platform.python_version()
    if options.format in {"table", "wide"}:
        say(options, f"quorate {__version__} (Python {python})")
        return
    columns = (Column("version"), Column("python"))
    print_table(options, Table("versions", columns, ((__version__, python),)))
