"""What a history says of where it comes from: its header."""

import contextlib
import platform
import subprocess
import time
from datetime import datetime
from typing import Any, Final

from quorate import __version__
from quorate.jepsen.checkers.availability import GAP, RECOVERY
from quorate.jepsen.checkers.log import ACKS_NONE
from quorate.jepsen.clients import choosing
from quorate.jepsen.judging import allowed_for
from quorate.jepsen.lab.hosts import ROOT
from quorate.jepsen.lab.local import PROPERTIES
from quorate.jepsen.nemesis.directed import DIRECTED
from quorate.jepsen.nemesis.processes import SO_MANY
from quorate.jepsen.options import RunOptions, is_synced, kinds_of

UNCLEAN: Final = "unclean.leader.election.enable"
FAULTS_PER_S: Final = 1 / 30
UNDER_FAULT_SHARE: Final = 0.02
NOBODY_IS_LEFT: Final = frozenset({"kill:all", "kill:brokers", "power:all", "restart:everybody"})
"""While one of these is on, nothing can be acknowledged."""
LIVENESS_S: Final = {RECOVERY: 40.0, GAP: 25.0}
"""How long a partition may take nothing in calm. Runs need a second or two to recover, on a machine
that does much else eleven; clients give a record up after 30 s, and say no more of it then."""


def describe(options: RunOptions, started: datetime) -> dict[str, Any]:
    """Return the header of a run's history."""
    properties = {**PROPERTIES, **options.properties}
    return {
        "seed": options.seed,
        "workloads": list(options.workloads),
        "faults": list(options.faults),
        "schedule": options.schedule,
        "version": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "brokers": options.brokers,
        "controllers": options.controllers,
        "replication_factor": options.replication_factor,
        "min_insync": options.min_insync,
        "acks": options.acks,
        "idempotent": options.acks == "all",
        "session_timeout_ms": int(properties["broker.session.timeout.ms"]),
        "client": options.client,
        "against": bool(options.against),
        "durability": "flush" if is_synced(options) else "page-cache",
        "mutant": options.mutant,
        "started": started.isoformat(timespec="seconds"),
        **_clock(options),
        "duration_s": options.seconds,
        "allowed": allowed_for(
            acks=options.acks,
            idempotent=options.acks == "all",
            unclean=properties.get(UNCLEAN) == "true"
            or options.topic_configs.get(UNCLEAN) == "true",
            repeats=options.client == choosing.LIBRDKAFKA,
        ),
        "liveness": {} if options.acks == ACKS_NONE else LIVENESS_S,
        "quotas": _quotas(options),
    }


def _clock(options: RunOptions) -> dict[str, Any]:
    """Return the time on both clocks; nothing if nodes may have another one."""
    if any(fault.startswith("clock") for fault in options.faults):
        return {}
    return {"clock": [time.time_ns() // 1_000_000, time.monotonic_ns()]}


def _quotas(options: RunOptions) -> dict[str, int]:
    """Return what must have happened at the least, in proportion to the run's time."""
    kinds = kinds_of(options.workloads)
    quotas: dict[str, float] = {}
    for kind in kinds:
        for name, per_s in kind.quotas_per_s.items():
            quotas[name] = quotas.get(name, 0) + per_s * options.seconds
    if options.faults and options.schedule != "none":
        quotas["faults"] = max(1, options.seconds * FAULTS_PER_S)
        if _leaves_too_few(options):
            quotas["refusals"] = 1 if options.client == choosing.PLAIN else 0
        elif not all(map(_takes_nothing, options.faults)):
            for name in quotas.keys() & {"acks", "commits"}:
                quotas[f"{name}-under-fault"] = quotas[name] * UNDER_FAULT_SHARE
    if options.acks == ACKS_NONE:
        quotas = {name: number for name, number in quotas.items() if not name.startswith("acks")}
    return {name: int(number) for name, number in quotas.items()}


def _takes_nothing(fault: str) -> bool:
    """Whether nothing need be acknowledged while a fault is on.

    A scenario is on only for as long as nothing happens any more.
    """
    return fault in NOBODY_IS_LEFT or fault.partition(":")[0] == DIRECTED.name


def _leaves_too_few(options: RunOptions) -> bool:
    """Whether no write is possible while any of the faults lasts: too few brokers are left."""
    spare = options.replication_factor - options.min_insync
    killed = [SO_MANY.get(fault.removeprefix("kill:"), 0) for fault in options.faults]
    return options.replication_factor == options.brokers and all(n > spare for n in killed)


def _commit() -> str:
    """Return the commit of this tree, and whether it was changed since; empty outside of git."""
    words = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    with contextlib.suppress(OSError):
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
        return done.stdout.strip()
    return ""
