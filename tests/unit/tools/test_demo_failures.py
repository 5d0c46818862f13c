"""The story of three failures is told so that one sees who leads, who is in sync, what was lost."""

import json
from dataclasses import replace

import pytest

from quorate.tools import demo_exactly_once as once
from quorate.tools.demo_failures import Ending, Step
from quorate.tools.demo_failures_report import ending_lines, ending_object, step_object, step_text
from quorate.tools.demo_rebalance import (
    Handover,
    Reckoning,
    handover_object,
    handover_text,
    reckoning_object,
    reckoning_text,
)

KEPT = Ending(unclean=False, acknowledged=300, lost=(), read_right=True, same=True)
LOST = replace(KEPT, unclean=True, lost=tuple(range(100, 300)))


def test_a_step_says_who_leads_who_is_in_sync_and_what_happened() -> None:
    told = step_text(Step("broker 4 was killed", 1, (3, 1), 200))
    assert told == "Leader: 1     Isr: 1,3    200 records acknowledged  <- broker 4 was killed"
    assert step_text(Step("the last one died", -1, (), 300)).startswith("Leader: none  Isr: none ")


def test_the_end_says_exactly_what_was_lost() -> None:
    assert ending_lines(KEPT).startswith("None of 300 acknowledged records was lost. All that is")
    assert "200 of 300 acknowledged records were lost" in ending_lines(LOST)
    assert "offsets 100 to 299" in ending_lines(LOST)
    wrong = ending_lines(replace(KEPT, read_right=False, same=False))
    assert "NOT READ BACK" in wrong
    assert "DIFFER" in wrong


@pytest.mark.parametrize(
    ("ending", "ok"),
    [
        (KEPT, True),
        (LOST, True),
        (replace(KEPT, lost=(299,)), False),
        (replace(LOST, lost=()), False),
        (replace(KEPT, read_right=False), False),
        (replace(LOST, same=False), False),
    ],
)
def test_only_an_unclean_election_may_lose_records_and_then_it_does(
    ending: Ending, *, ok: bool
) -> None:
    assert ending.ok is ok
    assert json.loads(ending_object(ending))["ok"] is ok


def test_as_json_there_is_an_object_for_each_step_and_the_end() -> None:
    step = json.loads(step_object(Step("it began", 1, (1, 2), 0)))
    assert (step["event"], step["leader_id"], step["isr"]) == ("step", 1, [1, 2])
    assert json.loads(ending_object(LOST))["lost"] == [100, 299]
    assert json.loads(ending_object(KEPT))["lost"] is None


def test_handovers_say_who_has_what_and_how_long_it_took() -> None:
    step = Handover("B died", 2.04, {"C": (4, 5), "A": (0, 1, 2, 3)})
    text = "A: 0,1,2,3      C: 4,5"
    assert handover_text(step) == f"{text:48}  2.0 s  <- B died"
    assert json.loads(handover_object(step)) == {
        "event": "step", "what": "B died", "seconds": 2.04,
        "partitions": {"C": [4, 5], "A": [0, 1, 2, 3]},
    }  # fmt: skip


def test_a_group_reads_all_at_least_once() -> None:
    good, bad = Reckoning(10, 0, 2), Reckoning(10, 1, 0)
    assert good.ok
    assert not bad.ok
    assert "each was read, 2 of them twice" in reckoning_text(good)
    assert "1 WERE NOT read" in reckoning_text(bad)
    assert json.loads(reckoning_object(bad))["ok"] is False


def test_each_number_has_its_square_once_or_it_is_told_what_is_wrong() -> None:
    assert once.reckon(3, {(0, 0): 1, (1, 1): 1, (2, 4): 1}, 5) == once.Reckoning(3, 0, 0, 0, 2)
    lost = once.reckon(3, {(0, 0): 1, (1, 1): 3}, 4)
    assert (lost.missing, lost.repeated, lost.wrong) == (1, 2, 0)
    strange = once.reckon(1, {(0, 0): 1, (1, 1): 1, (0, 5): 1}, 3)
    assert (strange.missing, strange.wrong, strange.ok) == (0, 2, False)


def test_a_kill_is_told_with_what_came_of_it() -> None:
    moment = once.Moment("it was killed", 0.42, 1200, 1100)
    assert once.moment_text(moment) == "  1200 numbers    1100 squares   0.4 s  <- it was killed"
    assert json.loads(once.moment_object(moment))["results"] == 1100
    good, bad = once.Reckoning(9, 0, 0, 0, 4), once.Reckoning(9, 1, 2, 0, 4)
    assert "each has its square, once. 4 more" in once.reckoning_text(good)
    assert "1 HAVE NO SQUARE, 2 SQUARES CAME AGAIN" in once.reckoning_text(bad)
    assert [json.loads(once.reckoning_object(end))["ok"] for end in (good, bad)] == [True, False]
