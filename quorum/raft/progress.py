"""How far the followers are, as their leader sees it; Kafka's notion of being caught up."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from quorate.dataclass import dataclass
from quorate.quorum.raft.engine import NEVER_S, Engine
from quorate.quorum.raft.voters import ReplicaKey

if TYPE_CHECKING:
    from quorate.quorum.raft.configurations import Configurations
    from quorate.quorum.raft.journal import Journal


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a replica is, as its leader sees it."""

    match_index: int
    """Its log is known to match that far."""

    last_contact_s: float
    """When it was heard last; negative: never."""

    caught_up_s: float
    """When it was last known to hold everything that the leader held; negative: never."""

    is_voter: bool


@dataclass(slots=True)
class _Seen:
    """What the leader's log held when a follower was heard last, and when that was."""

    last_index: int = 2**62
    heard_s: float = NEVER_S
    caught_up_s: float = NEVER_S


class ProgressBoard:
    """Owns when followers were caught up, in this leader's term."""

    def __init__(
        self, engine: Engine, journal: "Journal", configurations: "Configurations"
    ) -> None:
        self._engine = engine
        self._journal = journal
        self._configurations = configurations
        self._seen: dict[ReplicaKey, _Seen] = {}
        self._term = 0

    def heard(self, key: ReplicaKey, match: int) -> None:
        """Note that a follower answered; its log matches up to an index."""
        if self._term != self._engine.term:
            self._term, self._seen = self._engine.term, {}
        seen = self._seen.setdefault(key, _Seen())
        now_s, last_index = self._engine.now_s, self._journal.last_index
        if match >= last_index:
            seen.caught_up_s = now_s
        elif match >= seen.last_index:
            seen.caught_up_s = max(seen.caught_up_s, seen.heard_s)
        seen.heard_s, seen.last_index = now_s, last_index

    def forget(self, key: ReplicaKey) -> None:
        """Forget a follower that may never come back."""
        self._seen.pop(key, None)

    def report(self) -> Mapping[ReplicaKey, Progress]:
        """Return how far all others are; nothing unless this replica leads."""
        if not self._engine.is_leader:
            return {}
        voters = self._configurations.voters
        nothing = _Seen()
        return {
            key: Progress(
                self._engine.match_index(key) or 0,
                self._engine.last_contact_s(key),
                self._seen.get(key, nothing).caught_up_s,
                key in voters,
            )
            for key in self._engine.followers
        }
