"""``kafka-console-producer`` and ``kafka-console-consumer``."""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.errors import QuorateError
from quorate.records.record import Record
from quorate.tools.arguments import says_true
from quorate.tools.client_properties import CONSUMER as PROPERTIES
from quorate.tools.consuming import ConsumePlan, consume
from quorate.tools.group_consuming import consume_in_group
from quorate.tools.lines import LineFormat
from quorate.tools.positions import Anchor, Mark, Span
from quorate.tools.problems import CommandError
from quorate.tools.producing import ProducePlan, input_descriptor, produce_input
from quorate.tools.shims.arguments import Given, ShimError, options
from quorate.tools.shims.asking import client, message_of

PRODUCER: Final = options(
    "sync",
    "broker-list topic batch-size message-send-max-retries retry-backoff-ms timeout"
    " request-required-acks request-timeout-ms metadata-expiry-ms max-block-ms max-memory-bytes"
    " max-partition-memory-bytes socket-buffer-size line-reader property reader-property"
    " reader-config producer-property producer.config",
    "compression-codec",
)
CONSUMER: Final = options(
    "from-beginning skip-message-on-error enable-systest-events",
    "topic include partition offset group max-messages timeout-ms isolation-level property"
    " formatter-property formatter formatter-config consumer-property consumer.config"
    " key-deserializer value-deserializer",
)
ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}


async def console_producer(given: Given, environment: Mapping[str, str]) -> list[str]:
    """Carry out ``kafka-console-producer``: send lines of standard input.

    Raises:
        ShimError: it failed.
    """
    given.check("bootstrap-server" if "broker-list" not in given else "broker-list", "topic")
    if "property" in given:
        # Kafka's tool says so on standard output, too.
        sys.stdout.write(
            "Warning: --property is deprecated and will be removed in a future version. "
            "Use --reader-property instead.\n"
        )
    made = client(given, environment)
    settings: dict[str, Any] = dict(made.options)
    settings["acks"] = ACKS.get(given.one("request-required-acks", "all"), -1)
    if "compression-codec" in given:
        settings["compression"] = (given.all("compression-codec") or ["gzip"])[-1]
    own = given.properties("property", "reader-property")
    plan = ProducePlan(
        topic=given.one("topic"),
        lines=line_format(own),
        whole=False,
        sync="sync" in given,
        skip_bad_lines=False,
        on_delivered=None,
    )
    try:
        await produce_input(made.bootstrap, plan, settings, input_descriptor(None))
    except CommandError as error:
        raise ShimError(f"{error.what}: {error.why}") from None
    except QuorateError as error:
        raise ShimError(f"Error when sending message: {message_of(error)}") from None
    return []


def line_format(own: Mapping[str, str]) -> LineFormat:
    """Return how lines become records, from the properties of Kafka's LineMessageReader."""
    marker = own.get("null.marker")
    return LineFormat(
        key_separator=(
            own.get("key.separator", "\t").encode() if says_true(own.get("parse.key", "")) else None
        ),
        headers_delimiter=(
            own.get("headers.delimiter", "\t").encode()
            if says_true(own.get("parse.headers", ""))
            else None
        ),
        headers_separator=own.get("headers.separator", ",").encode(),
        headers_key_separator=own.get("headers.key.separator", ":").encode(),
        null_marker=None if marker is None else marker.encode(),
    )


# --- kafka-console-consumer


@dataclass(frozen=True, slots=True)
class Formatter:
    """Writes records as Kafka's DefaultMessageFormatter does."""

    shows: frozenset[str]
    separator: bytes
    line_separator: bytes
    headers_separator: bytes
    null: bytes

    def text(self, record: Record) -> bytes:
        """Return a record as it is printed."""
        parts: list[bytes] = []
        if "timestamp" in self.shows:
            known = record.timestamp_ms >= 0
            parts.append(f"CreateTime:{record.timestamp_ms}".encode() if known else b"NO_TIMESTAMP")
        if "partition" in self.shows:
            parts.append(f"Partition:{record.partition}".encode())
        if "offset" in self.shows:
            parts.append(f"Offset:{record.offset}".encode())
        if "headers" in self.shows:
            pairs = [
                name.encode() + b":" + (self.null if value is None else value)
                for name, value in record.headers
            ]
            parts.append(self.headers_separator.join(pairs) or b"NO_HEADERS")
        if "key" in self.shows:
            parts.append(self.null if record.key is None else record.key)
        if "value" in self.shows:
            parts.append(self.null if record.value is None else record.value)
        return self.separator.join(parts) + self.line_separator


