"""The quorum in words."""

import io

import pytest
from rich.console import Console

from quorate.control.messages import NO_NODE
from quorate.tools.quorum.screen import screen
from quorate.tools.quorum.text import duration_text, one_line, status_lines, unled_text
from quorate.tools.quorum.view import QuorumView, view_of_description
from tests.unit.tools.quorum.pictures import (
    CLUSTER,
    NOW_MS,
    description,
    full,
    leaderless,
    one,
    replica,
    three,
)

SCREEN_COLUMNS = 80


def drawn(view: QuorumView, commits_per_s: float | None = None) -> list[str]:
    """What a terminal of 80 columns shows, without colors."""
    console = Console(file=io.StringIO(), width=SCREEN_COLUMNS, highlight=False)
    with console.capture() as captured:
        console.print(screen(view, commits_per_s))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_the_state_is_told_in_a_few_lines() -> None:
    assert status_lines(three(replica(4, 1000, 61_000))) == [
        "cluster    q8KhB0aAsUtAtjBg1QMn2w",
        "leader     1 at 127.0.0.1:9190, term 5",
        "committed  up to offset 1235; metadata version 1200",
        "voters     1, 2, 3; 2 decide, 0 more may fail",
        "observers  4",
        "no answer  3, 4",
        "",
        "ID  ROLE      ADDRESS         LOG-END  LAG  BEHIND  LOG     SNAPSHOT  UP",
        "1   leader    127.0.0.1:9190  1235     0    -       1.2 MB  34.0 kB   1h00m",
        "2   follower  127.0.0.1:9191  1235     0    0       1.2 MB  none      2h00m",
        "3   follower  127.0.0.1:9192  1230     5    2.1 s   -       -         -",
        "4   observer  127.0.0.1:9193  1000     235  1m01s   -       -         -",
    ]


def test_a_quorum_of_one_may_lose_nobody_and_one_without_a_leader_says_so() -> None:
    assert "voters     1; 1 decide, 0 more may fail" in status_lines(one())
    assert "leader     nobody; the last term known is 5" in status_lines(leaderless())


def test_the_screen_fits_a_terminal_of_80_columns() -> None:
    lines = drawn(three(replica(4, 1000, 61_000)), 12.25)
    assert max(map(len, lines)) <= SCREEN_COLUMNS
    assert not any("…" in line for line in lines), "nothing is cut off"
    assert [line.split()[0] for line in lines if line] == [
        "cluster", "leader", "committed", "voters", "observers", "no", "ID", "1", "2", "3", "4",
    ]  # fmt: skip
    assert lines[2].endswith("12.2 a second")


def test_colors_tell_who_leads_who_is_behind_and_who_is_not_heard() -> None:
    console = Console(file=io.StringIO(), width=SCREEN_COLUMNS, force_terminal=True)
    with console.capture() as captured:
        console.print(screen(three(), None))
    lines = captured.get().splitlines()
    assert "\x1b[1;32mleader" in next(line for line in lines if "9190" in line and "1235" in line)
    assert "\x1b[33m5" in next(line for line in lines if "9192" in line)
    assert "\x1b[31mfollower" in next(line for line in lines if "9192" in line)


def test_who_does_not_answer_is_named_unless_nobody_can_be_asked() -> None:
    assert "no answer  3" in status_lines(three())
    combined = view_of_description(description(), [], CLUSTER, NOW_MS)
    assert "voters     1, 2, 3; 2 decide, 1 more may fail" in status_lines(combined)
    assert not any(line.startswith("no answer") for line in status_lines(combined))


def test_who_has_a_full_disk_is_named_and_not_counted_on() -> None:
    lines = status_lines(full(3))
    assert "voters     1, 2, 3; 2 decide, 0 more may fail" in lines
    assert "disk full  3" in lines
    assert "voters     1, 2, 3; 2 decide, 1 more may fail" in status_lines(full())
    assert not any(line.startswith("disk full") for line in status_lines(full()))


def test_the_screen_shows_whose_disk_is_full_in_red() -> None:
    console = Console(file=io.StringIO(), width=SCREEN_COLUMNS, force_terminal=True)
    with console.capture() as captured:
        console.print(screen(full(3), None))
    lines = captured.get().splitlines()
    assert "\x1b[1;31m3" in next(line for line in lines if "disk full" in line)
    assert "\x1b[31mfollower" in next(line for line in lines if "9192" in line)


def test_where_nobody_leads_full_disks_are_told_as_the_reason() -> None:
    assert unled_text(leaderless()) == "none of 3 voters has been elected; 2 have to run"
    assert unled_text(full(2, 3, leader_id=NO_NODE)) == (
        "none of 3 voters has been elected; 2 have to run; disk full: 2, 3"
    )


def test_where_nothing_can_move_it_is_a_line_each_time() -> None:
    assert one_line(three()) == (
        "2023-11-14T22:13:20.000Z leader=1 term=5 high_watermark=1235 lag=1:0,2:0,3:5"
    )
    assert "leader=- term=5" in one_line(leaderless())


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (None, "-"),
        (0, "0"),
        (20, "20 ms"),
        (2_149, "2.1 s"),
        (61_000, "1m01s"),
        (3_600_000, "1h00m"),
        (90_000_000, "1d01h"),
    ],
)
def test_durations_have_their_two_largest_units(duration_ms: int | None, text: str) -> None:
    assert duration_text(duration_ms) == text
