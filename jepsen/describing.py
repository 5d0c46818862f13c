"""What a history says of where it comes from: its header."""

import contextlib
import platform
import subprocess
import time
from datetime import datetime
from typing import Any

from quorate import __version__
from quorate.jepsen.lab.hosts import ROOT
from quorate.jepsen.lab.local import PROPERTIES
from quorate.jepsen.options import RunOptions


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
        "durability": "flush"
        if options.topic_configs.get("flush.messages") == "1"
        else "page-cache",
        "mutant": options.mutant,
        "started": started.isoformat(timespec="seconds"),
        "clock": [time.time_ns() // 1_000_000, time.monotonic_ns()],
        "duration_s": options.seconds,
        "allowed": [],
        "quotas": {},
    }


def _commit() -> str:
    """Return the commit of this tree, and whether it was changed since; empty outside of git."""
    words = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    with contextlib.suppress(OSError):
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
        return done.stdout.strip()
    return ""
