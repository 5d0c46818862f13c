"""Request times as samples: sums since the start, quantiles of what was lately."""

import pytest

from quorate.broker.request_times import BOUNDS_S, ApiTimes
from quorate.tools.metrics.request_times import TOTAL, TimeSamples, quantile_s


def counts(**by_place: int) -> list[int]:
    found = [0] * (len(BOUNDS_S) + 1)
    for place, count in by_place.items():
        found[int(place[1:])] = count
    return found


@pytest.mark.parametrize(
    ("given", "quantile", "expected"),
    [
        (counts(_0=10), 0.5, BOUNDS_S[0] / 2),
        (counts(_0=50, _3=50), 0.5, BOUNDS_S[0]),
        (counts(_0=50, _3=50), 0.75, (BOUNDS_S[2] + BOUNDS_S[3]) / 2),
        (counts(_19=1), 0.5, BOUNDS_S[-1]),
        (counts(_2=1), 1.0, BOUNDS_S[2]),
        (counts(), 0.5, BOUNDS_S[-1]),
    ],
)
def test_quantiles_share_out_evenly_between_two_bounds(
    given: list[int], quantile: float, expected: float
) -> None:
    assert quantile_s(given, quantile) == pytest.approx(expected)


def medians(samples: TimeSamples, times: ApiTimes, now_ms: int) -> list[float]:
    found = samples.samples({"Fetch": times}, now_ms)
    return [s.value for s in found if s.name == TOTAL and s.labels == ("Fetch", "0.50")]


def test_quantiles_are_those_of_the_last_minute_however_often_one_asks() -> None:
    samples, times = TimeSamples(), ApiTimes()
    times.counts = counts(_0=100)
    assert medians(samples, times, 0) == [1000 * BOUNDS_S[0] / 2]
    for now_ms in (5_000, 20_000, 70_000):
        assert medians(samples, times, now_ms) == [1000 * BOUNDS_S[0] / 2]
    times.counts = counts(_0=100, _4=2)
    slow_ms = 1000 * (BOUNDS_S[3] + BOUNDS_S[4]) / 2
    assert medians(samples, times, 80_000) == [pytest.approx(slow_ms)]
    assert medians(samples, times, 81_000) == [pytest.approx(slow_ms)]
    assert medians(samples, times, 139_999) == [pytest.approx(slow_ms)]
    assert medians(samples, times, 300_000) == []
