"""``quorate log dump``, ``verify`` and ``tail-segments``: log files without a broker."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from quorate.tools.command_line import Command, noun_app, options_of

app = noun_app("Print, check and follow log files without a broker.")

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


@app.command("tail-segments", cls=Command)
def tail_segments(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Of a partition.")],
    *,
    data: Annotated[
        bool, typer.Option("--data", "--print-data-log", help="Records too, not batches only.")
    ] = False,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="What is there already, first.")
    ] = False,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after so many lines.")
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.01, help="Seconds between two looks.")
    ] = 0.2,
) -> None:
    """Print what is appended to the segments of a partition, until Ctrl-C.

    Reads the files only, whether a broker runs or not: also what is not committed yet.
    """
    from quorate.tools import log_tail

    options = options_of(context)
    log_tail.check_folder(folder)
    tail = log_tail.SegmentTail(folder, from_beginning=from_beginning)
    log_tail.follow(options, tail, log_tail.TailPlan(data, count, interval), sys.stdout)
