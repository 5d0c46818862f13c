"""Walks over the batches of a segment's file, without reading the records where that is enough."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from quorate.broker.log.files import File
from quorate.records.batch import (
    CRC_COVERS_FROM,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    check_header,
    parse_header,
)
from quorate.records.checksum import extend_crc32c

WINDOW_BYTES: Final = 8192
"""Read at once: a little more than an index interval, so that a search mostly reads once."""

CHUNK_BYTES: Final = 1 << 20
"""Read at once where all bytes are wanted."""


class PlacedBatch(NamedTuple):
    """A batch's header and where the batch begins in its file."""

    position: int
    header: BatchHeader


def scan_headers(file: File, position: int, end: int) -> Iterator[PlacedBatch]:
    """Yield the batches between two positions of which the first is a batch's beginning.

    Raises:
        CorruptRecordError, InvalidRecordError: a header is impossible.
    """
    window = b""
    window_position = position
    while position < end:
        at = position - window_position
        if at + HEADER_BYTES > len(window):
            window = file.read_at(min(WINDOW_BYTES, end - position), position)
            window_position = position
            at = 0
        header = parse_header(window, at)
        check_header(header, end - position)
        yield PlacedBatch(position, header)
        position += header.batch_length + 12


def is_cut_short(file: File, position: int, end: int) -> bool:
    """Whether a batch begins at the position that was not written to its end, or nothing does.

    It continues nothing, and nobody was told of it: a write that the end of its process
    interrupted, or space that it had reserved (``preallocate``), not damage.
    """
    head = file.read_at(min(HEADER_BYTES, end - position), position)
    if len(head) < HEADER_BYTES:
        return True
    header = parse_header(head, 0)
    if header.magic == MAGIC and position + header.size_bytes > end:
        return True
    return _is_unwritten(file, position, end)


def _is_unwritten(file: File, position: int, end: int) -> bool:
    for at in range(position, end, CHUNK_BYTES):
        chunk = file.read_at(min(CHUNK_BYTES, end - at), at)
        if chunk != bytes(len(chunk)):
            return False
    return True


def crc_in_file(file: File, batch: PlacedBatch) -> int:
    """Sum up what the batch's checksum covers, chunk by chunk.

    Memory is bounded by CHUNK_BYTES whatever length the header claims.
    """
    at = batch.position + CRC_COVERS_FROM
    end = batch.position + batch.header.size_bytes
    checksum = 0
    while at < end:
        chunk = file.read_at(min(CHUNK_BYTES, end - at), at)
        assert chunk, "the header was checked against the file's size"
        checksum = extend_crc32c(checksum, chunk)
        at += len(chunk)
    return checksum
