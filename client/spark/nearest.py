"""Which replica a reader asks: the leader, or one in its rack that it named (pure, KIP-392).

Source: Kafka's ``SubscriptionState.preferredReadReplica``, and what its fetchers do with it.
"""

from __future__ import annotations

from typing import Final

LEADER: Final = -1
"""What a leader says that sends nobody elsewhere."""

AGE_MAX_S: Final = 300.0
"""After which the leader is asked again, as after ``metadata.max.age.ms`` of Kafka's consumer."""


class NearestReplica:
    """Knows whom a leader has sent one reader to, until that is old or has gone wrong.

    Who was let down by a follower says no rack for as long, so that the leader serves it itself:
    else the leader, which does not know that, would send it there again at once.
    """

    def __init__(self, rack: str) -> None:
        self._rack = rack
        self._follower = LEADER
        self._old_at_s = 0.0

    def follower(self, now_s: float) -> int | None:
        """Return the follower to ask next; None for the leader."""
        if now_s >= self._old_at_s:
            self._follower = LEADER
        return None if self._follower == LEADER else self._follower

    def rack(self, now_s: float) -> str:
        """Return what to tell a broker where the reader is; nothing, to be served by the leader."""
        return self._rack if self._follower != LEADER or now_s >= self._old_at_s else ""

    def follow(self, broker_id: int, now_s: float) -> None:
        """Know whom a leader names."""
        self._follower, self._old_at_s = broker_id, now_s + AGE_MAX_S

    def leave(self, now_s: float) -> bool:
        """Know that who was asked last could not help; whether that was a follower."""
        if self._follower == LEADER:
            return False
        self._follower, self._old_at_s = LEADER, now_s + AGE_MAX_S
        return True
