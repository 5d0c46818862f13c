"""What a workload is: clients that do something to a cluster and write a history of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from random import Random
from typing import Protocol

from quorate.dataclass import dataclass
from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that must exist before a workload starts; the run creates it.

    Attributes:
        stays: whether its replicas stay where they are: then all of them get in sync, whatever a
            workload does.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    stays: bool = True

    def partition_names(self) -> list[str]:
        """Return what the history calls its partitions."""
        return [f"{self.name}-{number}" for number in range(self.partitions)]


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """What topics of a run are like, unless a workload has its reasons.

    Attributes:
        prefix: Of all names of topics and groups: somebody else's cluster has others, and those of
            earlier runs.
    """

    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    prefix: str = ""

    def topic(self, name: str) -> Topic:
        """Return a topic that is like this."""
        return Topic(self.prefix + name, self.partitions, self.replication_factor, self.configs)


@dataclass(frozen=True, slots=True)
class Context:
    """What a workload is given.

    Attributes:
        client: ``own``, ``librdkafka`` or ``java``.
        rate_per_s: How many operations a second this workload may do, in all.
        acks: ``all`` or ``1``.
        folder: For files of its own, in the run's folder.
        rng: For this workload alone.
    """

    bootstrap: str
    recorder: Recorder
    rng: Random
    client: str
    rate_per_s: int
    acks: str
    topic_options: TopicOptions
    lab: Lab
    folder: Path


class Workload(Protocol):
    """One workload of a run; made with the context, used by one thread in this order."""

    def topics(self) -> Sequence[Topic]:
        """Return what must exist before it starts."""
        ...

    def start(self) -> None:
        """Begin, in threads of its own, and return."""

    def stop(self) -> None:
        """Begin nothing more; return when all is answered, or known to be INFO."""

    def final(self) -> None:
        """Read everything back into the history, from the healed cluster."""

    def errors(self) -> Sequence[str]:
        """Return what went wrong in the workload itself; empty if nothing did."""
        ...

    def close(self) -> None:
        """End at once whatever still runs, such as after ^C."""


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """What ``quorate verify run`` names.

    Attributes:
        share: How much of the run's rate it gets beside others.
        clients: Which clients it can use; another one is refused.
        quotas_per_s: What a run with it must show at the least, for each second of load.
    """

    name: str
    summary: str
    make: Callable[[Context], Workload]
    share: int = 1
    clients: tuple[str, ...] = ("own",)
    quotas_per_s: Mapping[str, float] = field(default_factory=dict[str, float])
