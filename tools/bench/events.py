"""What load generators print: one JSON object per line, an event each."""

import json
from collections.abc import Mapping
from typing import Any, Literal

from quorate.dataclass import dataclass


class BadEventError(ValueError):
    """A generator printed something else than an event."""


@dataclass(frozen=True, slots=True)
class Event:
    """`begin` and `stop` mark the measured window as it happens; `result` has the figures."""

    name: Literal["begin", "stop", "result"]
    figures: Mapping[str, float]


def parse_event(line: str) -> Event:
    """Return the event on one line; raises BadEventError."""
    try:
        value: dict[str, Any] = dict(json.loads(line))
    except (ValueError, TypeError) as error:
        raise BadEventError(f"not an event: {line.strip()[:200]!r}") from error
    name = value.pop("event", None)
    if name not in ("begin", "stop", "result"):
        raise BadEventError(f"unknown event {name!r}")
    if not all(isinstance(figure, int | float) for figure in value.values()):
        raise BadEventError(f"figures are numbers: {line.strip()[:200]!r}")
    return Event(name, value)
