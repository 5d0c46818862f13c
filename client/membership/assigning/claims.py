"""What members say they have read so far, and what of that is believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.client.membership.assigning.java_order import in_table_order
from quorate.dataclass import dataclass
from quorate.protocol.consumer_protocol import NO_GENERATION

if TYPE_CHECKING:
    from quorate.client.membership.assigning.model import Candidate, Topics
    from quorate.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Claim:
    """What one member says that it has."""

    candidate: Candidate
    partitions: tuple[TopicPartition, ...]
    generation_id: int = NO_GENERATION
    """The generation in which it had that; -1 if it does not say."""

    @property
    def member_id(self) -> str:
        """Whose claim it is."""
        return self.candidate.member_id


@dataclass(frozen=True, slots=True)
class Owned:
    """What each member has, as far as the claims do not contradict each other.

    Attributes:
        by_member: For every member, in Java's order, what it has of the topics there are.
        contested: What several had in the same generation: none of them has it.
    """

    by_member: dict[str, list[TopicPartition]]
    contested: set[TopicPartition]


def settle(topics: Topics, claims: list[Claim]) -> Owned:
    """Return who has what: of two that claim the same, the one of the later generation."""
    by_id = {claim.member_id: claim for claim in claims}
    owners: dict[TopicPartition, Claim] = {}
    owned = Owned({member_id: [] for member_id in in_table_order(by_id)}, set())
    for member_id, partitions in owned.by_member.items():
        claim = by_id[member_id]
        for partition in claim.partitions:
            if partition.partition >= len(topics.get(partition.topic, ())):
                continue
            other = owners.get(partition)
            if other is not None and other.generation_id > claim.generation_id:
                continue
            owners[partition] = claim
            if other is None:
                partitions.append(partition)
                continue
            if partition in owned.by_member[other.member_id]:
                owned.by_member[other.member_id].remove(partition)
            if other.generation_id == claim.generation_id:
                owned.contested.add(partition)
            else:
                partitions.append(partition)
    return owned


def all_want_the_same(candidates: list[Candidate]) -> bool:
    """Whether all members subscribe to the same topics."""
    return len({frozenset(each.subscription.topics) for each in candidates}) <= 1
