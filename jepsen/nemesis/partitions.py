"""Faults of the network: who does not hear whom; halves, rings, bridges, one way, flapping."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import permutations, product
from random import Random
from typing import Final

from quorate.dataclass import dataclass
from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.equipment import NETWORK, Equipment
from quorate.jepsen.lab.hosts import Host
from quorate.jepsen.lab.namespaces import CLIENTS
from quorate.jepsen.lab.network import Pair
from quorate.jepsen.nemesis import roles
from quorate.jepsen.nemesis.fault import Family, Note, NotNowError, Variant

Cuts = frozenset[Pair]

BITES_S_MAX: Final = 2.0
POLL_S: Final = 0.02
FLAP_S: Final = (0.2, 1.5)
"""How long a flapping link is cut, or whole: at least, at most."""


# --- what to cut, of places


def both_ways(ones: Iterable[int], others: Iterable[int]) -> Cuts:
    """Return what to cut so that these and those do not hear of each other."""
    pairs = list(product(ones, others))
    return frozenset(pairs) | {(target, source) for source, target in pairs}


def halves(places: Sequence[int], rng: Random) -> Cuts:
    """Cut between two parts, of about the same size, that have each place in one of them."""
    mixed = rng.sample(places, len(places))
    middle = (len(mixed) + rng.randrange(2)) // 2
    return both_ways(mixed[:middle], mixed[middle:])


def ring(places: Sequence[int], rng: Random) -> Cuts:
    """Leave everybody some neighbours on a ring: a majority each, and never the same one."""
    mixed = rng.sample(places, len(places))
    reach = (len(mixed) // 2 + 1) // 2
    heard = {
        (mixed[at], mixed[(at + step) % len(mixed)])
        for at in range(len(mixed))
        for step in range(-reach, reach + 1)
    }
    return frozenset(pair for pair in permutations(mixed, 2) if pair not in heard)


def bridge(places: Sequence[int], rng: Random) -> Cuts:
    """Cut between two parts; one place is in both."""
    _, *rest = rng.sample(places, len(places))
    return both_ways(rest[: len(rest) // 2], rest[len(rest) // 2 :])


# --- whom it hits


@dataclass(frozen=True, slots=True)
class Plan:
    """A cut, and the hosts that it is about; all of them, if it is about nobody alone."""

    targets: Sequence[Host]
    cuts: Cuts


Choose = Callable[[Lab, Random], Plan]


def place_of(lab: Lab, host: Host) -> int:
    """Return a node's place in the network."""
    return _nodes(lab).index(host)


def places_of(lab: Lab) -> range:
    """Return all places."""
    return range(len(_nodes(lab)))


def _nodes(lab: Lab) -> list[Host]:
    return [*lab.brokers, *lab.controllers]


def _all_of(shape: Callable[[Sequence[int], Random], Cuts]) -> Choose:
    def choose(lab: Lab, rng: Random) -> Plan:
        return Plan(_nodes(lab), shape(places_of(lab), rng))

    return choose


def _isolated(choose: roles.Choose) -> Choose:
    """Cut one off from all other nodes; where that can be, sometimes also from clients."""

    def chosen(lab: Lab, rng: Random) -> Plan:
        (host,) = choose(lab, rng)
        place = place_of(lab, host)
        others = [other for other in places_of(lab) if other != place]
        if equipment_of(lab).has_clients and rng.random() < 0.5:
            others.append(CLIENTS)
        return Plan([host], both_ways([place], others))

    return chosen


def _from_controllers(lab: Lab, rng: Random) -> Plan:
    """Cut a leader off from the controllers only: clients and followers still reach it."""
    (host,) = roles.leader(lab, rng)
    controllers = [place_of(lab, each) for each in lab.controllers]
    return Plan([host], both_ways([place_of(lab, host)], controllers))


def _from_clients(lab: Lab, rng: Random) -> Plan:
    """Cut a leader off from clients only."""
    if not equipment_of(lab).has_clients:
        raise NotNowError("only a network of namespaces has clients in it")
    (host,) = roles.leader(lab, rng)
    return Plan([host], both_ways([place_of(lab, host)], [CLIENTS]))


def _brokers(lab: Lab, rng: Random) -> Plan:
    """Cut all brokers off from each other: nobody can replicate, everybody has a session."""
    del rng
    places = [place_of(lab, host) for host in lab.brokers]
    return Plan(lab.brokers, frozenset(permutations(places, 2)))


