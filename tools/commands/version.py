"""``quorate version``."""

import platform

from quorate import __version__
from quorate.tools.arguments import GlobalOptions
from quorate.tools.command_line import Noun
from quorate.tools.output import Column, Table
from quorate.tools.session import print_table, say

NOUN = Noun("")


@NOUN.command
def version(options: GlobalOptions) -> None:
    """Print the version."""
    python = platform.python_version()
    if options.format in {"table", "wide"}:
        say(options, f"quorate {__version__} (Python {python})")
        return
    columns = (Column("version"), Column("python"))
    print_table(options, Table("versions", columns, ((__version__, python),)))
