"""Connections that were refused, told now and then instead of one by one: a flood is no news."""

import logging
from typing import Final

logger = logging.getLogger(__name__)

TOLD_EVERY_MS: Final = 10_000


class Refusals:
    """Counts refused connections.

    State: how many since it was last told, and when that was.
    """

    __slots__ = ("_count", "_told_ms")

    def __init__(self) -> None:
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
            logger.warning("refused %d new connections: %s", self._count, why)
            self._count = 0
            self._told_ms = now_ms
