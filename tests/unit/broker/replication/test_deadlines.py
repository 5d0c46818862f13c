from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.replication.deadlines import CANCELLED_KEPT, Deadline, Deadlines


def test_callbacks_are_called_in_order_of_time_and_only_when_due() -> None:
    deadlines, called = Deadlines(), list[str]()
    deadlines.now_ms = 1000
    deadlines.after(50, lambda: called.append("late"))
    deadlines.after(10, lambda: called.append("early"))
    deadlines.after(10, lambda: called.append("early too"))
    assert deadlines.next_ms() == 1010
    deadlines.fire()
    assert called == []
    deadlines.now_ms = 1010
    deadlines.fire()
    assert called == ["early", "early too"]
    deadlines.now_ms = 2000
    deadlines.fire()
    assert called[-1] == "late"
    assert deadlines.next_ms() is None


def test_only_an_earlier_deadline_disturbs_the_sleeper() -> None:
    deadlines, disturbed = Deadlines(), list[int]()
    deadlines.on_earlier = lambda: disturbed.append(deadlines.next_ms() or 0)
    deadlines.after(100, lambda: None)
    deadlines.after(200, lambda: None)
    deadlines.after(100, lambda: None)
    deadlines.after(50, lambda: None)
    assert disturbed == [100, 50]


def test_a_callback_may_set_another_deadline() -> None:
    deadlines, called = Deadlines(), list[str]()

    def first() -> None:
        deadlines.after(0, lambda: called.append("second"))

    deadlines.after(0, first)
    deadlines.fire()
    assert called == ["second"]


def test_a_cancelled_deadline_is_not_met() -> None:
    deadlines, called = Deadlines(), list[str]()
    cancelled = deadlines.after(10, lambda: called.append("cancelled"))
    kept = deadlines.after(10, lambda: called.append("kept"))
    deadlines.cancel(cancelled)
    deadlines.cancel(cancelled)
    assert len(deadlines) == 1
    deadlines.now_ms = 10
    deadlines.fire()
    deadlines.cancel(kept)
    assert (called, len(deadlines)) == (["kept"], 0)


@given(st.lists(st.tuples(st.integers(0, 500), st.booleans()), max_size=400))
def test_only_what_was_not_cancelled_is_met_in_order_of_time(plan: list[tuple[int, bool]]) -> None:
    deadlines, met, expected = Deadlines(), list[int](), list[int]()
    to_cancel: list[Deadline] = []
    for wait_ms, cancel in plan:
        deadline = deadlines.after(wait_ms, lambda at=wait_ms: met.append(at))  # type: ignore[misc]
        (to_cancel if cancel else []).append(deadline)
        expected += [] if cancel else [wait_ms]
    for deadline in to_cancel:
        deadlines.cancel(deadline)
    assert len(deadlines) == len(expected)
    deadlines.now_ms = 500
    deadlines.fire()
    assert met == sorted(expected)
    assert deadlines.next_ms() is None


def test_deadlines_that_are_cancelled_take_no_memory_however_far_off_they_are() -> None:
    deadlines = Deadlines()
    living = deadlines.after(10, lambda: None)
    for _ in range(10_000):
        deadlines.cancel(deadlines.after(600_000, lambda: None))
    assert len(deadlines._heap) <= 2 * CANCELLED_KEPT  # pyright: ignore[reportPrivateUsage]
    assert living.callback is not None
