"""Histories of registers are called linearizable exactly when some order explains them."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.jepsen.linearizability import (
    NEVER,
    STEPS_MAX,
    Cas,
    Get,
    Linearizable,
    NotLinearizable,
    Operation,
    Put,
    Undecided,
    Value,
    check,
    check_key,
)

Action = Get | Put | Cas


def op(action: Action, called: float, returned: float = NEVER, key: str = "x") -> Operation:
    return Operation(0, key, action, called, returned)


RIGHT: dict[str, list[Operation]] = {
    "nothing happened": [],
    "a key has no value at first": [op(Get(None), 0, 1)],
    "a read during a write may see the old value": [op(Put(1), 0, 5), op(Get(None), 1, 2)],
    "a read during a write may see the new value": [op(Put(1), 0, 5), op(Get(1), 1, 2)],
    "the order of concurrent writes is free": [
        op(Put(1), 0, 5), op(Put(2), 0, 5), op(Get(2), 6, 7), op(Get(2), 8, 9),
    ],
    "an unknown write may never take effect": [op(Put(1), 0), op(Get(None), 5, 6)],
    "an unknown write may take effect late": [
        op(Put(1), 0), op(Put(2), 1, 2), op(Get(2), 3, 4), op(Get(1), 5, 6), op(Get(1), 7, 8),
    ],
    "an unknown cas may have worked": [
        op(Put(1), 0, 1), op(Cas(1, 2, None), 2), op(Get(1), 3, 4), op(Get(2), 5, 6),
    ],
    "an unknown read says nothing": [op(Get(7), 0)],
    "of two concurrent cas one fails": [
        op(Put(1), 0, 1), op(Cas(1, 2, done=True), 2, 9), op(Cas(1, 3, done=False), 3, 8),
    ],
    "keys have nothing to do with each other": [
        op(Put(1), 0, 1), op(Get(None), 2, 3, key="y"), op(Get(1), 4, 5),
    ],
}  # fmt: skip

WRONG: dict[str, list[Operation]] = {
    "a lost write": [op(Put(1), 0, 1), op(Get(None), 2, 3)],
    "a stale read": [op(Put(1), 0, 1), op(Put(2), 2, 3), op(Get(1), 4, 5)],
    "a value from nowhere": [op(Put(1), 0, 1), op(Get(9), 2, 3)],
    "a value before it was written": [op(Get(1), 0, 1), op(Put(1), 2, 3)],
    "back in time between two readers": [op(Put(1), 0, 9), op(Get(1), 1, 2), op(Get(None), 3, 4)],
    "two readers disagree about the order": [
        op(Put(1), 0, 9), op(Put(2), 0, 9),
        op(Get(1), 1, 2), op(Get(2), 3, 4), op(Get(1), 5, 6),
    ],
    "two cas from the same value both work": [
        op(Put(1), 0, 1), op(Cas(1, 2, done=True), 2, 9), op(Cas(1, 3, done=True), 2, 9),
    ],
    "a cas fails though nobody changed the value": [
        op(Put(1), 0, 1), op(Cas(1, 2, done=False), 2, 3),
    ],
    "an unknown write takes effect twice": [
        op(Put(1), 0), op(Put(2), 1, 2),
        op(Get(1), 3, 4), op(Put(3), 5, 6), op(Get(1), 7, 8),
    ],
    "an unknown cas works on a value that never was": [
        op(Put(1), 0, 1), op(Cas(5, 6, None), 0), op(Get(6), 2, 3),
    ],
    "one key of two": [op(Put(1), 0, 1), op(Get(1), 2, 3), op(Get(4), 2, 3, key="y")],
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_a_register_may_do_is_accepted(name: str) -> None:
    assert check(RIGHT[name]) == Linearizable()


@pytest.mark.parametrize("name", WRONG)
def test_what_a_register_never_does_is_refused(name: str) -> None:
    assert isinstance(check(WRONG[name]), NotLinearizable)


def test_a_refusal_shows_how_far_the_history_can_be_explained() -> None:
    write, stale = op(Put(1), 0, 1), op(Get(None), 4, 5)
    seen, later = op(Get(1), 2, 3), op(Put(2), 6, 7)
    assert check([stale, later, seen, write]) == NotLinearizable("x", (write, seen), 1, (stale,))


def test_a_search_that_takes_too_long_is_neither_proof_nor_refutation() -> None:
    history = [op(Put(n), 0, 100) for n in range(12)] + [op(Get(77), 200, 300)]
    assert check(history, steps_max=50) == Undecided("x")


def test_a_refutation_outweighs_what_is_undecided() -> None:
    hard = [op(Put(n), 0, 100, key="a") for n in range(12)] + [op(Get(77), 200, 300, key="a")]
    verdict = check([*hard, op(Get(1), 0, 1, key="b")], steps_max=50)
    assert isinstance(verdict, NotLinearizable)
    assert verdict.key == "b"


def test_a_return_before_the_call_is_a_mistake_of_whoever_wrote_the_history() -> None:
    with pytest.raises(AssertionError, match="before it was called"):
        check([op(Get(None), 2, 1)])


def explains(order: tuple[Operation, ...]) -> bool:
    """Whether an order respects time and every answer."""
    value: Value = None
    for position, operation in enumerate(order):
        if any(later.returned < operation.called for later in order[position + 1 :]):
            return False
        match operation.action:
            case Get(seen):
                if operation.known and seen != value:
                    return False
            case Put(new):
                value = new
            case Cas(expected, new, done):
                if operation.known and done != (expected == value):
                    return False
                value = new if expected == value else value
    return True


def by_trying_all_orders(history: list[Operation]) -> bool:
    known = [o for o in history if o.known]
    unknown = [o for o in history if not o.known]
    return any(
        explains(order)
        for chosen in range(2 ** len(unknown))
        for order in permutations([*known, *(o for i, o in enumerate(unknown) if chosen >> i & 1)])
    )


values = st.integers(0, 2)
known_actions = st.one_of(
    st.builds(Get, st.none() | values),
    st.builds(Put, values),
    st.builds(Cas, st.none() | values, values, st.booleans()),
)
unknown_actions = st.one_of(
    st.builds(Put, values), st.builds(Cas, st.none() | values, values, st.none())
)
moments = st.integers(0, 8)


def lasting(action: Action, called: int, lasts: int) -> Operation:
    return op(action, called, called + lasts)


def both(known: list[Operation], unknown: list[Operation]) -> list[Operation]:
    return [*known, *unknown]


histories = st.builds(
    both,
    st.lists(st.builds(lasting, known_actions, moments, moments), max_size=5),
    st.lists(st.builds(op, unknown_actions, moments), max_size=2),
)


@settings(max_examples=600, deadline=None)
@given(histories)
def test_the_search_agrees_with_trying_all_orders(history: list[Operation]) -> None:
    verdict = check_key(history, STEPS_MAX)
    assert isinstance(verdict, Linearizable) == by_trying_all_orders(history)
