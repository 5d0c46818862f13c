"""What is said about partitions: who is in sync with their leaders, leads them and holds them."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Final

from quorate.control.codec import Key
from quorate.control.messages import NO_NODE, Answer, Failure, Request
from quorate.dataclass import dataclass

ANY_EPOCH: Final = -1
"""A broker epoch that is not known, and not checked."""


@dataclass(frozen=True, slots=True)
class InSyncReplica:
    """A replica that its leader finds in sync, and the registration of its broker (KIP-903)."""

    broker_id: Annotated[int, Key(1)]
    broker_epoch: Annotated[int, Key(2)] = ANY_EPOCH


@dataclass(frozen=True, slots=True)
class PartitionAlteration:
    """The leader of a partition finds these replicas in sync.

    The epochs are those that the leader knows: if there are newer ones, nothing changes.
    """

    topic_id: Annotated[bytes, Key(1)]
    partition: Annotated[int, Key(2)]
    leader_epoch: Annotated[int, Key(3)]
    partition_epoch: Annotated[int, Key(4)]
    isr: Annotated[tuple[InSyncReplica, ...], Key(5)]


@dataclass(frozen=True, slots=True)
class AlteredPartition:
    """What became of one alteration; the rest is meaningful only if ``failure`` is ``DONE``."""

    topic_id: Annotated[bytes, Key(1)]
    partition: Annotated[int, Key(2)]
    failure: Annotated[Failure, Key(3)]
    leader_id: Annotated[int, Key(4)] = NO_NODE
    leader_epoch: Annotated[int, Key(5)] = 0
    partition_epoch: Annotated[int, Key(6)] = 0
    isr: Annotated[tuple[int, ...], Key(7)] = ()


@dataclass(frozen=True, slots=True)
class AlterPartitionAnswer(Answer):
    """What became of each alteration, in the order of the request."""

    partitions: Annotated[tuple[AlteredPartition, ...], Key(1)]


@dataclass(frozen=True, slots=True)
class AlterPartition(Request[AlterPartitionAnswer]):
    """A broker that leads partitions tells which replicas are in sync (KIP-497)."""

    broker_id: Annotated[int, Key(1)]
    broker_epoch: Annotated[int, Key(2)]
    partitions: Annotated[tuple[PartitionAlteration, ...], Key(3)]


class Election(IntEnum):
    """Whom to elect; the numbers are those of Kafka's ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class ElectedPartition:
    """What became of one election."""

    topic: Annotated[str, Key(1)]
    partition: Annotated[int, Key(2)]
    failure: Annotated[Failure, Key(3)]


@dataclass(frozen=True, slots=True)
class ElectLeadersAnswer(Answer):
    """What became of each election; of those of all partitions, only where one was needed."""

    partitions: Annotated[tuple[ElectedPartition, ...], Key(1)]


@dataclass(frozen=True, slots=True)
class ElectLeaders(Request[ElectLeadersAnswer]):
    """Let the first replica of partitions lead again, or in need one that is not in sync.

    ``partitions`` are numbers by topic; ``None`` stands for all that there are.
    """

    election: Annotated[Election, Key(1)]
    partitions: Annotated[Mapping[str, tuple[int, ...]] | None, Key(2)]
    principal: Annotated[str, Key(3)] = ""


@dataclass(frozen=True, slots=True)
class ReassignedPartition:
    """What became of one reassignment."""

    topic: Annotated[str, Key(1)]
    partition: Annotated[int, Key(2)]
    failure: Annotated[Failure, Key(3)]


@dataclass(frozen=True, slots=True)
class AlterReassignmentsAnswer(Answer):
    """What became of each partition, in the order of the request."""

    partitions: Annotated[tuple[ReassignedPartition, ...], Key(1)]


@dataclass(frozen=True, slots=True)
class AlterReassignments(Request[AlterReassignmentsAnswer]):
    """Let partitions have other replicas, the preferred leader first (KIP-455).

    ``partitions`` has replicas by topic and number; ``None`` calls off what is under way.
    """

    partitions: Annotated[Mapping[str, Mapping[int, tuple[int, ...] | None]], Key(1)]
    allow_replication_factor_change: Annotated[bool, Key(2)] = True
    principal: Annotated[str, Key(3)] = ""


@dataclass(frozen=True, slots=True)
class ChangeBrokerAnswer(Answer):
    """It is so from now on."""


@dataclass(frozen=True, slots=True)
class ChangeBroker(Request[ChangeBrokerAnswer]):
    """Drain a broker: it leads nothing that others can lead, and is given nothing new."""

    broker_id: Annotated[int, Key(1)]
    draining: Annotated[bool, Key(2)]
    principal: Annotated[str, Key(3)] = ""
