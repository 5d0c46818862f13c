"""``kafka-console-producer`` and ``kafka-console-consumer``."""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.records.record import Record
from quorate.setting_fields import LONG_MAX
from quorate.tools.arguments import says_true
from quorate.tools.client_properties import CONSUMER as PROPERTIES
from quorate.tools.client_properties import PRODUCER as PRODUCER_PROPERTIES
from quorate.tools.client_properties import ClientProperties, read_properties_file
from quorate.tools.consuming import ConsumePlan, consume
from quorate.tools.group_consuming import consume_in_group, member_settings
from quorate.tools.lines import LineFormat
from quorate.tools.positions import Anchor, Mark, Span
from quorate.tools.problems import CommandError
from quorate.tools.producing import (
    ProducePlan,
    input_descriptor,
    produce_input,
    producer_settings,
)
from quorate.tools.shims.arguments import Given, ShimError, options
from quorate.tools.shims.asking import client_of_properties, message_of, properties_of
from quorate.tools.topics import Client

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


PRODUCER_OPTIONS: Final = {
    "request-required-acks": "acks",
    "request-timeout-ms": "request.timeout.ms",
    "message-send-max-retries": "retries",
    "timeout": "linger.ms",
    "batch-size": "batch.size",
    "max-partition-memory-bytes": "batch.size",
}
UNHEARD: Final = (
    "retry-backoff-ms",
    "metadata-expiry-ms",
    "max-block-ms",
    "max-memory-bytes",
    "socket-buffer-size",
)
"""What our producer sees to by itself; they are numbers."""
FUTURE: Final = "a future version"
INSTEAD_IN_PRODUCER: Final = (
    ("producer-property", "command-property", FUTURE),
    ("producer.config", "command-config", FUTURE),
    ("property", "reader-property", FUTURE),
    ("max-partition-memory-bytes", "batch-size", "Apache Kafka 5.0"),
)
INSTEAD_IN_CONSUMER: Final = (
    ("property", "formatter-property", FUTURE),
    ("consumer-property", "command-property", FUTURE),
    ("consumer.config", "command-config", FUTURE),
)
PACKAGE: Final = "org.apache.kafka.tools."


def _deprecate(given: Given, instead: Iterable[tuple[str, str, str]], before: str) -> None:
    """Say, on standard output as Kafka's tools do, what is to be written instead of options.

    Raises:
        ShimError: both are written.
    """
    for old, new, end in instead:
        if old not in given:
            continue
        if new in given and end == FUTURE:
            raise ShimError(f"Options --{new} and --{old} cannot be specified together.")
        sys.stdout.write(
            f"{before} --{old} is deprecated and will be removed in {end}. Use --{new} instead.\n"
        )
    sys.stdout.flush()


def _own(given: Given, config: str, *names: str) -> dict[str, str]:
    """Return the properties of a reader or a formatter: those of a file, then those of options."""
    path = given.one(config)
    return {**(read_properties_file(Path(path)) if path else {}), **given.properties(*names)}


async def console_producer(given: Given, environment: Mapping[str, str]) -> list[str]:
    """Carry out ``kafka-console-producer``: send lines of standard input.

    Raises:
        ShimError: it failed.
    """
    given.check("bootstrap-server" if "broker-list" not in given else "broker-list", "topic")
    _deprecate(given, INSTEAD_IN_PRODUCER, "Warning:")
    reader = given.one("line-reader", PACKAGE + "LineMessageReader")
    if reader != PACKAGE + "LineMessageReader":
        raise ShimError(f"{reader} cannot be loaded: there is no Java here")
    for name in UNHEARD:
        given.number(name)
    properties = properties_of(given, PRODUCER_PROPERTIES, "producer.config", PRODUCER_OPTIONS)
    made = client_of_properties(given, environment, properties)
    codec = (given.all("compression-codec") or ["gzip"])[-1]
    settings: dict[str, Any] = {
        **made.options,
        **producer_settings(properties, codec if "compression-codec" in given else None, None),
    }
    own = _own(given, "reader-config", "property", "reader-property")
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
        forgives=says_true(own.get("ignore.error", "")),
    )


