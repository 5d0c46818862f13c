"""Whether a consumer still asks for records."""

from __future__ import annotations


class Progress:
    """Notices when the owner of a consumer has stopped.

    Invariant: ``_since_ms`` is when ``_mark`` was seen first. The owner only moves its mark, which
    costs nothing; how late it is noticed depends on how often somebody looks.
    """

    def __init__(self, interval_max_ms: int, now_ms: int) -> None:
        self._interval_max_ms = interval_max_ms
        self._mark: object = None
        self._since_ms = now_ms

    def look(self, mark: object, now_ms: int) -> bool:
        """Return whether the owner is within its time."""
        if mark != self._mark:
            self._mark, self._since_ms = mark, now_ms
        return now_ms - self._since_ms < self._interval_max_ms