def _one_way(lab: Lab, rng: Random) -> Plan:
    """Let a leader, or a controller, send and not hear, or hear and not send."""
    (host,) = rng.choice((roles.leader, roles.controller, roles.anybody))(lab, rng)
    place = place_of(lab, host)
    deaf = rng.random() < 0.5
    others = [other for other in places_of(lab) if other != place]
    return Plan([host], frozenset((other, place) if deaf else (place, other) for other in others))


# --- faults


def equipment_of(lab: Lab) -> Equipment:
    """Return what lies below the nodes.

    Raises:
        NotNowError: nothing on which faults of the network can act.
    """
    equipment = lab.equipment
    if equipment is None or equipment.network is None:
        raise NotNowError("the network between these nodes cannot be acted on")
    return equipment


def check_noticed(lab: Lab, links: Iterable[Pair]) -> None:
    """See that something comes over one of these links.

    Raises:
        NotNowError: of each of them an end does nothing now.
    """
    alive = {place for place, host in enumerate(_nodes(lab)) if host.answers} | {CLIENTS}
    if not any(alive.issuperset(link) for link in links):
        raise NotNowError("nobody would notice: too few nodes run")


def seen_within(seconds: float, has_bitten: Callable[[], bool]) -> bool:
    """Wait for a sign of a fault; return whether there was one."""
    deadline_s = time.monotonic() + seconds
    while not has_bitten():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(POLL_S)
    return True


class Partition:
    """A cut of the network; healed softly, what was held back arrives late, or hard."""

    def __init__(self, choose: Choose, *, flapping: bool = False) -> None:
        self._choose = choose
        self._flapping = flapping
        self._equipment: Equipment | None = None
        self._held_back = 0
        self._hard = False
        self._ended = threading.Event()
        self._flaps: threading.Thread | None = None

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Cut."""
        equipment = equipment_of(lab)
        plan = self._choose(lab, rng)
        check_noticed(lab, plan.cuts)
        self._hard = rng.random() < 0.5
        cuts = [list(pair) for pair in sorted(plan.cuts)]
        note(plan.targets, cuts=cuts, heal="hard" if self._hard else "soft")
        self._equipment = equipment
        self._held_back = self._held()
        equipment.cut(self, plan.cuts)
        if self._flapping:
            times = Random(rng.getrandbits(32))
            self._flaps = threading.Thread(target=self._flap, args=(plan.cuts, times), daemon=True)
            self._flaps.start()

    def verified(self) -> str:
        """Say how much did not arrive, once something did not."""
        if not seen_within(BITES_S_MAX, lambda: self._held() > self._held_back):
            return ""
        return f"held back {self._held() - self._held_back} times"

    def heal(self) -> None:
        """Let everything through."""
        self._ended.set()
        if self._flaps is not None:
            self._flaps.join()
        if self._equipment is not None:
            self._equipment.mend(self, hard=self._hard)

    def _held(self) -> int:
        assert self._equipment is not None
        assert self._equipment.network is not None
        return self._equipment.network.held_back

    def _flap(self, cuts: Cuts, rng: Random) -> None:
        assert self._equipment is not None
        while not self._ended.wait(rng.uniform(*FLAP_S)):
            self._equipment.mend(self, hard=rng.random() < 0.3)
            if self._ended.wait(rng.uniform(*FLAP_S)):
                return
            self._equipment.cut(self, cuts)


PARTITION: Final = Family(
    "partition",
    "cut the network between nodes: in halves, a ring, a bridge, one way, flapping",
    {
        "halves": Variant(2, lambda: Partition(_all_of(halves))),
        "leader": Variant(3, lambda: Partition(_isolated(roles.leader))),
        "leader-from-controllers": Variant(3, lambda: Partition(_from_controllers)),
        "leader-from-clients": Variant(1, lambda: Partition(_from_clients)),
        "controller": Variant(2, lambda: Partition(_isolated(roles.controller))),
        "brokers": Variant(1, lambda: Partition(_brokers)),
        "ring": Variant(1, lambda: Partition(_all_of(ring))),
        "bridge": Variant(1, lambda: Partition(_all_of(bridge))),
        "one-way": Variant(2, lambda: Partition(_one_way)),
        "flapping": Variant(2, lambda: Partition(_isolated(roles.anybody), flapping=True)),
    },
    needs=("namespaces",),
    reduced="by a proxy on loopback: clients are not cut off, connections never back off",
    equipment=(NETWORK,),
)