# --- kafka-console-consumer


Deserializer = Callable[[bytes], bytes]
ABSENT: Final = ("Delivery", "Epoch")
"""What this tool of Kafka's never knows of a record."""
NUMBERS: Final = {"LongDeserializer": 8, "IntegerDeserializer": 4, "ShortDeserializer": 2}
AS_THEY_ARE: Final = ("", "StringDeserializer", "ByteArrayDeserializer", "BytesDeserializer")


def _deserializer(name: str) -> Deserializer:
    """Return what writes a key or a value as the text of what Kafka's class reads in it.

    Raises:
        ShimError: the class is one that we do not know.
    """
    known = name.removeprefix("org.apache.kafka.common.serialization.")
    if known in AS_THEY_ARE:
        return bytes
    if known not in NUMBERS:
        raise ShimError(f"{name} cannot be loaded: there is no Java here")
    size = NUMBERS[known]

    def number(data: bytes) -> bytes:
        if len(data) != size:
            raise ShimError(
                f"Error processing message: Size of data received by {known} is not {size}"
            )
        return str(int.from_bytes(data, signed=True)).encode()

    return number


@dataclass(frozen=True, slots=True)
class Formatter:
    """Writes records as Kafka's DefaultMessageFormatter does."""

    shows: frozenset[str]
    key: Deserializer
    value: Deserializer
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
        parts += [f"{name}:NOT_PRESENT".encode() for name in ABSENT if name.lower() in self.shows]
        if "headers" in self.shows:
            pairs = [
                name.encode() + b":" + (self.null if value is None else value)
                for name, value in record.headers
            ]
            parts.append(self.headers_separator.join(pairs) or b"NO_HEADERS")
        if "key" in self.shows:
            parts.append(self.null if record.key is None else self.key(record.key))
        if "value" in self.shows:
            parts.append(self.null if record.value is None else self.value(record.value))
        return self.separator.join(parts) + self.line_separator if parts else b""


def formatter(own: Mapping[str, str]) -> Formatter:
    """Return how records are written, from the properties of Kafka's DefaultMessageFormatter."""
    names = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key")
    shows = {name for name in names if says_true(own.get(f"print.{name}", ""))}
    if says_true(own.get("print.value", "true")):
        shows.add("value")
    return Formatter(
        frozenset(shows),
        _deserializer(own.get("key.deserializer", "")),
        _deserializer(own.get("value.deserializer", "")),
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
    _deprecate(given, INSTEAD_IN_CONSUMER, "Option")
    _check_combinations(given)
    text = _text_of(given)
    text = _unless_wrong(text) if "skip-message-on-error" in given else text
    try:
        count = await _consume(given, environment, text)
    except ShimError:
        raise
    except QuorateError as error:
        raise ShimError(f"Error processing message: {message_of(error)}") from None
    sys.stdout.flush()
    sys.stderr.write(f"Processed a total of {count} messages\n")
    return ["shutdown_complete"] if "enable-systest-events" in given else []


def _unless_wrong(text: Callable[[Record], bytes]) -> Callable[[Record], bytes]:
    """Return what writes records, and nothing for those that cannot be written."""

    def skipping(record: Record) -> bytes:
        try:
            return text(record)
        except ShimError:
            return b""

    return skipping


def _check_combinations(given: Given) -> None:
    if "partition" in given:
        if "topic" not in given:
            raise ShimError("The topic is required when partition is specified.")
        if "group" in given:
            raise ShimError("Options group and partition cannot be specified together.")
    if "offset" in given and "partition" not in given:
        raise ShimError("The partition is required when offset is specified.")
    if "from-beginning" in given and "offset" in given:
        raise ShimError("Options from-beginning and offset cannot be specified together.")


def _text_of(given: Given) -> Callable[[Record], bytes]:
    """Return what writes records, as a formatter of Kafka's.

    Raises:
        ShimError: it is one that we do not know.
    """
    own = _own(given, "formatter-config", "property", "formatter-property")
    for part in ("key", "value"):
        if f"{part}-deserializer" in given:
            own[f"{part}.deserializer"] = given.one(f"{part}-deserializer")
    name = given.one("formatter", PACKAGE + "consumer.DefaultMessageFormatter")
    match name.removeprefix(PACKAGE + "consumer."):
        case "DefaultMessageFormatter" | "LoggingMessageFormatter":
            return formatter(own).text
        case "NoOpMessageFormatter":
            return lambda _: b""
        case _:
            raise ShimError(f"{name} cannot be loaded: there is no Java here")


def _group_of(given: Given, properties: ClientProperties) -> str:
    """Return the group to read in; "" for none.

    Raises:
        ShimError: several are named.
    """
    named = {given.one("group"), str(properties.get("group.id", ""))} - {""}
    if len(named) > 1:
        raise ShimError(
            "The group ids provided in different places (directly using '--group', via"
            " '--consumer-property', or via '--consumer.config') do not match. Detected group ids:"
            f" {', '.join(repr(name) for name in sorted(named))}"
        )
    return "".join(named)


def _reset_of(given: Given, properties: ClientProperties) -> str:
    """Return where to go on from an offset that is not there.

    Raises:
        ShimError: one place is said, and another one.
    """
    from_beginning = "from-beginning" in given
    reset = properties.get("auto.offset.reset", "earliest" if from_beginning else "latest")
    if from_beginning and reset != "earliest":
        raise ShimError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', "
            "please remove one option"
        )
    return str(reset)


