"""Batches compressed anew, for topics whose ``compression.type`` is not the producer's choice."""

from typing import Final

from quorate.errors import CorruptRecordError, InvalidRecordError
from quorate.records.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    check_header,
    crc_matches,
    parse_header,
)
from quorate.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    codec_named,
    compress,
    decompress,
)
from quorate.records.record import ProducerStamp, seal_batch

PRODUCERS_CHOICE: Final = "producer"
UNCOMPRESSED: Final = "uncompressed"


def codec_for(compression_type: str) -> Codec | None:
    """Return the codec that a topic's batches must have; None if it is the producer's choice."""
    if compression_type == PRODUCERS_CHOICE:
        return None
    return Codec.NONE if compression_type == UNCOMPRESSED else codec_named(compression_type)


def recompressed(batch: memoryview, codec: Codec) -> memoryview:
    """Return a batch with its records compressed by ``codec``; the same view if they are.

    Raises:
        InvalidRecordError: the bytes are no batch of format v2, or its counts contradict.
        CorruptRecordError: the checksum does not match, or the records do not decompress.
        UnsupportedCompressionTypeError: the batch names a codec that does not exist.
    """
    header = parse_header(batch, 0)
    check_header(header, len(batch))
    if header.record_count != header.last_offset_delta + 1:
        # A new header would hide it from those who check batches as they came.
        raise InvalidRecordError(
            f"{header.record_count} records up to offset delta {header.last_offset_delta}"
        )
    if header.compression == codec:
        return batch
    if not crc_matches(batch, 0, header):
        raise CorruptRecordError("the checksum does not match the records")
    plain = decompress(
        header.compression, bytes(batch[HEADER_BYTES:]), bytes_max=DECOMPRESSED_BYTES_MAX
    )
    sealed = seal_batch(
        compress(codec, plain),
        attributes=header.attributes & ~COMPRESSION_MASK | codec,
        record_count=header.record_count,
        base_timestamp_ms=header.base_timestamp_ms,
        max_timestamp_ms=header.max_timestamp_ms,
        producer=ProducerStamp(header.producer_id, header.producer_epoch, header.base_sequence),
    )
    return memoryview(bytearray(sealed))
