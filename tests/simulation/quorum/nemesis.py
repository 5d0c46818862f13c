"""Whoever makes things go wrong: partitions, crashes, slow and full disks, changes of voters."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from tests.simulation.quorum.admin import Admin
from tests.simulation.quorum.network import FINE, Link, Weather
from tests.simulation.quorum.world import Host, World

DELAYS_S = ((0.0002, 0.002), (0.001, 0.03), (0.0001, 0.15))
SYNCS_S = ((0.0001, 0.001), (0.001, 0.01), (0.01, 0.2))
FUSE_STEPS_MAX = 30
TRANSFER_S = 1.0


class Nemesis:
    """One thing after another goes wrong; :meth:`rest` puts everything right again."""

    def __init__(self, world: World, admin: Admin) -> None:
        self._world = world
        self._admin = admin
        self._rng = world.rng("nemesis")
        self._hosts = list(world.hosts.values())
        self._actions: dict[str, Callable[[], str | None]] = {
            "part": self._part,
            "isolate leader": self._isolate_leader,
            "one way": self._one_way,
            "slow pair": self._slow_pair,
            "late answers": self._answer_late,
            "bridge": self._bridge,
            "heal": self._heal,
            "kill": lambda: self._kill(self._any()),
            "kill leader": lambda: self._kill(self._leader()),
            "kill all": self._kill_all,
            "fuse": lambda: self._fuse(self._any()),
            "fuse leader": lambda: self._fuse(self._leader()),
            "stop": self._stop,
            "restart": self._restart,
            "weather": self._change_weather,
            "slow disks": self._slow_disks,
            "stall": self._stall,
            "pause": self._pause,
            "full disk": self._fill_disk,
            "transfer": admin.transfer,
            "member": admin.change_member,
            "wipe": admin.wipe,
        }
        self._weights = world.scenario.actions
        self._busy = True
        self._begin_weather()
        self._wait()

    def _wait(self) -> None:
        pause_s = self._rng.expovariate(self._world.scenario.intensity)
        self._world.timeline.after(pause_s, self._act)

    def _act(self) -> None:
        if not self._busy:
            return
        name = self._rng.choices(list(self._weights), list(self._weights.values()))[0]
        done = self._actions[name]()
        if done is not None:
            self._world.trace.note(f"({name})", done)
        self._wait()

    def rest(self) -> None:
        """Heal the network and the disks; start what does not run."""
        self._busy = False
        self._heal()
        self._world.network.weather = FINE
        for host in self._hosts:
            host.disk.fuse = None
            host.disk.full = False
            host.disk.stalled_until_s = 0.0
            host.disk.sync_min_s, host.disk.sync_max_s = SYNCS_S[0]
            if host.process is not None:
                host.process.pause(0.0)
        self._world.trace.note("quiet", "")

    def _any(self) -> Host:
        return self._rng.choice(self._hosts)

    def _leader(self) -> Host | None:
        leader = self._world.leader()
        return None if leader is None else self._world.hosts[leader.key.node_id]

    # --- the network

    def _cut_between(self, some: Iterable[Host], others: Iterable[Host]) -> None:
        pairs = [(one.number, other.number) for one in some for other in others if one != other]
        links = [Link(*pair) for pair in pairs] + [Link(*reversed(pair)) for pair in pairs]
        self._world.network.cut(links)

    def _part(self) -> str:
        count = self._rng.randint(1, max(1, len(self._hosts) // 2))
        some = self._rng.sample(self._hosts, count)
        self._heal()
        self._cut_between(some, [host for host in self._hosts if host not in some])
        return _numbers(some)

    def _isolate_leader(self) -> str | None:
        leader = self._leader()
        if leader is None:
            return None
        self._heal()
        self._cut_between([leader], self._hosts)
        return _numbers([leader])

    def _one_way(self) -> str:
        source, target = self._rng.sample(self._hosts, 2)
        self._world.network.cut([Link(source.number, target.number)])
        return f"{source.number} to {target.number}"

    def _slow_pair(self) -> str | None:
        """Leave the leader one follower, whose answers take very long: they outlive the term."""
        leader = self._leader()
        if leader is None:
            return None
        follower = self._rng.choice([host for host in self._hosts if host != leader])
        pair = [leader, follower]
        self._heal()
        self._cut_between(pair, [host for host in self._hosts if host not in pair])
        detour_s = self._rng.uniform(0.5, 3.0)
        self._world.network.slow(Link(follower.number, leader.number), detour_s)
        return f"{_numbers(pair)}, answers after {detour_s:.1f} s"

    def _answer_late(self) -> str | None:
        """Have a leader lead again, in a later term, when answers of the earlier one arrive.

        They are those of its last follower, which hears of nothing any more meanwhile.
        """
        done = self._slow_pair()
        leader = self._leader()
        if done is None or leader is None:
            return None
        slow = next(
            host
            for host in self._hosts
            if self._world.network.passes(Link(leader.number, host.number)) and host != leader
        )

        def cut_off() -> None:
            if self._busy:
                self._heal()
                self._cut_between([slow], self._hosts)

        def lead_again() -> None:
            new = self._world.leader()
            if self._busy and new is not None and new.key != leader.key:
                patience_s = new.here_s + TRANSFER_S
                new.ask(new.rounds.transfer_leadership(leader.key, patience_s))

        for action, earliest_s, latest_s in ((cut_off, 0.2, 0.6), (lead_again, 0.5, 1.2)):
            self._world.timeline.after(self._rng.uniform(earliest_s, latest_s), action)
        return done

    def _bridge(self) -> str:
        """Two halves that only see each other through one host."""
        bridge, *others = self._rng.sample(self._hosts, len(self._hosts))
        half = len(others) // 2
        self._heal()
        self._cut_between(others[:half], others[half:])
        return f"{_numbers(others[:half])} {bridge.number} {_numbers(others[half:])}"

    def _heal(self) -> str:
        self._world.network.heal()
        return ""

    def _begin_weather(self) -> None:
        duplicates = self._world.scenario.duplicates
        if duplicates is not None:
            self._world.network.weather = replace(FINE, duplicates=duplicates)

    def _change_weather(self) -> str:
        delay_min_s, delay_max_s = self._rng.choice(DELAYS_S)
        duplicates = self._rng.choice((0, 0.05, 0.3))
        pinned = self._world.scenario.duplicates
        weather = self._world.network.weather = Weather(
            delay_min_s,
            delay_max_s,
            loss=self._rng.choice((0, 0, 0.02, 0.2)),
            duplicates=duplicates if pinned is None else pinned,
            spikes=self._rng.choice((0, 0, 0.02, 0.2)),
        )
        return str(weather)

    # --- processes

    def _kill(self, host: Host | None) -> str | None:
        if host is None or host.process is None:
            return None
        self._world.kill(host, power_cut=self._without_power())
        return str(host.number)

    def _without_power(self) -> bool:
        return self._world.scenario.power_cuts and self._rng.random() < 0.6

    def _kill_all(self) -> str:
        power_cut = self._without_power()
        for host in self._hosts:
            self._world.kill(host, power_cut=power_cut)
        return ""

    def _fuse(self, host: Host | None) -> str | None:
        """Let a process die inside one of its next disk operations."""
        if host is None or host.process is None:
            return None
        host.disk.fuse = self._rng.randint(1, FUSE_STEPS_MAX)
        return f"{host.number} in {host.disk.fuse} steps"

    def _stop(self) -> str:
        host = self._any()
        self._world.stop(host)
        return str(host.number)

    def _restart(self) -> str:
        for host in self._hosts:
            if self._rng.random() < 0.8:
                self._world.start(host)
        return ""

    def _pause(self) -> str | None:
        host = self._any()
        if host.process is None:
            return None
        pause_s = self._rng.uniform(0.2, 3.0)
        host.process.pause(self._world.timeline.now_s + pause_s)
        return f"{host.number} for {pause_s:.1f} s"

    # --- disks

    def _slow_disks(self) -> str:
        host = self._any()
        host.disk.sync_min_s, host.disk.sync_max_s = self._rng.choice(SYNCS_S)
        return f"{host.number} takes up to {host.disk.sync_max_s} s"

    def _stall(self) -> str:
        host = self._any()
        stall_s = self._rng.choice((0.2, 0.2, 1.5))
        host.disk.stalled_until_s = self._world.timeline.now_s + stall_s
        return f"{host.number} for {stall_s} s"

    def _fill_disk(self) -> str:
        host = self._any()
        full_s = self._rng.uniform(0.1, 2.0)
        disk = host.disk
        disk.full = True

        def empty() -> None:
            disk.full = False

        self._world.timeline.after(full_s, empty)
        return f"{host.number} for {full_s:.1f} s"


def _numbers(hosts: Iterable[Host]) -> str:
    return "".join(str(host.number) for host in hosts)
