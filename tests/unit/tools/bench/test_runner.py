"""Whose turn it is."""

from typing import cast

from quorate.tools.bench.runner import whose_turn
from quorate.tools.bench.scenarios import Subject


def subjects(names: str) -> list[Subject]:
    return cast("list[Subject]", list(names))


def test_each_comes_in_each_place_as_often() -> None:
    rounds = ["".join(map(str, whose_turn(subjects("abc"), number))) for number in range(1, 5)]
    assert rounds == ["abc", "bca", "cab", "abc"]


def test_nobody_is_ready() -> None:
    assert whose_turn([], 1) == []
