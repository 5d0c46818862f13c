"""What happens to groups, as events in a node's log: few lines, worth keeping."""

import json
import logging
from typing import Any, Final

logger: Final = logging.getLogger("quorate.broker.groups")


def tell(event: str, **fields: Any) -> None:
    """Log an event as ``event=name key=value``; names that clients chose are quoted if need be."""
    if logger.isEnabledFor(logging.INFO):
        named = {"event": event, **fields}
        text = " ".join(f"{name}={_value(value)}" for name, value in named.items())
        logger.info("%s", text, extra={"fields": named})


def _value(value: object) -> str:
    text = str(value)
    plain = text.isprintable() and text and not any(c in text for c in ' "=')
    return text if plain else json.dumps(text)
