"""How a replica plays: its timers, and which hardenings are on."""

from dataclasses import dataclass
from typing import Final

from quorate.quorum.raft.hardening import ALL, Hardening
from quorate.quorum.raft.timing import PRODUCTION_TIMING, Timing


@dataclass(frozen=True, slots=True)
class Rules:
    """The same for all replicas of a quorum."""

    timing: Timing
    hardening: Hardening = ALL


PRODUCTION_RULES: Final = Rules(PRODUCTION_TIMING)
