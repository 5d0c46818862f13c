"""Batches with records taken out: what compaction keeps of them, and what stands for the rest.

A batch keeps its offsets whatever is taken out of it, and so its producer's sequences (Kafka:
``MemoryRecords.filterTo``).  An empty batch stands for offsets of which no record is left.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from quorate.errors import CorruptRecordError
from quorate.model import NO_TIMESTAMP
from quorate.records.batch import (
    COMPRESSION_MASK,
    CRC_COVERS_FROM,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
)
from quorate.records.checksum import crc32c
from quorate.records.compression import Codec, compress, decompress
from quorate.records.record import RECORD_BYTES_MIN, read_bytes, read_varint, wrapped, zigzag

EMPTY_BATCH_BYTES: Final = HEADER_BYTES


class PlacedRecord(NamedTuple):
    """Where a record lies among the records of its batch, and what compaction asks of it."""

    start: int
    """Where its length begins."""
    offset_at: int
    """Where its offset delta begins: between it and the length are attributes and time."""
    end: int
    timestamp_delta_ms: int
    offset_delta: int
    key: bytes | None
    is_tombstone: bool


def unpacked(batch: bytes, header: BatchHeader, *, bytes_max: int) -> bytes:
    """Return the records of a batch, decompressed.

    Raises:
        CorruptRecordError: they do not decompress, or to more than so many bytes.
        UnsupportedCompressionTypeError: no codec has the number in the header.
    """
    packed = batch[HEADER_BYTES : header.size_bytes]
    if header.compression == Codec.NONE:
        return packed
    return decompress(header.compression, packed, bytes_max=bytes_max)


def place_records(data: bytes, count: int, last_offset_delta: int) -> list[PlacedRecord]:
    """Return where each of so many records lies that fill the data.

    Raises:
        CorruptRecordError: the bytes are not records, not as many, or their batch does not have
            the offsets that they claim.
    """
    if not 0 <= count * RECORD_BYTES_MIN <= len(data):
        raise CorruptRecordError(f"{count} records in {len(data)} bytes")
    placed: list[PlacedRecord] = []
    end = 0
    try:
        for _ in range(count):
            record = _place_record(data, end)
            end = record.end
            if not 0 <= record.offset_delta <= last_offset_delta:
                message = f"a record {record.offset_delta} offsets behind the start of its batch"
                raise CorruptRecordError(message)
            placed.append(record)
    except IndexError:
        raise CorruptRecordError("the last record of a batch is cut off") from None
    if end != len(data):
        raise CorruptRecordError("bytes after the last record of a batch")
    return placed


def _place_record(data: bytes, start: int) -> PlacedRecord:
    length, at = read_varint(data, start)
    end = at + (length >> 1)
    if length & 1 or end > len(data):
        raise CorruptRecordError("a record's length does not fit its batch")
    timestamp, offset_at = read_varint(data, at + 1)
    offset, at = read_varint(data, offset_at)
    key, at = read_bytes(data, at)
    value, at = read_varint(data, at)
    if at + (0 if value == 1 else value >> 1) >= end:
        raise CorruptRecordError("a record's length is not that of its parts")
    return PlacedRecord(
        start,
        offset_at,
        end,
        (timestamp >> 1) ^ -(timestamp & 1),
        (offset >> 1) ^ -(offset & 1),
        key,
        value == 1,
    )


def with_records(
    header: BatchHeader, data: bytes, kept: Sequence[PlacedRecord], *, delete_horizon_ms: int | None
) -> bytes:
    """Return a batch with those of its records that are kept; at least one.

    Args:
        header: of the batch.
        data: its records, decompressed.
        kept: the records to keep, in order.
        delete_horizon_ms: when its tombstones may go, if nobody said so before: it takes the place
            of the base timestamp (KIP-534).
    """
    attributes, base_ms = header.attributes, header.base_timestamp_ms
    if delete_horizon_ms is None:
        parts = [data[record.start : record.end] for record in kept]
    else:
        shift_ms = base_ms - delete_horizon_ms
        parts = [_shifted(data, record, shift_ms) for record in kept]
        attributes |= DELETE_HORIZON_BIT
    max_ms = header.max_timestamp_ms
    if not header.is_log_append_time:
        max_ms = max(wrapped(base_ms + record.timestamp_delta_ms) for record in kept)
    if delete_horizon_ms is not None:
        base_ms = delete_horizon_ms
    return _sealed(
        header._replace(
            attributes=attributes,
            base_timestamp_ms=base_ms,
            max_timestamp_ms=max_ms,
            record_count=len(kept),
        ),
        compress(Codec(header.compression), b"".join(parts)),
    )


def _shifted(data: bytes, record: PlacedRecord, shift_ms: int) -> bytes:
    """Return a record with its time told from another base."""
    _, attributes_at = read_varint(data, record.start)
    body = b"".join(
        (
            data[attributes_at : attributes_at + 1],
            zigzag(wrapped(record.timestamp_delta_ms + shift_ms)),
            data[record.offset_at : record.end],
        )
    )
    return zigzag(len(body)) + body


def without_records(header: BatchHeader) -> bytes:
    """Return a batch that says who wrote it, and has none of its records any more."""
    return _sealed(
        header._replace(
            attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_BIT),
            base_timestamp_ms=NO_TIMESTAMP,
            record_count=0,
        ),
        b"",
    )


def empty_batch(base_offset: int, last_offset: int, leader_epoch: int) -> bytes:
    """Return a batch that stands for offsets of which nothing is left, both ends included."""
    header = BatchHeader(
        base_offset,
        0,
        leader_epoch,
        MAGIC,
        0,
        0,
        last_offset - base_offset,
        NO_TIMESTAMP,
        NO_TIMESTAMP,
        NO_PRODUCER_ID,
        NO_PRODUCER_EPOCH,
        NO_SEQUENCE,
        0,
    )
    return _sealed(header, b"")


def is_empty_batch(header: BatchHeader) -> bool:
    """Whether a batch only stands for its offsets: nobody misses it, or a part of it."""
    return header.record_count == 0 and not header.has_producer_id and not header.is_control


def _sealed(header: BatchHeader, records: bytes) -> bytes:
    """Return a batch of a header, with the length and the checksum that fit its records."""
    length = HEADER_BYTES - LOG_OVERHEAD_BYTES + len(records)
    packed = HEADER.pack(*header._replace(batch_length=length, crc=0))
    covered = packed[CRC_COVERS_FROM:] + records
    return b"".join((packed[: CRC_COVERS_FROM - 4], crc32c(covered).to_bytes(4, "big"), covered))
