"""``quorate offsets``."""

import sys
import time
from typing import TYPE_CHECKING, Annotated

from quorate.tools.arguments import GlobalOptions
from quorate.tools.command_line import Argument, Noun, option
from quorate.tools.offsets import kafka_lines, offsets_table, parse_offset_time
from quorate.tools.session import print_table, run
from quorate.tools.topic_options import client_of
from quorate.tools.topics import list_topics

if TYPE_CHECKING:
    from quorate.tools.output import Table

NOUN = Noun("")


@NOUN.command
def offsets(
    options: GlobalOptions,
    topics: Annotated[list[str] | None, Argument("[TOPIC]...")] = None,
    *,
    topic: Annotated[list[str] | None, option("--topic", "-t", help="A topic.")] = None,
    at: Annotated[
        str | None,
        option("--time", help="earliest|latest|max-timestamp, -1|-2|-3, or a time."),
    ] = None,
) -> None:
    """Show first and next offsets of partitions, or the offsets of a time; all topics by default.

    --format kafka prints topic:partition:offset.
    """
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
