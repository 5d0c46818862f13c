"""Produce requests prepared once and sent many times, built on their own and not by our codec."""

import random
import struct

import google_crc32c

from quorate.dataclass import dataclass

PRODUCE_KEY = 0
PRODUCE_VERSION = 7  # not flexible, and spoken by every broker since Kafka 2.1
CLIENT_ID = b"bench"
TIMEOUT_MS = 30_000
TIMESTAMP_MS = 1_700_000_000_000

_LENGTH = struct.Struct(">i")
_ANSWER_PARTITION_BYTES = 30  # index, error, base offset, append time, log start offset


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A framed request, and where its answer (length included) says how it went."""

    frame: bytes
    records: int
    error_offset: int
    error_stride: int
    error_count: int


def varint(value: int) -> bytes:
    """Return a signed number in zigzag and groups of seven bits, as records have them."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def record(offset_delta: int, value: bytes) -> bytes:
    """Return a record without key and headers."""
    body = b"\0" + varint(0) + varint(offset_delta) + varint(-1) + varint(len(value)) + value
    body += varint(0)
    return varint(len(body)) + body


def record_batch(count: int, value_bytes: int, *, seed: int) -> bytes:
    """Return an uncompressed batch of `count` records."""
    value = random.Random(seed).randbytes(value_bytes)  # noqa: S311 - nothing secret in it
    records = b"".join(record(i, value) for i in range(count))
    checked = struct.pack(">hiqqqhii", 0, count - 1, TIMESTAMP_MS, TIMESTAMP_MS, -1, -1, -1, count)
    checked += records
    crc: bytes = google_crc32c.Checksum(checked).digest()  # type: ignore[no-untyped-call]
    return struct.pack(">qiib", 0, len(checked) + 9, -1, 2) + crc + checked


def produce_request(
    topic: str, *, partitions: int, records: int, value_bytes: int, acks: int
) -> PreparedRequest:
    """Return a request that appends one batch of `records` to each of the partitions."""
    name = struct.pack(">h", len(topic)) + topic.encode("ascii")
    body = struct.pack(">hhih", PRODUCE_KEY, PRODUCE_VERSION, 1, len(CLIENT_ID)) + CLIENT_ID
    body += struct.pack(">hhii", -1, acks, TIMEOUT_MS, 1) + name + _LENGTH.pack(partitions)
    for partition in range(partitions):
        batch = record_batch(records, value_bytes, seed=partition)
        body += struct.pack(">ii", partition, len(batch)) + batch
    # length, correlation, number of topics, name, number of partitions, index
    error_offset = 4 + 4 + 4 + len(name) + 4 + 4
    return PreparedRequest(
        frame=_LENGTH.pack(len(body)) + body,
        records=records * partitions,
        error_offset=error_offset,
        error_stride=_ANSWER_PARTITION_BYTES,
        error_count=partitions,
    )


def error_code(request: PreparedRequest, answer: bytes) -> int:
    """Return the first error in an answer, 0 for none, -1 if it is no such answer."""
    for i in range(request.error_count):
        at = request.error_offset + i * request.error_stride
        if at + 2 > len(answer):
            return -1
        code: int = struct.unpack_from(">h", answer, at)[0]
        if code:
            return code
    return 0
