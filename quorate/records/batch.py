"""The header of a record batch, format v2: write, parse, check, patch in place.

Layout (Kafka class ``DefaultRecordBatch``), big endian::

    0   base offset            8   } not covered by the CRC: a broker assigns
    8   batch length           4   } the offset and the leader epoch without
    12  partition leader epoch 4   } touching the rest
    16  magic                  1
    17  crc                    4
    21  attributes             2   <- from here to the end the CRC covers everything
    23  last offset delta      4
    27  base timestamp         8
    35  max timestamp          8
    43  producer id            8
    51  producer epoch         2
    53  base sequence          4
    57  record count           4
    61  records, possibly compressed as one block

Nothing here looks behind the header: records stay opaque.
"""

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from quorate.errors import CorruptRecordError, InvalidRecordError
from quorate.model import UNKNOWN_EPOCH
from quorate.records.checksum import crc32c
from quorate.records.compiled import load_compiled

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = 61
LOG_OVERHEAD_BYTES: Final = 12
"""Base offset and batch length: the part of a batch that its length does not count."""

MAGIC_AT: Final = 16
CRC_COVERS_FROM: Final = 21
CODEC_AT: Final = 22
"""The low byte of the attributes."""

MAGIC: Final = 2

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
PRODUCER_EPOCH_MAX: Final = 2**15 - 1
"""Of transactions, no producer ever gets it: so all can be fenced."""

NO_SEQUENCE: Final = -1
SEQUENCE_MAX: Final = 2**31 - 1

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

_LENGTH: Final = struct.Struct(">8xi")
_BASE_OFFSET: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_MAX_TIMESTAMP: Final = struct.Struct(">q")

_LENGTH_MIN: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES

_unpack_header = HEADER.unpack_from
_new_header = cast("Callable[[type[BatchHeader], tuple[int, ...]], BatchHeader]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
"""A named tuple of what struct unpacked, without counting the fields again."""

_pack_base_offset = _BASE_OFFSET.pack_into
_pack_leader_epoch = _LEADER_EPOCH.pack_into

_batch: Any = load_compiled("_batch")

assert HEADER.size == HEADER_BYTES


class BatchHeader(NamedTuple):
    """The 13 fields in front of a batch's records.

    A named tuple and not a dataclass, because struct makes it in one step for every append.
    """

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """The offset of the last record (also when compaction removed it)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset behind the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """The codec number of the attributes: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether all records carry the broker's time of the append."""
        return self.attributes & TIMESTAMP_TYPE_BIT != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker that consumers never see."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, or NO_SEQUENCE for producers that do not count."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return add_sequence(self.base_sequence, self.last_offset_delta)


def add_sequence(sequence: int, increment: int) -> int:
    """Return the sequence that many records later; after 2^31-1 comes 0."""
    return (sequence + increment) & SEQUENCE_MAX


def is_behind(sequence: int, other: int) -> bool:
    """Whether a sequence comes after another one, which lies less than 2^30 records away."""
    return 0 < (sequence - other) & SEQUENCE_MAX <= SEQUENCE_MAX // 2


def parse_header(buffer: bytes | bytearray | memoryview, pos: int) -> BatchHeader:
    """Return the header at ``pos``, unchecked.

    Raises:
        CorruptRecordError: fewer than HEADER_BYTES remain.
    """
    try:
        return _new_header(BatchHeader, _unpack_header(buffer, pos))
    except struct.error:
        message = f"{len(buffer) - pos} bytes cannot hold a batch header"
        raise CorruptRecordError(message) from None


def size_of_first(buffer: memoryview) -> int:
    """Return the bytes of the first batch as its length says, unchecked; 0 if that is cut off."""
    if len(buffer) < LOG_OVERHEAD_BYTES:
        return 0
    batch_length: int = _LENGTH.unpack_from(buffer)[0]
    return batch_length + LOG_OVERHEAD_BYTES


def check_header(header: BatchHeader, available_bytes: int) -> None:
    """Check what must hold for the header of any batch, whoever wrote it, before using it.

    Args:
        header: as parsed.
        available_bytes: bytes from the start of the batch to the end of what may belong to it.

    Raises:
        InvalidRecordError: not format v2, or offsets and record count contradict each other.
        CorruptRecordError: the length is impossible.
    """
    if header.magic != MAGIC:
        message = f"magic {header.magic}: only record format v2 is supported"
        raise InvalidRecordError(message)
    if not _LENGTH_MIN <= header.batch_length <= available_bytes - LOG_OVERHEAD_BYTES:
        message = f"a batch of {header.size_bytes} bytes in {available_bytes} bytes"
        raise CorruptRecordError(message)
    if header.last_offset_delta < 0 or header.record_count < 0:
        message = (
            f"a batch of {header.record_count} records up to offset delta"
            f" {header.last_offset_delta}"
        )
        raise InvalidRecordError(message)


def crc_of(buffer: memoryview, pos: int, size_bytes: int) -> int:
    """Return the CRC-32C of what a batch's checksum covers."""
    return crc32c(buffer[pos + CRC_COVERS_FROM : pos + size_bytes])


def sum_up(buffer: memoryview, pos: int, size_bytes: int) -> None:
    """Write the checksum of the batch at ``pos`` into it."""
    _CRC.pack_into(buffer, pos + 17, crc_of(buffer, pos, size_bytes))


def behind_room(records: bytes | memoryview) -> bytearray:
    """Return the records of a batch behind room for its header, for :func:`seal_batch`."""
    batch = bytearray(HEADER_BYTES)
    batch += records
    return batch


def seal_batch(
    batch: bytearray,
    *,
    attributes: int,
    record_count: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    producer: tuple[int, int, int],
) -> bytearray:
    """Write the header, checksum included, into the room before the records; return the batch.

    Args:
        batch: room for the header, then the records, laid out and, if the attributes say so,
            compressed.
        attributes: the codec's number and further bits of this module.
        record_count: how many records; their offset deltas are 0, 1, 2, ...
        base_timestamp_ms: what the records' timestamp deltas count from.
        max_timestamp_ms: the latest timestamp.
        producer: id, epoch and sequence (``ProducerStamp``) of idempotent producers, or -1s.
    """
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - LOG_OVERHEAD_BYTES,
        UNKNOWN_EPOCH,
        MAGIC,
        0,
        attributes,
        record_count - 1,
        base_timestamp_ms,
        max_timestamp_ms,
        *producer,
        record_count,
    )
    sum_up(memoryview(batch), 0, len(batch))
    return batch


