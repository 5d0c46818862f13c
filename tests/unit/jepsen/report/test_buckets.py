"""Numbers over time, in bounded memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.jepsen.report.buckets import (
    BUCKETS_MAX,
    FIRST_WIDTH_NS,
    SHORTEST_NS,
    Histogram,
    TimeGrid,
    bin_ns,
    latency_bin,
)

TIMES = st.lists(st.integers(0, 10**13), min_size=1, max_size=50)


@given(TIMES)
def test_nothing_is_lost_where_buckets_are_joined(times: list[int]) -> None:
    grid = TimeGrid(start_ns=0)
    counts = grid.counts()
    for time_ns in times:
        counts.put(grid.bucket(time_ns), "x", 1)
    assert sum(counts.cells.values()) == len(times)
    assert max(bucket for bucket, _ in counts.cells) < BUCKETS_MAX
    assert grid.width_ns * BUCKETS_MAX > max(times)


@given(TIMES)
def test_each_time_is_in_its_bucket(times: list[int]) -> None:
    grid = TimeGrid(start_ns=0)
    highest = grid.highest()
    for time_ns in times:
        highest.put(grid.bucket(time_ns), "x", time_ns)
    assert highest.column("x") == {
        bucket: max(t for t in times if t // grid.width_ns == bucket)
        for bucket in {t // grid.width_ns for t in times}
    }


def test_of_states_the_newest_of_a_bucket_counts() -> None:
    grid = TimeGrid(start_ns=0)
    states = grid.states()
    for number in range(BUCKETS_MAX):
        states.put(grid.bucket(number * FIRST_WIDTH_NS), "x", number)
    states.put(grid.bucket(BUCKETS_MAX * FIRST_WIDTH_NS), "x", BUCKETS_MAX)
    assert list(states.column("x").values()) == [*range(1, BUCKETS_MAX, 2), BUCKETS_MAX]


@given(st.integers(SHORTEST_NS, 10**13), st.integers(SHORTEST_NS, 10**13))
def test_bins_are_in_order_and_narrow(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert latency_bin(low) <= latency_bin(high)
    assert bin_ns(latency_bin(one)) == pytest.approx(one, rel=0.15)
    assert bin_ns(latency_bin(one)) <= one * 1.07


@given(st.lists(st.integers(SHORTEST_NS, 10**11), min_size=1), st.sampled_from([0.5, 0.99, 1]))
def test_quantiles_are_as_exact_as_the_bins(latencies: list[int], share: float) -> None:
    histogram = Histogram()
    for latency_ns in latencies:
        histogram.add(latency_ns, latency_bin(latency_ns))
    rank = max(1, -int(-share * len(latencies) // 1))
    exact = sorted(latencies)[rank - 1]
    assert histogram.quantile_ns(share) == pytest.approx(exact, rel=0.2)


def test_of_nothing_quantiles_are_nothing() -> None:
    assert Histogram().quantile_ns(0.5) == 0
