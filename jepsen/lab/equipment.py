"""What lies below the nodes of a lab, so that faults can act on more than processes.

Only what the chosen families need is there: a process without anything preloaded is the better
witness.
"""

import math
import threading
from collections.abc import Collection, Iterable, Mapping
from itertools import permutations
from pathlib import Path
from typing import Final, Protocol

from quorate.dataclass import dataclass
from quorate.jepsen.lab.clocks import CLOCK_C, Clock
from quorate.jepsen.lab.disks import SHIM_C, MachineDisk
from quorate.jepsen.lab.hosts import PRELOADED, Host
from quorate.jepsen.lab.namespaces import Namespaces
from quorate.jepsen.lab.native import build_library
from quorate.jepsen.lab.network import REDIRECT_C, Network, Pair
from quorate.jepsen.lab.reaper import Reaper
from quorate.net.ports import LOOPBACK, free_ports

NETWORK: Final = "network"
DISKS: Final = "disks"
CLOCKS: Final = "clocks"

Library = tuple[Path, Mapping[str, str]]
"""What is preloaded, and what it must find in the environment."""


class Wiring(Protocol):
    """A network between places that faults can act on; all of it may be called at any time."""

    @property
    def has_clients(self) -> bool:
        """Whether clients, at :data:`namespaces.CLIENTS`, can be cut off, too."""
        ...

    @property
    def held_back(self) -> int:
        """How often something did not arrive because of a cut."""
        ...

    @property
    def delayed(self) -> int:
        """How often something was late, or had to be sent again."""
        ...

    def cut(self, pairs: Iterable[Pair]) -> None:
        """From now on, what these send to those does not arrive; everything else does."""

    def slow(self, delays_s: Mapping[Pair, float]) -> None:
        """From now on, what these send to those arrives late."""

    def reset(self, pairs: Collection[Pair]) -> int:
        """Break the connections between these; return how many."""
        ...

    def heal(self, *, hard: bool) -> None:
        """Let through what was cut; ``hard`` breaks all connections instead of delivering late."""

    def close(self) -> None:
        """End it."""


@dataclass(frozen=True, slots=True)
class EquipmentPlan:
    """What is asked of a lab's equipment.

    Attributes:
        brokers: How many.
        controllers: How many.
        needs: What faults act on: some of :data:`NETWORK`, :data:`DISKS`, :data:`CLOCKS`.
        namespaces: Whether the network is one of namespaces: asks for root and nftables.
        damaged_max: How many replicas may lose what was not synced, or all, at a time, without
            the loss of anything acknowledged: one less than ``min.insync.replicas``; all of them
            where records are synced before they are acknowledged.
    """

    brokers: int
    controllers: int
    needs: frozenset[str] = frozenset()
    namespaces: bool = False
    damaged_max: int = 1


class Equipment:
    """Owns the network between nodes, and what is preloaded into them; one for each lab.

    Places are brokers first, then controllers.

    Attributes:
        network: None if no fault needs one.
        network_kind: ``direct``, ``proxy`` or ``namespaces``.
        damaged_s: When a node last lost something, or started after that.
    """

    def __init__(self, work: Path, plan: EquipmentPlan, reaper: Reaper) -> None:
        """Make what is needed; files of ours lie in ``work``.

        Raises:
            NoNetworkError: it cannot be made.
            NotCompiledError: the compiler refuses.
        """
        work = work.absolute()  # processes that begin elsewhere are told of files in it
        work.mkdir(parents=True, exist_ok=True)
        self.plan: Final = plan
        self._work = work
        self._cutting = threading.Lock()
        self._cuts: dict[int, frozenset[Pair]] = {}
        self._disks: list[MachineDisk] = []
        self._clocks: list[Clock] = []
        self.network: Wiring | None = None
        self.network_kind = "direct"
        self.damaged_s = -math.inf
        try:
            self._make_network(reaper)
            self._libraries = {
                need: build_library(source, work)
                for need, source in ((DISKS, SHIM_C), (CLOCKS, CLOCK_C))
                if need in self.plan.needs
            }
        except BaseException:
            self.close()
            raise

    def address(self, place: int) -> tuple[str, int]:
        """Return where a node listens."""
        return self._addresses[place]

    @property
    def properties(self) -> Mapping[str, str]:
        """Return what nodes must be told, because of the network that they are in."""
        trusted = {"quorate.controller.insecure.listener": "true"}
        return trusted if self.network_kind == "namespaces" else {}

    def equip(self, place: int, host: Host) -> None:
        """Put a node's process on the network, over a disk and a clock."""
        preloaded: list[Library] = []
        if DISKS in self.plan.needs:
            disk = MachineDisk(host.data, self._work / host.name, self._libraries[DISKS])
            self._disks.append(disk)
            host.disk = disk
            preloaded.append((self._libraries[DISKS], disk.shim.environment()))
        if CLOCKS in self.plan.needs:
            clock = Clock(self._work / f"{host.name}.clock")
            self._clocks.append(clock)
            host.clock = clock
            preloaded.append((self._libraries[CLOCKS], clock.variables()))
        if isinstance(self.network, Network):
            redirects = {"QUORATE_REDIRECT": self.network.redirects(place)}
            preloaded.append((self._redirect, redirects))
        if isinstance(self.network, Namespaces):
            host.prefix[:0] = self.network.prefix(place)
        for _, variables in preloaded:
            host.variables.update(variables)
        if preloaded:
            host.variables[PRELOADED] = ":".join(str(library) for library, _ in preloaded)

    @property
    def has_clients(self) -> bool:
        """Whether clients can be cut off, too."""
        return self.network is not None and self.network.has_clients

    def cut(self, owner: object, pairs: frozenset[Pair]) -> None:
        """Cut, besides what others have cut; instead of what this owner had cut before."""
        assert self.network is not None
        with self._cutting:
            self._cuts[id(owner)] = pairs
            self.network.cut(frozenset[Pair]().union(*self._cuts.values()))

    def mend(self, owner: object, *, hard: bool) -> None:
        """Let through what this owner had cut; ``hard`` breaks all connections."""
        assert self.network is not None
        with self._cutting:
            if self._cuts.pop(id(owner), None) is None:
                return
            if hard:
                self.network.heal(hard=True)
            self.network.cut(frozenset[Pair]().union(*self._cuts.values()))

    def close(self) -> None:
        """End everything; the processes have ended."""
        if self.network is not None:
            self.network.close()
        for disk in self._disks:
            disk.shim.close()
        for clock in self._clocks:
            clock.close()
        self._disks, self._clocks = [], []

    def _make_network(self, reaper: Reaper) -> None:
        brokers, count = self.plan.brokers, self.plan.brokers + self.plan.controllers
        if NETWORK in self.plan.needs and self.plan.namespaces:
            wide = Namespaces(count, reaper)
            self.network, self.network_kind = wide, "namespaces"
            self._addresses = [wide.address(place) for place in range(count)]
            return
        ports = free_ports(count)
        self._addresses = [(LOOPBACK, port) for port in ports]
        if NETWORK in self.plan.needs:
            self._redirect = build_library(REDIRECT_C, self._work)
            # Controllers call no brokers: they have no listeners for that.
            pairs = [
                (a, b) for a, b in permutations(range(count), 2) if a < brokers or b >= brokers
            ]
            self.network, self.network_kind = Network(ports, pairs), "proxy"
