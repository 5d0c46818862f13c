"""Members of consumer groups (KIP-848): what they want, what they have."""

from collections.abc import Mapping
from dataclasses import field, replace
from enum import IntEnum, unique
from typing import Final, NamedTuple, TypeAlias

from quorate.broker.groups.assigning.values import TopicIdPartition
from quorate.dataclass import dataclass

LEAVING: Final = -1
"""The epoch of a member that leaves."""

LEAVING_FOR_A_WHILE: Final = -2
"""The epoch of a static member that leaves and wants its partitions kept; it stays a member."""

JOINING: Final = 0
"""The epoch of a member that joins, or begins anew."""

Holding: TypeAlias = Mapping[TopicIdPartition, int]
"""Partitions, and at which epoch each was given to the member (KIP-1251)."""

NO_HOLDING: Final[Holding] = {}


def _nothing() -> Holding:
    return NO_HOLDING


@unique
class MemberState(IntEnum):
    """How far a member is; the numbers stand in records.

    STABLE: it has what it is to read, as of its epoch.
    UNREVOKED_PARTITIONS: it has yet to say that it gave some up; it stays at its epoch until then.
    UNRELEASED_PARTITIONS: it is at its epoch, but others still have some of what it is to read.
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class ClassicProtocol(NamedTuple):
    """An assignor that a classic member knows, and its subscription in that assignor's words."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class ClassicMembership:
    """What a member that speaks the classic protocol said when it joined; one protocol at least."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """What a member says about itself.

    Attributes:
        topic_regex: empty or None if it subscribes by name only.
        server_assignor: the one that it wants; None: any.
        classic: None if it speaks the new protocol.
    """

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMembership | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a member has, and as of when.

    Attributes:
        epoch: of the assignment that it is at; it says it in every heartbeat.
        previous_epoch: where it may still think that it is, if our last answer was lost.
        assigned: what it may read.
        revoking: what it is to give up, and has not said yet that it has; nobody else may read it.
    """

    epoch: int = JOINING
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Holding = field(default_factory=_nothing)
    revoking: Holding = field(default_factory=_nothing)

    def is_settled_at(self, epoch: int) -> bool:
        """Whether nothing is left to do to be at the assignment of an epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def at(
        self, epoch: int, state: MemberState, assigned: Holding, revoking: Holding
    ) -> "Standing":
        """Return the next standing, which remembers this one's epoch."""
        return Standing(epoch, self.epoch, state, assigned, revoking)

    def away(self) -> "Standing":
        """Return the standing of a static member that left for a while: it gives nothing up."""
        return replace(self, epoch=LEAVING_FOR_A_WHILE, revoking=NO_HOLDING)

    def back(self) -> "Standing":
        """Return the standing of one that takes over what a static member had."""
        return replace(self, epoch=JOINING, previous_epoch=JOINING)


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a consumer group."""

    member_id: str
    profile: Profile = Profile()
    standing: Standing = Standing()
