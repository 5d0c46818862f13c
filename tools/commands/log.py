"""``quorate log dump`` and ``quorate log verify``: log files without a broker."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from quorate.tools.groups import noun
from quorate.tools.session import options_of

app = noun("Print and check log files without a broker.")

Paths = Annotated[list[Path], typer.Argument(help="Segment files, or folders of them.")]


@app.command()
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


@app.command()
def verify(context: typer.Context, paths: Paths) -> None:
    """Check checksums, offsets, records and indexes; exit code 3 if something is wrong."""
    from quorate.tools.dumping import verify as verify_files

    verify_files(options_of(context), paths)
