"""Batches as brokers send them, made for tests."""

from collections.abc import Sequence
from dataclasses import dataclass

from quorate.records.batch import (
    HEADER_BYTES,
    assign_append_time,
    assign_offset,
    behind_room,
    parse_header,
    seal_batch,
)
from quorate.records.compression import Codec, compress
from quorate.records.record import Header, ProducerStamp, RecordBatchBuilder, encode_headers

TRANSACTIONAL = 0x10
CONTROL = 0x20


@dataclass(frozen=True)
class Row:
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[Header, ...] = ()


def batch(
    offset: int,
    rows: Sequence[Row],
    *,
    codec: Codec = Codec.NONE,
    attributes: int = 0,
    producer_id: int = -1,
    append_ms: int | None = None,
) -> bytes:
    builder = RecordBatchBuilder()
    for row in rows:
        builder.append(row.timestamp_ms, row.key, row.value, encode_headers(row.headers), 0)
    stamps = [row.timestamp_ms for row in rows]
    records = compress(codec, memoryview(builder.encode())[HEADER_BYTES:])
    buffer = seal_batch(
        behind_room(records),
        attributes=codec | attributes,
        record_count=len(rows),
        base_timestamp_ms=stamps[0],
        max_timestamp_ms=max(stamps),
        producer=ProducerStamp(producer_id, 0, 0)
        if producer_id >= 0
        else ProducerStamp(-1, -1, -1),
    )
    assign_offset(buffer, 0, offset, 3)
    if append_ms is not None:
        assign_append_time(memoryview(buffer), 0, parse_header(buffer, 0), append_ms)
    return bytes(buffer)


def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
    key = b"\x00\x00\x00\x01" if commit else b"\x00\x00\x00\x00"
    row = Row(key, b"\x00\x00\x00\x00\x00\x00", 1)
    return batch(offset, [row], attributes=TRANSACTIONAL | CONTROL, producer_id=producer_id)


def plain(count: int) -> list[Row]:
    return [Row(None, b"v%d" % i, 1_000 + i) for i in range(count)]
