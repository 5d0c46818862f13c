"""What was fetched of a partition: whole batches, checked, without what consumers do not see."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from quorate.dataclass import dataclass
from quorate.errors import CorruptRecordError, QuorateError
from quorate.records.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    parse_header,
    read_sound_header,
)
from quorate.records.compression import DECOMPRESSED_BYTES_MAX, Codec, decompress
from quorate.records.control import ABORT_KEY
from quorate.records.record import RECORD_BYTES_MIN, read_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from quorate.model import TopicPartition
    from quorate.records.record import Record

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Span:
    """The records of one batch, uncompressed: where they are in their chunk."""

    header: BatchHeader
    at: int
    end: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes with the records of some batches in them, in the order of their offsets."""

    data: bytes | bytearray | memoryview
    spans: tuple[Span, ...]

    @property
    def record_count(self) -> int:
        """How many records there are."""
        return sum(span.header.record_count for span in self.spans)


@dataclass(frozen=True, slots=True)
class _Aborts:
    """Aborted transactions of one response.

    Attributes:
        pending: (first offset, producer id) of those that begin later, the next one last.
        producers: Those that are in one where the response is looked at.
    """

    pending: list[tuple[int, int]]
    producers: set[int]


class BatchReader:
    """Goes through what is fetched of one partition, from one response to the next.

    Invariants: ``next_offset`` is behind all that was looked at; every batch was compared with its
    checksum. Of aborted transactions every response tells anew, also of those that began before it.
    """

    def __init__(
        self, topic_partition: TopicPartition, start: int, *, committed_only: bool
    ) -> None:
        self.topic_partition = topic_partition
        self.next_offset = start
        self._committed_only = committed_only

    def take(
        self, fetched: memoryview, aborted: Iterable[tuple[int, int]], end: int
    ) -> list[tuple[int, BatchHeader]]:
        """Return where the batches with wanted records are, and their headers.

        Args:
            fetched: What the response has for ``next_offset``; the last batch may be cut off.
            aborted: (first offset, producer id) of aborted transactions, from the response.
            end: The offset behind what is wanted.

        Raises:
            CorruptRecordError: These are no batches, or not those that their producers wrote; says
                where.
        """
        # What an earlier response told may be over by now, and its marker compacted away.
        aborts = _Aborts(sorted(aborted, reverse=True), set())
        wanted: list[tuple[int, BatchHeader]] = []
        at = 0
        begun_at = self.next_offset
        while at + HEADER_BYTES <= len(fetched) and self.next_offset < end:
            header = self._header(fetched, at)
            if header is None:
                break
            if self._is_seen(fetched, at, header, aborts) and header.next_offset > begun_at:
                wanted.append((at, header))
            at += header.size_bytes
            self.next_offset = max(self.next_offset, header.next_offset)
        if len(fetched) and self.next_offset == begun_at:
            raise self._corrupt(begun_at, f"{len(fetched)} bytes without a record asked for")
        return wanted

    def _header(self, fetched: memoryview, at: int) -> BatchHeader | None:
        """Return a batch's header, or None if a response ends within the batch."""
        size_bytes = parse_header(fetched, at).size_bytes
        if at and size_bytes > len(fetched) - at:
            return None
        try:
            return read_sound_header(fetched, at)
        except QuorateError as error:
            raise self._corrupt(parse_header(fetched, at).base_offset, str(error)) from None

    def _is_seen(
        self,
        fetched: memoryview,
        at: int,
        header: BatchHeader,
        aborts: _Aborts,
    ) -> bool:
        """Whether consumers see the batch's records."""
        pending, producers = aborts.pending, aborts.producers
        while self._committed_only and pending and pending[-1][0] <= header.last_offset:
            producers.add(pending.pop()[1])
        is_aborted = header.producer_id in producers
        if header.is_control:
            if is_aborted and self._is_abort(fetched, at, header):
                producers.discard(header.producer_id)
            return False
        return not (header.is_transactional and is_aborted)

    def _is_abort(self, fetched: memoryview, at: int, header: BatchHeader) -> bool:
        batch = bytes(fetched[at : at + header.size_bytes])
        markers = self.guarded(header, lambda: self._records(batch, header))
        return bool(markers) and markers[0].key == ABORT_KEY

    def _records(self, batch: bytes, header: BatchHeader) -> list[Record]:
        bytes_max = DECOMPRESSED_BYTES_MAX
        return read_records(batch, header, self.topic_partition, bytes_max=bytes_max)

    def chunk(self, fetched: memoryview, wanted: list[tuple[int, BatchHeader]]) -> Chunk:
        """Return the records of batches that :meth:`take` returned.

        Raises:
            CorruptRecordError: Something does not decompress, or not to as many records.
        """
        if all(header.compression == Codec.NONE for _, header in wanted):
            whole = [Span(h, at + HEADER_BYTES, at + h.size_bytes) for at, h in wanted]
            return Chunk(fetched, tuple(map(self._checked, whole)))
        parts: list[bytes] = []
        spans: list[Span] = []
        end = 0
        for at, header in wanted:
            part = self._decompressed(fetched, at, header)
            spans.append(self._checked(Span(header, end, end + len(part))))
            parts.append(part)
            end += len(part)
        return Chunk(b"".join(parts), tuple(spans))

    def _decompressed(self, fetched: memoryview, at: int, header: BatchHeader) -> bytes:
        packed = bytes(fetched[at + HEADER_BYTES : at + header.size_bytes])
        return self.guarded(
            header,
            lambda: decompress(header.compression, packed, bytes_max=DECOMPRESSED_BYTES_MAX),
        )

    def _checked(self, span: Span) -> Span:
        count, size_bytes = span.header.record_count, span.end - span.at
        if count * RECORD_BYTES_MIN > size_bytes:
            raise self._corrupt(span.header.base_offset, f"{count} records in {size_bytes} bytes")
        return span

    def guarded(self, header: BatchHeader, read: Callable[[], T]) -> T:
        """Return what ``read`` returns; its errors say where they were met."""
        try:
            return read()
        except QuorateError as error:
            raise self._corrupt(header.base_offset, str(error)) from None

    def _corrupt(self, offset: int, why: str) -> CorruptRecordError:
        topic, partition = self.topic_partition
        return CorruptRecordError(
            f"corrupt batch in topic {topic}, partition {partition}, at offset {offset}: {why}"
        )


def plain_records(
    data: bytes, header: BatchHeader, topic_partition: TopicPartition
) -> list[Record]:
    """Return the records of a batch, given what came out of decompression.

    Raises:
        CorruptRecordError: These are no records.
    """
    plain = header._replace(
        attributes=header.attributes & ~COMPRESSION_MASK,
        batch_length=HEADER_BYTES - LOG_OVERHEAD_BYTES + len(data),
    )
    return read_records(bytes(HEADER_BYTES) + data, plain, topic_partition, bytes_max=0)
