"""Faults of a network that is slow or unreliable, and still there."""

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from random import Random
from typing import Final

from quorate.dataclass import dataclass
from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.equipment import NETWORK, Wiring
from quorate.jepsen.lab.hosts import Host
from quorate.jepsen.lab.network import Pair
from quorate.jepsen.nemesis import roles
from quorate.jepsen.nemesis.fault import Family, Note, Variant
from quorate.jepsen.nemesis.partitions import (
    BITES_S_MAX,
    both_ways,
    check_noticed,
    equipment_of,
    place_of,
    places_of,
    seen_within,
)

SLOW_S: Final = (0.01, 0.06)
VERY_SLOW_S: Final = (0.1, 0.6)
RESET_EVERY_S: Final = (0.05, 0.5)


@dataclass(frozen=True, slots=True)
class Delays:
    """How slow links become, and whose."""

    targets: Sequence[Host]
    seconds: Mapping[Pair, float]


def _everybody(lab: Lab, rng: Random) -> Delays:
    """Make all links slow, each by something else."""
    pairs = permutations(places_of(lab), 2)
    nodes = [*lab.brokers, *lab.controllers]
    return Delays(nodes, {pair: rng.uniform(*SLOW_S) for pair in pairs})


def _one(choose: roles.Choose) -> Callable[[Lab, Random], Delays]:
    """Make all links of one very slow."""

    def delays(lab: Lab, rng: Random) -> Delays:
        (host,) = choose(lab, rng)
        place = place_of(lab, host)
        others = [other for other in places_of(lab) if other != place]
        delay_s = rng.uniform(*VERY_SLOW_S)
        return Delays([host], dict.fromkeys(both_ways([place], others), delay_s))

    return delays


class Delay:
    """Links are slow; where packets can be lost, they are lost and sent again."""

    def __init__(self, choose: Callable[[Lab, Random], Delays]) -> None:
        self._choose = choose
        self._network: Wiring | None = None
        self._delayed = 0

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Make links slow."""
        network = equipment_of(lab).network
        assert network is not None
        delays = self._choose(lab, rng)
        check_noticed(lab, delays.seconds)
        slowest = round(max(delays.seconds.values()), 3)
        note(delays.targets, links=len(delays.seconds), slowest_s=slowest)
        self._network, self._delayed = network, network.delayed
        network.slow(delays.seconds)

    def verified(self) -> str:
        """Say how much was late, once something was."""
        network, before = self._network, self._delayed
        assert network is not None
        if not seen_within(BITES_S_MAX, lambda: network.delayed > before):
            return ""
        return f"delayed {network.delayed - before} times"

    def heal(self) -> None:
        """Make everything fast."""
        if self._network is not None:
            self._network.slow({})


class Resets:
    """Connections between nodes break again and again, at one link after the other."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._broken = 0

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Begin to break them."""
        network = equipment_of(lab).network
        assert network is not None
        links = [(a, b) for a, b in permutations(places_of(lab), 2) if a < b]
        check_noticed(lab, links)
        note([*lab.brokers, *lab.controllers], links=len(links))
        times = Random(rng.getrandbits(32))
        self._thread = threading.Thread(
            target=self._break, args=(network, links, times), daemon=True
        )
        self._thread.start()

    def verified(self) -> str:
        """Say how many connections broke, once some did."""
        if not seen_within(BITES_S_MAX, lambda: self._broken > 0):
            return ""
        return f"broke {self._broken} connections"

    def heal(self) -> None:
        """Break no more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _break(self, network: Wiring, links: list[Pair], rng: Random) -> None:
        while not self._ended.wait(rng.uniform(*RESET_EVERY_S)):
            one, other = rng.choice(links)
            self._broken += network.reset([(one, other), (other, one)])


DELAY: Final = Family(
    "delay",
    "make links between nodes slow or lossy, and break their connections",
    {
        "everybody": Variant(2, lambda: Delay(_everybody)),
        "leader": Variant(2, lambda: Delay(_one(roles.leader))),
        "controller": Variant(1, lambda: Delay(_one(roles.controller))),
        "resets": Variant(2, Resets),
    },
    needs=("namespaces",),
    reduced="by a proxy on loopback: bytes are late, no packet is lost",
    equipment=(NETWORK,),
)
