"""``quorate spark read``: a topic to files, by PySpark."""

import os
from typing import Annotated

import typer

from quorate.tools.command_line import Command, noun_app, options_of
from quorate.tools.session import bootstrap, client_texts, say

app = noun_app("Read topics with PySpark: pip install 'quorate[spark]'.")

FILE_BYTES = 128 * 1024 * 1024


@app.command("read", cls=Command)
def read(
    context: typer.Context,
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...")],
    *,
    to: Annotated[
        str, typer.Option("--to", help="Where to: parquet:DIR, orc:DIR or json:DIR.")
    ] = "",
    since: Annotated[
        str, typer.Option("--since", help="From here: -1h, -1d12h, a time of ISO 8601.")
    ] = "",
    until: Annotated[str, typer.Option("--until", help="Up to here, likewise.")] = "",
    columns: Annotated[
        str, typer.Option("--columns", help="Only these, as in key,value,timestamp.")
    ] = "",
    file_bytes: Annotated[
        int, typer.Option("--file-bytes", min=1, help="How much of the log goes into a file.")
    ] = FILE_BYTES,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
) -> None:
    """Write records to files that Spark, DuckDB and pandas read.

    quorate spark read appLogs --since -1h --to parquet:out/
    """
    from quorate.tools.spark_reading import ReadPlan, parse_target, read_to_files

    options = options_of(context)
    plan = ReadPlan(
        topics=tuple(topics),
        target=parse_target(to),
        since=since,
        until=until,
        columns=tuple(name.strip() for name in columns.split(",") if name.strip()),
        file_bytes=file_bytes,
        overwrite=overwrite,
    )
    summary = read_to_files(
        plan, bootstrap(options, os.environ), client_texts(options), quiet=options.quiet
    )
    say(options, str(summary))
