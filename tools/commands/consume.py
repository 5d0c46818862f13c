"""``quorate consume``."""

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.tools.arguments import GlobalOptions, parse_properties, says_true
from quorate.tools.command_line import Command, command_app, options_of
from quorate.tools.problems import UsageError
from quorate.tools.session import (
    bootstrap,
    client_properties,
    connection_options,
    note,
    run,
)

if TYPE_CHECKING:
    from quorate.tools.consuming import ConsumePlan

app = command_app()

PRINT_PROPERTIES = {
    "print.timestamp": "timestamp",
    "print.partition": "partition",
    "print.offset": "offset",
    "print.headers": "headers",
    "print.key": "key",
    "print.value": "value",
}


Offset = Annotated[
    str,
    typer.Option(
        "--offset", "-o", help="start, end, N, -N, +N, N:M, @time, @time:time, @time:end."
    ),
]
Partitions = Annotated[str | None, typer.Option("--partition", "-p", help="Only these: 0 or 0,2.")]
Count = Annotated[
    int | None, typer.Option("--max-messages", "-n", "-c", min=1, help="Stop after so many.")
]
AtEnd = Annotated[bool, typer.Option("--exit-at-end", "-e", help="Stop where the log ends now.")]
Silence = Annotated[
    int | None, typer.Option("--timeout-ms", min=0, help="Stop after so long without any.")
]
Format = Annotated[
    str | None,
    typer.Option("-f", "--line-format", help=r"'%t %p %o %T %k %v %h\n' and the like."),
]
KeySeparator = Annotated[
    str | None, typer.Option("--key-separator", "-K", help="Print KEY<this>VALUE.")
]
Isolation = Annotated[
    str | None, typer.Option("--isolation-level", help="read_committed or read_uncommitted.")
]
GroupId = Annotated[
    str | None,
    typer.Option("--group", "-g", help="Share the topics with the other members of this group."),
]
GroupProtocol = Annotated[
    str | None,
    typer.Option(
        "--group-protocol", help="Who assigns: classic (the members) or consumer (the coordinator)."
    ),
]
Pattern = Annotated[
    str | None, typer.Option("--pattern", help="With -g: topics whose whole name matches this.")
]
Committed = Annotated[
    bool, typer.Option("--read-committed", help="No records of open transactions.")
]
PrintProperties = Annotated[
    list[str] | None,
    typer.Option("--property", "--formatter-property", help="Kafka's: print.key=true ..."),
]


@app.command(cls=Command)
def consume(
    context: typer.Context,
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...")] = None,
    *,
    topic: Annotated[list[str] | None, typer.Option("--topic", "-t", help="A topic.")] = None,
    group: GroupId = None,
    group_protocol: GroupProtocol = None,
    pattern: Pattern = None,
    offset: Offset = "end",
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="-o start.")] = False,
    partition: Partitions = None,
    max_messages: Count = None,
    exit_at_end: AtEnd = False,
    timeout_ms: Silence = None,
    line_format: Format = None,
    key_separator: KeySeparator = None,
    isolation_level: Isolation = None,
    read_committed: Committed = False,
    print_property: PrintProperties = None,
) -> None:
    """Print records, one per line, as they come.

    With -g as a member of a group, which goes on where it was; what is printed is committed.
    Times are ISO 8601 (UTC), milliseconds or seconds since 1970, or ago: @-1h, @-15m:end.
    """
    from quorate.tools.client_properties import CONSUMER, with_property
    from quorate.tools.consuming import ConsumePlan
    from quorate.tools.consuming import consume as consume_topics
    from quorate.tools.group_consuming import member_settings
    from quorate.tools.positions import END, parse_span

    options = options_of(context)
    properties = client_properties(options, CONSUMER)
    settings: dict[str, Any] = dict(connection_options(options, properties))
    reset = properties.get("auto.offset.reset", None)
    if reset is not None:
        settings["auto_offset_reset"] = reset
    level = "read_committed" if read_committed else isolation_level
    if level is not None:
        properties = with_property(properties, "isolation.level", level, CONSUMER)
    settings["isolation_level"] = properties.get("isolation.level", "read_uncommitted")
    now_ms = time.time_ns() // 1_000_000
    names = (*(topics or ()), *(topic or ()))
    if not names and pattern is None:
        raise UsageError("name a topic", why="there is none", hint="consume appLogs")
    plan = ConsumePlan(
        topics=names,
        partitions=_numbers(partition),
        span=parse_span("start" if from_beginning else offset, now_ms),
        records_max=max_messages,
        stop_at_end=exit_at_end,
        silence_max_ms=timeout_ms,
        text=_text_of(options, line_format, key_separator, print_property or []),
    )
    brokers = bootstrap(options, os.environ)
    group_id = properties.get("group.id", None) if group is None else group
    if group_id is not None:
        settings |= member_settings(properties)
        if group_protocol is not None:
            settings["group_protocol"] = group_protocol
        _consume_in_group(brokers, group_id, pattern, plan, settings)
        return
    if pattern is not None or group_protocol is not None:
        raise UsageError(
            "--pattern and --group-protocol need -g", why="they are about members of groups",
            hint="-g GROUP",
        )  # fmt: skip
    if exit_at_end and plan.span.start == END:
        note(options, "from the end to the end is nothing: --from-beginning prints what is there")
    run(consume_topics, brokers, plan, settings, sys.stdout.buffer)


def _consume_in_group(
    brokers: str, group_id: str, pattern: str | None, plan: "ConsumePlan", settings: dict[str, Any]
) -> None:
    from quorate.tools.group_consuming import check_group_plan, consume_in_group, interest_of

    if not group_id:
        raise UsageError("a group has a name", why="it is empty", hint="-g GROUP")
    check_group_plan(plan)
    interest = interest_of(plan.topics, pattern, settings.get("group_protocol", "classic"))
    run(consume_in_group, brokers, group_id, interest, plan, settings, sys.stdout.buffer)


def _numbers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"{text!r} names no partitions", why="they are numbered from 0", hint="-p 0,2"
        ) from None


def _text_of(
    options: GlobalOptions, line_format: str | None, key_separator: str | None, texts: list[str]
) -> Any:
    """Return the function that turns records into what is printed."""
    from quorate.tools.record_text import LineParts, record_line
    from quorate.tools.templates import compile_output, unescape

    if line_format is not None:
        return compile_output(line_format)
    if options.format in {"json", "jsonl"}:
        return record_line
    printing = parse_properties(texts)
    unknown = printing.keys() - {*PRINT_PROPERTIES, "key.separator", "null.literal"}
    if unknown:
        raise UsageError(
            f"unknown print property {min(unknown)!r}",
            why="there are " + ", ".join([*PRINT_PROPERTIES, "key.separator", "null.literal"]),
            hint="--property print.key=true --property key.separator=:",
        )
    shown = {
        argument: says_true(printing[name])
        for name, argument in PRINT_PROPERTIES.items()
        if name in printing
    }
    if key_separator is not None:
        shown["key"] = True
    separator = key_separator if key_separator is not None else printing.get("key.separator", "\\t")
    null = printing.get("null.literal", "null").encode()
    return LineParts(**shown, separator=unescape(separator), null=null).line
