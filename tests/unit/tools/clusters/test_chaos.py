"""Which node is meant, and what may be done to it as it is."""

import pytest

from quorate.tools.clusters.chaos import (
    ACTIONS,
    KILL,
    NO_FAULTS,
    PAUSE,
    RESUME,
    START,
    Faults,
    check_majority,
    check_possible,
    cut_between,
    faults_text,
    named_member,
    nodes_table,
    parse_delay,
    parse_shift,
    plan_healing,
)
from quorate.tools.clusters.layout import Layout, Member
from quorate.tools.clusters.picture import DEAD, PAUSED, RUNNING, STOPPED, NodeState
from quorate.tools.problems import CommandError, RefusedError, UsageError

VOTERS = tuple(Member("controller", 100 + n, 20_000 + n) for n in (1, 2, 3))
BROKERS = tuple(Member("broker", n, 9_091 + n) for n in (1, 2))
LAYOUT = Layout((*VOTERS, *BROKERS))


def node(member: Member, process: str = RUNNING) -> NodeState:
    return NodeState(member, process, None if process in (DEAD, STOPPED) else 77, 1_000, 2_000)


@pytest.mark.parametrize("word", ["2", "broker-2", "broker 2"])
def test_a_node_is_named_by_its_id_or_its_name(word: str) -> None:
    assert named_member(LAYOUT, word) == BROKERS[1]


def test_a_node_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(UsageError) as caught:
        named_member(LAYOUT, "broker-7")
    assert "controller-101" in caught.value.why


@pytest.mark.parametrize(
    ("action", "process"),
    [(KILL, RUNNING), (KILL, PAUSED), (PAUSE, RUNNING), (RESUME, PAUSED), (START, DEAD),
     (START, STOPPED)],
)  # fmt: skip
def test_what_can_be_done_is_let_through(action: str, process: str) -> None:
    check_possible(action, node(BROKERS[0], process))


@pytest.mark.parametrize(
    ("action", "process", "hint"),
    [
        (START, RUNNING, "quorate chaos kill broker-1"),
        (START, PAUSED, "quorate chaos resume broker-1"),
        (KILL, DEAD, "quorate chaos start broker-1"),
        (PAUSE, PAUSED, "quorate chaos resume broker-1"),
        (RESUME, RUNNING, "quorate chaos list"),
    ],
)
def test_what_cannot_is_answered_with_what_can(action: str, process: str, hint: str) -> None:
    with pytest.raises(CommandError) as caught:
        check_possible(action, node(BROKERS[0], process))
    assert caught.value.hint == hint


def test_the_majority_of_controllers_is_not_taken_away_by_mistake() -> None:
    all_run = [node(each) for each in (*VOTERS, *BROKERS)]
    check_majority(KILL, all_run[0], all_run)
    one_left = [node(VOTERS[0], DEAD), *all_run[1:]]
    with pytest.raises(RefusedError, match="nothing can be decided"):
        check_majority(PAUSE, one_left[1], one_left)
    check_majority(RESUME, one_left[1], one_left)
    check_majority(KILL, one_left[3], one_left)
    hanging = [*one_left[:1], node(VOTERS[1], PAUSED), *one_left[2:]]
    check_majority(KILL, hanging[1], hanging)  # it decides nothing as it is


def test_nodes_are_listed_with_their_processes() -> None:
    table = nodes_table(
        [node(VOTERS[0]), node(BROKERS[0], DEAD)], {"controller-101": Faults(sync_delay_ms=50)}
    )
    first = ("controller-101", "127.0.0.1:20001", RUNNING, 77, "each sync 50ms longer", 2000, 1000)
    assert table.rows[0] == first
    assert table.rows[1][4] is None
    assert table.rows[1][2:4] == (DEAD, None)
    assert len({action.key for action in ACTIONS.values()}) == len(ACTIONS)


@pytest.mark.parametrize(
    ("faults", "text"),
    [
        (NO_FAULTS, ""),
        (Faults(ahead_ms=5_400_000), "clock 90m ahead"),
        (Faults(ahead_ms=-86_400_000, rate=0.5), "clock 1d behind, clock 0.5 times as fast"),
        (Faults(sync_delay_ms=1_500), "each sync 1500ms longer"),
        (Faults(apart=("broker-1", "broker-2")), "cut off from broker-1 broker-2"),
    ],
)
def test_what_is_wrong_is_said_in_few_words(faults: Faults, text: str) -> None:
    assert faults_text(faults) == text


@pytest.mark.parametrize(
    ("text", "ms"), [("500ms", 500), ("+10m", 600_000), ("-1h30m", -5_400_000), ("0s", 0)]
)
def test_clocks_are_set_ahead_and_back(text: str, ms: int) -> None:
    assert parse_shift(text) == ms


@pytest.mark.parametrize("text", ["", "-", "10", "--1h", "+-1h", "soon"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no time"):
        parse_shift(text)


def test_a_clock_is_not_set_wrong_by_more_than_a_hundred_years() -> None:
    assert parse_shift("-36500d") == -3_153_600_000_000
    with pytest.raises(UsageError, match="is too long"):
        parse_shift("36501d")


def test_a_disk_is_not_made_faster() -> None:
    assert parse_delay("300ms") == 300
    with pytest.raises(UsageError, match="300ms less"):
        parse_delay("-300ms")


def test_healing_undoes_what_was_done_and_starts_nothing_that_was_stopped() -> None:
    nodes = [
        node(VOTERS[0]), node(VOTERS[1], PAUSED), node(VOTERS[2], STOPPED), node(BROKERS[0], DEAD),
    ]  # fmt: skip
    faults = {"controller-101": Faults(rate=2), "controller-102": NO_FAULTS}
    plan = plan_healing(nodes, faults)
    assert plan.lines(done=True) == [
        "set right what is below controller-101",
        "resumed controller-102",
        "started broker-1",
    ]
    assert plan.lines(done=False)[1] == "would resume controller-102"
    assert plan
    assert not plan_healing(nodes[:1], {})


def test_who_is_cut_off_and_all_others_do_not_reach_each_other() -> None:
    apart = cut_between(LAYOUT, [BROKERS[0], VOTERS[2]])
    here, there = ("controller-103", "broker-1"), ("controller-101", "controller-102", "broker-2")
    assert apart == {**dict.fromkeys(here, there), **dict.fromkeys(there, here)}
    with pytest.raises(UsageError, match="nobody to cut them off from"):
        cut_between(LAYOUT, LAYOUT.members)
