"""When the members of a group were last heard of, and who has been silent for too long."""

import math
from collections.abc import Callable
from typing import Final

from quorate.broker.replication.deadlines import Deadline, Deadlines

LOOK_PAUSE_MS: Final = 100
"""Sessions may end so much late, so that a crowd that dies is met in few looks."""


class Sessions:
    """The sessions of one group, with one deadline for all of them.

    A sign of life only notes a time: when the deadline is met, whoever was heard of since is looked
    at again later. So heartbeats cost next to nothing, and idle groups one deadline each.

    Invariant: while there are sessions, the deadline is met no later than the first of them ends,
    or ``LOOK_PAUSE_MS`` after the look before.
    """

    __slots__ = ("_deadline", "_deadlines", "_ends_ms", "_look_ms", "_on_expired")

    def __init__(self, deadlines: Deadlines, on_expired: Callable[[list[str]], None]) -> None:
        self._deadlines = deadlines
        self._on_expired = on_expired
        self._ends_ms: dict[str, int] = {}
        self._deadline: Deadline | None = None
        self._look_ms: float = math.inf

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._ends_ms

    def heard(self, member_id: str, timeout_ms: int) -> None:
        """Begin the member's session, or prolong it: it ends in ``timeout_ms`` from now."""
        end_ms = self._deadlines.now_ms + timeout_ms
        self._ends_ms[member_id] = end_ms
        if end_ms < self._look_ms:
            self._look_at(end_ms)

    def forget(self, member_id: str) -> None:
        """End a session without a word; nothing happens if there is none."""
        self._ends_ms.pop(member_id, None)
        if not self._ends_ms:
            self.stop()

    def stop(self) -> None:
        """Forget all sessions."""
        self._ends_ms.clear()
        if self._deadline is not None:
            self._deadlines.cancel(self._deadline)
            self._deadline = None
        self._look_ms = math.inf

    def _look_at(self, look_ms: int) -> None:
        if self._deadline is not None:
            self._deadlines.cancel(self._deadline)
        self._look_ms = look_ms
        self._deadline = self._deadlines.after(look_ms - self._deadlines.now_ms, self._look)

    def _look(self) -> None:
        """Tell whose session has ended, all at once, and note when to look again."""
        now_ms = self._deadlines.now_ms
        self._deadline, self._look_ms = None, math.inf
        expired = [member_id for member_id, end_ms in self._ends_ms.items() if end_ms <= now_ms]
        for member_id in expired:
            del self._ends_ms[member_id]
        if self._ends_ms:
            self._look_at(max(min(self._ends_ms.values()), now_ms + LOOK_PAUSE_MS))
        if expired:
            self._on_expired(expired)
