"""gzip, snappy, lz4, zstd behind one table, with a limit on what comes out.

A record batch names its codec in three attribute bits. Compressed bytes come from strangers, and
a few kilobytes can stand for gigabytes: every decompression here has a limit, checked before or
while memory is filled, never after.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import cramjam

from quorate.errors import CorruptRecordError, UnsupportedCompressionTypeError

DECOMPRESSED_BYTES_MAX: Final = 256 << 20
"""What who reads all records of a batch puts up with: clients chose how much it decompresses to."""

INSPECTED_BYTES_MAX: Final = 128 << 20
"""What a broker does, that only looks for something in them."""

GZIP_LEVEL: Final = -1
"""What zlib takes for the best."""
LZ4_LEVEL: Final = 1
ZSTD_LEVEL: Final = 3

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_BLOCK_BYTES: Final = 32 * 1024

MEMBERS_MAX: Final = 1000
"""Of gzip records: who writes batches writes one."""

FIRST_GUESS_BYTES: Final = 64 * 1024
GUESS_FACTOR: Final = 4


class Codec(IntEnum):
    """The compression codecs of the record format, by the number in the batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def codec_named(name: str) -> Codec:
    """Return the codec that Kafka's ``compression.type`` calls by that name.

    Raises:
        UnsupportedCompressionTypeError: Nobody calls a codec so.
    """
    try:
        return Codec[name.upper()]
    except KeyError:
        known = ", ".join(codec.name.lower() for codec in Codec)
        message = f"there is no compression {name!r}; there are {known}"
        raise UnsupportedCompressionTypeError(message) from None


def compress(codec: Codec, data: bytes | memoryview, level: int | None = None) -> bytes:
    """Compress the records of a batch as every Kafka client can read them.

    Args:
        codec: How.
        data: The records.
        level: How hard to try, as the codec counts; None for what is fast enough for who sends.
    """
    return _COMPRESSORS[codec](data, level)


def decompress(codec: int, data: bytes, *, bytes_max: int) -> bytes:
    """Decompress the records of a batch, to at most ``bytes_max`` bytes.

    Raises:
        UnsupportedCompressionTypeError: The number is no codec's.
        CorruptRecordError: The bytes are not that codec's, or stand for more than ``bytes_max``.
    """
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise UnsupportedCompressionTypeError(f"there is no compression codec {codec}")
    return decompressor(data, bytes_max)


def _stored(data: bytes | memoryview, _level: int | None) -> bytes:
    return bytes(data)


def _gzip(data: bytes | memoryview, level: int | None) -> bytes:
    level = GZIP_LEVEL if level is None else level
    packer = zlib.compressobj(level, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return packer.compress(data) + packer.flush()


def _snappy(data: bytes | memoryview, _level: int | None) -> bytes:
    """Snappy in the block framing of the Java library, which Kafka's clients write."""
    view = memoryview(data)
    parts = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        parts.append(len(block).to_bytes(4, "big"))
        parts.append(block)
    return b"".join(parts)


def _lz4(data: bytes | memoryview, level: int | None) -> bytes:
    level = LZ4_LEVEL if level is None else level
    # Kafka's Java reader refuses linked blocks, which cramjam's one-call function writes.
    packer = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    packer.compress(bytes(data))  # it takes nothing else
    return bytes(packer.finish())


def _zstd(data: bytes | memoryview, level: int | None) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=ZSTD_LEVEL if level is None else level))


def _too_large(codec: Codec, bytes_max: int) -> CorruptRecordError:
    return CorruptRecordError(f"{codec.name.lower()} records decompress to over {bytes_max} bytes")


def _unstored(data: bytes, bytes_max: int) -> bytes:
    if len(data) > bytes_max:
        raise _too_large(Codec.NONE, bytes_max)
    return data


def _gunzip(data: bytes, bytes_max: int) -> bytes:
    """Decompress every gzip member; the format allows several in a row."""
    parts: list[bytes] = []
    left_bytes = bytes_max
    while data or not parts:
        if len(parts) == MEMBERS_MAX:  # each is cut off what is left, which is copied for that
            raise CorruptRecordError(f"gzip records in more than {MEMBERS_MAX} parts")
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            part = unpacker.decompress(data, left_bytes + 1)
        except zlib.error as error:
            raise CorruptRecordError(f"records are not gzip: {error}") from None
        if len(part) > left_bytes:
            raise _too_large(Codec.GZIP, bytes_max)
        if not unpacker.eof:
            raise CorruptRecordError("gzip records end too early")
        parts.append(part)
        left_bytes -= len(part)
        data = unpacker.unused_data
    return b"".join(parts)


def _unsnappy(data: bytes, bytes_max: int) -> bytes:
    """Decompress snappy with the Java library's framing, or without (as C clients may write)."""
    if not data.startswith(XERIAL_MAGIC):
        return _unsnappy_block(memoryview(data), bytes_max)
    if len(data) < len(XERIAL_HEADER):
        raise CorruptRecordError("the header of snappy records is cut off")
    view = memoryview(data)
    parts: list[bytes] = []
    position = len(XERIAL_HEADER)
    left_bytes = bytes_max
    while position < len(data):
        size_bytes = int.from_bytes(view[position : position + 4], "big")
        position += 4
        if not 0 < size_bytes <= len(data) - position:
            raise CorruptRecordError("a snappy block does not fit its batch")
        part = _unsnappy_block(view[position : position + size_bytes], left_bytes)
        parts.append(part)
        position += size_bytes
        left_bytes -= len(part)
    return b"".join(parts)


def _unsnappy_block(block: memoryview, bytes_max: int) -> bytes:
    try:
        # The length comes first, and the library allocates whatever it says.
        if cramjam.snappy.decompress_raw_len(block) > bytes_max:
            raise _too_large(Codec.SNAPPY, bytes_max)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptRecordError(f"records are not snappy: {error}") from None


def _fill(
    codec: Codec, into: Callable[[bytes, bytearray], int], data: bytes, bytes_max: int
) -> bytes:
    """Decompress into a buffer that grows up to the limit.

    Neither lz4 nor zstd frames need to say how long their content is.
    """
    size_bytes = min(bytes_max, max(FIRST_GUESS_BYTES, GUESS_FACTOR * len(data)))
    while True:
        buffer = bytearray(size_bytes)
        try:
            filled_bytes = into(data, buffer)
        except cramjam.DecompressionError as error:
            if "write whole buffer" not in str(error):
                message = f"records are not {codec.name.lower()}: {error}"
                raise CorruptRecordError(message) from None
        else:
            return bytes(memoryview(buffer)[:filled_bytes])
        if size_bytes == bytes_max:
            raise _too_large(codec, bytes_max)
        size_bytes = min(bytes_max, size_bytes * GUESS_FACTOR)


def _unlz4(data: bytes, bytes_max: int) -> bytes:
    return _fill(Codec.LZ4, cramjam.lz4.decompress_into, data, bytes_max)


def _unzstd(data: bytes, bytes_max: int) -> bytes:
    return _fill(Codec.ZSTD, cramjam.zstd.decompress_into, data, bytes_max)


_COMPRESSORS: Final[dict[Codec, Callable[[bytes | memoryview, int | None], bytes]]] = {
    Codec.NONE: _stored,
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}

_DECOMPRESSORS: Final[dict[int, Callable[[bytes, int], bytes]]] = {
    Codec.NONE: _unstored,
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
