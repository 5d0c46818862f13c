"""Frozen dataclasses that are made quickly are like all others."""

from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Any

import pytest

from quorate.control.quick import quickly_made


class Base:
    __slots__ = ()


@quickly_made
@dataclass(frozen=True, slots=True)
class Quick(Base):
    """One that checks itself."""

    one: int
    two: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.one < 0:
            raise ValueError("negative")


def test_a_value_is_given_by_place_or_name_and_has_defaults() -> None:
    assert Quick(1) == Quick(one=1, two=()) == replace(Quick(2), one=1)
    assert repr(Quick(1, (2,))) == "Quick(one=1, two=(2,))"
    assert hash(Quick(1)) == hash(Quick(1))
    assert isinstance(Quick(1), Base)


def test_a_value_stays_as_it_was_made() -> None:
    value: Any = Quick(1)
    with pytest.raises(FrozenInstanceError):
        value.one = 2
    assert type(value) is Quick


def test_a_value_is_checked() -> None:
    with pytest.raises(ValueError, match="negative"):
        Quick(-1)


@pytest.mark.parametrize("arguments", [(), (1, (), 3)])
def test_too_few_and_too_many_arguments_are_refused(arguments: tuple[Any, ...]) -> None:
    make: Any = Quick
    with pytest.raises(TypeError, match=r"Quick\.__init__"):
        make(*arguments)
