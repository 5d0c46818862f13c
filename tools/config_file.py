"""A node's configuration: a TOML file, then ``-X key=value``, with Kafka's property names.

Keys may be flat (``"segment.bytes" = "1M"``), dotted (``segment.bytes = "1M"``) or in tables
(``[segment]`` / ``bytes = "1M"``): they all mean the same property.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from quorate.errors import InvalidConfigError
from quorate.setting_values import find_setting, parse_value
from quorate.settings import BROKER_SETTINGS, NodeConfig, node_config
from quorate.tools.problems import UsageError


def read_config_file(path: Path) -> dict[str, str]:
    """Return the properties of a TOML file as text.

    Raises:
        UsageError: it cannot be read, or is not TOML, or a value is none that a property can have.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(
            f"cannot read {path}", why=error.strerror or str(error), hint="check --config"
        ) from None
    except ValueError as error:  # wrong as TOML, as UTF-8, or a number of thousands of digits
        raise UsageError(
            f"{path} is not TOML",
            why=str(error),
            hint='write properties as: "segment.bytes" = "1M"',
        ) from None
    try:
        return dict(_flatten("", tables))
    except ValueError as error:
        raise UsageError(
            f"{path} has a value that no property can have",
            why=str(error),
            hint="use text, numbers, true, false, or lists of them",
        ) from None


def _flatten(prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, dict):
            yield from _flatten(name + ".", cast("dict[str, Any]", value))
        elif isinstance(value, list):
            yield name, ",".join(_scalar(name, item) for item in cast("list[object]", value))
        else:
            yield name, _scalar(name, value)


def _scalar(name: str, value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case _:
            raise ValueError(f"{name} = {value!r}")


def load_node_config(
    file: Path | None, properties: Mapping[str, str], defaults: Mapping[str, str]
) -> tuple[NodeConfig, dict[str, str]]:
    """Return a node's settings, typed and as text: defaults, then the file, then the properties.

    Raises:
        UsageError: a name is unknown or a value invalid, and it says where that stands; or values
            contradict each other.
    """
    from_file = read_config_file(file) if file else {}
    for source, texts in ((str(file), from_file), ("-X", properties)):
        for name, text in texts.items():
            _check(source, name, text)
    texts = {**defaults, **from_file, **properties}
    try:
        return node_config(texts), texts
    except InvalidConfigError as error:
        what, _, rest = error.message.partition(": ")
        why, _, hint = rest.partition("; try ")
        raise UsageError(what, why=why, hint=hint) from None


def _check(source: str, name: str, text: str) -> None:
    try:
        parse_value(find_setting(BROKER_SETTINGS, name), text)
    except InvalidConfigError as error:
        raise UsageError(
            f"{source}: {error.message}",
            why="INVALID_CONFIG",
            hint="quorate configs list --node shows every property with its range",
        ) from None
