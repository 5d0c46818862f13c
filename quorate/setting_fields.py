"""One setting: what is said about it, and the dataclass fields that say it.

A setting is declared once, as a field of the dataclass that carries it; its table entry (name,
type, range, unit, meaning) is the field's metadata.
"""

import dataclasses
from enum import Enum
from typing import Any, Final

from quorate.dataclass import dataclass

Value = bool | int | float | str | tuple[str, ...]

SHORT_MAX: Final = 2**15 - 1
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
WEEK_MS: Final = 7 * 24 * 3_600_000


class Kind(Enum):
    """The type of a setting; the values are Kafka's wire numbers (DescribeConfigs)."""

    BOOL = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True)
class Setting:
    """What may be said about one property.

    ``unit`` is ``"bytes"``, ``"ms"`` or empty. ``broker_name`` is the node-wide property that a
    topic's setting falls back to. ``dynamic`` ones may be changed while a node runs. A list
    ``of_replicas`` has items of the form partition:broker, or stands for all of them by ``*``.
    ``gap`` is a number between ``low`` and ``high`` that cannot be set.
    """

    name: str
    kind: Kind
    default: Value
    meaning: str
    low: float | None = None
    high: float | None = None
    gap: int | None = None
    choices: tuple[str, ...] = ()
    unit: str = ""
    broker_name: str = ""
    dynamic: bool = False
    of_replicas: bool = False


def setting_field(name: str, kind: Kind, default: Value, meaning: str, **rules: Any) -> Any:
    """Declare a field and its setting in one; typed Any, as ``dataclasses.field`` is."""
    setting = Setting(name, kind, default, meaning, **rules)
    return dataclasses.field(default=default, metadata={"setting": setting})


def bytes_field(name: str, default: int, meaning: str, **rules: Any) -> Any:
    """Declare a number of bytes."""
    return setting_field(
        name, Kind.INT, default, meaning, **{"low": 0, "high": INT_MAX, "unit": "bytes", **rules}
    )


def ms_field(name: str, default: int, meaning: str, **rules: Any) -> Any:
    """Declare a time; its type is Kafka's, which keeps those that messages carry in 32 bits."""
    kind = Kind.INT if rules.get("high") == INT_MAX else Kind.LONG
    return setting_field(
        name, kind, default, meaning, **{"low": 0, "high": LONG_MAX, "unit": "ms", **rules}
    )


def number_field(name: str, default: int, meaning: str, **rules: Any) -> Any:
    """Declare a number."""
    return setting_field(name, Kind.INT, default, meaning, **{"low": 0, "high": INT_MAX, **rules})


def flag_field(name: str, default: bool, meaning: str, **rules: Any) -> Any:  # noqa: FBT001 - a value, not a switch
    """Declare a switch."""
    return setting_field(name, Kind.BOOL, default, meaning, **rules)


def text_field(name: str, default: str, meaning: str, **rules: Any) -> Any:
    """Declare a text."""
    return setting_field(name, Kind.STRING, default, meaning, **rules)
