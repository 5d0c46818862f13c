"""Transactions while producers and nodes end by kill -9, each kind once or a few times."""

from collections import Counter
from pathlib import Path

import pytest

from tests.robustness.transactions import KILLS, Plan, counts, run

MANY = counts(KILLS)


@pytest.mark.parametrize("producers", [0, 7, 500])
def test_all_clusters_together_take_what_was_asked_for(producers: int) -> None:
    plan = Plan(MANY, producers, seed=1, client="own")
    shares = [plan.share(number) for number in range(plan.clusters)]
    assert Counter(name for kills, _ in shares for name in kills) == Counter(MANY)
    assert sum(count for _, count in shares) == producers
    assert all(48 <= len(kills) <= 52 for kills, _ in shares)


def test_what_cannot_be_killed_is_refused() -> None:
    with pytest.raises(ValueError, match="coordinator, leader, cluster"):
        counts("cluster:1,nobody:2")


@pytest.mark.integration
@pytest.mark.slow
def test_transactions_are_whole_or_not_at_all_whoever_is_killed(tmp_path: Path) -> None:
    plan = Plan({"coordinator": 1}, producers=5, seed=1, client="own", controllers=1)
    tally = run(plan, tmp_path, progress=False)
    assert not tally.failures
    assert tally.killed["kill:coordinator"] == 1
    assert tally.moments.total() >= plan.producers
    assert tally.figures["committed"] > 0
