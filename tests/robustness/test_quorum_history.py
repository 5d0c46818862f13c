"""The checks of a quorum's history see what they are there to see."""

from dataclasses import replace

from quorate.control import messages as m
from quorate.jepsen.linearizability import NEVER, Cas, Get, Operation
from tests.robustness.quorum_history import (
    Change,
    Feed,
    View,
    Wipe,
    blind,
    wrong_facts,
    wrong_feeds,
    wrong_order,
    wrong_terms,
)

WRITE = Operation(1, "a", Cas(None, "1", done=True), 0.0, 1.0)
LATER_WRITE = Operation(1, "a", Cas("1", "2", done=True), 2.0, 3.0)
UNKNOWN_WRITE = Operation(2, "a", Cas("2", "3", done=None), 4.0, NEVER)
ONE, TWO, THREE = Change("a", "1"), Change("a", "2"), Change("a", "3")
FEED = Feed(1, {1: (), 2: (ONE,), 4: (TWO,)}, [], 4)


def read(value: str, called: float) -> Operation:
    return Operation(3, "a", Get(value), called, called + 0.5)


def view(called: float, leader_id: int, term: int, version: int) -> View:
    return View(called, called + 0.5, 1, leader_id, term, version, linearizable=True)


def test_a_register_that_behaves_is_fine() -> None:
    assert not wrong_order([WRITE, LATER_WRITE, UNKNOWN_WRITE, read("2", 5.0), read("3", 6.0)])


def test_a_write_that_was_forgotten_is_seen() -> None:
    (problem,) = wrong_order([WRITE, LATER_WRITE, read("1", 5.0)])
    assert "register a is not linearizable" in problem
    assert "read '1'" in problem


def test_a_write_that_comes_and_goes_is_seen() -> None:
    assert wrong_order([WRITE, LATER_WRITE, UNKNOWN_WRITE, read("3", 5.0), read("2", 6.0)])


def test_a_write_that_was_refused_and_done_all_the_same_is_seen() -> None:
    refused = replace(LATER_WRITE, action=Cas("1", "2", done=False))
    assert wrong_order([WRITE, refused, read("2", 5.0)])
    (problem,) = wrong_facts([WRITE], {TWO}, [FEED])
    assert "was refused" in problem


def test_facts_that_fit_are_fine() -> None:
    assert not wrong_facts([WRITE, LATER_WRITE, UNKNOWN_WRITE], {THREE}, [FEED])


def test_acknowledged_writes_that_are_no_facts_are_seen() -> None:
    short = Feed(1, {1: (), 2: (ONE,)}, [], 4)
    (problem,) = wrong_facts([WRITE, LATER_WRITE], set(), [short])
    assert "1 acknowledged writes are lost" in problem


def test_a_write_that_happens_twice_is_seen() -> None:
    twice = replace(FEED, changes={**FEED.changes, 5: (TWO,)}, end=5)
    (problem,) = wrong_facts([WRITE, LATER_WRITE], set(), [twice])
    assert "happened 2 times" in problem


def test_nobody_can_say_what_is_lost_in_versions_that_no_reader_saw() -> None:
    gap = Feed(1, {4: (TWO,)}, [(1, 3)], 4)
    assert blind([gap, Feed(2, {1: ()}, [], 1)])
    assert blind([gap, Feed(2, {4: (TWO,)}, [], 4, start=3)])
    assert not blind([Feed(1, {4: (TWO,)}, [], 4, start=3), Feed(2, {}, [], 4, start=4)])
    assert not blind([gap, FEED])
    assert not wrong_facts([WRITE, LATER_WRITE], set(), [gap])


def test_controllers_that_tell_different_facts_are_seen() -> None:
    other = Feed(2, {1: (), 2: (THREE,), 4: (TWO,)}, [], 4)
    assert any("version 2 is" in problem for problem in wrong_feeds([FEED, other]))


def test_a_controller_that_leaves_out_a_fact_is_seen() -> None:
    assert not wrong_feeds([FEED, Feed(2, {1: ()}, [], 3), Feed(3, {4: (TWO,)}, [(0, 3)], 4)][::2])
    (problem,) = wrong_feeds([FEED, Feed(2, {1: (), 4: (TWO,)}, [], 4)])
    assert "never told of version 2" in problem


def test_two_leaders_in_a_term_are_seen() -> None:
    assert not wrong_terms([view(0, 1, 1, 1), view(1, 2, 2, 1), view(2, m.NO_NODE, 2, 1)], [])
    (problem,) = wrong_terms([view(0, 1, 1, 1), view(0.1, 2, 1, 1)], [])
    assert "in term 1, [1, 2] led" in problem


def test_a_controller_that_forgets_a_term_in_which_it_led_is_seen() -> None:
    led = view(0, 1, 5, 1)._replace(linearizable=False)
    assert not wrong_terms([led, led._replace(node_id=2, term=4, called=1, returned=2)], [])
    forgetful = led._replace(leader_id=3, term=4, called=1, returned=2)
    (problem,) = wrong_terms([led, forgetful], [])
    assert "forgot a term" in problem
    assert not wrong_terms([led, forgetful], [Wipe(0.7, 1)])
    assert wrong_terms([led, forgetful], [Wipe(0.7, 2)])


def test_a_term_or_a_version_that_goes_back_is_seen() -> None:
    assert not wrong_terms([view(0, 1, 2, 7), view(0.2, 2, 1, 6)], [])  # at the same time
    for back in view(1, 1, 1, 7), view(1, 1, 2, 6):
        problems = wrong_terms([view(0, 1, 2, 7), back], [])
        assert any("went back" in problem for problem in problems)
