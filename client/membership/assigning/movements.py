"""Which partitions have moved between whom while an assignment was evened out."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from quorate.client.membership.assigning.java_order import PartitionTable

if TYPE_CHECKING:
    from quorate.model import TopicPartition


class _Way(NamedTuple):
    topic: str
    source: str
    target: str


class Movements:
    """Moves of partitions, each told from where it was at first to where it is now.

    So that partitions of a topic do not change places between two members, which would be of no use
    to anybody: rather one goes back (Kafka's ``PartitionMovements``).
    """

    def __init__(self) -> None:
        self._ways: dict[TopicPartition, _Way] = {}
        self._moved: defaultdict[_Way, PartitionTable] = defaultdict(PartitionTable)

    def move(self, partition: TopicPartition, source: str, target: str) -> None:
        """Remember a move."""
        way = self._ways.pop(partition, None)
        if way is not None:
            assert way.target == source
            self._moved[way].remove(partition)
            if not self._moved[way]:
                del self._moved[way]
            source = way.source
        if source != target:
            way = self._ways[partition] = _Way(partition.topic, source, target)
            self._moved[way].add(partition)

    def instead_of(self, partition: TopicPartition, owner: str, target: str) -> TopicPartition:
        """Return what is to be moved: another partition of the topic, if it would come back."""
        way = self._ways.get(partition)
        source = owner if way is None else way.source
        reverse = _Way(partition.topic, target, source)
        return self._moved[reverse].first() if reverse in self._moved else partition
