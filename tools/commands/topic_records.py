"""``quorate topics find``, ``export`` and ``stats``: what topics hold."""

import re
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.tools.command_line import options_of
from quorate.tools.session import note, print_table, run, say
from quorate.tools.topic_options import client_of

if TYPE_CHECKING:
    from quorate.tools.positions import Span

TopicName = Annotated[str, typer.Argument(metavar="TOPIC")]
Since = Annotated[str, typer.Option("--since", help="-1h, a time, an offset, start.")]
Until = Annotated[str, typer.Option("--until", help="Likewise; the end as it is now.")]
Partition = Annotated[
    list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this one.")
]
Count = Annotated[int | None, typer.Option("--max-messages", "-n", min=1, help="Stop after them.")]


def find(
    context: typer.Context,
    topic: TopicName,
    *,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The whole key.")] = None,
    value: Annotated[str | None, typer.Option("--value", help="Regex found in the value.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="NAME or NAME=VALUE.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="Of JSON values: 'order.amount>6000', 'user~^ann'."),
    ] = None,
    since: Since = "start",
    until: Until = "end",
    partition: Partition = None,
    all_partitions: Annotated[
        bool, typer.Option("--all-partitions", help="Not only where the key belongs.")
    ] = False,
    max_messages: Count = None,
    line_format: Annotated[
        str | None, typer.Option("-f", "--line-format", help=r"'%p %o %T %k %v\n' and the like.")
    ] = None,
) -> None:
    """Print the records that are as wanted: by key, value, header, and what JSON says.

    With a key, only the partition is read that producers put it into.
    """
    from quorate.tools.consuming import consume
    from quorate.tools.record_text import record_line
    from quorate.tools.searching import Query, check_pattern, parse_condition
    from quorate.tools.templates import compile_output
    from quorate.tools.topic_records import partition_of_key

    options = options_of(context)
    check_pattern(value or "")
    query = Query(
        None if key is None else key.encode(),
        None if value is None else re.compile(value.encode()),
        tuple(header or ()),
        tuple(map(parse_condition, where or ())),
    )
    client = client_of(options)
    partitions = tuple(partition) if partition else None
    plan = replace(_plan(topic, partitions, _span(since, until)), records_max=max_messages)
    if query.key is not None and partitions is None and not all_partitions:
        number, count = run(partition_of_key, client, topic, query.key)
        plan = replace(plan, partitions=(number,))
        if count > 1:
            said = f"note: looking in partition {number} of {count}, where the key belongs"
            note(options, f"{said}; --all-partitions looks in all")
    if options.format in {"json", "jsonl"} or line_format is not None:
        text: Any = record_line if line_format is None else compile_output(line_format)
    else:
        text = compile_output(r"%p:%o\t%k\t%v\n")
    plan = replace(plan, keep=query.keeps, text=text)
    found = run(consume, client.bootstrap, plan, dict(client.options), sys.stdout.buffer)
    if not found:
        note(options, "nothing is so")


def export(
    context: typer.Context,
    topic: TopicName,
    *,
    to: Annotated[Path, typer.Option("--to", help="A file: .jsonl or .csv, .gz behind it.")],
    since: Since = "start",
    until: Until = "end",
    partition: Partition = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="If the file is there.")] = False,
) -> None:
    """Write the records that a topic has to a file, which appears when it is whole."""
    from quorate.tools.progress import Bar
    from quorate.tools.topic_records import export as write
    from quorate.tools.topic_records import text_for

    options = options_of(context)
    text_for(to)  # before anybody is asked
    plan = _plan(topic, tuple(partition) if partition else None, _span(since, until))
    with Bar(options, f"exporting {topic}") as bar:
        count = run(write, client_of(options), plan, to, bar, overwrite=overwrite)
    say(options, f"Wrote {count} records of {topic} to {to}.")


def stats(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...")] = None,
) -> None:
    """Show how many records and bytes topics have, and what came within the last hour."""
    from quorate.tools.topic_records import stats_table

    options = options_of(context)
    now_ms = time.time_ns() // 1_000_000
    print_table(options, run(stats_table, client_of(options), names or [], now_ms))


def _plan(topic: str, partitions: tuple[int, ...] | None, span: "Span") -> Any:
    from quorate.tools.consuming import ConsumePlan
    from quorate.tools.record_text import record_line

    return ConsumePlan((topic,), partitions, span, None, stop_at_end=True, silence_max_ms=None,
                       text=record_line)  # fmt: skip


def _span(since: str, until: str) -> "Span":
    """Return the span between two moments, each written as ``-o`` has it, or ``-1h``."""
    from quorate.tools.positions import Span, parse_span

    now_ms = time.time_ns() // 1_000_000
    start, stop = (parse_span(_moment(text), now_ms).start for text in (since, until))
    return Span(start, stop)


def _moment(text: str) -> str:
    is_time = re.fullmatch(r"-(\d+(ms|[smhdw]))+", text) or re.match(r"\d{4}-", text)
    return f"@{text}" if is_time else text
