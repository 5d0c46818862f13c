"""Whoever makes things go wrong: crashes, partitions, pauses, elections."""

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Final

from quorate.control import partition_messages as p
from quorate.errors import KafkaError
from quorate.model import NO_LEADER
from quorate.quorum.control import elections
from tests.simulation.replication.network import FINE, Link

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.replication.world import World

PAUSE_S_MAX: Final = 4.0
FULL_S_MAX: Final = 3.0
QUICK_RESTART_S: Final = 0.01
AMBUSH_S: Final = 0.01
AMBUSHES_MAX: Final = 200
SLOW_S_MAX: Final = 0.45
"""A little less than brokers wait for a controller: what is slower than that is lost to them."""


class Nemesis:
    """Acts at random moments until it rests."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._rng = world.rng("nemesis")
        self._resting = False
        self._deeds: dict[str, Callable[[], str | None]] = {
            "kill": lambda: self._kill(self._any(), power_cut=False),
            "kill leader": lambda: self._kill(self._leader(), power_cut=False),
            "kill all": self._kill_all,
            "power cut": self._power_cut,
            "wipe": self._wipe,
            "wipe joiner": self._wipe_joiner,
            "full disk": self._fill_disk,
            "stop": self._stop,
            "restart": self._restart,
            "pause": lambda: self._pause(
                self._rng.choice((self._any(), *self._world.controllers.all))
            ),
            "pause leader": lambda: self._pause(self._leader()),
            "isolate": self._isolate,
            "one way": self._one_way,
            "from controllers": self._from_controllers,
            "heal": self._heal,
            "weather": self._weather,
            "delays": self._delays,
            "slow": self._slow,
            "controller": self._controller,
            "elect": self._elect,
        }
        self._plan()

    def rest(self) -> None:
        """Let everything be well again."""
        self._resting = True
        self._world.network.heal()
        self._world.network.weather = FINE
        for host in self._world.hosts.values():
            host.disk.capacity_bytes = None

    def _plan(self) -> None:
        delay_s = self._rng.expovariate(self._world.scenario.intensity)
        self._world.timeline.after(delay_s, self._act)

    def _act(self) -> None:
        if self._resting:
            return
        actions = self._world.scenario.actions
        (name,) = self._rng.choices(list(actions), list(actions.values()))
        said = self._deeds[name]()
        if said is not None:
            self._world.trace.note("nemesis", f"{name} {said}")
        self._plan()

    def _any(self) -> str:
        return self._rng.choice(list(self._world.hosts))

    def _leader(self) -> str:
        states = [s for t in self._world.controllers.image.topics.values() for s in t.partitions]
        led = [s.leader_id for s in states if s.leader_id != NO_LEADER]
        return f"b{self._rng.choice(led)}" if led else self._any()

    # --- processes

    def _kill(self, name: str, *, power_cut: bool) -> str:
        self._world.kill(name, power_cut=power_cut)
        return name

    def _kill_leader(self) -> None:
        self._world.kill(self._leader(), power_cut=False)

    def _power_cut(self) -> str | None:
        name = self._any()
        if self._world.scenario.fsync:
            self._world.kill(name, power_cut=True)
        elif self._world.may_lose(name):
            self._world.lose(name, power_cut=True)
        else:
            return None
        return name

    def _wipe(self) -> str | None:
        name = self._any()
        if not self._world.may_lose(name):
            return None
        self._world.lose(name, power_cut=False)
        return name

    def _wipe_joiner(self) -> str:
        """Wait for somebody to be just about to be in sync; then it loses its disk, and comes back.

        A moment later its leader dies.
        """
        self._lie_in_wait(AMBUSHES_MAX)
        return ""

    def _lie_in_wait(self, times: int) -> None:
        if self._resting or not times:
            return
        joining = self._joining()
        if not joining:
            self._world.timeline.after(AMBUSH_S, lambda: self._lie_in_wait(times - 1))
            return
        name = self._rng.choice(joining)
        self._world.lose(name, power_cut=False)
        self._world.timeline.after(QUICK_RESTART_S, lambda: self._world.start(name))
        self._world.timeline.after(self._rng.uniform(0.0, 1.0), self._kill_leader)

    def _joining(self) -> list[str]:
        """Return who is in no ISR but a proposed one, and has nothing that only it has."""
        world = self._world
        states = [s for t in world.controllers.image.topics.values() for s in t.partitions]
        outside = {f"b{b}" for s in states for b in s.replicas if b not in s.isr}
        return [
            name
            for name in sorted(outside & world.proposed())
            if world.hosts[name].process is not None and world.may_lose(name)
        ]

    def _kill_all(self) -> str:
        for name in self._world.hosts:
            self._world.kill(name, power_cut=False)
        return ""

    def _stop(self) -> str:
        name = self._any()
        self._world.stop(name)
        return name

    def _restart(self) -> str:
        for name in self._world.hosts:
            if self._rng.random() < 0.8:
                self._world.start(name)
        return ""

    def _pause(self, name: str) -> str | None:
        process = self._world.process_on(name)
        if process is None:
            return None
        pause_s = self._rng.uniform(0.1, PAUSE_S_MAX)
        process.paused_until_s = self._world.timeline.now_s + pause_s
        return f"{name} for {pause_s:.1f} s"

    def _fill_disk(self) -> str:
        """Leave a disk almost no space, for a while."""
        name = self._rng.choice((self._any(), self._leader()))
        disk, full_s = self._world.hosts[name].disk, self._rng.uniform(0.1, FULL_S_MAX)
        disk.capacity_bytes = disk.used_bytes() + self._rng.choice((0, 100, 2000))

        def empty() -> None:
            disk.capacity_bytes = None

        self._world.timeline.after(full_s, empty)
        return f"{name} for {full_s:.1f} s"

    # --- the network

    def _others(self, name: str) -> list[str]:
        return [other for other in self._world.everybody if other != name]

    def _isolate(self) -> str:
        name = self._rng.choice((self._any(), self._leader()))
        others = self._others(name)
        self._world.network.cut(
            [Link(name, other) for other in others] + [Link(other, name) for other in others]
        )
        return name

    def _one_way(self) -> str:
        name = self._any()
        others = self._rng.sample(self._others(name), 2)
        inward = self._rng.random() < 0.5
        self._world.network.cut(
            Link(other, name) if inward else Link(name, other) for other in others
        )
        return f"{name} {'<-' if inward else '->'} {others}"

    def _from_controllers(self) -> str:
        name = self._rng.choice((self._any(), self._leader()))
        pairs = product((name,), self._world.controllers.all)
        self._world.network.cut(link for a, b in pairs for link in (Link(a, b), Link(b, a)))
        return name

    def _heal(self) -> str:
        self._world.network.heal()
        return ""

    def _weather(self) -> str:
        rng = self._rng
        self._world.network.weather = rng.choice(
            (
                FINE,
                replace(FINE, delay_max_s=0.05),
                replace(FINE, loss=0.05),
                replace(FINE, loss=0.2, duplicates=0.1),
                replace(FINE, duplicates=0.3, spikes=0.1),
            )
        )
        return str(self._world.network.weather)

    def _delays(self) -> str:
        self._world.network.weather = self._rng.choice(
            (
                replace(FINE, spikes=0.05),
                replace(FINE, spikes=0.3),
                replace(FINE, delay_min_s=0.02, delay_max_s=0.4),
            )
        )
        return str(self._world.network.weather)

    def _slow(self) -> str:
        """Let what the controllers hear of a leader be old."""
        name = self._leader()
        extra_s = self._rng.uniform(0.1, SLOW_S_MAX)
        controllers = self._world.controllers.all
        self._world.network.slow((Link(name, other) for other in controllers), extra_s)
        return f"{name} to the controllers, {extra_s:.2f} s"

    # --- metadata

    def _controller(self) -> str:
        controllers = self._world.controllers
        name = self._rng.choice(list(controllers.all))
        controllers.become_active(controllers.all[name])
        return name

    def _elect(self) -> str:
        request = p.ElectLeaders(p.Election.PREFERRED, None)
        controllers = self._world.controllers
        try:
            controllers.decide(
                lambda image: elections.elect_leaders(image, request, controllers.wall_ms)
            )
        except KafkaError as error:
            return str(error)
        return ""
