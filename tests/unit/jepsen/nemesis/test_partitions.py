"""What is cut: pairs of who sends, and to whom."""

from itertools import permutations
from random import Random

import pytest

from quorate.jepsen.lab.network import Pair
from quorate.jepsen.nemesis.partitions import both_ways, bridge, halves, ring

NODES = [range(6), range(8)]
SEEDS = range(20)


def heard_by(place: int, places: range, cuts: frozenset[Pair]) -> set[int]:
    """Return whom a place hears of, itself included."""
    return {place} | {other for other in places if (other, place) not in cuts and other != place}


def is_symmetric(cuts: frozenset[Pair]) -> bool:
    return cuts == frozenset((target, source) for source, target in cuts)


@pytest.mark.parametrize("places", NODES)
@pytest.mark.parametrize("seed", SEEDS)
def test_halves_hear_of_themselves_only(places: range, seed: int) -> None:
    cuts = halves(places, Random(seed))
    parts = {frozenset(heard_by(place, places, cuts)) for place in places}
    assert is_symmetric(cuts)
    assert len(parts) == 2
    assert sorted(place for part in parts for place in part) == list(places)


@pytest.mark.parametrize("places", NODES)
@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_ring_everybody_hears_another_majority(places: range, seed: int) -> None:
    cuts = ring(places, Random(seed))
    parts = [frozenset(heard_by(place, places, cuts)) for place in places]
    assert is_symmetric(cuts)
    assert cuts
    assert all(len(part) > len(places) / 2 for part in parts)
    assert len(set(parts)) == len(places)


@pytest.mark.parametrize("places", NODES)
@pytest.mark.parametrize("seed", SEEDS)
def test_one_node_is_on_both_sides_of_a_bridge(places: range, seed: int) -> None:
    cuts = bridge(places, Random(seed))
    heard = [heard_by(place, places, cuts) for place in places]
    assert is_symmetric(cuts)
    assert sum(len(each) == len(places) for each in heard) == 1


def test_a_cut_both_ways_leaves_each_side_whole() -> None:
    cuts = both_ways([0, 1], [2])
    assert cuts == {(0, 2), (2, 0), (1, 2), (2, 1)}
    assert not cuts & set(permutations((0, 1), 2))
