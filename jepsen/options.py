"""What a run is asked to do."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Final

from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.jepsen.clients import choosing
from quorate.jepsen.lab import namespaces
from quorate.jepsen.lab.namespaces import NoNetworkError
from quorate.jepsen.mutants.registry import MUTANTS
from quorate.jepsen.nemesis import capabilities
from quorate.jepsen.nemesis.fault import Family
from quorate.jepsen.nemesis.faults import FAULTS
from quorate.jepsen.nemesis.schedules import SCHEDULES
from quorate.jepsen.workloads.registry import WORKLOADS
from quorate.jepsen.workloads.workload import WorkloadKind

NETWORKS = ("auto", "proxy", "namespaces")


ACKS: Final = ("all", "1", "0")


class UnknownNameError(QuorateError):
    """There is no workload, or no fault, of this name.

    Attributes:
        what: ``workload``, ``fault``, or ``variant of the fault ...``.
        known: The names that there are.
    """

    def __init__(self, what: str, word: str, known: Sequence[str]) -> None:
        self.what = what
        self.word = word
        self.known = tuple(known)
        super().__init__(f"there is no {what} {word!r}; there are {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """One run, with which another one can be asked to do the same.

    Attributes:
        faults: Names of families, or ``family:variant``.
        network: ``proxy``, ``namespaces``, or ``auto``: what faults of the network act on.
        against: Addresses of somebody else's cluster; empty for one of ours, started here.
        mutant: A bug to plant; empty for none.
        properties: Of all nodes; ``topic_configs`` of the topics of the run.
    """

    workloads: tuple[str, ...]
    faults: tuple[str, ...]
    seconds: float
    seed: int
    root: Path
    brokers: int = 3
    controllers: int = 3
    client: str = "own"
    acks: str = "all"
    rate_per_s: int = 500
    schedule: str = "rotation"
    network: str = "auto"
    against: str = ""
    mutant: str = ""
    keep_data: bool = False
    partitions: int = 6
    replication_factor: int = 3
    min_insync: int = 2
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    topic_configs: Mapping[str, str] = field(default_factory=dict[str, str])

    def repeat(self) -> str:
        """Return the command that asks for the same again."""
        default = RunOptions(self.workloads, self.faults, self.seconds, self.seed, self.root)
        words = ["quorate", "verify", "run", *self.workloads, "--time", f"{self.seconds:g}"]
        words += ["--faults", ",".join(self.faults) or "none", "--seed", str(self.seed)]
        for option, name in _OPTIONS.items():
            of_ours = name in {"brokers", "controllers"}
            if getattr(self, name) != getattr(default, name) and not (self.against and of_ours):
                words += [option, str(getattr(self, name))]
        for option, pairs in (
            ("--property", self.properties),
            ("--topic-config", self.topic_configs),
        ):
            words += [w for name, value in pairs.items() for w in (option, f"{name}={value}")]
        return shlex.join(words)


_OPTIONS = {
    "--brokers": "brokers",
    "--controllers": "controllers",
    "--client": "client",
    "--acks": "acks",
    "--rate": "rate_per_s",
    "--schedule": "schedule",
    "--network": "network",
    "--against": "against",
    "--inject-bug": "mutant",
    "--partitions": "partitions",
    "--replication-factor": "replication_factor",
    "--min-insync": "min_insync",
}


def fitted(options: RunOptions, brokers: int) -> RunOptions:
    """Return options that ask for no more replicas than there are brokers.

    With fewer replicas than were asked for, all need not be in sync; with as many, they may.
    """
    replicas = min(options.replication_factor, brokers)
    in_sync_max = replicas if replicas == options.replication_factor else max(1, replicas - 1)
    return replace(
        options,
        brokers=brokers,
        controllers=0 if options.against else options.controllers,
        replication_factor=replicas,
        min_insync=min(options.min_insync, in_sync_max),
    )


def check_names(options: RunOptions) -> None:
    """See that there is all that is chosen by a name, besides workloads and faults.

    Raises:
        UnknownNameError: there is none of some name.
    """
    for what, word, known in (
        ("schedule", options.schedule, SCHEDULES),
        ("client", options.client, choosing.ALL),
        ("kind of acks", options.acks, ACKS),
        ("bug", options.mutant, ("", *MUTANTS)),
    ):
        if word not in known:
            raise UnknownNameError(what, word, [name for name in known if name])


def client_of(kind: WorkloadKind, wanted: str) -> str:
    """Return the client that a workload uses, if it cannot use the one that is wanted."""
    return wanted if wanted in kind.clients else kind.clients[0]


def check_network(name: str) -> None:
    """See that there is a network of this kind, and can be one here.

    Raises:
        UnknownNameError: there is none.
        NoNetworkError: this machine, or this user, has none; says why.
    """
    if name not in NETWORKS:
        raise UnknownNameError("network", name, NETWORKS)
    if name == capabilities.NAMESPACES and (why := namespaces.missing()):
        raise NoNetworkError(why)


def damaged_max(options: RunOptions) -> int:
    """Return how many brokers may lose at a time what they did not sync.

    That is as many as leave one that acknowledged a record, or all where records are synced before
    that.
    """
    return options.brokers if is_synced(options) else options.min_insync - 1


def is_synced(options: RunOptions) -> bool:
    """Whether brokers sync each record before they acknowledge it."""
    of_nodes = options.properties.get("log.flush.interval.messages", "")
    return options.topic_configs.get("flush.messages", of_nodes) == "1"


def kinds_of(names: Sequence[str]) -> list[WorkloadKind]:
    """Return the workloads of these names.

    Raises:
        UnknownNameError: there is none of some name.
    """
    for name in names:
        if name not in WORKLOADS:
            raise UnknownNameError("workload", name, list(WORKLOADS))
    return [WORKLOADS[name] for name in names]


def families_of(names: Sequence[str]) -> dict[str, Family]:
    """Return the families of these names; of ``family:variant`` only with that variant.

    Raises:
        UnknownNameError: there is none of some name.
    """
    found: dict[str, Family] = {}
    for word in names:
        name, _, variant = word.partition(":")
        if name not in FAULTS:
            raise UnknownNameError("fault", name, list(FAULTS))
        family = FAULTS[name]
        if variant:
            if variant not in family.variants:
                raise UnknownNameError(f"variant of {name}", variant, list(family.variants))
            variants = dict(found[name].variants) if name in found else {}
            variants[variant] = family.variants[variant]
            family = replace(family, variants=variants)
        found[name] = family
    return found
