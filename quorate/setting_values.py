"""Values of settings: from text, with units and ranges, and to text the standard way."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from quorate.errors import InvalidConfigError, shortened
from quorate.setting_fields import LONG_MAX, WEEK_MS, Kind, Setting, Value

_BYTE_UNITS: Final = {
    "": 1, "b": 1, "k": 2**10, "kib": 2**10, "kb": 10**3, "m": 2**20, "mib": 2**20, "mb": 10**6,
    "g": 2**30, "gib": 2**30, "gb": 10**9, "t": 2**40, "tib": 2**40, "tb": 10**12,
}  # fmt: skip
_TIME_UNITS: Final = {
    "": 1,
    "ms": 1,
    "s": 1000,
    "min": 60_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": WEEK_MS,
}
_UNITS: Final = {"": {"": 1}, "bytes": _BYTE_UNITS, "ms": _TIME_UNITS}
_QUANTITY: Final = re.compile(r"([+-]?)([0-9]+)\s*([A-Za-z]*)")
_REPLICAS: Final = re.compile(r"(\*|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)?")
_DIGITS_MAX: Final = len(str(LONG_MAX))


def find_setting(table: Mapping[str, Setting], name: str) -> Setting:
    """Return a setting by name.

    Raises:
        InvalidConfigError: there is none of that name; the message names the nearest.
    """
    setting = table.get(name)
    if setting is None:
        raise unknown_setting(table, name)
    return setting


def unknown_setting(names: Iterable[str], name: str) -> InvalidConfigError:
    """Return the error that says that a name is none of these, and which is the nearest."""
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    return InvalidConfigError(f"unknown configuration {name!r}{hint}")


def parse_value(setting: Setting, text: str) -> Value:
    """Return the typed value of a property's text.

    Numbers of bytes take K, M, G, T (powers of 1024) and KB, MB, GB, TB (powers of 1000); times
    take ms, s, m, h, d, w.

    Raises:
        InvalidConfigError: what is wrong with the text, and what would be right.
    """
    text = text.strip()
    value = _convert(setting, text)
    if setting.choices:
        chosen = value if isinstance(value, tuple) else (value,)
        if not set(chosen) <= set(setting.choices):
            raise _invalid(setting, text, f"one of {', '.join(setting.choices)}")
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and not _in_range(setting, value)
    ):
        raise _invalid(setting, text, _range_text(setting))
    return value


def standard_text(setting: Setting, text: str) -> str:
    """Return a value that is set from now on, written the standard way ("1M" as "1048576").

    Raises:
        InvalidConfigError: see :func:`parse_value`, which goes on reading what was stored before.
    """
    value = parse_value(setting, text)
    standard = value_text(value)
    if setting.gap is not None and value == setting.gap:
        raise _invalid(setting, text, f"{_range_text(setting)}, but not {setting.gap}")
    if setting.of_replicas and not _REPLICAS.fullmatch(standard):
        raise _invalid(setting, text, "partition:broker,..., or * for all")
    return standard


def _convert(setting: Setting, text: str) -> Value:
    match setting.kind:
        case Kind.STRING:
            return text
        case Kind.LIST:
            return _items(setting, text)
        case Kind.BOOL:
            if text.lower() not in {"true", "false"}:
                raise _invalid(setting, text, "true or false")
            return text.lower() == "true"
        case Kind.DOUBLE:
            try:
                return float(text)
            except ValueError:
                raise _invalid(setting, text, "a number") from None
        case _:  # INT, LONG
            return _quantity(setting, text)


def _items(setting: Setting, text: str) -> tuple[str, ...]:
    items = [part.strip() for part in text.split(",")]
    if not setting.choices:
        return tuple(item for item in items if item)
    # A comma too many is a mistake: of "," nothing would be left, and that means something.
    if text and "" in items:
        raise _invalid(setting, text, f"some of {', '.join(setting.choices)}")
    return tuple(dict.fromkeys(item for item in items if item))


def _quantity(setting: Setting, text: str) -> int:
    match = _QUANTITY.fullmatch(text)
    factor = _UNITS[setting.unit].get(match[3].lower()) if match else None
    if match is None or factor is None:
        examples = {
            "bytes": "a number of bytes such as 1048576 or 1M",
            "ms": "a time such as 60000, 1m or 7d",
        }
        raise _invalid(setting, text, examples.get(setting.unit, "a whole number"))
    digits = match[2].lstrip("0") or "0"
    if len(digits) > _DIGITS_MAX:  # int() takes only so many, and raises another error
        raise _invalid(setting, text, _range_text(setting))
    return int(match[1] + digits) * factor


def _in_range(setting: Setting, value: float) -> bool:
    low_ok = setting.low is None or value >= setting.low
    return low_ok and (setting.high is None or value <= setting.high)


def _range_text(setting: Setting) -> str:
    unit = f" {setting.unit}" if setting.unit else ""
    if setting.high is None:
        return f"at least {setting.low}{unit}"
    return f"from {setting.low} to {setting.high}{unit}"


def _invalid(setting: Setting, text: str, wanted: str) -> InvalidConfigError:
    text = shortened(text)
    return InvalidConfigError(f"invalid value {text!r} for {setting.name}: expected {wanted}")


def value_text(value: Value) -> str:
    """Return a value as Kafka's tools print it and configuration records keep it."""
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case _:
            return str(value)
