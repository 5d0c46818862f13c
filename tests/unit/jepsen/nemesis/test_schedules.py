"""Plans of faults: drawn from a seed, before anything happens."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from quorate.jepsen.nemesis.faults import FAULTS
from quorate.jepsen.nemesis.schedules import SCHEDULES, SHORTEST_S, Step, none, rotation, single

LONG_S = 3_600.0
SOME = {name: FAULTS[name] for name in ("kill", "pause", "partition", "disk")}


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_same_seed_gives_the_same_plan(name: str) -> None:
    schedule = SCHEDULES[name]
    assert list(schedule(SOME, 300, Random(7))) == list(schedule(SOME, 300, Random(7)))


def test_another_seed_gives_another_plan() -> None:
    assert list(rotation(SOME, 300, Random(7))) != list(rotation(SOME, 300, Random(8)))


def test_the_order_in_which_families_were_named_changes_nothing() -> None:
    other_way = dict(reversed(SOME.items()))
    assert list(rotation(SOME, 300, Random(7))) == list(rotation(other_way, 300, Random(7)))


@pytest.mark.parametrize("name", ["rotation", "single"])
@pytest.mark.parametrize("seconds", [1.0, 15.0, 60.0, LONG_S])
def test_steps_come_in_order_name_what_there_is_and_are_healed_in_time(
    name: str, seconds: float
) -> None:
    steps = list(SCHEDULES[name](SOME, seconds, Random(1)))
    assert steps == sorted(steps, key=lambda step: step.at_s)
    for step in steps:
        assert step.variant in SOME[step.family].variants
        assert step.at_s >= 0
        assert step.lasts_s >= SHORTEST_S
        assert step.until_s <= seconds


def test_a_quarter_of_a_rotation_is_calm_and_no_period_has_more_than_three_families() -> None:
    steps = list(rotation(SOME, LONG_S, Random(1)))
    together = Counter(_on_at(steps, step.at_s) for step in steps)
    assert set(together) == {1, 2, 3}
    hit_s = _covered_s(steps)
    # A fault lasts for some of its period only.
    assert 0.3 * LONG_S < hit_s < 0.75 * LONG_S


def test_every_family_and_every_variant_comes_that_has_a_weight() -> None:
    steps = list(rotation(SOME, 10 * LONG_S, Random(1)))
    found = {(step.family, step.variant) for step in steps}
    assert found == {
        (name, word)
        for name, family in SOME.items()
        for word, variant in family.variants.items()
        if variant.weight
    }


def test_every_variant_comes_before_one_comes_again() -> None:
    family = FAULTS["partition"]
    steps = list(rotation({"partition": family}, LONG_S, Random(1)))
    count = sum(variant.weight > 0 for variant in family.variants.values())
    rounds = [steps[at : at + count] for at in range(0, len(steps) - count, count)]
    assert len(rounds) > 5
    assert all(len({step.variant for step in each}) == count for each in rounds)


def test_what_has_no_weight_comes_if_nothing_else_may() -> None:
    family = FAULTS["kill"]
    named = replace(family, variants={"two": family.variants["two"]})
    steps = list(rotation({"kill": named}, LONG_S, Random(1)))
    assert {step.variant for step in steps} == {"two"}


def test_a_single_fault_leaves_as_long_a_time_without() -> None:
    steps = list(single(SOME, LONG_S, Random(1)))
    for before, after in pairwise(steps):
        assert after.at_s - before.until_s >= before.lasts_s


def test_without_families_nothing_happens() -> None:
    assert list(rotation({}, 60, Random(1))) == []
    assert list(single({}, 60, Random(1))) == []
    assert list(none(SOME, 60, Random(1))) == []


def _on_at(steps: list[Step], at_s: float) -> int:
    return sum(step.at_s <= at_s < step.until_s for step in steps)


def _covered_s(steps: list[Step]) -> float:
    """Return for how long at least one fault is on."""
    covered_s, end_s = 0.0, 0.0
    for step in steps:
        covered_s += max(0.0, step.until_s - max(end_s, step.at_s))
        end_s = max(end_s, step.until_s)
    return covered_s
