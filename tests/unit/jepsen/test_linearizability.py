"""Histories of registers are called linearizable exactly when some order explains them."""

from collections import Counter
from dataclasses import replace
from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.jepsen.linearizability import (
    NEVER,
    STEPS_MAX,
    Cas,
    Delete,
    Get,
    Linearizable,
    NotLinearizable,
    Operation,
    Put,
    Undecided,
    Value,
    breadth_first,
    check,
    check_key,
    depth_first,
    zones,
)
from quorate.jepsen.linearizability.portfolio import WAYS_MAX
from quorate.jepsen.linearizability.register import Action


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
    "what was deleted is gone, once": [
        op(Put(1), 0, 1), op(Delete(done=True), 2, 3),
        op(Get(None), 4, 5), op(Delete(done=False), 6, 7),
    ],
    "an unknown deletion may take effect late": [
        op(Put(1), 0, 1), op(Delete(None), 2), op(Get(1), 3, 4), op(Get(None), 5, 6),
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
    "what was deleted is still there": [
        op(Put(1), 0, 1), op(Delete(done=True), 2, 3), op(Get(1), 4, 5),
    ],
    "something is deleted twice": [
        op(Put(1), 0, 1), op(Delete(done=True), 2, 3), op(Delete(done=True), 4, 5),
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


def hard(key: str) -> list[Operation]:
    """A history that no proof without a search covers, and that takes long to refute."""
    writes = [op(Cas(None, n, done=None), 0, key=key) for n in range(6)]
    others = [op(Put(n), 0, 100, key=key) for n in range(6, 12)]
    return [*writes, *others, op(Get(77), 200, 300, key=key)]


def test_a_search_that_takes_too_long_is_neither_proof_nor_refutation() -> None:
    assert check(hard("x"), steps_max=50, ways_max=50) == Undecided("x")


def test_a_refutation_outweighs_what_is_undecided() -> None:
    verdict = check([*hard("a"), op(Get(1), 0, 1, key="b")], steps_max=50, ways_max=50)
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
            case Delete(done):
                if operation.known and done != (value is not None):
                    return False
                value = None
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
    st.builds(Delete, st.booleans()),
)
unknown_actions = st.one_of(
    st.builds(Put, values),
    st.builds(Cas, st.none() | values, values, st.none()),
    st.just(Delete(None)),
)
moments = st.integers(0, 8)


def lasting(action: Action, called: int, lasts: int) -> Operation:
    return op(action, called, called + lasts)


def both(known: list[Operation], unknown: list[Operation]) -> list[Operation]:
    return [*known, *unknown]


def written_once(operations: list[Operation]) -> list[Operation]:
    """Give each write a value of its own; reads then read some of them, or none."""
    count = 0
    unique: list[Operation] = []
    for operation in operations:
        if isinstance(operation.action, Put):
            operation = replace(operation, action=Put(count))  # noqa: PLW2901
            count += 1
        unique.append(operation)
    return unique


histories = st.builds(
    both,
    st.lists(st.builds(lasting, known_actions, moments, moments), max_size=5),
    st.lists(st.builds(op, unknown_actions, moments), max_size=2),
)
reads_and_writes = st.builds(Get, st.none() | values) | st.builds(Put, values)
histories_of_unique_writes = st.builds(
    both,
    st.lists(st.builds(lasting, reads_and_writes, moments, moments), max_size=6),
    st.lists(st.builds(op, st.builds(Put, values), moments), max_size=2),
).map(written_once)


def called_in_order(history: list[Operation]) -> list[Operation]:
    return sorted(history, key=lambda o: o.called)


@settings(max_examples=500, deadline=None)
@given(histories)
def test_both_searches_agree_with_trying_all_orders(history: list[Operation]) -> None:
    right = by_trying_all_orders(history)
    for verdict in (
        depth_first.search(called_in_order(history), STEPS_MAX),
        breadth_first.search(called_in_order(history), WAYS_MAX),
        check_key(history),
    ):
        assert isinstance(verdict, Linearizable if right else NotLinearizable)


@settings(max_examples=500, deadline=None)
@given(histories_of_unique_writes)
def test_zones_agree_with_trying_all_orders(history: list[Operation]) -> None:
    assert zones.applies_to(history)
    verdict = zones.judge(called_in_order(history))
    assert isinstance(verdict, Linearizable) == by_trying_all_orders(history)
    assert type(check_key(history)) is type(verdict)


def random_register(seed: int, count: int, clients: int, *, wrong: bool) -> list[Operation]:
    """What a register really did, each operation at a moment between its call and its return.

    If it is to be wrong, some reads are told an older value, which can still be right.
    """
    rng = Random(seed)
    value, old = None, None
    free = [0.0] * clients
    history: list[Operation] = []
    for number in range(count):
        client = rng.randrange(clients)
        called = free[client] + rng.random()
        history.append(op(Get(None), called, called + rng.expovariate(1)))
        free[client] = history[-1].returned
        history[-1] = replace(history[-1], client=number)
    moments = {o.client: rng.uniform(o.called, o.returned) for o in history}
    done: list[Operation] = []
    for operation in sorted(history, key=lambda o: moments[o.client]):
        kind = rng.choice(("get", "put", "cas", "lost", "delete"))
        number, returned = operation.client, operation.returned
        action: Action
        if kind == "get":
            action = Get(old if wrong and rng.random() < 0.3 else value)
        elif kind == "put":
            action, value, old = Put(number), number, value
        elif kind == "delete":
            action, value, old = Delete(done=value is not None), None, value
        else:
            expected = rng.choice((value, old))
            action = Cas(expected, number, expected == value if kind == "cas" else None)
            returned = NEVER if kind == "lost" else returned
            value, old = (number if expected == value else value), value
        done.append(replace(operation, action=action, returned=returned))
    return done


@pytest.mark.parametrize("wrong", [False, True])
def test_both_searches_agree_about_longer_histories(wrong: bool) -> None:
    verdicts = Counter[str]()
    for seed in range(60):
        history = called_in_order(random_register(seed, 40, 4, wrong=wrong))
        one = depth_first.search(history, 50_000)
        other = breadth_first.search(history, 5_000)
        if not isinstance(one, Undecided) and not isinstance(other, Undecided):
            assert type(one) is type(other), seed
            verdicts[type(one).__name__] += 1
    assert verdicts["NotLinearizable" if wrong else "Linearizable"] > 10
    assert wrong or len(verdicts) == 1
