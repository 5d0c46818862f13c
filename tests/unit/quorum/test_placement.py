"""Placement spreads leaders over brokers and replicas over racks."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import InvalidReplicationFactorError
from quorate.quorum.control.placement import Placement
from quorate.quorum.metadata.image import BrokerImage


def place(
    registered: dict[int, BrokerImage], partition_count: int, replication_factor: int, rng: Random
) -> tuple[tuple[int, ...], ...]:
    return Placement(registered, rng).place(partition_count, replication_factor)


def broker(broker_id: int, rack: str | None = None, *, fenced: bool = False) -> BrokerImage:
    return BrokerImage(broker_id, 1, b"", b"", {}, rack, fenced)


def brokers(*images: BrokerImage) -> dict[int, BrokerImage]:
    return {b.broker_id: b for b in images}


@given(
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=9),
    st.integers(1, 40),
    st.integers(1, 9),
    st.integers(0, 2**32),
)
def test_leaders_go_round_and_replicas_are_spread_over_racks(
    racks: list[str], partition_count: int, replication_factor: int, seed: int
) -> None:
    registered = brokers(*(broker(n, rack) for n, rack in enumerate(racks)))
    factor = min(replication_factor, len(racks))
    placed = place(registered, partition_count, factor, Random(seed))
    leaders = Counter(replicas[0] for replicas in placed)
    assert len(placed) == partition_count
    assert max(leaders.values()) - min(leaders[b] for b in registered) <= 1
    for replicas in placed:
        assert len(set(replicas)) == factor
        used = {racks[b] for b in replicas}
        assert len(used) == min(factor, len(set(racks)))


def test_followers_of_one_leader_differ() -> None:
    registered = brokers(*(broker(n) for n in range(5)))
    placed = place(registered, 20, 2, Random(1))
    pairs = Counter(placed)
    assert max(pairs.values()) == 1


def test_fenced_brokers_follow_only_if_there_are_no_others_and_never_lead() -> None:
    registered = brokers(broker(1), broker(2, fenced=True), broker(3))
    assert all(2 not in replicas for replicas in place(registered, 10, 2, Random(1)))
    assert all(replicas[0] != 2 for replicas in place(registered, 10, 3, Random(1)))


def test_too_few_brokers_are_refused() -> None:
    with pytest.raises(InvalidReplicationFactorError, match="only 1 brokers exist"):
        place(brokers(broker(1)), 1, 2, Random(1))
    with pytest.raises(InvalidReplicationFactorError, match="no broker is in service"):
        place(brokers(broker(1, fenced=True)), 1, 1, Random(1))


def test_the_same_seed_places_the_same() -> None:
    registered = brokers(*(broker(n, "ab"[n % 2]) for n in range(6)))
    assert place(registered, 9, 3, Random(5)) == place(registered, 9, 3, Random(5))


def test_five_partitions_of_three_replicas_on_five_brokers_are_as_even_as_can_be() -> None:
    registered = brokers(*(broker(n) for n in range(1, 6)))
    for seed in range(100):
        placed = place(registered, 5, 3, Random(seed))
        assert sorted(replicas[0] for replicas in placed) == [1, 2, 3, 4, 5]
        hosted = Counter(broker_id for replicas in placed for broker_id in replicas)
        assert hosted == dict.fromkeys(registered, 3)
        assert all(len(set(replicas)) == 3 for replicas in placed)


def test_each_rack_has_a_replica_so_that_two_are_left_when_one_burns() -> None:
    registered = brokers(*(broker(n, "abc"[n % 3]) for n in range(9)))
    for seed in range(100):
        for replicas in place(registered, 18, 3, Random(seed)):
            assert sorted("abc"[b % 3] for b in replicas) == ["a", "b", "c"]


def test_brokers_that_leave_or_are_drained_get_replicas_only_in_need() -> None:
    leaving = replace(broker(2), shutting_down=True)
    drained = replace(broker(4), draining=True)
    registered = brokers(broker(1), leaving, broker(3), drained)
    placed = place(registered, 10, 2, Random(1))
    assert {broker_id for replicas in placed for broker_id in replicas} == {1, 3}
    placed = place(registered, 10, 3, Random(1))
    assert {replicas[0] for replicas in placed} == {1, 3}


def test_drained_brokers_lead_if_there_are_no_others() -> None:
    registered = brokers(broker(1, fenced=True), replace(broker(2), draining=True))
    assert place(registered, 2, 2, Random(1)) == ((2, 1), (2, 1))
