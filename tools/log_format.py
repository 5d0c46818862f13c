"""How a node logs: a line a record, as text or as JSON; and events, which are names and values."""

import json
import logging
import sys
import time
from typing import Any, Final, Literal

LogFormat = Literal["text", "json"]

STORY: Final = "quorate.story"
"""The logger of what happens to a cluster: few lines, worth keeping, at level INFO."""

TELLING: Final = (
    STORY,
    "quorate.broker.groups",
    "quorate.broker.transactions",
    "quorate.quorum.controller",
)
"""The loggers whose INFO nodes print: elections, brokers that come and go, rebalances."""

TEXT: Final = "%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s"

_logger: Final = logging.getLogger(STORY)


def event_text(event: str, fields: dict[str, Any]) -> str:
    """Return an event as ``event=name key=value``; values with spaces stand in quotes."""
    return " ".join(f"{name}={_value(value)}" for name, value in {"event": event, **fields}.items())


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(str(each) for each in value) or "none"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    text = str(value)
    plain = text and not any(c in text for c in ' "=\n')
    return text if plain else json.dumps(text, ensure_ascii=False)


def tell(event: str, **fields: Any) -> None:
    """Log an event."""
    _logger.info(event_text(event, fields), extra={"fields": {"event": event, **fields}})


class JsonFormatter(logging.Formatter):
    """Writes a record as an object of JSON in one line; the values of events stand beside it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        document: dict[str, Any] = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False, default=str)


def set_up(level: int, log_format: str) -> None:
    """Log to standard error from now on."""
    formatter = (
        JsonFormatter() if log_format == "json" else logging.Formatter(TEXT, "%Y-%m-%dT%H:%M:%S")
    )
    if log_format == "json":
        formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=[handler])


def tell_stories() -> None:
    """Print what happens to the cluster, whatever the level of everything else."""
    for name in TELLING:
        logger = logging.getLogger(name)
        if logger.getEffectiveLevel() > logging.INFO:
            logger.setLevel(logging.INFO)
