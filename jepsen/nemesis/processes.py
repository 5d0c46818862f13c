"""Faults of processes: killed, paused, restarted; whom they hit is chosen by role."""

import socket
import time
from functools import partial
from random import Random
from typing import Final

from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.hosts import Host
from quorate.jepsen.nemesis import roles
from quorate.jepsen.nemesis.fault import Family, Note, NotNowError, Variant

SO_MANY: Final = {"one": 1, "two": 2, "three": 3, "four": 4}
HEARD_S_MAX: Final = 0.5
LISTEN_S_MAX: Final = 30.0
END_S_MAX: Final = 10.0
ALL_S_MAX: Final = 15.0
LEADS_S_MAX: Final = 5.0
RECOVERING_S: Final = (0.2, 2.0)
SHORT_S: Final = (0.3, 0.9)
STOPPED_S_MAX: Final = 2.0
POLL_S: Final = 0.005


# --- what


class Kill:
    """Processes end by kill -9; their data stays. Healed, they are started again."""

    def __init__(self, choose: roles.Choose) -> None:
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


class KillInTurn:
    """Brokers end by kill -9, one before the one before is back: who was in sync last leads then.

    The second one is killed as soon as the first one's partitions have another leader, or before.
    """

    def __init__(self) -> None:
        self._hosts: list[Host] = []
        self._killed: list[str] = []

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Kill the leader of a partition, and then whoever leads it next."""
        names = roles.partitions(lab, rng)
        first = next((h for n in names if (h := lab.leader_of(n)) is not None and h.answers), None)
        if first is None:
            raise NotNowError("no partition has a leader")
        name = next(n for n in names if lab.leader_of(n) is first)
        note([first], partition=name, then="whoever leads it next")
        self._kill(first)
        patience_s = rng.choice((0.0, rng.uniform(0, LEADS_S_MAX), LEADS_S_MAX))
        deadline_s = time.monotonic() + patience_s
        while (found := lab.leader_of(name)) in (None, first) and time.monotonic() < deadline_s:
            time.sleep(POLL_S)
        others = [host for host in lab.isr_of(name) if host.answers and host is not first]
        if found is None or found is first or not found.answers:
            found = rng.choice(others) if others else None
        if found is not None:
            self._kill(found)

    def verified(self) -> str:
        """Say who was killed."""
        return f"killed one after the other: {', '.join(self._killed)}"

    def heal(self) -> None:
        """Start them, the first one first."""
        for host in self._hosts:
            if not host.runs:
                host.start()

    def _kill(self, host: Host) -> None:
        self._hosts.append(host)
        host.kill()
        self._killed.append(host.name)


class KillAgain(Kill):
    """Processes end by kill -9 once more, while they recover from that."""

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Kill, start, kill."""
        super().inflict(lab, rng, note)
        for host in self._hosts:
            host.start()
        time.sleep(rng.uniform(*RECOVERING_S))
        for host in self._hosts:
            host.kill()


class PauseShortly:
    """A process stands still, for less than the time after which anybody gives it up."""

    def __init__(self, choose: roles.Choose) -> None:
        self._choose = choose
        self._hosts: list[Host] = []
        self._said = ""

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Stop them where they are, and let them go on."""
        self._hosts = self._choose(lab, rng)
        seconds = rng.uniform(*SHORT_S)
        note(self._hosts, seconds=round(seconds, 3))
        for host in self._hosts:
            host.pause()
        time.sleep(seconds)
        stopped = [host.name for host in self._hosts if host.is_stopped()]
        self.heal()
        self._said = f"stopped for {seconds:.1f} s: {', '.join(stopped)}" if stopped else ""

    def verified(self) -> str:
        """Say that the kernel had them as stopped."""
        return self._said

    def heal(self) -> None:
        """Let them go on."""
        for host in self._hosts:
            host.resume()


class Pause:
    """Processes stand still; their connections stay, and what arrives waits for them."""

    def __init__(self, choose: roles.Choose) -> None:
        self._choose = choose
        self._hosts: list[Host] = []

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Stop them where they are."""
        self._hosts = self._choose(lab, rng)
        note(self._hosts, silent=[host.name for host in self._hosts])
        for host in self._hosts:
            host.pause()
        deadline_s = time.monotonic() + STOPPED_S_MAX
        while not all(host.is_stopped() for host in self._hosts):
            if time.monotonic() > deadline_s:
                break
            time.sleep(POLL_S)

    def verified(self) -> str:
        """Say that the kernel has them as stopped."""
        stopped = [host.name for host in self._hosts if host.is_stopped()]
        return f"stopped: {', '.join(stopped)}" if len(stopped) == len(self._hosts) else ""

    def heal(self) -> None:
        """Let them go on."""
        for host in self._hosts:
            host.resume()


