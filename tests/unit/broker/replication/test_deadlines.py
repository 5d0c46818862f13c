from quorate.broker.replication.deadlines import Deadlines


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
    deadlines.after(0, lambda: deadlines.after(0, lambda: called.append("second")))
    deadlines.fire()
    assert called == ["second"]
