"""Raft's timers and thresholds."""

from typing import Final

from quorate.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Raft's timers, in seconds, and when to take a snapshot.

    A follower that lags by at most ``retained_entries`` behind the newest snapshot is sent entries,
    others the snapshot.
    """

    heartbeat_s: float
    election_min_s: float
    election_max_s: float
    snapshot_entries: int
    retained_entries: int = 0

    def __post_init__(self) -> None:
        assert self.election_min_s > 3 * self.heartbeat_s, "a lost heartbeat is no reason to elect"
        assert self.election_max_s >= self.election_min_s, "the timeout is drawn between the two"
        assert self.snapshot_entries >= 2, "a snapshot's end are two entries"


PRODUCTION_TIMING: Final = Timing(
    heartbeat_s=0.1,
    election_min_s=0.5,
    election_max_s=1.0,
    snapshot_entries=20_000,
    retained_entries=1000,
)
