"""What the options of reads mean, and Spark's words about those that make no sense."""

import re
from importlib.util import find_spec
from typing import Any

import pytest

from quorate.client import spark
from quorate.client.spark.lookup import Options
from quorate.client.spark.options import (
    Subscribing,
    parse_batch_read,
    parse_stream_read,
)
from quorate.client.spark.places import AT_EARLIEST, AT_LATEST, Offsets, OptionError, Time, Times
from quorate.client.spark.security import Security
from quorate.model import Endpoint, TopicPartition

NOW_MS = 1_700_000_000_000
SERVERS = {"kafka.bootstrap.servers": "a:1,b"}


def batch(**options: str) -> Any:
    return parse_batch_read({**SERVERS, "subscribe": "t", **options}, NOW_MS)


def stream(**options: str) -> Any:
    return parse_stream_read({**SERVERS, "subscribe": "t", **options}, NOW_MS)


def kafka(**options: str) -> dict[str, str]:
    return {f"kafka.{name.replace('_', '.')}": text for name, text in options.items()}


def test_defaults_are_those_of_sparks_source() -> None:
    options = batch()
    assert options.connection.bootstrap == (Endpoint("a", 1), Endpoint("b", 9092))
    assert (options.connection.client_id, options.connection.request_timeout_ms) == (
        "spark-kafka-source",
        30_000,
    )
    assert options.connection.security == Security(
        tls=False, trusted_file="", trusted="", own_file="", key_password="", check_name=True
    )
    assert (options.subscription.by, options.subscription.topics) == (Subscribing.TOPICS, ("t",))
    assert (options.start, options.end) == (AT_EARLIEST, AT_LATEST)
    assert (options.partitions_min, options.partition_records_max) == (None, None)
    assert (options.fail_on_data_loss, options.include_headers) == (True, False)
    assert (options.poll_timeout_ms, options.offset_retries) == (120_000, 3)
    assert options.offset_retry_pause_ms == 10
    assert not options.fetch.committed_only
    assert (options.commit_group, options.warnings) == (None, ())
    assert (options.rate.offsets_max, options.rate.offsets_min) == (None, None)
    assert options.rate.trigger_delay_max_ms == 900_000
    assert not options.start_latest_without_match
    assert stream().start == AT_LATEST


def test_names_are_those_of_sparks_source_in_any_case() -> None:
    options = batch(
        minPartitions="7",
        MAXRECORDSPERPARTITION="100",
        failOnDataLoss="FALSE",
        includeHeaders="true",
        **kafka(isolation_level="read_committed", client_id="me", client_rack="r1"),
        **{"fetchOffset.numRetries": "0", "kafkaConsumer.pollTimeoutMs": "5"},
    )
    assert (options.partitions_min, options.partition_records_max) == (7, 100)
    assert (options.fail_on_data_loss, options.include_headers) == (False, True)
    assert (options.fetch.committed_only, options.fetch.rack) == (True, "r1")
    assert (options.connection.client_id, options.poll_timeout_ms) == ("me", 5)
    assert options.offset_retries == 0


def test_a_subscription_is_topics_a_pattern_or_partitions() -> None:
    assert batch(subscribe=" a, b,,a ").subscription.topics == ("a", "b")
    texts = {**SERVERS, "subscribePattern": " logs-.* "}
    assert parse_batch_read(texts, NOW_MS).subscription.pattern == "logs-.*"
    texts = {**SERVERS, "assign": '{"a":[0]}'}
    assert parse_batch_read(texts, NOW_MS).subscription.assigned == {"a": (0,)}


def test_a_time_for_all_counts_more_than_times_and_these_more_than_offsets() -> None:
    at = '{"t":{"0":5}}'
    all_three: dict[str, str] = {}
    for name, text, place in (
        ("Offsets", at, Offsets({TopicPartition("t", 0): 5})),
        ("OffsetsByTimestamp", at, Times({TopicPartition("t", 0): 5})),
        ("Timestamp", "9", Time(9)),
    ):
        all_three |= {f"starting{name}": text, f"ending{name}": text}
        options = batch(**all_three)
        assert (options.start, options.end) == (place, place)


def test_since_and_until_are_moments_and_a_partition_without_any_is_left_out() -> None:
    options = batch(since="-1h", until="now")
    assert (options.start, options.end) == (Time(NOW_MS - 3_600_000), Time(NOW_MS))
    assert options.start_latest_without_match
    assert stream(since="-1h").start == Time(NOW_MS - 3_600_000)
    assert batch(startingOffsetsByTimestampStrategy="LATEST").start_latest_without_match


def test_options_of_streams_do_nothing_to_batches_but_say_so() -> None:
    warnings = batch(maxOffsetsPerTrigger="1", minOffsetsPerTrigger="1").warnings
    assert warnings[0] == "maxOffsetsPerTrigger option ignored in batch queries"
    assert len(warnings) == 2
    rate = stream(maxOffsetsPerTrigger="9", minOffsetsPerTrigger="3", maxTriggerDelay="1s").rate
    assert (rate.offsets_max, rate.offsets_min, rate.trigger_delay_max_ms) == (9, 3, 1_000)


