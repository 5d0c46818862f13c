"""Whom a fault hits: chosen by role, when it happens, of those that run and are not paused."""

from collections.abc import Callable, Iterable, Sequence
from random import Random

from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.hosts import Host
from quorate.jepsen.nemesis.fault import NotNowError
from quorate.jepsen.nemesis.stage import GROUPS, INTERNAL, TRANSACTIONS, is_empty

Choose = Callable[[Lab, Random], list[Host]]


def leader(lab: Lab, rng: Random) -> list[Host]:
    """Return the leader of some partition."""
    return [_some(lab.leader_of(name) for name in partitions(lab, rng))]


def writing_leader(lab: Lab, rng: Random) -> list[Host]:
    """Return the leader of some partition that users write to."""
    names = [name for name in partitions(lab, rng) if not name.startswith(INTERNAL)]
    return [_some(lab.leader_of(name) for name in names)]


def transaction_coordinator(lab: Lab, rng: Random) -> list[Host]:
    """Return who coordinates the transactions of some ids, and has coordinated some."""
    return [_coordinator(lab, rng, TRANSACTIONS, "transactions")]


def group_coordinator(lab: Lab, rng: Random) -> list[Host]:
    """Return who coordinates some groups, and has coordinated some."""
    return [_coordinator(lab, rng, GROUPS, "groups")]


def _coordinator(lab: Lab, rng: Random, topic: str, what: str) -> Host:
    for name in partitions(lab, rng):
        found = lab.leader_of(name) if name.startswith(topic) else None
        if found is not None and found.answers and not is_empty(found, name):
            return found
    raise NotNowError(f"nobody coordinates {what}")


def follower(lab: Lab, rng: Random) -> list[Host]:
    """Return one that is in sync and does not lead, of some partition."""
    return [_some(host for name in partitions(lab, rng) for host in lab.isr_of(name)[1:])]


def whole_isr(lab: Lab, rng: Random) -> list[Host]:
    """Return all that are in sync of some partition."""
    for name in partitions(lab, rng):
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


def so_many(count: int) -> Choose:
    """Return a choice of so many brokers, whoever they are."""

    def choose(lab: Lab, rng: Random) -> list[Host]:
        found = brokers(lab, rng)
        if len(found) < count:
            raise NotNowError(f"fewer than {count} brokers run")
        return found[:count]

    return choose


def anybody(lab: Lab, rng: Random) -> list[Host]:
    """Return some process."""
    return [_some(_mixed([*lab.controllers, *lab.brokers], rng))]


def partitions(lab: Lab, rng: Random) -> list[str]:
    """Return the names of all partitions, mixed."""
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
