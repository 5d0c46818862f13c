"""Offsets by time: the first record that is at least as new as a timestamp (Kafka: ListOffsets)."""

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from quorate.broker.log.cold import OWN_FILES_MAX
from quorate.broker.log.files import FileSystem, OpenFiles
from quorate.broker.log.lookup import Searchable, batches_since
from quorate.broker.log.scan import PlacedBatch
from quorate.broker.log.segments import FrozenSegments, Segments
from quorate.errors import CorruptRecordError, KafkaError
from quorate.model import TopicPartition
from quorate.records.compression import INSPECTED_BYTES_MAX
from quorate.records.record import Record, read_records


class TimestampOffset(NamedTuple):
    """A record's time, offset and leader epoch."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class TimeSearch:
    """Searches one log's segments by time, between the log start and a limit."""

    __slots__ = ("_segments", "_start_offset", "_topic_partition")

    def __init__(
        self, segments: Iterable[Searchable], topic_partition: TopicPartition, start_offset: int
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
            data, batch.header, self._topic_partition, bytes_max=INSPECTED_BYTES_MAX
        )
        return (record for record in records if record.offset >= self._start_offset)


class TimeLookup:
    """A search by time, which reads from the disk: ``run`` it in any thread, then see the result.

    It finds what was in the log when it was made.
    """

    __slots__ = ("_error", "_found", "_search", "_segments")

    def __init__(
        self, segments: FrozenSegments, search: Callable[[], TimestampOffset | None]
    ) -> None:
        self._segments = segments
        self._search = search
        self._found: TimestampOffset | None = None
        self._error: OSError | KafkaError | None = None

    def run(self) -> None:
        """Search."""
        try:
            self._found = self._search()
        except (OSError, KafkaError) as error:
            self._error = error
        except struct.error:
            self._error = CorruptRecordError("an index or a segment is shorter than it was")

    @property
    def missed(self) -> bool:
        """Whether a segment was deleted, or another put in its place, meanwhile: do it again."""
        return isinstance(self._error, FileNotFoundError) or self._segments.are_replaced

    def result(self) -> TimestampOffset | None:
        """Return what was found.

        Raises:
            OSError: the disk failed.
            KafkaError: there is something in the log that is no record.
        """
        if self._error is not None:
            raise self._error
        return self._found


def start_lookup(
    segments: Segments,
    fs: FileSystem,
    topic_partition: TopicPartition,
    start_offset: int,
    timestamp_ms: int | None,
) -> TimeLookup:
    """Return what finds the first record with that timestamp or a later one.

    Without a timestamp it finds the first record with the largest one.
    """
    own_files = OpenFiles(fs, OWN_FILES_MAX)
    frozen = segments.through(own_files)
    search = TimeSearch(frozen, topic_partition, start_offset)
    if timestamp_ms is None:
        return TimeLookup(frozen, search.latest)
    return TimeLookup(frozen, lambda: search.first_since(timestamp_ms))


def _answer(record: Record, batch: PlacedBatch) -> TimestampOffset:
    return TimestampOffset(record.timestamp_ms, record.offset, batch.header.leader_epoch)
