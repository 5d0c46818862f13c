"""Who is in sync, and who is just said to be: Kafka's rules about lag, in values."""

import pytest

from quorate.broker.replication.isr import LONG_AGO_MS, Follower, InSyncReplicas, Visits, without

LAG_MS = 30_000


def fetched(follower: Follower, offset: int, *, leader_end_offset: int, now_ms: int) -> None:
    follower.fetched(offset, 0, leader_end_offset=leader_end_offset, now_ms=now_ms)


def test_a_follower_that_has_everything_is_caught_up_however_long_ago_it_fetched() -> None:
    follower = Follower(2, caught_up_ms=LONG_AGO_MS)
    fetched(follower, 5, leader_end_offset=5, now_ms=0)
    assert follower.is_caught_up(5, 10**9, LAG_MS)
    assert follower.is_caught_up(6, LAG_MS, LAG_MS)
    assert not follower.is_caught_up(6, 10**9, LAG_MS)


def test_a_follower_that_lags_is_caught_up_for_as_long_as_it_may_lag() -> None:
    follower = Follower(2, caught_up_ms=1_000)
    assert follower.is_caught_up(1, 1_000 + LAG_MS, LAG_MS)
    assert not follower.is_caught_up(1, 1_001 + LAG_MS, LAG_MS)


def test_a_follower_of_a_busy_leader_was_caught_up_when_it_fetched_before() -> None:
    follower = Follower(2, caught_up_ms=LONG_AGO_MS)
    fetched(follower, 0, leader_end_offset=10, now_ms=1_000)
    fetched(follower, 10, leader_end_offset=20, now_ms=2_000)
    assert follower.last_caught_up_ms == 1_000
    fetched(follower, 20, leader_end_offset=30, now_ms=3_000)
    assert follower.last_caught_up_ms == 2_000
    fetched(follower, 25, leader_end_offset=40, now_ms=4_000)
    assert follower.last_caught_up_ms == 2_000


def test_a_partition_left_out_of_fetches_was_caught_up_when_its_broker_fetched_last() -> None:
    follower, visits = Follower(2, caught_up_ms=LONG_AGO_MS), Visits(0)
    follower.leader_appends()
    assert follower.last_caught_up_ms == LONG_AGO_MS
    follower.visits(visits, 7)
    fetched(follower, 5, leader_end_offset=5, now_ms=0)
    visits.last_ms = 90_000
    follower.leader_appends()
    assert (follower.last_caught_up_ms, follower.broker_epoch) == (90_000, 7)


def test_while_a_change_is_in_flight_both_isrs_count() -> None:
    isr = InSyncReplicas((1, 2), 4)
    isr.propose((1, 3))
    assert (isr.in_flight, isr.committed, set(isr.maximal)) == (True, (1, 2), {1, 2, 3})
    with pytest.raises(AssertionError):
        isr.propose((1,))
    isr.give_up()
    assert (isr.in_flight, isr.committed, set(isr.maximal)) == (False, (1, 2), {1, 2})


def test_only_a_later_partition_epoch_changes_the_isr() -> None:
    isr = InSyncReplicas((1, 2), 4)
    isr.propose((1,))
    isr.commit((1, 2, 3), 4)
    assert isr.in_flight
    isr.commit((1, 2, 3), 5)
    assert (isr.in_flight, isr.committed, set(isr.maximal)) == (False, (1, 2, 3), {1, 2, 3})


def test_an_isr_keeps_its_order_without_some() -> None:
    assert without((3, 1, 2), [1]) == (3, 2)
