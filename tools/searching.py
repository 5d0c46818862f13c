"""Which records somebody looks for: by key, value, header, and what JSON values say."""

import json
import re
from collections.abc import Callable, Mapping
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, cast

from quorate.dataclass import dataclass
from quorate.records.record import Record
from quorate.tools.problems import UsageError

Keep = Callable[[Record], bool]

_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": eq, "!=": ne, ">": gt, ">=": ge, "<": lt, "<=": le,
    "~": lambda text, pattern: re.search(str(pattern), str(text)) is not None,
}  # fmt: skip
_CONDITION: Final = re.compile(r"\s*([\w.\[\]-]+?)\s*(!=|>=|<=|=|>|<|~)\s*(.*?)\s*")
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Condition:
    """What a place in a JSON value must be: ``amount>6000``, ``user.name=ann``, ``items.0~^x``."""

    path: tuple[str, ...]
    operator: str
    wanted: Any

    def holds(self, document: Any) -> bool:
        """Whether a value is so; false where it has no such place, or another type there."""
        found = document
        for step in self.path:
            found = _inside(found, step)
            if found is _ABSENT:
                return False
        if self.operator not in {"=", "!=", "~"} and not _are_ordered(found, self.wanted):
            return False
        return _OPERATORS[self.operator](found, self.wanted)


def _inside(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).get(step, _ABSENT)
    if isinstance(value, list) and step.isdecimal():
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return items[int(step)] if int(step) < len(items) else _ABSENT
    return _ABSENT


def _are_ordered(one: Any, other: Any) -> bool:
    numbers = (int, float)
    return isinstance(one, numbers) == isinstance(other, numbers) and (
        isinstance(one, numbers) or isinstance(one, str) == isinstance(other, str)
    )


def parse_condition(text: str) -> Condition:
    """Return what ``--where`` says; what is wanted is JSON, or else text as it stands.

    Raises:
        UsageError: It says nothing.
    """
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{text!r} is no condition", why="PATH=VALUE, or with != > >= < <= ~",
            hint="--where 'order.amount>6000' --where 'user~^ann'",
        )  # fmt: skip
    path, operator, wanted = match.groups()
    if operator == "~":
        check_pattern(wanted)
        return Condition(_steps(path), operator, wanted)
    try:
        return Condition(_steps(path), operator, json.loads(wanted))
    except ValueError:
        return Condition(_steps(path), operator, wanted)


def _steps(path: str) -> tuple[str, ...]:
    steps = path.replace("[", ".").replace("]", "").split(".")
    return tuple(steps[1:] if steps[0] == "json" and len(steps) > 1 else steps)


def check_pattern(text: str) -> None:
    """Refuse what is no regular expression.

    Raises:
        UsageError: It is none.
    """
    try:
        re.compile(text)
    except re.error as error:
        raise UsageError(
            f"{text!r} is no regular expression", why=str(error), hint="'error|warn'"
        ) from None


@dataclass(frozen=True, slots=True)
class Query:
    """All that a record must be.

    Attributes:
        key: The whole key; None: any.
        value: A regular expression that is found in the value; None: any.
        headers: ``NAME`` or ``NAME=VALUE``, all of which it must have.
        conditions: What its value, as JSON, must be.
    """

    key: bytes | None
    value: re.Pattern[bytes] | None
    headers: tuple[str, ...]
    conditions: tuple[Condition, ...]

    def keeps(self, record: Record) -> bool:
        """Whether a record is so."""
        if self.key is not None and record.key != self.key:
            return False
        if self.value is not None and not self.value.search(record.value or b""):
            return False
        return self._has_headers(record) and self._is_as_wanted(record)

    def _has_headers(self, record: Record) -> bool:
        for wanted in self.headers:
            name, equals, value = wanted.partition("=")
            found = [content for other, content in record.headers if other == name]
            if not found or (equals and value.encode() not in found):
                return False
        return True

    def _is_as_wanted(self, record: Record) -> bool:
        if not self.conditions:
            return True
        try:
            document = json.loads(record.value or b"")
        except (ValueError, RecursionError):
            return False
        return all(condition.holds(document) for condition in self.conditions)
