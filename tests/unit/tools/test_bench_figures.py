"""Figures of ``quorate bench``: percentiles, and records that went round."""

import pytest

from quorate.errors import KafkaError, NotLeaderOrFollowerError, UnknownTopicOrPartitionError
from quorate.tools.bench_figures import (
    VALUE_BYTES_MIN,
    Consumed,
    Requests,
    RoundTrips,
    consume_table,
    percentile,
    requests_table,
    round_trips_table,
)

RUN = b"this-run"


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([], 50, None), ([7.0], 99.9, 7.0), ([1.0, 2.0, 3.0], 50, 2.0), ([1.0, 2.0], 99.9, 1.999)],
)
def test_a_percentile_of_few_values_lies_between_them(
    values: list[float], percent: float, expected: float | None
) -> None:
    assert percentile(values, percent) == (None if expected is None else pytest.approx(expected))


def test_a_record_is_timed_from_when_it_was_due_and_once() -> None:
    trips = RoundTrips(RUN)
    trips.send(3, 10.0)
    trips.acknowledge(10.0, 10.002, None)
    for now_s in (10.005, 11.0):  # sent twice by a retry, it comes twice
        trips.read(trips.value(3, 40), now_s)
    assert trips.acknowledged_ms == [pytest.approx(2.0)]
    assert trips.read_ms == [pytest.approx(5.0)]
    assert trips.under_way == {}


@pytest.mark.parametrize("value", [None, b"", b"that-run" + bytes(8)])
def test_records_of_others_are_let_alone(value: bytes | None) -> None:
    trips = RoundTrips(RUN)
    trips.send(0, 1.0)
    trips.read(value, 2.0)
    assert (trips.under_way, trips.read_ms) == ({0: 1.0}, [])


def test_a_value_is_as_large_as_was_asked_for() -> None:
    trips = RoundTrips(RUN)
    assert [len(trips.value(1, size)) for size in (VALUE_BYTES_MIN, 100)] == [16, 100]


def test_the_first_refusal_is_the_one_that_is_told() -> None:
    trips = RoundTrips(RUN)
    errors: list[KafkaError] = [NotLeaderOrFollowerError("1"), UnknownTopicOrPartitionError("2")]
    for error in errors:
        trips.acknowledge(0.0, 1.0, error)
    assert trips.failure is errors[0]
    assert trips.acknowledged_ms == []


def test_what_warmed_up_is_forgotten() -> None:
    trips = RoundTrips(RUN, acknowledged_ms=[100.0], read_ms=[100.0])
    trips.begin_anew()
    rows = round_trips_table(trips, 1.0).rows
    assert rows == (("acknowledged", 0, 0.0, *[None] * 6), ("read", 0, 0.0, *[None] * 6))


def test_times_of_round_trips_are_told_as_percentiles() -> None:
    trips = RoundTrips(RUN, read_ms=[float(n) for n in range(1, 1002)])
    _, read = round_trips_table(trips, 2.0).rows
    assert read == ("read", 1001, 500.5, 501.0, 501.0, 951.0, 991.0, 1000.0, 1001.0)


def test_nothing_read_has_no_rate() -> None:
    assert consume_table(Consumed("group")).rows == (("group", 0, None, None, 0.0, 0.0, None),)
    (row,) = consume_table(Consumed("assigned", None, 2.0, 1000, 4 << 20)).rows
    assert row == ("assigned", 1000, 500, 2.0, 4.0, 2.0, None)


def test_requests_of_a_kind_are_a_row() -> None:
    rows = requests_table([Requests("create", 0.5, [1.0, 2.0, 3.0])]).rows
    assert rows == (("create", 3, 6.0, 2.0, 2.98, 3.0),)
