"""The order in which Java's hash tables give out what they hold.

Several assignments may be equally good; which of them Kafka's sticky assignors choose rests on that
order. Groups whose leaders are now Java's and now ours are to see the same choices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quorate.model import TopicPartition

FIRST_CAPACITY: Final = 16
LOAD_FACTOR: Final = 0.75
_INT_MASK: Final = 0xFFFFFFFF


def hash_of_string(text: str) -> int:
    """Return ``String.hashCode``, as an unsigned number."""
    code = 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        code = (31 * code + (units[at] << 8 | units[at + 1])) & _INT_MASK
    return code


def hash_of_partition(partition: TopicPartition) -> int:
    """Return ``TopicPartition.hashCode``, as an unsigned number."""
    return (31 * (31 + partition.partition) + hash_of_string(partition.topic)) & _INT_MASK


def in_table_order(texts: Iterable[str]) -> list[str]:
    """Return strings in the order of a ``HashMap`` into which they were put in this order."""
    listed = list(dict.fromkeys(texts))
    capacity = FIRST_CAPACITY
    while len(listed) > capacity * LOAD_FACTOR:
        capacity *= 2
    # Sorting is stable, and what falls into the same bucket stays in the order of its coming.
    return sorted(listed, key=lambda text: _bucket(hash_of_string(text), capacity))


def _bucket(code: int, capacity: int) -> int:
    return (code ^ code >> 16) & (capacity - 1)


class PartitionTable:
    """A ``HashSet`` of partitions, as far as its order is concerned.

    Invariant: the capacity is what the largest number of partitions so far has asked for.
    """

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, None] = {}
        self._capacity = FIRST_CAPACITY

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, partition: TopicPartition) -> None:
        """Put a partition in."""
        self._partitions[partition] = None
        if len(self._partitions) > self._capacity * LOAD_FACTOR:
            self._capacity *= 2

    def remove(self, partition: TopicPartition) -> None:
        """Take a partition out."""
        del self._partitions[partition]

    def first(self) -> TopicPartition:
        """Return the partition that an iteration begins with."""
        return min(
            self._partitions, key=lambda each: _bucket(hash_of_partition(each), self._capacity)
        )
