"""``quorate demo three-failures`` with real processes: what an unclean election costs, exactly."""

import json

import pytest

from tests.integration.controllers import quorate

pytestmark = pytest.mark.slow


def test_three_replicas_die_one_after_the_other_and_the_first_that_is_back_has_to_lead() -> None:
    done = quorate("demo", "three-failures", "--unclean", "--format", "jsonl")
    assert done.code == 0, done.err
    *steps, end = [json.loads(line) for line in done.out.splitlines()]
    assert [len(step["isr"]) for step in steps] == [3, 2, 1, 0, 0, 1, 3]
    assert [step["leader_id"] == -1 for step in steps] == [False] * 3 + [True] * 2 + [False] * 2
    first_dead = set(steps[0]["isr"]) - set(steps[1]["isr"])
    assert {steps[5]["leader_id"]} == first_dead
    assert (end["acknowledged"], end["lost"], end["ok"]) == (300, [100, 299], True)
