"""What assignors are told, and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from quorate.dataclass import dataclass
from quorate.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quorate.protocol.consumer_protocol import Subscription

Racks: TypeAlias = frozenset[str]
"""Where the replicas of a partition are."""

Topics: TypeAlias = "Mapping[str, tuple[Racks, ...]]"
"""The topics that exist among those subscribed to: for each partition, its racks."""

Assignment: TypeAlias = dict[str, list[TopicPartition]]
"""What each member is to read, by member id; members that get nothing are in it, too."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A member that partitions can be given to."""

    member_id: str
    subscription: Subscription
    group_instance_id: str | None = None

    @property
    def rack_id(self) -> str | None:
        """Where it is; nobody is in a rack without a name."""
        return self.subscription.rack_id or None


def in_order_of_identity(candidates: list[Candidate]) -> list[Candidate]:
    """Return candidates in the order in which their turns come.

    Static members come first, by their instance ids, so that they get the same after a restart,
    which changes their member ids (KIP-345).
    """
    return sorted(
        candidates,
        key=lambda each: (each.group_instance_id is None, each.group_instance_id or each.member_id),
    )


def partitions_of(topics: Topics, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic, by number."""
    return [TopicPartition(topic, number) for number in range(len(topics[topic]))]


def racks_matter(member_racks: set[str], partition_racks: list[Racks]) -> bool:
    """Whether it makes a difference who reads what (KIP-881).

    It makes none if no member is near to any replica, or every rack has a replica of everything.
    """
    all_racks = frozenset[str]().union(*partition_racks)
    if member_racks.isdisjoint(all_racks):
        return False
    return any(racks != all_racks for racks in partition_racks)
