"""Batches compressed anew, for topics whose ``compression.type`` is not the producer's choice."""

from collections.abc import Callable
from functools import partial
from typing import Final

from quorate.errors import CorruptRecordError, InvalidRecordError, MessageTooLargeError
from quorate.records.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    behind_room,
    check_header,
    crc_matches,
    parse_header,
    seal_batch,
)
from quorate.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    codec_named,
    compress,
    decompress,
)
from quorate.records.record import ProducerStamp
from quorate.settings import TopicConfig

PRODUCERS_CHOICE: Final = "producer"
UNCOMPRESSED: Final = "uncompressed"

Recompress = Callable[[memoryview], memoryview]
"""Returns a batch as it is to be stored; raises as :func:`recompressed` does."""


def recompression(config: TopicConfig) -> Recompress | None:
    """Return what a topic's settings make of batches; None if that is the producer's choice."""
    name = config.compression_type
    if name == PRODUCERS_CHOICE:
        return None
    codec = Codec.NONE if name == UNCOMPRESSED else codec_named(name)
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return partial(
        recompressed,
        codec=codec,
        message_bytes_max=config.max_message_bytes,
        level=levels.get(codec),
    )


def recompressed(
    batch: memoryview, codec: Codec, message_bytes_max: int, level: int | None = None
) -> memoryview:
    """Return a batch with its records compressed by ``codec``; the same view if they are.

    Raises:
        InvalidRecordError: the bytes are not one batch of format v2, or its counts contradict.
        MessageTooLargeError: it is too large as it came, as in Kafka whatever it would become.
        CorruptRecordError: the checksum does not match, or the records do not decompress.
        UnsupportedCompressionTypeError: the batch names a codec that does not exist.
    """
    header = parse_header(batch, 0)
    check_header(header, len(batch))
    # A new header would hide these from those who check batches as they came.
    if header.size_bytes != len(batch):
        raise InvalidRecordError("one record batch is compressed at a time, not several")
    if len(batch) > message_bytes_max:
        message = f"a batch of {len(batch)} bytes, the limit is {message_bytes_max}"
        raise MessageTooLargeError(message)
    if header.compression == codec:
        return batch
    if not crc_matches(batch, 0, header):
        raise CorruptRecordError("the checksum does not match the records")
    if header.record_count != header.last_offset_delta + 1:
        raise InvalidRecordError(
            f"{header.record_count} records up to offset delta {header.last_offset_delta}"
        )
    plain = decompress(
        header.compression, bytes(batch[HEADER_BYTES:]), bytes_max=DECOMPRESSED_BYTES_MAX
    )
    sealed = seal_batch(
        behind_room(compress(codec, plain, level)),
        attributes=header.attributes & ~COMPRESSION_MASK | codec,
        record_count=header.record_count,
        base_timestamp_ms=header.base_timestamp_ms,
        max_timestamp_ms=header.max_timestamp_ms,
        producer=ProducerStamp(header.producer_id, header.producer_epoch, header.base_sequence),
    )
    return memoryview(sealed)