def crc_matches(buffer: memoryview, pos: int, header: BatchHeader) -> bool:
    """Whether the bytes of the batch are those that its producer summed up."""
    return crc_of(buffer, pos, header.size_bytes) == header.crc


def read_sound_header(buffer: memoryview, pos: int) -> BatchHeader:
    """Return the header of the batch at ``pos``, which is whole and as its producer summed it up.

    Raises:
        InvalidRecordError: see :func:`check_header`.
        CorruptRecordError: likewise, or the checksum does not match.
    """
    if _batch is not None:
        sound: BatchHeader | None = _batch.sound_header(buffer, pos, BatchHeader)
        if sound is not None:
            return sound
    header = parse_header(buffer, pos)
    check_header(header, len(buffer) - pos)
    if not crc_matches(buffer, pos, header):
        raise CorruptRecordError("the checksum of the batch does not match")
    return header


def assign_offset_in_python(
    buffer: bytearray | memoryview, pos: int, offset: int, leader_epoch: int
) -> None:
    """Write the base offset and the leader epoch into the batch at ``pos``."""
    _pack_base_offset(buffer, pos, offset)
    _pack_leader_epoch(buffer, pos + 12, leader_epoch)


assign_offset: "Callable[[bytearray | memoryview, int, int, int], None]" = (
    assign_offset_in_python if _batch is None else _batch.assign_offset
)
"""Writes the base offset and the leader epoch into the batch at a position of a buffer."""


def assign_append_time(buffer: memoryview, pos: int, header: BatchHeader, now_ms: int) -> None:
    """Give all records of the batch the broker's time, and sum up the batch anew."""
    _ATTRIBUTES.pack_into(buffer, pos + 21, header.attributes | TIMESTAMP_TYPE_BIT)
    _MAX_TIMESTAMP.pack_into(buffer, pos + 35, now_ms)
    sum_up(buffer, pos, header.size_bytes)
