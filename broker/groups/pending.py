"""PendingOffsets: what transactions under way will have committed, if they commit (KIP-447)."""

from collections.abc import Iterator
from typing import NamedTuple

from quorate.broker.groups.records import Committed, OffsetKey


class _Written(NamedTuple):
    """An offset, and its place among all that were written."""

    place: int
    committed: Committed


class PendingOffsets:
    """The offsets of open transactions of one partition of ``__consumer_offsets``.

    State: for each producer what its transaction has written, and for each offset which producers
    have: asked for at every fetch and every commit, with however many transactions open. Of two
    writes the later one in the log counts, whoever's transaction ends first; what was overtaken is
    known as pending until its transaction ends, as in Kafka, and changes nothing then.
    """

    __slots__ = ("_by_offset", "_by_producer", "_place")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, _Written | None]] = {}
        self._by_offset: dict[OffsetKey, set[int]] = {}
        self._place = 0

    def __contains__(self, where: OffsetKey) -> bool:
        return where in self._by_offset

    def groups(self) -> Iterator[str]:
        """Return the groups whose offsets transactions under way commit."""
        return (where.group_id for where in self._by_offset)

    def of_group(self, group_id: str) -> Iterator[OffsetKey]:
        """Return the offsets of a group that transactions under way commit."""
        return (where for where in self._by_offset if where.group_id == group_id)

    def of_topic(self, topic: str) -> Iterator[OffsetKey]:
        """Return the offsets of a topic that transactions under way commit."""
        return (where for where in self._by_offset if where.topic == topic)

    def topics(self) -> set[str]:
        """Return the names of all topics whose offsets transactions under way commit."""
        return {where.topic for where in self._by_offset}

    def keep(self, producer_id: int, where: OffsetKey, committed: Committed) -> None:
        """Keep in mind what a transaction commits."""
        self._place += 1
        written = _Written(self._place, committed)
        self._by_producer.setdefault(producer_id, {})[where] = written
        self._by_offset.setdefault(where, set()).add(producer_id)

    def overtake(self, where: OffsetKey) -> None:
        """Something was written behind all that is pending."""
        for producer_id in self._by_offset.get(where, ()):
            self._by_producer[producer_id][where] = None

    def forget(self, where: OffsetKey) -> None:
        """The offset was deleted, and with it what is pending."""
        for producer_id in self._by_offset.pop(where, ()):
            del self._by_producer[producer_id][where]

    def end(self, producer_id: int, *, committed: bool) -> list[tuple[OffsetKey, Committed | None]]:
        """Return what a producer's transaction has written, at its end; None is overtaken."""
        offsets = self._by_producer.pop(producer_id, {})
        for where, written in offsets.items():
            producers = self._by_offset[where]
            producers.discard(producer_id)
            if not producers:
                del self._by_offset[where]
            elif committed and written is not None:
                self._overtake_before(written.place, where)
        return [(where, written and written.committed) for where, written in offsets.items()]

    def _overtake_before(self, place: int, where: OffsetKey) -> None:
        for producer_id in self._by_offset[where]:
            offsets = self._by_producer[producer_id]
            written = offsets[where]
            if written is not None and written.place < place:
                offsets[where] = None
