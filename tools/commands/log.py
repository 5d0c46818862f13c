"""``quorate log dump`` and ``quorate log verify``: log files without a broker."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from quorate.tools.command_line import Command, noun_app, options_of

app = noun_app("Print and check log files without a broker.")

Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH", help="Segment files, or folders of them.")
]


@app.command("dump", cls=Command)
def dump(
    context: typer.Context,
    paths: Paths,
    *,
    data: Annotated[
        bool,
        typer.Option("--data", "--print-data-log", "--deep-iteration", help="Records too."),
    ] = False,
    metadata: Annotated[
        bool, typer.Option("--metadata", help="The records of a controller's journal.")
    ] = False,
) -> None:
    """Print the batches of segments, the entries of indexes, or what controllers decided."""
    from quorate.tools import dumping

    options = options_of(context)
    if metadata:
        dumping.dump_metadata(options, paths, sys.stdout)
    else:
        dumping.dump(options, paths, sys.stdout, with_records=data)


@app.command("verify", cls=Command)
def verify(context: typer.Context, paths: Paths) -> None:
    """Check checksums, offsets, records and indexes; exit code 3 if something is wrong."""
    from quorate.tools.dumping import verify as verify_files

    options = options_of(context)
    verify_files(options, paths)
