"""Producers, groups, topics that come and go, and registers in the metadata, all at once.

Proves what each of them does alone, when none of them has the cluster for itself.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from quorate.jepsen.clients import choosing
from quorate.jepsen.workloads.append import APPEND
from quorate.jepsen.workloads.groups import GROUPS
from quorate.jepsen.workloads.metadata import METADATA
from quorate.jepsen.workloads.topics import TOPICS_KIND
from quorate.jepsen.workloads.workload import Context, Topic, Workload, WorkloadKind

SHARES: Final = ((APPEND, 4), (GROUPS, 2), (TOPICS_KIND, 1), (METADATA, 1))
"""What is mixed, and how much of the rate it gets."""


class Mixed:
    """Several workloads as one."""

    def __init__(self, context: Context) -> None:
        is_ours = bool(context.lab.controllers)
        shares = [(kind, share) for kind, share in SHARES if is_ours or kind is not METADATA]
        total = sum(share for _, share in shares)
        self._parts: list[Workload] = [
            kind.make(
                replace(
                    context,
                    rng=Random(context.rng.getrandbits(64)),
                    rate_per_s=max(1, context.rate_per_s * share // total),
                )
            )
            for kind, share in shares
        ]

    def topics(self) -> Sequence[Topic]:
        """Return those of all."""
        return [topic for part in self._parts for topic in part.topics()]

    def start(self) -> None:
        """Begin all."""
        for part in self._parts:
            part.start()

    def stop(self) -> None:
        """Stop one after the other: what one waits for the next may still hold up."""
        for part in self._parts:
            part.stop()

    def final(self) -> None:
        """Read everything back."""
        for part in self._parts:
            part.final()

    def errors(self) -> Sequence[str]:
        """Return those of all."""
        return [error for part in self._parts for error in part.errors()]

    def close(self) -> None:
        """End all at once."""
        for part in self._parts:
            part.close()


MIXED: Final = WorkloadKind(
    "mixed",
    "append, groups, topics and metadata, all at once",
    Mixed,
    clients=(choosing.OWN, choosing.LIBRDKAFKA),
    quotas_per_s={"acks": 10},
)
