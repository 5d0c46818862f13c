"""Dataclasses made late are those of the standard library, in everything but their time."""

import copy
import dataclasses
import inspect
import pickle  # noqa: TID251 as Spark does
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.dataclass import dataclass, made_late

T = TypeVar("T")


class Base:
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Value(Base):
    """One that checks itself."""

    one: int
    two: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.one < 0:
            raise ValueError("negative")


@dataclass(frozen=True, slots=True)
class Longer(Value):
    """One with a field more."""

    three: list[int] = field(default_factory=list[int], compare=False)
    four: int = field(default=4, init=False, repr=False)


@dataclass(frozen=True, slots=True)
class Of(Generic[T]):
    """One of any kind."""

    one: T


@dataclass(slots=True)
class State:
    """One that changes, and knows itself."""

    other: "State | None" = None
    names: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(slots=True, eq=False)
class Itself:
    """One that equals nothing else."""

    one: int


@dataclass(frozen=True, slots=True)
class Own:  # noqa: PLW1641 it gets a hash
    """One with methods of its own."""

    one: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

    def __repr__(self) -> str:
        return "own"


# --- any class ------------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d")
FLAGS = st.fixed_dictionaries({name: st.booleans() for name in ("compare", "repr", "kw_only")})
DEFAULTS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"default": 0}, {"default": 1}, {"default_factory": list[int]}]
)
FIELDS = st.lists(st.tuples(FLAGS, DEFAULTS).map(lambda two: {**two[0], **two[1]}), max_size=4)
ANSWERS = st.lists(st.integers(0, 2), max_size=len(NAMES) + 1)


def undecorated(options: list[dict[str, Any]]) -> Any:
    # What has no default stands before what has one.
    ordered = sorted(options, key=lambda each: len(each.keys() & {"default", "default_factory"}))
    specified = {n: field(**each) for n, each in zip(NAMES, ordered, strict=False)}
    return type("Some", (), {"__annotations__": dict.fromkeys(specified, int), **specified})


def outcome(cls: Callable[..., Any], *by_place: int, **by_name: int) -> Any:
    try:
        return cls(*by_place, **by_name)
    except TypeError as error:
        return str(error)


@given(FIELDS, ANSWERS, ANSWERS, st.sets(st.sampled_from(NAMES)), st.booleans(), st.booleans())
def test_any_class_does_what_that_of_the_standard_library_does(
    options: list[dict[str, Any]], one: list[int], two: list[int], chosen: set[str],
    frozen: bool, eq: bool,
) -> None:  # fmt: skip
    usual, late = (
        decorator(frozen=frozen, slots=True, eq=eq)(undecorated(options))
        for decorator in (dataclasses.dataclass, made_late)
    )
    assert late.__match_args__ == usual.__match_args__
    names = [f.name for f in fields(late)]
    assert names == [f.name for f in fields(usual)]

    by_name = dict.fromkeys(sorted(chosen), 1)
    ways: Any = [(one, {}), (two, {}), ([], by_name), (one[:1], by_name)]
    usuals = [outcome(usual, *by_place, **named) for by_place, named in ways]
    lates = [outcome(late, *by_place, **named) for by_place, named in ways]
    assert [repr(value) for value in lates] == [repr(value) for value in usuals]
    assert (late.__hash__ is None) == (usual.__hash__ is None)
    pairs = [two for two in zip(lates, usuals, strict=True) if not isinstance(two[0], str)]
    for made, expected in pairs:
        assert type(made) is late
        assert [made == other for other in lates] == [expected == other for other in usuals]
    for made, expected in pairs:
        for name in names:
            assert tried(setattr, made, name, 7) == tried(setattr, expected, name, 7)
        assert repr(made) == repr(expected)
        for name in names:
            assert tried(delattr, made, name) == tried(delattr, expected, name)


def tried(change: Callable[..., None], *arguments: Any) -> str | None:
    """Return how a change was refused, if it was."""
    try:
        change(*arguments)
    except FrozenInstanceError as error:
        return str(error)
    return None


# --- some -----------------------------------------------------------------------------------------


def test_a_value_is_given_by_place_or_name_and_has_defaults() -> None:
    assert Value(1) == Value(one=1, two=()) == replace(Value(2), one=1)
    assert repr(Value(1, (2,))) == "Value(one=1, two=(2,))"
    assert hash(Value(1)) == hash(Value(1)) != hash(Value(2))
    assert isinstance(Value(1), Base)
    match Value(1, (2,)):
        case Value(one, two):
            assert (one, two) == (1, (2,))


def test_a_value_stays_as_it_was_made() -> None:
    value: Any = Longer(1)
    with pytest.raises(FrozenInstanceError):
        value.one = 2
    with pytest.raises(FrozenInstanceError):
        del value.three
    assert type(value) is Longer


def test_a_value_is_checked() -> None:
    with pytest.raises(ValueError, match="negative"):
        Value(-1)
    with pytest.raises(ValueError, match="negative"):
        Longer(-1)


def test_what_inherits_has_all_fields_and_equals_only_its_own() -> None:
    assert Longer(1, (), [3]) == Longer(1) != Value(1)
    assert repr(Longer(1)) == "Longer(one=1, two=(), three=[])"
    assert Longer(1).four == 4
    assert Longer(1).three is not Longer(1).three


def test_a_state_changes_has_no_hash_and_may_hold_itself() -> None:
    state = State()
    state.other = state
    assert repr(state) == "State(other=..., names={})"
    with pytest.raises(TypeError, match="unhashable"):
        hash(state)


def test_equality_can_be_identity_and_methods_ones_own() -> None:
    one = Itself(1)
    assert one != Itself(1)
    assert {one: 1}[one] == 1
    assert Own(1) == Own(2)
    assert repr(Own(1)) == "own"
    assert hash(Own(1)) == hash(Own(1))


@pytest.mark.parametrize(
    "value", [Value(1, (2,)), Longer(1, (2,), [3]), Of("1"), State(names={"a": 1})]
)
def test_copies_are_equal_however_they_are_made(value: Any) -> None:
    for same in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert same == value
        assert same is not value
        assert type(same) is type(value)


def test_a_class_tells_its_parameters_before_a_value_was_made() -> None:
    @dataclass(frozen=True, slots=True)
    class Fresh:
        one: int
        two: int = 2

    assert str(inspect.signature(Fresh)) == "(one, two=2)"


@pytest.mark.parametrize("arguments", [(), (1, (), 3)])
def test_too_few_and_too_many_arguments_are_refused(arguments: tuple[Any, ...]) -> None:
    make: Any = Value
    with pytest.raises(TypeError, match=r"Value\.__init__"):
        make(*arguments)
