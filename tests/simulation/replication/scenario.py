"""What a run is like: everything that one seed draws, and what tests pin."""

from dataclasses import dataclass, replace
from random import Random
from typing import Final

TOPIC: Final = "events"
CHAOS_S: Final = 12.0
RESPONSE_BYTES: Final = 10 << 20
STEP_S_MAX: Final = 0.05


@dataclass(frozen=True, slots=True)
class Scenario:
    """The world of a run; what happens in it is drawn from the seed as it goes.

    With ``fsync`` records count once they are synced (``flush.messages=1``), and power may fail
    anywhere at any time; without, only where somebody else is in sync. Followers fetch so many
    bytes of a partition at once, and so many of all partitions, but one batch at least. So many
    producers of each partition write transactions. Between steps of following the metadata lies so
    much time at most. If it is ``administered``, rules and replicas change all the time; if it is
    ``recreated``, its topic is deleted and made again.
    """

    brokers: int
    partitions: int
    replication_factor: int
    min_in_sync: int
    fsync: bool
    intensity: float
    actions: dict[str, int]
    fetch_bytes: int
    response_bytes: int = RESPONSE_BYTES
    step_s_max: float = STEP_S_MAX
    chaos_s: float = CHAOS_S
    transactors: int = 0
    administered: bool = False
    recreated: bool = False


FAULTS: Final = {
    "kill": 5,
    "kill leader": 4,
    "kill all": 1,
    "stop": 2,
    "restart": 9,
    "pause": 2,
    "pause leader": 2,
    "isolate": 4,
    "one way": 3,
    "from controllers": 3,
    "heal": 8,
    "weather": 4,
    "delays": 1,
    "slow": 2,
    "controller": 3,
    "elect": 2,
    "power cut": 3,
    "wipe": 2,
    "wipe joiner": 1,
    "full disk": 2,
}


CROWDED: Final = 0.2
"""How many worlds are."""

ADMINISTERED: Final = 0.4

SHAPES: Final = ("replicated", "fsync")
"""Records count once they are in the page caches of all in sync, or on their disks."""


def shape_of(seed: int) -> str:
    """Return the shape of a seed's world: they take turns."""
    return SHAPES[seed % len(SHAPES)]


def draw(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    rng = Random(f"{seed}/scenario")
    fsync = shape_of(seed) == "fsync"
    brokers = rng.choice((3, 3, 3, 4, 5))
    scenario = Scenario(
        brokers=brokers,
        partitions=rng.choice((1, 1, 2)),
        replication_factor=3 if brokers < 5 else rng.choice((3, 5)),
        min_in_sync=rng.choice((1, 2, 2)),
        fsync=fsync,
        intensity=rng.choice((1.0, 2.0, 4.0)),
        actions=FAULTS,
        fetch_bytes=rng.choice((1 << 20, 1 << 20, 1)),
    )
    if rng.random() < CROWDED:
        scenario = crowded(scenario)
    return replace(scenario, administered=rng.random() < ADMINISTERED)


def crowded(scenario: Scenario) -> Scenario:
    """Return a world where an answer has room for one batch: some wait for the next, always.

    There is much to follow in each change of the metadata, and others are served meanwhile.
    """
    return replace(scenario, partitions=3, response_bytes=1, step_s_max=0.4)
