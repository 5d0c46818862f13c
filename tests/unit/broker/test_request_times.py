"""How long requests took, told by the turns in which they came and were answered."""

import pytest

from quorate.broker.request_times import BOUNDS_S, NOT_YET, ApiTimes, RequestTimes
from quorate.protocol.apis import ApiKey

MS = 0.001


def counted(times: ApiTimes) -> dict[float, int]:
    """Return how many requests took up to each of the bounds, in ms."""
    bounds_ms = [round(1000 * bound, 3) for bound in BOUNDS_S]
    named = zip([*bounds_ms, float("inf")], times.counts, strict=True)
    return {bound: count for bound, count in named if count}


def short_turn(times: RequestTimes, requests: int, took_s: float) -> None:
    times.began_s = 10.0
    times.short += requests
    times.end_short_turn(10.0 + took_s)


def test_all_requests_of_a_turn_took_as_long_as_it_and_share_its_work() -> None:
    times = RequestTimes()
    short_turn(times, 3, 4 * MS)
    produce = times.by_name()["Produce"]
    assert counted(produce) == {5: 3}
    assert produce.total_s == pytest.approx(12 * MS)
    assert produce.local_s == pytest.approx(4 * MS)
    assert produce.remote_s == 0


def test_turns_that_are_alike_are_counted_when_one_is_not_or_somebody_asks() -> None:
    times = RequestTimes()
    for took_ms in (0.03, 0.04, 0.02, 0.3, 0.4, 90_000, 0.01):
        short_turn(times, 2, took_ms * MS)
    assert counted(times.produce) == {0.05: 6, 0.5: 4, float("inf"): 2}
    assert counted(times.by_name()["Produce"]) == {0.05: 8, 0.5: 4, float("inf"): 2}
    short_turn(times, 1, 0.02 * MS)
    assert counted(times.by_name()["Produce"]) == {0.05: 9, 0.5: 4, float("inf"): 2}


def test_requests_that_wait_are_counted_once_answered_from_when_they_came() -> None:
    times = RequestTimes()
    produce = times.produce
    times.began_s = 1.0
    times.others.append((produce, NOT_YET))
    times.end_turn(1.002)
    assert times.others == []
    assert times.by_name() == {}
    times.began_s = 1.040
    times.others.append((produce, 1.0))
    times.end_turn(1.041)
    assert counted(times.by_name()["Produce"]) == {50: 1}
    assert produce.total_s == pytest.approx(41 * MS)
    assert produce.remote_s == pytest.approx(40 * MS)
    assert produce.local_s == pytest.approx(3 * MS)


def test_a_turn_of_several_kinds_is_shared_by_all_its_requests() -> None:
    times = RequestTimes()
    metadata = times.of(ApiKey.METADATA)
    times.began_s = 1.0
    times.short = 2
    times.others += [(metadata, 1.0), (times.produce, NOT_YET)]
    times.end_turn(1.008)
    assert times.short == 0
    assert times.others == []
    assert counted(metadata) == {10: 1}
    assert metadata.local_s == pytest.approx(2 * MS)
    assert times.produce.local_s == pytest.approx(6 * MS)
    assert times.produce.total_s == pytest.approx(16 * MS)
    assert counted(times.by_name()["Produce"]) == {10: 2}


def test_fetches_of_followers_are_told_apart_and_together() -> None:
    times = RequestTimes()
    times.began_s = 1.0
    times.others.append((times.of(ApiKey.FETCH, by_follower=True), 1.0))
    times.end_turn(1.001)
    assert set(times.by_name()) == {"Fetch", "FetchFollower"}
    times.began_s = 2.0
    times.others.append((times.of(ApiKey.FETCH), 2.0))
    times.end_turn(2.004)
    found = times.by_name()
    assert counted(found["FetchConsumer"]) == {5: 1}
    assert counted(found["FetchFollower"]) == {1: 1}
    assert counted(found["Fetch"]) == {1: 1, 5: 1}
    assert found["Fetch"].total_s == pytest.approx(5 * MS)
    assert counted(times.by_name()["Fetch"]) == {1: 1, 5: 1}
