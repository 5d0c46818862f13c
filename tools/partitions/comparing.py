"""Whether replicas hold the same: batches hashed as they are, below the high watermark of all."""

import hashlib
import zlib
from array import array
from collections.abc import Mapping, Sequence
from typing import Final

from quorate.dataclass import dataclass
from quorate.model import TopicPartition
from quorate.records.batch import HEADER_BYTES, parse_header

SAME: Final = "same"
DIFFERENT: Final = "DIFFERENT"
UNREAD: Final = "not read"
AGREED: Final = "same latest values"
"""What is said of replicas that brokers compacted, each on its own."""


@dataclass(frozen=True, slots=True)
class Range:
    """The offsets that all replicas of a partition have: from ``begin`` up to before ``end``."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a replica's log begins, and up to where it is committed."""

    log_start_offset: int
    high_watermark: int


def common_range(standings: Sequence[Standing]) -> Range:
    """Return the committed offsets that all replicas have; empty if there are none."""
    begin = max(each.log_start_offset for each in standings)
    return Range(begin, max(begin, min(each.high_watermark for each in standings)))


class ReplicaHash:
    """Reads the batches of one replica, piece after piece, and hashes those in a range.

    Only whole batches within the range count: all replicas have the same batches, since they were
    copied as they are. Of each it remembers the offset behind it and a checksum, so that the first
    difference can be named.
    """

    def __init__(self, wanted: Range) -> None:
        self.position = wanted.begin
        self.size_bytes = 0
        self.ends = array("q")
        self.checksums = array("L")
        self._wanted = wanted
        self._hash = hashlib.sha256()

    @property
    def is_done(self) -> bool:
        """Whether all of the range was read."""
        return self.position >= self._wanted.end

    @property
    def sha256(self) -> str:
        """The hash of what was read."""
        return self._hash.hexdigest()

    def add(self, data: bytes) -> bool:
        """Take a piece that begins with the batch that has the position; whether it brought any."""
        at, before = 0, self.position
        while len(data) - at >= HEADER_BYTES and not self.is_done:
            header = parse_header(data, at)
            end = at + header.size_bytes
            if header.size_bytes < HEADER_BYTES or end > len(data):
                break
            first, following = header.base_offset, header.next_offset
            if first >= self._wanted.begin and following <= self._wanted.end:
                batch = data[at:end]
                self._hash.update(batch)
                self.size_bytes += len(batch)
                self.ends.append(following)
                self.checksums.append(zlib.crc32(batch))
            self.position = max(self.position, following)
            at = end
        return self.position > before


@dataclass(frozen=True, slots=True)
class Compared:
    """What became of comparing the replicas of a partition.

    Attributes:
        hashes: by broker, of those that were read to the end.
        unread: why not, by broker.
        agree: whether the latest values of all keys are the same, where replicas were compacted.
    """

    partition: TopicPartition
    offsets: Range
    hashes: Mapping[int, ReplicaHash]
    unread: Mapping[int, str]
    agree: bool = False

    @property
    def are_equal(self) -> bool:
        """Whether those that were read have the same bytes."""
        return len({each.sha256 for each in self.hashes.values()}) < 2

    @property
    def verdict(self) -> str:
        """Whether all replicas hold the same, as far as they could be read."""
        if not self.are_equal and not self.agree:
            return DIFFERENT
        return UNREAD if self.unread else SAME

    @property
    def first_difference(self) -> int | None:
        """An offset before which all batches are the same; None if all are."""
        if self.verdict != DIFFERENT:
            return None
        same = self.offsets.begin
        for marks in zip(
            *(zip(each.ends, each.checksums, strict=True) for each in self.hashes.values()),
            strict=False,
        ):
            if len(set(marks)) > 1:
                break
            same = marks[0][0]
        return same

    def text(self) -> str:
        """Return what to say about it, in a line."""
        if self.verdict == SAME:
            return SAME if self.are_equal else AGREED
        if self.verdict == UNREAD:
            return f"not read: {_on_brokers(self.unread)}"
        hashes = {broker_id: each.sha256[:8] for broker_id, each in self.hashes.items()}
        return f"different from offset {self.first_difference} on: {_on_brokers(hashes)}"


def _on_brokers(told: Mapping[int, str]) -> str:
    """Return what is told of brokers, each thing once."""
    groups: dict[str, list[int]] = {}
    for broker_id, text in sorted(told.items()):
        groups.setdefault(text, []).append(broker_id)
    return ", ".join(f"{text} on {','.join(map(str, ids))}" for text, ids in groups.items())
