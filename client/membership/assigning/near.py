"""Who is near to which partition, as far as that matters (KIP-881)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.client.membership.assigning.model import partitions_of, racks_matter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quorate.client.membership.assigning.model import Candidate, Racks, Topics
    from quorate.model import TopicPartition


class Nearness:
    """Racks of members and partitions; both are empty if racks make no difference."""

    def __init__(self, topics: Topics, candidates: list[Candidate]) -> None:
        member_racks = {each.member_id: rack for each in candidates if (rack := each.rack_id)}
        partition_racks = {
            partition: racks
            for topic, all_racks in topics.items()
            for partition, racks in zip(partitions_of(topics, topic), all_racks, strict=True)
        }
        matter = racks_matter(set(member_racks.values()), list(partition_racks.values()))
        self.member_racks: dict[str, str] = member_racks if matter else {}
        self.partition_racks: dict[TopicPartition, Racks] = partition_racks if matter else {}

    @property
    def matters(self) -> bool:
        """Whether racks make a difference."""
        return bool(self.member_racks)

    def is_far(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether a member has a rack, and no replica of the partition is there."""
        rack = self.member_racks.get(member_id)
        return rack is not None and rack not in self.partition_racks.get(partition, frozenset())

    def is_near(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether a member has a rack, and a replica of the partition is there."""
        rack = self.member_racks.get(member_id)
        return rack is not None and rack in self.partition_racks[partition]

    def next_near(
        self, partition: TopicPartition, member_ids: Sequence[str], first: int
    ) -> int | None:
        """Return the index of the first member, from an index on and around, that is near."""
        for turn in range(len(member_ids)):
            index = (first + turn) % len(member_ids)
            if self.is_near(member_ids[index], partition):
                return index
        return None

    def hardest_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return partitions in the order of how many members are near, the fewest first."""
        if not self.matters:
            return partitions
        counts = {
            partition: sum(rack in racks for rack in self.member_racks.values())
            for partition, racks in self.partition_racks.items()
        }
        return sorted(partitions, key=lambda each: counts[each])
