"""Disks that are full, fail or are slow, below nodes that run."""

import contextlib
import errno
import time
from random import Random
from typing import Final

from quorate.control import messages as m
from quorate.jepsen.clients.controllers import MaybeDoneError, NotDoneError, QuorumClient
from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.disks import UNLIMITED
from quorate.jepsen.lab.hosts import Host
from quorate.jepsen.nemesis import roles
from quorate.jepsen.nemesis.fault import Note, NotNowError
from quorate.jepsen.nemesis.partitions import seen_within
from quorate.model import Endpoint

BITES_S_MAX: Final = 6.0
SLOW_S: Final = (0.1, 1.5)
WRITTEN_S_MAX: Final = 1.5

# A property of a broker that there is not.
NOBODY: Final = "2000000000"
UNREAD: Final = "log.retention.ms"
HOUR_MS: Final = 3_600_000


class BadDisk:
    """A disk that does not do what it is asked to; nodes over it may end, or go on without it."""

    def __init__(self, choose: roles.Choose, field: str, value: int | None, counter: str) -> None:
        self._choose = choose
        self._field = field
        self._value = value
        self._counter = counter
        self._lab: Lab | None = None
        self._hosts: list[Host] = []
        self._before: dict[str, int] = {}

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Let it fail."""
        hosts = self._choose(lab, rng)
        if not all(host.disk for host in hosts):
            raise NotNowError("nothing can be done to these disks")
        brokers = [host for host in hosts if host in lab.brokers]
        if brokers and len(brokers) == len(hosts) and not any(map(_is_written_to, brokers)):
            raise NotNowError("nothing was ever written to these disks")
        drawn_us = round(rng.uniform(*SLOW_S) * 1e6)
        value = drawn_us if self._value is None else self._value
        note(hosts, **{self._field: value})
        self._lab, self._hosts = lab, hosts
        for host in hosts:
            host.may_end = True
            self._before[host.name] = self._count(host)
            assert host.disk is not None
            host.disk.shim.set(self._field, value)

    def verified(self) -> str:
        """Say how often it failed, once it did; controllers are given something to write."""
        if not seen_within(BITES_S_MAX, self._has_bitten):
            return ""
        counts = [f"{h.name} {self._bites(h)} times" for h in self._hosts if self._bites(h)]
        return f"{self._counter}: {', '.join(counts)}"

    def _has_bitten(self) -> bool:
        if any(map(self._bites, self._hosts)):
            return True
        if self._lab is not None and any(host in self._lab.controllers for host in self._hosts):
            write_metadata(self._lab)
        return any(map(self._bites, self._hosts))

    def heal(self) -> None:
        """Let it work again; a node that ended, or has given its disk up, is started anew."""
        for host in self._hosts:
            assert host.disk is not None
            host.disk.shim.set(self._field, UNLIMITED if self._field == "space_bytes" else 0)
            if host.runs:
                host.close()
            host.start()

    def _bites(self, host: Host) -> int:
        return self._count(host) - self._before[host.name]

    def _count(self, host: Host) -> int:
        assert host.disk is not None
        return host.disk.shim.get(self._counter)


def _is_written_to(broker: Host) -> bool:
    return any(path.stat().st_size for path in broker.data.glob("*/*.log"))


def write_metadata(lab: Lab) -> None:
    """Let controllers write something that nobody reads, if they can within a moment."""
    change = m.ConfigChange(UNREAD, m.ConfigOperation.SET, str(1 + time.monotonic_ns() % HOUR_MS))
    request = m.AlterConfigs((m.ResourceChanges("broker", NOBODY, (change,)),))
    endpoints = [Endpoint(*host.address) for host in lab.controllers if host.answers]
    if not endpoints:
        return
    with contextlib.suppress(NotDoneError, MaybeDoneError), QuorumClient(endpoints, 0) as client:
        client.ask(request, m.AlterConfigsAnswer, request_id=b"", timeout_s=WRITTEN_S_MAX)


def full(choose: roles.Choose) -> BadDisk:
    """Make a disk without any space left."""
    return BadDisk(choose, "space_bytes", 0, "faults")


def unwritable(choose: roles.Choose) -> BadDisk:
    """Make a disk on which every write fails."""
    return BadDisk(choose, "write_errno", errno.EIO, "faults")


def unsyncable(choose: roles.Choose) -> BadDisk:
    """Make a disk on which every sync fails."""
    return BadDisk(choose, "sync_errno", errno.EIO, "faults")


def slow(choose: roles.Choose) -> BadDisk:
    """Make a disk on which every sync takes its time."""
    return BadDisk(choose, "sync_delay_us", None, "delays")
