"""Operations, values and checkers' sentences as people read them."""

import re
from typing import Any, Final

from quorate.jepsen.clients.values import PRODUCER_SHIFT, parts_of
from quorate.jepsen.history import Kind, Operation
from quorate.jepsen.report.svg import NS_PER_S

_CHARACTERS_MAX: Final = 100
_LARGE: Final = re.compile(r"(?<![.\w])(\d+)( ns)?\b(?!\.\d)")


def operation_text(operation: Operation, where: str = "") -> str:
    """Return what was done, and told, in a few words; of many partitions only the one named."""
    asked, told = operation.asked, operation.told
    match operation.name, asked:
        case "send", [partition, value, *_]:
            return f"send {value_text(value)} to {partition}: {_short(told)}"
        case "commit" | "reset", [group, positions, *_]:
            return f"{group} {operation.name}s {_positions_text(positions, where)}"
        case "committed", [group, *_] if operation.kind is Kind.OK:
            return f"{group} was told {_positions_text(told, where)}"
        case "poll" | "read", _ if operation.kind is Kind.OK:
            return f"{operation.name}: {_parts_text(told, where)}"
        case "get" | "put" | "cas" | "create" | "delete" | "describe", _:
            return _register_text(operation)
        case _:
            return f"{operation.name} {_short(asked)}: {_short(told)}"


def _register_text(operation: Operation) -> str:
    asked, told = operation.asked, operation.told
    match operation.name, asked:
        case "get", _:
            return f"read {told}" if operation.kind is Kind.OK else "read"
        case "put", [_, value]:
            return f"wrote {value}"
        case "cas", [_, expected, value]:
            met = " (not so)" if operation.kind is Kind.OK and told is False else ""
            return f"{expected} to {value}{met}"
        case _:
            return f"{operation.name} {_short(told)}"


def _positions_text(positions: Any, where: str) -> str:
    chosen = [f"{p} {offset}" for p, offset, *_ in positions if where in ("", p)]
    return _short(", ".join(chosen))


def _parts_text(parts: Any, where: str) -> str:
    """Return how much a consumer was given."""
    chosen = [
        f"{partition} from {offsets[0]} to {offsets[-1]}"
        for partition, offsets, *_ in parts
        if offsets and where in ("", partition)
    ]
    return _short(", ".join(chosen) or "nothing")


def _short(value: Any) -> str:
    shown = value.hex()[:8] if isinstance(value, bytes) else str(value)
    return shown if len(shown) <= _CHARACTERS_MAX else shown[: _CHARACTERS_MAX - 3] + "..."


def value_text(value: object) -> str:
    """Return a record's value: who sent it, and its number, if it is made of both."""
    if isinstance(value, int) and value >> PRODUCER_SHIFT > 0:
        producer, number = parts_of(value)
        return f"{producer}.{number}"
    return str(value)


def readable(sentence: str, start_ns: int) -> str:
    """Return a checker's sentence with times since the start, and values as they are drawn."""

    def shown(match: re.Match[str]) -> str:
        number, unit = int(match[1]), match[2]
        if not unit:
            return value_text(number)
        return f"{(number - start_ns) / NS_PER_S:.6f} s" if number >= start_ns else match[0]

    return _LARGE.sub(shown, sentence)
