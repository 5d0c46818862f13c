"""Faults of processes: killed, paused, restarted; whom they hit is chosen by role."""

import socket
import time
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Final

from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.hosts import Host
from quorate.jepsen.nemesis.fault import Family, Note, NotNowError, Variant

HEARD_S_MAX: Final = 0.5
LISTEN_S_MAX: Final = 30.0

Choose = Callable[[Lab, Random], list[Host]]


# --- whom: each returns hosts that run and are not paused, or raises


def leader(lab: Lab, rng: Random) -> list[Host]:
    """Return the leader of some partition."""
    return [_some(lab.leader_of(name) for name in _partitions(lab, rng))]


def follower(lab: Lab, rng: Random) -> list[Host]:
    """Return one that is in sync and does not lead, of some partition."""
    return [_some(host for name in _partitions(lab, rng) for host in lab.isr_of(name)[1:])]


def whole_isr(lab: Lab, rng: Random) -> list[Host]:
    """Return all that are in sync of some partition."""
    for name in _partitions(lab, rng):
        hosts = [host for host in lab.isr_of(name) if host.answers]
        if hosts:
            return hosts
    raise NotNowError("no partition has a leader")


def controller(lab: Lab, rng: Random) -> list[Host]:
    """Return the controller that decides."""
    del rng
    return [_some([lab.active_controller()])]


def controllers(lab: Lab, rng: Random) -> list[Host]:
    """Return all controllers."""
    return _mixed(lab.controllers, rng)


def everybody(lab: Lab, rng: Random) -> list[Host]:
    """Return all processes."""
    return _mixed([*lab.controllers, *lab.brokers], rng)


def brokers(lab: Lab, rng: Random) -> list[Host]:
    """Return all brokers."""
    return _mixed(lab.brokers, rng)


def anybody(lab: Lab, rng: Random) -> list[Host]:
    """Return some process."""
    return [_some(_mixed([*lab.controllers, *lab.brokers], rng))]


def _partitions(lab: Lab, rng: Random) -> list[str]:
    names = sorted(lab.view().partitions)
    return rng.sample(names, len(names))


def _mixed(hosts: Sequence[Host], rng: Random) -> list[Host]:
    found = [host for host in hosts if host.answers]
    if not found:
        raise NotNowError("nobody runs")
    return rng.sample(found, len(found))


def _some(hosts: Iterable[Host | None]) -> Host:
    for host in hosts:
        if host is not None and host.answers:
            return host
    raise NotNowError("nobody has this role now")


# --- what


class Kill:
    """Processes end by kill -9; their data stays. Healed, they are started again."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._hosts: list[Host] = []

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Kill them, one right after the other."""
        self._hosts = self._choose(lab, rng)
        note(self._hosts, silent=[host.name for host in self._hosts])
        for host in self._hosts:
            host.kill()

    def verified(self) -> str:
        """Say that nobody listens where they did."""
        silent = [host.name for host in self._hosts if not _is_heard(host)]
        return f"nobody listens: {', '.join(silent)}" if len(silent) == len(self._hosts) else ""

    def heal(self) -> None:
        """Start those that do not run."""
        for host in self._hosts:
            if not host.runs:
                host.start()


class Pause:
    """Processes stand still; their connections stay, and what arrives waits for them."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._hosts: list[Host] = []

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Stop them where they are."""
        self._hosts = self._choose(lab, rng)
        note(self._hosts, silent=[host.name for host in self._hosts])
        for host in self._hosts:
            host.pause()

    def verified(self) -> str:
        """Say that the kernel has them as stopped."""
        stopped = [host.name for host in self._hosts if host.is_stopped()]
        return f"stopped: {', '.join(stopped)}" if len(stopped) == len(self._hosts) else ""

    def heal(self) -> None:
        """Let them go on."""
        for host in self._hosts:
            host.resume()


class Restart:
    """Processes end properly, one after the other, each once the one before listens again."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._hosts: list[Host] = []
        self._ended: list[str] = []

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Stop and start them; the last one is started by :meth:`heal`."""
        self._hosts = self._choose(lab, rng)
        note(self._hosts)
        for host in self._hosts:
            if host.answers and host.stop():
                self._ended.append(host.name)
            if host is not self._hosts[-1] and not host.runs:
                host.start()
                host.wait_until_it_listens(time.monotonic() + LISTEN_S_MAX)

    def verified(self) -> str:
        """Say who ended by itself when it was told to."""
        return f"ended properly: {', '.join(self._ended)}" if self._ended else ""

    def heal(self) -> None:
        """Start those that do not run."""
        for host in self._hosts:
            if not host.runs:
                host.start()


def _is_heard(host: Host) -> bool:
    try:
        socket.create_connection(host.address, HEARD_S_MAX).close()
    except OSError:
        return False
    return True


KILL: Final = Family(
    "kill",
    "end processes with kill -9 and start them again",
    {
        "leader": Variant(4, lambda: Kill(leader)),
        "follower": Variant(1, lambda: Kill(follower)),
        "isr": Variant(1, lambda: Kill(whole_isr)),
        "controller": Variant(2, lambda: Kill(controller)),
        "controllers": Variant(1, lambda: Kill(controllers)),
        "all": Variant(1, lambda: Kill(everybody)),
    },
)
PAUSE: Final = Family(
    "pause",
    "stop processes with SIGSTOP, past their session's timeout or not, and let them go on",
    {
        "leader": Variant(4, lambda: Pause(leader)),
        "follower": Variant(1, lambda: Pause(follower)),
        "isr": Variant(1, lambda: Pause(whole_isr)),
        "controller": Variant(2, lambda: Pause(controller)),
    },
)
RESTART: Final = Family(
    "restart",
    "tell processes to end and start them again: one, or all brokers in turn",
    {
        "leader": Variant(3, lambda: Restart(leader)),
        "rolling": Variant(1, lambda: Restart(brokers)),
        "controller": Variant(1, lambda: Restart(controller)),
    },
)
