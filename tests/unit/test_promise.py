"""A promise is kept once, to whoever asked before or after; it can be given up."""

import gc
import weakref

import pytest

from quorate.promise import Promise


def test_whoever_asks_before_and_after_is_told_in_order() -> None:
    promise, told = Promise[int](), list[tuple[str, int]]()
    promise.when_resolved(lambda value: told.append(("first", value)))
    promise.when_resolved(lambda value: told.append(("second", value)))
    assert not promise.resolved
    promise.resolve(7)
    promise.when_resolved(lambda value: told.append(("late", value)))
    assert (promise.value, told) == (7, [("first", 7), ("second", 7), ("late", 7)])


def test_nobody_is_told_what_was_given_up_and_who_works_on_it_may_stop() -> None:
    promise, heard = Promise[int](), list[object]()
    promise.on_abandoned = lambda: heard.append("abandoned")
    promise.when_resolved(heard.append)
    promise.abandon()
    promise.resolve(7)
    assert heard == ["abandoned"]


def test_giving_up_what_is_known_or_what_nobody_works_on_changes_nothing() -> None:
    known, heard = Promise[int](), list[object]()
    known.on_abandoned = lambda: heard.append("abandoned")
    known.resolve(7)
    known.abandon()
    Promise[int]().abandon()
    assert (known.value, heard) == (7, [])


@pytest.mark.parametrize("kept", [True, False])
def test_a_promise_that_is_over_is_gone_at_once_and_leaves_the_collector_nothing(
    kept: bool,
) -> None:
    """What a hundred members left when they had joined paused a broker for 12 ms."""

    class Watched(Promise[int]):
        __slots__ = ("__weakref__",)

        def note(self, _value: int = 0) -> None:
            pass

    promise = Watched()
    promise.on_abandoned = promise.note
    promise.when_resolved(promise.note)
    seen = weakref.ref(promise)
    gc.disable()
    try:
        if kept:
            promise.resolve(7)
        else:
            promise.abandon()
        del promise
        assert seen() is None
    finally:
        gc.enable()