class Restart:
    """Processes end properly, one after the other, each once the one before listens again.

    Other faults wait meanwhile; so it ends where it is if it takes long, and who does not end by
    himself, because nobody decides now, say, is killed.
    """

    def __init__(self, choose: roles.Choose) -> None:
        self._choose = choose
        self._hosts: list[Host] = []
        self._ended: list[str] = []

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Stop and start them; the last one is started by :meth:`heal`."""
        self._hosts = self._choose(lab, rng)
        note(self._hosts)
        deadline_s = time.monotonic() + ALL_S_MAX
        for host in self._hosts:
            if host.answers and host.stop(END_S_MAX):
                self._ended.append(host.name)
            if host is self._hosts[-1] or time.monotonic() > deadline_s:
                break
            if not host.runs:
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


def _kill(count: int) -> Kill:
    return Kill(roles.so_many(count))


KILL: Final = Family(
    "kill",
    "end processes with kill -9 and start them again",
    {
        "leader": Variant(4, lambda: Kill(roles.leader)),
        "follower": Variant(1, lambda: Kill(roles.follower)),
        "isr": Variant(1, lambda: Kill(roles.whole_isr)),
        "controller": Variant(2, lambda: Kill(roles.controller)),
        "controllers": Variant(1, lambda: Kill(roles.controllers)),
        "brokers": Variant(1, lambda: Kill(roles.brokers)),
        "all": Variant(1, lambda: Kill(roles.everybody)),
        "in-turn": Variant(2, KillInTurn),
        "again": Variant(1, lambda: KillAgain(roles.leader)),
        # Only when asked for: there may be no transactions, and others take part in them.
        "coordinator": Variant(0, lambda: Kill(roles.transaction_coordinator)),
        "group-coordinator": Variant(0, lambda: Kill(roles.group_coordinator)),
        "writing-leader": Variant(0, lambda: Kill(roles.writing_leader)),
        # How many depends on min.insync.replicas.
        **{word: Variant(0, partial(_kill, count)) for word, count in SO_MANY.items()},
    },
)
PAUSE: Final = Family(
    "pause",
    "stop processes with SIGSTOP, past their session's timeout or not, and let them go on",
    {
        "leader": Variant(4, lambda: Pause(roles.leader)),
        "follower": Variant(1, lambda: Pause(roles.follower)),
        "isr": Variant(1, lambda: Pause(roles.whole_isr)),
        "controller": Variant(2, lambda: Pause(roles.controller)),
        "shortly": Variant(2, lambda: PauseShortly(roles.anybody)),
        "group-coordinator": Variant(0, lambda: Pause(roles.group_coordinator)),
    },
)
RESTART: Final = Family(
    "restart",
    "tell processes to end and start them again: one, or all brokers in turn",
    {
        "leader": Variant(3, lambda: Restart(roles.leader)),
        "rolling": Variant(1, lambda: Restart(roles.brokers)),
        "controller": Variant(1, lambda: Restart(roles.controller)),
        "everybody": Variant(1, lambda: Restart(roles.everybody)),
    },
)
