"""A cluster of ours on this machine: a process for each controller and each broker."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

from quorate.dataclass import dataclass
from quorate.jepsen.lab import views
from quorate.jepsen.lab.cluster import NOBODY, ClusterView, PartitionView
from quorate.jepsen.lab.equipment import Equipment, EquipmentPlan
from quorate.jepsen.lab.hosts import QUORATE, DiedError, Host
from quorate.jepsen.lab.reaper import Reaper
from quorate.model import Endpoint

FIRST_BROKER_ID: Final = 101
START_S_MAX: Final = 60.0
FORM_S_MAX: Final = 30.0
LOOK_S_MAX: Final = 0.5
CALM_S: Final = 0.05
TRACEBACK: Final = "Traceback"
BEFORE_CHARS: Final = 300
AFTER_CHARS: Final = 3_000

# Sessions end soon, so that a minute holds many failovers.
PROPERTIES: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "4000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "400",
    "replica.lag.time.max.ms": "3000",
    "log.segment.bytes": str(1 << 20),
    "leader.imbalance.check.interval.seconds": "5",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "6",
}


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """What to start.

    Attributes:
        command: What runs a node's words; another one loads a planted bug.
        needs: What faults act on, besides processes; see :class:`EquipmentPlan`.
        namespaces: Whether nodes get a network of namespaces.
        damaged_max: How many brokers' disks may be damaged at a time.
    """

    brokers: int
    controllers: int
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    command: Sequence[str] = QUORATE
    needs: frozenset[str] = frozenset()
    namespaces: bool = False
    damaged_max: int = 1


class LocalLab:
    """The processes and what they say.  Places: brokers first, then controllers."""

    def __init__(self, folder: Path, plan: LocalPlan, reaper: Reaper) -> None:
        """Choose ports and prepare; nothing runs yet."""
        self.reaper: Final = reaper
        self.folder: Final = folder
        wanted = EquipmentPlan(
            plan.brokers, plan.controllers, plan.needs, plan.namespaces, plan.damaged_max
        )
        self._equipment = Equipment(folder / "equipment", wanted, reaper)
        count = plan.brokers + plan.controllers
        self._addresses = [self._equipment.address(place) for place in range(count)]
        self._plan = plan
        self._eyes = views.Eyes()
        self._read: dict[str, int] = {}
        replicas = str(min(3, plan.brokers))
        self._properties = {**PROPERTIES, "offsets.topic.replication.factor": replicas}
        self._properties |= {**self._equipment.properties, **plan.properties}
        self._brokers = [self._broker(place) for place in range(plan.brokers)]
        self._controllers = [self._controller(place) for place in range(plan.controllers)]

    # --- what there is

    @property
    def brokers(self) -> Sequence[Host]:
        """All brokers."""
        return self._brokers

    @property
    def controllers(self) -> Sequence[Host]:
        """All controllers."""
        return self._controllers

    @property
    def hosts(self) -> Sequence[Host]:
        """All nodes."""
        return [*self._controllers, *self._brokers]

    @property
    def equipment(self) -> Equipment:
        """What lies below the nodes."""
        return self._equipment

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses for clients."""
        return _text(host.address for host in self._brokers)

    def host(self, node_id: int) -> Host | None:
        """Return a node by its id."""
        return next((host for host in self.hosts if host.node_id == node_id), None)

    # --- what it is like now

    def view(self) -> ClusterView:
        """Return what those say that can be asked."""
        terms = views.quorum_terms(_endpoints(self._controllers), LOOK_S_MAX)
        said = self._eyes.look(_endpoints(self._brokers))
        return views.merged(said, views.newest_leader(terms), terms)

    def leader_of(self, partition: str) -> Host | None:
        """Return who leads a partition."""
        state = self._state(partition)
        return None if state is None else self.host(state.leader)

    def isr_of(self, partition: str) -> list[Host]:
        """Return who is in sync, the leader first."""
        state = self._state(partition)
        if state is None:
            return []
        ids = sorted(state.in_sync, key=lambda node_id: (node_id != state.leader, node_id))
        return [host for node_id in ids if (host := self.host(node_id)) is not None]

    def active_controller(self) -> Host | None:
        """Return the controller that decides."""
        terms = views.quorum_terms(_endpoints(self._controllers), LOOK_S_MAX)
        return self.host(views.newest_leader(terms))

    def coordinator_of(self, group: str) -> Host | None:
        """Return the broker that coordinates a group."""
        return self.host(self._eyes.coordinator_of(group, _endpoints(self._brokers)))

    def is_whole(self, topics: Iterable[str]) -> bool:
        """Whether all brokers agree that all replicas of these topics are in sync."""
        said = self._eyes.look(_endpoints(self._brokers))
        return views.are_whole(said, topics, len(self._brokers))

    def _state(self, partition: str) -> PartitionView | None:
        view = views.merged(self._eyes.look(_endpoints(self._brokers)), NOBODY)
        return view.partitions.get(partition)

    # --- what becomes of it

    def start(self) -> None:
        """Start all that do not run; return when brokers listen.

        Raises:
            NeverCameUpError: one does not come up.
        """
        for host in self.hosts:
            if not host.runs:
                host.start()
        deadline_s = time.monotonic() + START_S_MAX
        for host in (*self._controllers, *self._brokers):
            host.wait_until_it_listens(deadline_s)

    def check_alive(self) -> None:
        """See that nobody ended by itself, or told of an error of ours.

        Raises:
            DiedError: somebody did.
        """
        for host in self.hosts:
            host.check_alive()
            said = self._new_lines(host)
            if TRACEBACK in said:
                at = said.index(TRACEBACK)
                told = said[max(0, at - BEFORE_CHARS) : at + AFTER_CHARS]
                raise DiedError(f"{host.name} tells of an error of ours:\n{told}")

    def _new_lines(self, host: Host) -> str:
        """Return what was logged since the last time, and a little of before."""
        if not host.log.exists():
            return ""
        with host.log.open("rb") as log:
            log.seek(max(0, self._read.get(host.name, 0) - BEFORE_CHARS))
            data = log.read()
            self._read[host.name] = log.tell()
        return data.decode(errors="replace")

    def stop(self) -> None:
        """Stop all properly, brokers first.

        Raises:
            DiedError: somebody did not end well, or in time.
        """
        for host in (*self._brokers, *self._controllers):
            if host.runs and not host.stop():
                raise DiedError(f"{host.name} did not end in time:\n{host.log_tail()}")

    def close(self) -> None:
        """End whatever runs."""
        self._eyes.close()
        for host in self.hosts:
            host.close()
        self._equipment.close()

    # --- its nodes

    def _broker(self, place: int) -> Host:
        node_id = FIRST_BROKER_ID + place
        address, port = self._addresses[place]
        words = ["broker", "start", "--id", str(node_id), "--listen", f"{address}:{port}"]
        words += ["--controllers", self._controller_addresses()]
        return self._host(f"broker-{node_id}", node_id, place, words)

    def _controller(self, number: int) -> Host:
        place = self._plan.brokers + number
        address, port = self._addresses[place]
        words = ["controller", "start", "--id", str(number + 1), "--listen", f"{address}:{port}"]
        words += ["--join", self._controller_addresses()]
        return self._host(f"controller-{number + 1}", number + 1, place, words)

    def _host(self, name: str, node_id: int, place: int, words: Sequence[str]) -> Host:
        folder = self.folder / name
        given = [w for item in self._properties.items() for w in ("-X", "=".join(item))]
        words = ["-v", *words, "--dir", str(folder.resolve() / "data"), *given]
        folder.mkdir(parents=True)
        host = Host(name, node_id, folder, self._addresses[place], words, self._plan.command)
        self._equipment.equip(place, host)
        return host

    def _controller_addresses(self) -> str:
        return _text(self._addresses[self._plan.brokers :])


def _text(addresses: Iterable[tuple[str, int]]) -> str:
    return ",".join(f"{address}:{port}" for address, port in addresses)


def _endpoints(hosts: Iterable[Host]) -> list[Endpoint]:
    return [Endpoint(*host.address) for host in hosts if host.answers]
