"""What options say about where to begin and end."""

import pytest

from quorate.client.spark.places import (
    AT_EARLIEST,
    AT_LATEST,
    Offsets,
    OptionError,
    Time,
    Times,
    named,
    parse_assignment,
    parse_delay,
    parse_moment,
    parse_offsets,
    parse_times,
    parse_timestamp,
)
from quorate.model import TopicPartition

NOW_MS = 1_700_000_000_000


def test_words_stand_for_the_ends() -> None:
    assert parse_offsets(" Latest ") == AT_LATEST
    assert parse_offsets("EARLIEST") == AT_EARLIEST


def test_offsets_and_times_by_partition_are_json() -> None:
    expected = {TopicPartition("a", 0): 23, TopicPartition("a", 1): -1, TopicPartition("b", 0): -2}
    text = ' {"a":{"0":23,"1":-1},"b":{"0":-2}} '
    assert parse_offsets(text) == Offsets(expected)
    assert parse_times(text) == Times(expected)
    assert named(expected) == "[a-0, a-1, b-0]"


@pytest.mark.parametrize(
    "text", ["x", "[]", '{"a":1}', '{"a":{"x":1}}', '{"a":{"0":"1"}}', '{"a":{"0":true}}', "{"]
)
def test_other_offsets_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_offsets(text)
    assert str(caught.value) == (
        f'Expected e.g. {{"topicA":{{"0":23,"1":-1}},"topicB":{{"0":-2}}}}, got {text}'
    )


def test_an_assignment_names_partitions() -> None:
    assert parse_assignment('{"a":[1,0,1],"b":[]}') == {"a": (0, 1), "b": ()}


@pytest.mark.parametrize("text", ["x", '{"a":1}', '{"a":["0"]}', "[]"])
def test_other_assignments_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(OptionError, match=r'Expected e.g. \{"topicA":\[0,1\]'):
        parse_assignment(text)


def test_a_timestamp_is_one_number() -> None:
    assert parse_timestamp(" 1700000000000 ") == Time(NOW_MS)
    for text in ("1.5", "", "x", "9" * 20):
        with pytest.raises(OptionError, match=f"Expected a single long value, got {text}"):
            parse_timestamp(text)


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("now", NOW_MS),
        ("-1h", NOW_MS - 3_600_000),
        ("-1d12h", NOW_MS - 36 * 3_600_000),
        ("-90min", NOW_MS - 90 * 60_000),
        ("-5m", NOW_MS - 300_000),
        ("-250ms", NOW_MS - 250),
        ("1700000000000", NOW_MS),
        ("2023-11-14T22:13:20Z", NOW_MS),
        ("2023-11-14T22:13:20", NOW_MS),
        ("2023-11-14T23:13:20+01:00", NOW_MS),
        ("20231114", 1_699_920_000_000),
    ],
)
def test_a_moment_is_a_time_ago_a_time_or_milliseconds(text: str, time_ms: int) -> None:
    assert parse_moment("since", text, NOW_MS) == Time(time_ms)


def test_all_that_there_is_was_since_long_ago() -> None:
    assert parse_moment("since", "-99999999999999999999w", NOW_MS) == Time(0)


def test_other_moments_are_refused_with_examples() -> None:
    with pytest.raises(OptionError, match="since is 'yesterday', which is no time: try '-1h'"):
        parse_moment("since", "yesterday", NOW_MS)


@pytest.mark.parametrize(
    ("text", "delay_ms"),
    [("15m", 900_000), ("10 ".strip(), 10), ("250us", 0), ("1MIN", 60_000), ("2h", 7_200_000)],
)
def test_a_delay_is_written_as_spark_does(text: str, delay_ms: int) -> None:
    assert parse_delay(text) == delay_ms


def test_other_delays_are_refused() -> None:
    with pytest.raises(OptionError, match="Failed to parse: soon"):
        parse_delay("soon")
