"""What happens to what coordinators keep, as events in a node's log: few lines, worth keeping."""

import json
import logging
from typing import Any


class Teller:
    """Logs events as ``event=name key=value``; names that clients chose are quoted if need be."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def __call__(self, event: str, **fields: Any) -> None:
        """Log an event."""
        if self._logger.isEnabledFor(logging.INFO):
            named = {"event": event, **fields}
            text = " ".join(f"{name}={_value(value)}" for name, value in named.items())
            self._logger.info("%s", text, extra={"fields": named})


def _value(value: object) -> str:
    text = str(value)
    plain = text.isprintable() and text and not any(c in text for c in ' "=')
    return text if plain else json.dumps(text)
