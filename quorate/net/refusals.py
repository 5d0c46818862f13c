"""Connections that were refused, kept waiting or closed, told now and then: a flood is no news."""

import logging
from typing import Final

logger = logging.getLogger(__name__)

TOLD_EVERY_MS: Final = 10_000
CLOSINGS_TOLD_MAX: Final = 10
"""In that time; the others are counted."""


class Refusals:
    """Counts what is refused, and why.

    State: how many since it was last told, and when that was.
    """

    __slots__ = ("_count", "_format", "_told_ms")

    def __init__(self, told_as: str = "refused %d new connections: %s") -> None:
        self._format = told_as
        self._count = 0
        self._told_ms = -TOLD_EVERY_MS

    def note(self, why: str, now_ms: int) -> None:
        """Count one more; tell if it has been quiet for long enough.

        Args:
            why: it was refused.
            now_ms: monotonic.
        """
        self._count += 1
        if now_ms - self._told_ms >= TOLD_EVERY_MS:
            logger.warning(self._format, self._count, why)
            self._count = 0
            self._told_ms = now_ms


class Closings:
    """Tells of connections that are closed for what came over them, and counts them in a flood.

    State: how many were told since when, and how many were not.
    """

    __slots__ = ("_since_ms", "_told", "_untold")

    def __init__(self) -> None:
        self._since_ms = -TOLD_EVERY_MS
        self._told = 0
        self._untold = 0

    def note(self, peer: str, why: Exception, now_ms: int) -> None:
        """Tell of one more, or count it; ``now_ms`` is monotonic."""
        if now_ms - self._since_ms >= TOLD_EVERY_MS:
            if self._untold:
                logger.warning("closed %d more connections for what came", self._untold)
            self._since_ms, self._told, self._untold = now_ms, 0, 0
        if self._told < CLOSINGS_TOLD_MAX:
            self._told += 1
            logger.warning("closing the connection from %s: %s", peer, why)
        else:
            self._untold += 1
