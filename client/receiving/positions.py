"""Where a consumer is in one partition, and how it gets there."""

from enum import Enum
from typing import Final

from quorate.model import UNKNOWN_EPOCH, TopicPartition

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
"""What ListOffsets asks with instead of a time (KIP-79, KIP-734)."""


class OffsetReset(Enum):
    """Where to begin without a position, or with one that is out of range."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"

    @property
    def timestamp(self) -> int:
        """What to ask ListOffsets for; not for NONE."""
        assert self is not OffsetReset.NONE
        return EARLIEST_TIMESTAMP if self is OffsetReset.EARLIEST else LATEST_TIMESTAMP


class Position:
    """The next offset to give out of one partition, or the search for it.

    Invariant: either ``offset`` or ``asked_timestamp`` is known, or neither if the consumer may not
    choose. Every seek begins a new ``generation``; what was asked for in an older one is void.
    """

    __slots__ = ("asked_timestamp", "epoch", "generation", "offset", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, asked_timestamp: int | None) -> None:
        self.topic_partition = topic_partition
        self.offset: int | None = None
        self.epoch = UNKNOWN_EPOCH
        """The leader epoch in which the record before the offset was written, if it is known."""

        self.asked_timestamp = asked_timestamp
        self.generation = 0

    @property
    def is_open(self) -> bool:
        """Whether nobody has said yet where to begin, nor asked for it."""
        return self.generation == 0 and self.offset is None and self.asked_timestamp is None

    def seek(self, offset: int, epoch: int = UNKNOWN_EPOCH) -> None:
        """Go on from an offset that somebody chose."""
        assert offset >= 0
        self.generation += 1
        self.offset = offset
        self.epoch = epoch
        self.asked_timestamp = None

    def look_for(self, timestamp: int) -> None:
        """Go on from an offset that a broker is to be asked for."""
        self.generation += 1
        self.offset = None
        self.epoch = UNKNOWN_EPOCH
        self.asked_timestamp = timestamp

    def lose(self) -> None:
        """Have no position, and nobody to ask."""
        self.generation += 1
        self.offset = None
        self.epoch = UNKNOWN_EPOCH
        self.asked_timestamp = None

    def found(self, offset: int, generation: int) -> bool:
        """Take a broker's answer, unless somebody has decided otherwise meanwhile."""
        if generation != self.generation:
            return False
        self.offset = offset
        self.asked_timestamp = None
        return True

    def advance(self, offset: int, epoch: int) -> None:
        """Records up to this offset were given out, the last one of that leader epoch."""
        assert self.offset is not None
        assert offset >= self.offset, "a position goes back by seeking only"
        self.offset = offset
        self.epoch = epoch
