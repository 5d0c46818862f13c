"""How a replica plays: its timers, and which hardenings are on."""

from typing import Final

from quorate.dataclass import dataclass
from quorate.quorum.raft.hardening import ALL, Hardening
from quorate.quorum.raft.timing import PRODUCTION_TIMING, Timing
from quorate.settings import NodeConfig

RETAINED_ENTRIES_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Rules:
    """The same for all replicas of a quorum."""

    timing: Timing
    hardening: Hardening = ALL


PRODUCTION_RULES: Final = Rules(PRODUCTION_TIMING)


def rules_of(config: NodeConfig) -> Rules:
    """Return the rules that a node is started with."""
    return Rules(
        Timing(
            heartbeat_s=config.quorum_heartbeat_interval_ms / 1000,
            election_min_s=config.quorum_election_timeout_ms / 1000,
            election_max_s=2 * config.quorum_election_timeout_ms / 1000,
            snapshot_entries=config.quorum_snapshot_entries,
            retained_entries=min(RETAINED_ENTRIES_MAX, config.quorum_snapshot_entries),
        )
    )
