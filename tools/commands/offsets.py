"""``quorate offsets``."""

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.command_line import Command, command_app, options_of
from quorate.tools.offsets import kafka_lines, offsets_table, parse_offset_time
from quorate.tools.session import print_table, run
from quorate.tools.topic_options import client_of
from quorate.tools.topics import list_topics

if TYPE_CHECKING:
    from quorate.tools.output import Table

app = command_app()


@app.command(cls=Command)
def offsets(
    context: typer.Context,
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...")] = None,
    *,
    topic: Annotated[list[str] | None, typer.Option("--topic", "-t", help="A topic.")] = None,
    at: Annotated[
        str | None,
        typer.Option("--time", help="earliest|latest|max-timestamp, -1|-2|-3, or a time."),
    ] = None,
) -> None:
    """Show first and next offsets of partitions, or the offsets of a time; all topics by default.

    --format kafka prints topic:partition:offset.
    """
    options = options_of(context)
    client = client_of(options)
    names = [*(topics or ()), *(topic or ())]
    if not names:
        listed: Table = run(list_topics, client, None, internal=False)
        names = [row[0] for row in listed.rows]
    timestamp = None if at is None else parse_offset_time(at, time.time_ns() // 1_000_000)
    table: Table = run(offsets_table, client.bootstrap, client.options, names, timestamp)
    if options.format == "kafka":
        sys.stdout.write(kafka_lines(table))
    else:
        print_table(options, table)
