"""CommittedOffsets: how far each group has read, as the records of its partition say."""

from collections.abc import Iterable, Iterator, Mapping
from sys import intern

from quorate.broker.groups.pending import PendingOffsets
from quorate.broker.groups.records import (
    Committed,
    OffsetKey,
    offset_key,
    offset_prefix,
    read_offset_key,
    read_offset_value,
)
from quorate.broker.shards.effects import Entry

Partitions = dict[int, Committed]
NOTHING: Mapping[str, Partitions] = {}


class CommittedOffsets:
    """The offsets of all groups of one partition of ``__consumer_offsets``.

    State: what is committed, and what will be when a transaction ends (KIP-447). Only the replay of
    records changes it. Invariant: no group, and no topic of a group, is kept without offsets.
    """

    __slots__ = ("_by_group", "_pending")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, Partitions]] = {}
        self._pending = PendingOffsets()

    # --- reading --------------------------------------------------------------

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._by_group or group_id in self._pending.groups()

    def groups(self) -> Iterable[str]:
        """Return the ids of all groups that have offsets, or will when a transaction commits."""
        return dict.fromkeys((*self._by_group, *self._pending.groups()))

    def of_group(self, group_id: str) -> Mapping[str, Partitions]:
        """Return the offsets of a group, by topic and partition."""
        return self._by_group.get(group_id, NOTHING)

    def find(self, group_id: str, topic: str, partition: int) -> Committed | None:
        """Return how far a group has read a partition, if it said so."""
        topics = self._by_group.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction is under way that commits this offset."""
        return OffsetKey(group_id, topic, partition) in self._pending

    def is_known(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a group has committed this offset, or a transaction is about to."""
        committed = self.find(group_id, topic, partition) is not None
        return committed or self.is_pending(group_id, topic, partition)

    def of_topic(self, topic: str) -> Mapping[str, Iterable[int]]:
        """Return the partitions of a topic whose offsets are known, by group."""
        known = {
            group_id: dict.fromkeys(topics[topic])
            for group_id, topics in self._by_group.items()
            if topic in topics
        }
        for group_id, _, partition in self._pending.of_topic(topic):
            known.setdefault(group_id, {})[partition] = None
        return known

    def topics(self) -> set[str]:
        """Return the names of all topics of which offsets are known."""
        committed = {topic for topics in self._by_group.values() for topic in topics}
        return committed | self._pending.topics()

    def pending_of(self, group_id: str) -> Iterator[OffsetKey]:
        """Return the offsets of a group that transactions under way commit."""
        return self._pending.of_group(group_id)

    def tombstones(self, group_id: str) -> Iterator[Entry]:
        """Yield what takes back all offsets of a group."""
        for topic, partitions in self.of_group(group_id).items():
            prefix = offset_prefix(group_id, topic)
            for partition in partitions:
                yield Entry(offset_key(prefix, partition), None)
        for _, topic, partition in self.pending_of(group_id):
            if self.find(group_id, topic, partition) is None:
                yield Entry(offset_key(offset_prefix(group_id, topic), partition), None)

    # --- replaying ------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Fold one record into the state.

        Raises:
            CorruptRecordError: it is none of an offset.
        """
        where = read_offset_key(key)
        if value is None:
            self._forget(where)
            self._pending.forget(where)
        else:
            self._keep(where, read_offset_value(value))
            self._pending.overtake(where)

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Keep an offset in mind until its transaction ends.

        Raises:
            CorruptRecordError: it is none of an offset.
        """
        if value is not None:
            self._pending.keep(producer_id, read_offset_key(key), read_offset_value(value))

    def end_transaction(self, producer_id: int, *, committed: bool) -> Iterable[str]:
        """Fold a producer's pending offsets into the state, or drop them.

        Returns:
            The groups whose offsets they are.
        """
        ended = self._pending.end(producer_id, committed=committed)
        if committed:
            for where, offset in ended:
                if offset is not None:
                    self._keep(where, offset)
        return dict.fromkeys(where.group_id for where, _ in ended)

    def _keep(self, where: OffsetKey, committed: Committed) -> None:
        topics = self._by_group.get(where.group_id)
        if topics is None:
            topics = self._by_group[where.group_id] = {}
        partitions = topics.get(where.topic)
        if partitions is None:
            # One text for all groups that read the topic.
            partitions = topics[intern(where.topic)] = {}
        partitions[where.partition] = committed

    def _forget(self, where: OffsetKey) -> None:
        topics = self._by_group.get(where.group_id)
        partitions = None if topics is None else topics.get(where.topic)
        if topics is None or partitions is None:
            return
        partitions.pop(where.partition, None)
        if not partitions:
            del topics[where.topic]
            if not topics:
                del self._by_group[where.group_id]
