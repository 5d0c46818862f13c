"""The stories of ``quorate demo`` with real processes; what an unclean election costs, exactly."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.controllers import Done, quorate

pytestmark = pytest.mark.slow

STORY_S_MAX = 300.0
"""A story starts a dozen processes, and others run beside it: on a slow machine that takes long."""


def told(*story: str) -> Done:
    return quorate("demo", *story, "--format", "jsonl", timeout_s=STORY_S_MAX)


def test_three_replicas_die_one_after_the_other_and_the_first_that_is_back_has_to_lead() -> None:
    done = told("three-failures", "--unclean")
    assert done.code == 0, done.err
    *steps, end = [json.loads(line) for line in done.out.splitlines()]
    assert [len(step["isr"]) for step in steps] == [3, 2, 1, 0, 0, 1, 3]
    assert [step["leader_id"] == -1 for step in steps] == [False] * 3 + [True] * 2 + [False] * 2
    first_dead = set(steps[0]["isr"]) - set(steps[1]["isr"])
    assert {steps[5]["leader_id"]} == first_dead
    assert (end["acknowledged"], end["lost"], end["ok"]) == (300, [100, 299], True)


def test_stories_of_replicas_that_hang_of_a_group_and_of_a_killed_program_end_well() -> None:
    with ThreadPoolExecutor() as pool:
        ends = list(pool.map(told, ("isr-shrink", "rebalance", "exactly-once")))
    shrink, rebalance, once = (
        [json.loads(line) for line in done.out.splitlines()] for done in ends
    )
    assert [done.code for done in ends] == [0, 0, 0], [done.err for done in ends]
    assert [len(step["isr"]) for step in shrink[:-1]] == [3, 2, 1, 3, 3]
    assert "NOT_ENOUGH_REPLICAS" in shrink[2]["what"]
    assert (shrink[-1]["acknowledged"], shrink[-1]["lost"], shrink[-1]["ok"]) == (200, None, True)
    hands = [{name: len(p) for name, p in step["partitions"].items()} for step in rebalance[:-1]]
    assert hands == [
        {"A": 6}, {"A": 3, "B": 3}, {"A": 2, "B": 2, "C": 2}, {"A": 3, "C": 3}, {"A": 6},
    ]  # fmt: skip
    assert (rebalance[-1]["missed"], rebalance[-1]["ok"]) == (0, True)
    assert sum("the program was killed" in step["what"] for step in once[:-1]) == 4
    assert sum("broker" in step["what"] for step in once[:-1]) == 2
    results = [step["results"] for step in once[:-1]]
    assert results == sorted(set(results))
    assert (once[-1]["missing"], once[-1]["repeated"], once[-1]["wrong"]) == (0, 0, 0)
    assert once[-1]["cut_off"] > 0  # what was killed had written something that does not count
