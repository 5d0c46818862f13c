"""The cluster under test, as faults, workloads and the watcher see it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from quorate.dataclass import dataclass
from quorate.jepsen.lab.equipment import Equipment
from quorate.jepsen.lab.hosts import Host

NOBODY = -1


@dataclass(frozen=True, slots=True)
class PartitionView:
    """What a broker says of a partition; ``leader`` is NOBODY if none leads."""

    leader: int
    leader_epoch: int
    in_sync: frozenset[int]
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TermView:
    """What a controller says: in which term it is, and who leads that; NOBODY, if it knows none."""

    controller: int
    term: int
    leader: int


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What the nodes say that can be asked; of each partition, what the newest epoch says.

    Attributes:
        controller: The active controller; None if nobody says.
        partitions: By name, such as ``t-0``.
        terms: What controllers of ours say.
        disputed: What others say of partitions in the same epoch, where that is another leader.
    """

    controller: int | None
    partitions: Mapping[str, PartitionView]
    terms: tuple[TermView, ...] = ()
    disputed: tuple[tuple[str, PartitionView], ...] = ()


class Lab(Protocol):
    """A cluster: ours, with hosts that faults act on, or somebody else's, without."""

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses for clients."""
        ...

    @property
    def brokers(self) -> Sequence[Host]:
        """The brokers that can be acted on: none of somebody else's cluster."""
        ...

    @property
    def controllers(self) -> Sequence[Host]:
        """The controllers that can be acted on."""
        ...

    @property
    def equipment(self) -> Equipment | None:
        """What lies below the nodes; None below those of somebody else."""
        ...

    def start(self) -> None:
        """Start all nodes that do not run; return when the brokers listen.

        Raises:
            NeverCameUpError: one does not come up; names it, with its last lines.
        """
        ...

    def view(self) -> ClusterView:
        """Return what the brokers that can be asked say now; quick, and never raises."""
        ...

    def host(self, node_id: int) -> Host | None:
        """Return a broker or a controller by its id; ids are unique in a cluster."""
        ...

    def leader_of(self, partition: str) -> Host | None:
        """Return who leads a partition, such as ``t-0``."""
        ...

    def isr_of(self, partition: str) -> list[Host]:
        """Return who is in sync, the leader first."""
        ...

    def active_controller(self) -> Host | None:
        """Return the controller that decides."""
        ...

    def coordinator_of(self, group: str) -> Host | None:
        """Return the broker that coordinates a group."""
        ...

    def is_whole(self, topics: Iterable[str]) -> bool:
        """Whether all brokers agree that all replicas of these topics are in sync."""
        ...

    def check_alive(self) -> None:
        """See that nobody ended by itself, or told of an error of ours.

        Raises:
            DiedError: somebody did.
        """
        ...

    def stop(self) -> None:
        """Stop all properly, brokers first.

        Raises:
            DiedError: somebody did not end well.
        """
        ...

    def close(self) -> None:
        """End whatever runs; nothing is left behind."""
        ...
