"""``quorate version``."""

import platform

import typer

from quorate import __version__
from quorate.tools.groups import verb
from quorate.tools.output import Column, Table
from quorate.tools.session import options_of, print_table, say

app = verb()


@app.command()
def version(context: typer.Context) -> None:
    """Print the version."""
    options = options_of(context)
    python = platform.python_version()
    if options.format in {"table", "wide"}:
        say(options, f"quorate {__version__} (Python {python})")
        return
    columns = (Column("version"), Column("python"))
    print_table(options, Table("versions", columns, ((__version__, python),)))