def formatter(own: Mapping[str, str]) -> Formatter:
    """Return how records are written, from the properties of Kafka's DefaultMessageFormatter."""
    names = ("timestamp", "partition", "offset", "headers", "key")
    shows = {name for name in names if says_true(own.get(f"print.{name}", ""))}
    if says_true(own.get("print.value", "true")):
        shows.add("value")
    return Formatter(
        frozenset(shows),
        own.get("key.separator", "\t").encode(),
        own.get("line.separator", "\n").encode(),
        own.get("headers.separator", ",").encode(),
        own.get("null.literal", "null").encode(),
    )


async def console_consumer(given: Given, environment: Mapping[str, str]) -> list[str]:
    """Carry out ``kafka-console-consumer``: print records until told to stop.

    Without ``--group`` Kafka's tool reads as a group of a new name that it leaves behind; this one
    reads without a group.

    Raises:
        ShimError: it failed.
    """
    given.check("bootstrap-server")
    given.one_of(("topic", "include"), "Exactly one of --include/--topic is required. ")
    if "offset" in given and "partition" not in given:
        raise ShimError("The partition is required when offset is specified.")
    if "from-beginning" in given and "offset" in given:
        raise ShimError("Options from-beginning and offset cannot be specified together.")
    if "property" in given:
        sys.stdout.write(
            "Option --property is deprecated and will be removed in a future version. "
            "Use --formatter-property instead.\n"
        )
        sys.stdout.flush()
    own = given.properties("property", "formatter-property")
    try:
        count = await _consume(given, environment, formatter(own).text)
    except QuorateError as error:
        if isinstance(error, ShimError):
            raise
        raise ShimError(f"Error processing message: {message_of(error)}") from None
    sys.stdout.flush()
    sys.stderr.write(f"Processed a total of {count} messages\n")
    return []


async def _consume(
    given: Given, environment: Mapping[str, str], text: Callable[[Record], bytes]
) -> int:
    made = client(given, environment)
    settings: dict[str, Any] = dict(made.options)
    settings["isolation_level"] = level = given.one("isolation-level", "read_uncommitted")
    levels = PROPERTIES["isolation.level"].choices
    if level not in levels:
        raise ShimError(
            f"Invalid value {level} for configuration isolation.level: "
            f"String must be one of: {', '.join(sorted(levels))}"
        )
    number = given.number("partition")
    in_group = "group" in given and number is None
    plan = ConsumePlan(
        topics=() if in_group else tuple(await _topics(given, environment)),
        partitions=None if number is None else (number,),
        span=Span(_start_of(given), None),
        records_max=given.number("max-messages"),
        stop_at_end=False,
        silence_max_ms=given.number("timeout-ms"),
        text=text,
    )
    out = sys.stdout.buffer
    if in_group:
        interest = (given.one("topic"),) if "topic" in given else re.compile(given.one("include"))
        name = given.one("group")
        return await consume_in_group(made.bootstrap, name, interest, plan, settings, out)
    return await consume(made.bootstrap, plan, settings, out)


async def _topics(given: Given, environment: Mapping[str, str]) -> list[str]:
    if "topic" in given:
        return [given.one("topic")]
    async with client(given, environment).admin() as admin:
        listed = await admin.list_topics()
    return [t.name for t in listed if re.fullmatch(given.one("include"), t.name)]


def _start_of(given: Given) -> Mark:
    text = given.one("offset", "earliest" if "from-beginning" in given else "latest")
    if text in {"earliest", "latest"}:
        return Mark(Anchor.START if text == "earliest" else Anchor.END, 0)
    try:
        return Mark(Anchor.OFFSET, int(text))
    except ValueError:
        raise ShimError(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', "
            "'latest', or a non-negative long."
        ) from None