def test_a_group_is_a_label_and_offsets_go_to_it_on_request() -> None:
    assert batch(groupIdPrefix="p").connection.client_id == "p"
    both = batch(groupIdPrefix="p", **kafka(group_id="g"))
    assert both.connection.client_id == "g"
    assert "groupIdPrefix will be ignored" in both.warnings[0]
    assert stream(commitOffsetsToGroup="true", groupIdPrefix="p").commit_group == "p"
    assert stream(commitOffsetsToGroup="true", **kafka(group_id="g")).commit_group == "g"
    with pytest.raises(OptionError, match=r"set kafka.group.id to the name"):
        stream(commitOffsetsToGroup="true")


def test_what_is_not_known_is_ignored_with_a_warning() -> None:
    assert batch(**kafka(session_timeout_ms="1")).warnings == (
        "Kafka option 'session.timeout.ms' is not known to this connector, and ignored",
    )
    (warning,) = batch(startingoffset="latest", path="x").warnings
    assert warning.startswith("Option 'startingoffset' is not known to this connector, and")
    assert warning.endswith("did you mean 'startingOffsets'?")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": None}, "One of the following options must be specified for Kafka source: "),
        ({"assign": "{}"}, "Only one of the following options can be specified for Kafka source: "),
        ({"subscribe": " , "}, "No topics to subscribe to as specified value for option"),
        ({"subscribe": None, "assign": "t"}, "No topicpartitions to assign as specified value"),
        ({"subscribe": None, "assign": "{1}"}, 'Expected e.g. {"topicA":[0,1]'),
        ({"subscribe": None, "subscribePattern": " "}, "Pattern to subscribe is empty as"),
        ({"subscribe": None, "subscribePattern": "("}, "subscribePattern is no regular expression"),
        ({"kafka.bootstrap.servers": None}, "Option 'kafka.bootstrap.servers' must be specified"),
        ({"kafka.bootstrap.servers": "a:b"}, "Invalid url in bootstrap.servers: a:b"),
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 can't be latest for"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "ending offset for t-0 can't be earliest for"),
        ({"startingTimestamp": "x"}, "Expected a single long value, got x"),
        ({"startingOffsetsByTimestampStrategy": "x"}, "No value found for 'X'"),
        ({"minPartitions": "0"}, "minPartitions must be positive"),
        ({"minPartitions": "x"}, 'For input string: "x"'),
        ({"minPartitions": "99999999999"}, 'For input string: "99999999999"'),
        ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be positive"),
        ({"fetchOffset.numRetries": "-1"}, "fetchOffset.numRetries must be at least 0"),
        ({"failOnDataLoss": "yes"}, 'must be true or false: For input string: "yes"'),
        ({"kafka.isolation.level": "x"}, "Invalid value x for configuration isolation.level"),
        ({"kafka.auto.offset.reset": "x"}, "Kafka option 'auto.offset.reset' is not supported."),
        ({"kafka.key.deserializer": "x"}, "Kafka option 'key.deserializer' is not supported as"),
        ({"kafka.value.deserializer": "x"}, "Kafka option 'value.deserializer' is not supported"),
        ({"kafka.enable.auto.commit": "x"}, "Kafka option 'enable.auto.commit' is not supported"),
        ({"kafka.interceptor.classes": "x"}, "Kafka option 'interceptor.classes' is not supported"),
        ({"since": "-1h", "startingOffsets": "earliest"}, "since and startingOffsets say where"),
        ({"until": "now", "endingTimestamp": "1"}, "until and endingTimestamp say where to read"),
        ({"startingTimestamp": "2", "endingTimestamp": "1"}, "start timestamp 2 is greater than"),
        (
            {"startingOffsets": '{"t":{"0":2}}', "endingOffsets": '{"t":{"0":1}}'},
            "The specified start offset 2 is greater than the end offset 1 for topic t partition 0",
        ),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":2}}', "endingOffsetsByTimestamp": "{}"},
            "Specified topic partitions must be the same for starting and ending offsets",
        ),
    ],
)
def test_options_that_make_no_sense_get_one_line(options: dict[str, str | None], text: str) -> None:
    given: dict[str, str | None] = {**SERVERS, "subscribe": "t", **options}
    with pytest.raises(OptionError, match=re.escape(text)) as caught:
        parse_batch_read({name: each for name, each in given.items() if each is not None}, NOW_MS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
        ({"endingTimestamp": "1"}, "ending timestamp not valid in streaming queries"),
        ({"until": "now"}, "ending timestamp not valid in streaming queries"),
        (
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"},
            "The value of minOffsetPerTrigger(9) is higher than the maxOffsetsPerTrigger(3).",
        ),
    ],
)
def test_streams_refuse_what_is_for_batches(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=re.escape(text)):
        stream(**options)


def test_offsets_in_order_may_be_given_for_both_ends() -> None:
    options = batch(startingOffsets='{"t":{"0":1}}', endingOffsets='{"t":{"0":-1}}')
    assert options.end == Offsets({TopicPartition("t", 0): -1})


def test_what_is_not_given_has_its_default() -> None:
    assert Options({}).number("n", None) is None
    assert Options({"N": " 5 "}).given_number("n", 1) == 5


def test_the_package_has_the_data_source_and_nothing_else() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        _ = spark.other
    if find_spec("pyspark") is not None:
        assert spark.QuorateDataSource.name() == "quorate"
