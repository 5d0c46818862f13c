"""The consoles hear every option and property of Kafka's, or refuse it."""

from pathlib import Path

import pytest
import trio

from quorate.model import TopicPartition
from quorate.records.record import Record
from quorate.tools.client_properties import PRODUCER as PRODUCER_PROPERTIES
from quorate.tools.problems import UsageError
from quorate.tools.producing import producer_settings
from quorate.tools.shims.arguments import ShimError, parse
from quorate.tools.shims.asking import properties_of
from quorate.tools.shims.console import (
    CONSUMER,
    PRODUCER,
    PRODUCER_OPTIONS,
    console_consumer,
    console_producer,
    formatter,
    line_format,
)

NOWHERE = ["--bootstrap-server", "127.0.0.1:1"]
NO_ENVIRONMENT: dict[str, str] = {}
SERIALIZATION = "org.apache.kafka.common.serialization."


@pytest.mark.parametrize("option", ["command-config", "producer.config"])
def test_properties_of_a_file_and_of_options_reach_the_producer(
    tmp_path: Path, option: str
) -> None:
    file = tmp_path / "producer.properties"
    file.write_text("acks=1\ncompression.type=zstd\nlinger.ms=7\n")
    words = f"--{option} {file} --timeout 9 --producer-property client.id=me --batch-size 5"
    given = parse(words.split(), PRODUCER)
    properties = properties_of(given, PRODUCER_PROPERTIES, "producer.config", PRODUCER_OPTIONS)
    settings = producer_settings(properties, None, None)
    assert settings == {
        "acks": 1,
        "compression": "zstd",
        "linger_ms": 9,
        "batch_size_bytes": 5,
    }
    assert properties.values["client.id"] == "me"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--request-required-acks 7", "invalid value '7' for acks"),
        ("--batch-size x", "invalid value 'x' for batch.size"),
        ("--max-block-ms x", "Cannot parse argument 'x' of option max-block-ms"),
        ("--line-reader foo.Bar", "foo.Bar cannot be loaded"),
        ("--command-property a=b --producer-property a=b", "cannot be specified together"),
        ("--reader-config /nowhere/at/all", "cannot read /nowhere/at/all"),
        (
            "--reader-property parse.key=true --reader-property key.separator=",
            "a separator is empty",
        ),
    ],
)
def test_what_the_producer_cannot_do_is_refused(words: str, complaint: str) -> None:
    given = parse([*NOWHERE, "--topic", "t", *words.split()], PRODUCER)
    with pytest.raises((ShimError, UsageError)) as refused:
        trio.run(console_producer, given, NO_ENVIRONMENT)
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--include t --partition 0", "The topic is required when partition is specified."),
        ("--topic t --group g --partition 0", "Options group and partition cannot be"),
        ("--topic t --group g --consumer-property group.id=h", "do not match. Detected group ids"),
        (
            "--topic t --from-beginning --command-property auto.offset.reset=latest",
            "Can't simultaneously specify --from-beginning and 'auto.offset.reset=latest'",
        ),
        ("--topic t --partition 0 --offset -5", "The provided offset value '-5' is incorrect"),
        ("--topic t --formatter foo.Bar", "foo.Bar cannot be loaded"),
        ("--topic t --value-deserializer foo.Bar", "foo.Bar cannot be loaded"),
        ("--include (", "( is an invalid regex."),
        ("--topic t --consumer.config f --command-config f", "cannot be specified together"),
    ],
)
def test_what_the_consumer_cannot_do_is_refused(words: str, complaint: str) -> None:
    given = parse([*NOWHERE, *words.split()], CONSUMER)
    with pytest.raises((ShimError, UsageError)) as refused:
        trio.run(console_consumer, given, NO_ENVIRONMENT)
    assert complaint in str(refused.value)


def test_numbers_are_written_as_kafkas_deserializers_read_them() -> None:
    record = Record(TopicPartition("t", 0), 0, 0, b"\0\0\0\5", b"\xff" * 8, ())
    own = {
        "print.key": "true",
        "key.deserializer": SERIALIZATION + "IntegerDeserializer",
        "value.deserializer": SERIALIZATION + "LongDeserializer",
    }
    assert formatter(own).text(record) == b"5\t-1\n"
    wrong = formatter({"value.deserializer": SERIALIZATION + "ShortDeserializer"})
    with pytest.raises(ShimError, match="Size of data received by ShortDeserializer is not 2"):
        wrong.text(record)


def test_what_nothing_is_shown_of_writes_nothing() -> None:
    record = Record(TopicPartition("t", 0), 0, 0, None, b"v", ())
    assert formatter({"print.value": "false"}).text(record) == b""
    shown = formatter({"print.delivery": "true", "print.epoch": "true"})
    assert shown.text(record) == b"Delivery:NOT_PRESENT\tEpoch:NOT_PRESENT\tv\n"


def test_a_line_without_a_key_is_a_value_if_errors_are_to_be_ignored() -> None:
    own = {"parse.key": "true", "key.separator": ":", "ignore.error": "true"}
    read = line_format(own).parse(b"no key")
    assert (read.key, read.value) == (None, b"no key")
    assert line_format(own).parse(b"k:v").key == b"k"
