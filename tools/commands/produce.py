"""``quorate produce``."""

import json
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.arguments import (
    GlobalOptions,
    parse_properties,
    says_true,
)
from quorate.tools.command_line import Command, command_app, options_of
from quorate.tools.lines import LineError, LineFormat, parse_header
from quorate.tools.problems import UsageError
from quorate.tools.session import (
    bootstrap,
    client_properties,
    connection_options,
    note,
    run,
)
from quorate.tools.templates import compile_input, unescape

if TYPE_CHECKING:
    from quorate.client.delivery import Delivery

app = command_app()

LINE_PROPERTIES = frozenset(
    {
        "parse.key", "key.separator", "parse.headers", "headers.delimiter", "headers.separator",
        "headers.key.separator", "null.marker", "ignore.error",
    }
)  # fmt: skip


Partition = Annotated[
    int | None, typer.Option("--partition", "-p", min=0, help="Send all to this one.")
]
Key = Annotated[str | None, typer.Option("--key", "-k", help="Key of all records.")]
KeySeparator = Annotated[
    str | None, typer.Option("--key-separator", "-K", help="Lines are KEY<this>VALUE.")
]
Headers = Annotated[
    list[str] | None, typer.Option("--header", "-H", help="name=value or name:value.")
]
Form = Annotated[str | None, typer.Option("-f", "--line-format", help=r"Form of lines: '%k %v'.")]
Compression = Annotated[
    str | None,
    typer.Option("--compression", "-z", "--compression-codec", help="gzip|snappy|lz4|zstd."),
]
Acks = Annotated[str | None, typer.Option("--acks", "--request-required-acks", help="0, 1 or all.")]
Whole = Annotated[bool, typer.Option("--whole", help="All input is one record, not one per line.")]
LineProperties = Annotated[
    list[str] | None,
    typer.Option("--property", "--reader-property", help="Kafka's: parse.key=true ..."),
]


@app.command(cls=Command)
def produce(
    context: typer.Context,
    topic_name: Annotated[str, typer.Argument(metavar="[TOPIC]")] = "",
    *,
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic.")] = "",
    partition: Partition = None,
    key: Key = None,
    key_separator: KeySeparator = None,
    header: Headers = None,
    line_format: Form = None,
    compression: Compression = None,
    null: Annotated[bool, typer.Option("-Z", "--null", help="Empty values are null.")] = False,
    acks: Acks = None,
    whole: Whole = False,
    sync: Annotated[bool, typer.Option("--sync", help="One record at a time.")] = False,
    file: Annotated[str | None, typer.Option("--file", help="Read this, not the input.")] = None,
    line_property: LineProperties = None,
) -> None:
    """Send each line of standard input as a record.

    A key comes from -k, from the line with -K or -f, or there is none. Exit code 0 means that every
    record was acknowledged.
    """
    from quorate.tools.client_properties import PRODUCER
    from quorate.tools.producing import (
        ProducePlan,
        input_descriptor,
        produce_input,
        producer_settings,
    )

    options = options_of(context)
    properties = client_properties(options, PRODUCER)
    settings = {
        **connection_options(options, properties),
        **producer_settings(properties, compression, acks),
    }
    reading = _line_properties(line_property or ())
    lines = LineFormat(
        pattern=compile_input(line_format) if line_format else None,
        key_separator=_key_separator(key_separator, reading),
        headers_delimiter=_text(reading, "headers.delimiter", "\\t")
        if says_true(reading.get("parse.headers", ""))
        else None,
        headers_separator=_text(reading, "headers.separator", ","),
        headers_key_separator=_text(reading, "headers.key.separator", ":"),
        key=None if key is None else key.encode(),
        headers=tuple(map(_header, header or ())),
        partition=partition,
        null_marker=_text(reading, "null.marker", "") if "null.marker" in reading else None,
        empty_is_null=null,
    )
    wants_places = options.verbose or options.format in {"json", "jsonl"}
    plan = ProducePlan(
        topic=_one_topic(topic_name, topic),
        lines=lines,
        whole=whole,
        sync=sync,
        skip_bad_lines=says_true(reading.get("ignore.error", "")),
        on_delivered=partial(_tell, options) if wants_places else None,
    )
    addresses = bootstrap(options, os.environ)
    sender = run(produce_input, addresses, plan, settings, input_descriptor(file))
    skipped = f", {sender.skipped} lines left out" if sender.skipped else ""
    note(options, f"{sender.sent} records acknowledged by {plan.topic}{skipped}")


def _tell(options: GlobalOptions, delivery: "Delivery") -> None:
    """Say where a record is."""
    place = delivery.metadata
    if options.format in {"json", "jsonl"}:
        told = {
            "topic": place.topic,
            "partition": place.partition,
            "offset": place.offset,
            "timestamp_ms": place.timestamp_ms,
        }
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        note(options, f"{place.topic} partition {place.partition} offset {place.offset}")


def _one_topic(positional: str, option: str) -> str:
    if bool(positional) == bool(option):
        raise UsageError(
            "name one topic", why="it stands behind the verb or in --topic", hint="produce appLogs"
        )
    return positional or option


def _line_properties(texts: "list[str] | tuple[()]") -> dict[str, str]:
    properties = parse_properties(texts)
    unknown = properties.keys() - LINE_PROPERTIES
    if unknown:
        raise UsageError(
            f"unknown line property {min(unknown)!r}",
            why="lines are read by " + ", ".join(sorted(LINE_PROPERTIES)),
            hint="--property parse.key=true --property key.separator=:",
        )
    return properties


def _key_separator(given: str | None, reading: dict[str, str]) -> bytes | None:
    if given is not None:
        return unescape(given)
    if says_true(reading.get("parse.key", "")):
        return _text(reading, "key.separator", "\\t")
    return None


def _text(reading: dict[str, str], name: str, default: str) -> bytes:
    return unescape(reading.get(name, default))


def _header(text: str) -> tuple[str, bytes | None]:
    separator = b"=" if "=" in text else b":"
    try:
        return parse_header(text.encode(), separator)
    except LineError as error:
        raise UsageError(f"{text!r} is no header", why=str(error), hint="-H trace=abc") from None
