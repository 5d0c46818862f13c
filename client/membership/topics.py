"""What topics there are, as assignors want to know it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.dataclass import dataclass
from quorate.errors import ErrorCode

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

    from quorate.client.membership.assigning.model import Topics
    from quorate.protocol.messages.metadata import MetadataResponse


@dataclass(frozen=True, slots=True)
class TopicsView:
    """Topics that exist.

    Attributes:
        topics: For each of their partitions the racks of its replicas.
        internal: Those that are the brokers' own; no pattern finds them.
    """

    topics: Topics
    internal: frozenset[str] = frozenset()

    def counts(self, names: Iterable[str]) -> dict[str, int]:
        """Return how many partitions the topics have of which something is known."""
        return {name: len(self.topics[name]) for name in names if name in self.topics}

    def matching(self, pattern: re.Pattern[str]) -> frozenset[str]:
        """Return the topics whose whole name matches."""
        return frozenset(n for n in self.topics if pattern.fullmatch(n) and n not in self.internal)

    def of(self, names: frozenset[str]) -> Topics:
        """Return those of these names that exist."""
        return {name: racks for name, racks in self.topics.items() if name in names}


def view_of(response: MetadataResponse) -> TopicsView:
    """Return what a broker says there is."""
    racks = {broker.node_id: broker.rack for broker in response.brokers}
    topics: dict[str, tuple[frozenset[str], ...]] = {}
    for topic in response.topics:
        if topic.name is None or topic.error_code != ErrorCode.NONE or not topic.partitions:
            continue
        by_number = sorted(topic.partitions, key=lambda each: each.partition_index)
        topics[topic.name] = tuple(
            frozenset(rack for node in each.replica_nodes if (rack := racks.get(node)))
            for each in by_number
        )
    internal = frozenset(each.name for each in response.topics if each.name and each.is_internal)
    return TopicsView(topics, internal)
