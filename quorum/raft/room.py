"""Whether a disk has room for what is to be written, and when to tell that it has not."""

from typing import Final

TELL_AGAIN_S: Final = 60.0
"""A disk that stays full is told so often: not with every try, and not only once."""


class Room:
    """Owns since when there is no room on a disk (``None``: there is), and when that was told."""

    __slots__ = ("_missing_since_s", "_told_s")

    def __init__(self) -> None:
        self._missing_since_s: float | None = None
        self._told_s = 0.0

    @property
    def is_missing(self) -> bool:
        """Whether the last write found no room."""
        return self._missing_since_s is not None

    def refused(self, now_s: float) -> bool:
        """Note that a write found no room; return whether it is time to tell so."""
        if self._missing_since_s is None:
            self._missing_since_s = now_s
        elif now_s - self._told_s < TELL_AGAIN_S:
            return False
        self._told_s = now_s
        return True

    def found(self, now_s: float) -> float | None:
        """Note that a write found room; return for how long there was none, if so."""
        since_s, self._missing_since_s = self._missing_since_s, None
        return None if since_s is None else now_s - since_s