async def _consume(
    given: Given, environment: Mapping[str, str], text: Callable[[Record], bytes]
) -> int:
    properties = properties_of(
        given, PROPERTIES, "consumer.config", {"isolation-level": "isolation.level"}
    )
    made = client_of_properties(given, environment, properties)
    number, most = given.number("partition"), given.number("max-messages")
    group, reset = _group_of(given, properties), _reset_of(given, properties)
    settings: dict[str, Any] = {
        **made.options,
        "isolation_level": properties.get("isolation.level", "read_uncommitted"),
        "auto_offset_reset": reset,
    }
    in_group = bool(group) and number is None
    plan = ConsumePlan(
        topics=() if in_group else tuple(await _topics(given, made)),
        partitions=None if number is None else (number,),
        span=Span(_start_of(given, reset), None),
        records_max=None if most is None or most < 0 else most,
        stop_at_end=False,
        silence_max_ms=given.number("timeout-ms"),
        text=text,
    )
    out = sys.stdout.buffer
    if in_group:
        interest = (given.one("topic"),) if "topic" in given else _pattern(given)
        settings |= member_settings(properties)
        return await consume_in_group(made.bootstrap, group, interest, plan, settings, out)
    return await consume(made.bootstrap, plan, settings, out)


async def _topics(given: Given, made: Client) -> list[str]:
    if "topic" in given:
        return [given.one("topic")]
    pattern = _pattern(given)
    async with made.admin() as admin:
        listed = await admin.list_topics()
    return [t.name for t in listed if pattern.fullmatch(t.name)]


def _pattern(given: Given) -> re.Pattern[str]:
    text = given.one("include")
    try:
        return re.compile(text)
    except re.error:
        raise ShimError(f"{text} is an invalid regex.") from None


def _start_of(given: Given, reset: str) -> Mark:
    if "offset" not in given and reset == "none":
        return Mark(Anchor.END, 0)
    text = given.one("offset", reset).lower()
    if text in {"earliest", "latest"}:
        return Mark(Anchor.START if text == "earliest" else Anchor.END, 0)
    number = int(text) if re.fullmatch(r"[0-9]{1,19}", text) else -1
    if not 0 <= number <= LONG_MAX:
        raise ShimError(
            f"The provided offset value '{given.one('offset')}' is incorrect. Valid values are "
            "'earliest', 'latest', or a non-negative long."
        )
    return Mark(Anchor.OFFSET, number)
