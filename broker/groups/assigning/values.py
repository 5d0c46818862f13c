"""What an assignor is given, and what it returns."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from quorate.dataclass import dataclass


class TopicIdPartition(NamedTuple):
    """One partition of one topic, by the topic's id; a named tuple, for there are very many."""

    topic_id: bytes
    partition: int


Partitions: TypeAlias = frozenset[TopicIdPartition]
Assignment: TypeAlias = Mapping[str, Partitions]
"""What each member is to read, by member id; every member of the group is in it."""

NOTHING: Partitions = frozenset()


@dataclass(frozen=True, slots=True)
class Reader:
    """A member, as assignors see it.

    Attributes:
        topics: the ids of those topics that it subscribes to and that exist.
        held: what it was to read before; what it keeps of that does not interrupt it.
    """

    member_id: str
    instance_id: str | None
    topics: frozenset[bytes]
    held: Partitions


@dataclass(frozen=True, slots=True)
class Readers:
    """A group, as assignors see it.

    Attributes:
        partition_counts: of every topic that anybody subscribes to.
    """

    members: tuple[Reader, ...]
    partition_counts: Mapping[bytes, int]

    @property
    def alike(self) -> bool:
        """Whether all members subscribe to the same topics."""
        return len({member.topics for member in self.members}) <= 1


Assignor: TypeAlias = Callable[[Readers], Assignment]
"""Gives every partition of a subscribed topic to one member that subscribes to it."""
