"""``quorate spark``: a topic to files, by PySpark; what that needs; a program to begin with."""

import os
import sys
from typing import Annotated

import typer

from quorate.tools.command_line import Command, noun_app, options_of
from quorate.tools.session import bootstrap, client_texts, run, say

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


@app.command("check", cls=Command)
def check(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="To be read, too.")] = None,
) -> None:
    """Look for what PySpark needs here: Java, packages, the connector, a cluster that answers.

    Spark is not started. Exit code 3 if something is missing, with what helps.
    """
    from quorate.tools.commands.doctor import tell_findings
    from quorate.tools.reaching import client_of
    from quorate.tools.spark_checking import look_at_cluster, look_at_machine

    options = options_of(context)
    client = client_of(options, os.environ)
    tell_findings(options, [*look_at_machine(), *run(look_at_cluster, client, topic)])


@app.command("example", cls=Command)
def example(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="What the program reads.")],
    *,
    since: Annotated[
        str, typer.Option("--since", help="From here: -1h, -1d12h, a time of ISO 8601.")
    ] = "",
) -> None:
    """Print a program that reads a topic with PySpark, and shows records.

    quorate spark example appLogs > read.py; python read.py
    """
    from quorate.tools.spark_checking import example_program

    options = options_of(context)
    servers = bootstrap(options, os.environ)
    sys.stdout.write(example_program(topic, servers, client_texts(options), since))
