"""A pace gives what is due at a rate, and does not catch up with a long past."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from quorate.jepsen.workloads.producing import Pace
from quorate.jepsen.workloads.registers import OPERATIONS_MAX, Registers


def test_so_many_a_second() -> None:
    pace = Pace(80, 5.0)
    assert [pace.due(5.0 + tick / 8) for tick in range(4)] == [0, 10, 10, 10]


def test_less_than_one_a_tick_comes_now_and_then() -> None:
    pace = Pace(2, 0.0)
    assert sum(pace.due(tick / 10) for tick in range(105)) == 20


def test_who_was_kept_waiting_does_not_catch_up_with_everything() -> None:
    pace = Pace(100, 0.0)
    assert pace.due(60.0) <= 51
    assert pace.due(60.1) <= 11


@given(st.floats(0.5, 2000), st.lists(st.floats(0, 3), max_size=50))
def test_never_more_than_the_rate(per_s: float, steps: list[float]) -> None:
    pace, now_s, done = Pace(per_s, 0.0), 0.0, 0
    for step in steps:
        now_s += step
        count = pace.due(now_s)
        assert count >= 0
        done += count
    assert done <= per_s * now_s + 1


def test_registers_are_retired_and_never_forgotten() -> None:
    registers = Registers(2, "register {}".format)
    rng = Random(1)
    used = [registers.some(rng) for _ in range(5 * OPERATIONS_MAX)]
    assert set(used) <= set(registers.all())
    assert all(used.count(name) <= OPERATIONS_MAX for name in used)
    assert len(registers.all()) >= 5
