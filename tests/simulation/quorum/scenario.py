"""What a run is like: everything that one seed draws, and what tests pin."""

from dataclasses import dataclass, replace
from random import Random
from typing import Final

from quorate.quorum.raft.rules import Rules
from quorate.quorum.raft.timing import Timing

CHAOS_S: Final = 8.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """The world of a run; what happens in it is drawn from the seed as it goes.

    ``hosts`` run a controller each, the first ``voters`` of them are the bootstrap voters. The
    nemesis acts ``intensity`` times a second for ``chaos_s`` seconds, with these ``actions`` by
    weight. Dumps of the state carry ``ballast_bytes``; this share of the commands is large.
    ``duplicates`` pins the share of frames that arrive twice, whatever the weather is.
    """

    hosts: int
    voters: int
    chaos_s: float
    intensity: float
    actions: dict[str, int]
    fifo: bool
    power_cuts: bool
    rules: Rules
    ballast_bytes: int
    large_commands: float
    duplicates: float | None = None
    disks_lie: bool = False
    wiped_disks_keep_their_name: bool = False


FAULTS: Final = {
    "part": 4,
    "isolate leader": 2,
    "one way": 2,
    "slow pair": 1,
    "bridge": 2,
    "heal": 5,
    "kill": 4,
    "kill leader": 2,
    "kill all": 1,
    "fuse": 2,
    "fuse leader": 2,
    "stop": 1,
    "restart": 7,
    "weather": 3,
    "slow disks": 2,
    "stall": 2,
    "pause": 2,
    "full disk": 2,
    "transfer": 2,
}
MEMBERSHIP: Final = {"member": 14, "wipe": 4}
SHAPES: Final = ("three", "five", "members")
"""Three controllers, five, and a quorum that grows and shrinks among five."""


USUAL_TIMERS: Final = (0.1, 0.4, 0.8)
HASTY_TIMERS: Final = (0.03, 0.1, 0.2)
"""Heartbeat, shortest and longest election timeout, in seconds; what is late is of an old term."""


def shape_of(seed: int) -> str:
    """Return the shape of a seed's world: they take turns."""
    return SHAPES[seed % len(SHAPES)]


def draw(seed: int, shape: str) -> Scenario:
    """Return the scenario of a seed."""
    rng = Random(f"{seed}/scenario")
    voters = {"three": 3, "five": 5, "members": rng.choice((1, 3, 3))}[shape]
    return Scenario(
        hosts=3 if shape == "three" else 5,
        voters=voters,
        chaos_s=CHAOS_S,
        intensity=rng.choice((1.5, 3.0, 6.0)),
        actions=FAULTS | MEMBERSHIP if shape == "members" else FAULTS,
        fifo=rng.random() < 0.4,
        power_cuts=rng.random() < 0.8,
        rules=Rules(
            Timing(
                *rng.choice((USUAL_TIMERS, USUAL_TIMERS, HASTY_TIMERS)),
                snapshot_entries=rng.choice((8, 20, 60, 5000)),
                retained_entries=rng.choice((0, 0, 5, 30)),
            )
        ),
        ballast_bytes=rng.choice((0, 0, 0, 150_000)),
        large_commands=rng.choice((0.0, 0.0, 0.01)),
    )


def without(scenario: Scenario, *names: str) -> Scenario:
    """Return the scenario with some hardenings switched off."""
    hardening = replace(scenario.rules.hardening, **dict.fromkeys(names, False))
    return replace(scenario, rules=replace(scenario.rules, hardening=hardening))
