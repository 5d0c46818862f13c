"""Backoff, and which error means what: try again, look up the leader first, or give up."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from quorate.dataclass import dataclass
from quorate.errors import RETRIABLE, ErrorCode

if TYPE_CHECKING:
    from random import Random

JITTER: Final = 0.2


class Remedy(Enum):
    """What to do after an error."""

    RETRY = auto()
    """Ask again after a pause."""

    REFRESH = auto()
    """Learn anew who leads the partition, then ask again."""

    GIVE_UP = auto()
    """It will not work later either."""


_STALE_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


def remedy_for(code: ErrorCode) -> Remedy:
    """Return what helps against an error code."""
    if code in _STALE_METADATA:
        return Remedy.REFRESH
    return Remedy.RETRY if code in RETRIABLE else Remedy.GIVE_UP


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that double with every attempt, and differ by chance so that clients spread out."""

    first_ms: int
    max_ms: int

    def pause_ms(self, attempts: int, rng: Random) -> int:
        """Return how long to wait after that many failed attempts in a row (at least one)."""
        assert attempts >= 1
        doubled_ms = self.first_ms << min(attempts - 1, 20)
        pause_ms = min(self.max_ms, doubled_ms)
        return round(pause_ms * rng.uniform(1 - JITTER, 1 + JITTER))
