"""Offsets by time: the first record that is at least as new as a timestamp (Kafka: ListOffsets)."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from quorate.broker.log.lookup import Searchable, batches_since
from quorate.broker.log.scan import PlacedBatch
from quorate.broker.log.segments import Segments
from quorate.model import TopicPartition
from quorate.records.record import Record, read_records

DECOMPRESSED_BYTES_MAX: Final = 128 << 20
"""Clients chose how much a batch decompresses to; this is what we put up with for a search."""


class TimestampOffset(NamedTuple):
    """A record's time, offset and leader epoch."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class TimeSearch:
    """Searches one log's segments by time, between the log start and a limit."""

    __slots__ = ("_segments", "_start_offset", "_topic_partition")

    def __init__(
        self, segments: Segments, topic_partition: TopicPartition, start_offset: int
    ) -> None:
        self._segments = segments
        self._topic_partition = topic_partition
        self._start_offset = start_offset

    def first_since(self, timestamp_ms: int) -> TimestampOffset | None:
        """Return the first record, by offset, with that timestamp or a later one."""
        for segment in self._segments:
            if segment.largest.timestamp_ms < timestamp_ms:
                continue
            for batch in batches_since(segment, timestamp_ms, self._start_offset):
                for record in self._records(segment, batch):
                    if record.timestamp_ms >= timestamp_ms:
                        return _answer(record, batch)
        return None

    def latest(self) -> TimestampOffset | None:
        """Return the first record with the largest timestamp of all."""
        largest_ms = max(segment.largest.timestamp_ms for segment in self._segments)
        return self.first_since(largest_ms) if largest_ms >= 0 else None

    def _records(self, segment: Searchable, batch: PlacedBatch) -> Iterator[Record]:
        data = segment.file.read_at(batch.header.size_bytes, batch.position)
        records = read_records(
            data, batch.header, self._topic_partition, bytes_max=DECOMPRESSED_BYTES_MAX
        )
        return (record for record in records if record.offset >= self._start_offset)


def _answer(record: Record, batch: PlacedBatch) -> TimestampOffset:
    return TimestampOffset(record.timestamp_ms, record.offset, batch.header.leader_epoch)
