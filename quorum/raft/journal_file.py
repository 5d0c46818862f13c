"""The file of a controller's durable Raft log: records of entries, truncations, terms and votes.

One file of records, each with a CRC, appended to and synced in groups.  Truncations and votes are
records too, so nothing that was synced is ever overwritten.  Every start and every trim writes a
new generation (a new salt) that replaces the file atomically, so that no stale bytes lie behind a
torn tail::

    header  magic 8 | salt u64 | crc32(salt) u32
    record  magic 4 | crc32 u32 | length u32 | synced_end u64 | type u8 | payload

``synced_end`` is how much of the file was known to be durable when the record was written.  It
tells a torn tail (cut off silently: nobody was promised anything) from damage to synced bytes
(refused).  What it cannot tell is whether synced bytes at the very end are gone; for that there is
a second file, :class:`~quorate.quorum.raft.watermark.Watermark`.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from quorate.control.codec import dump_cbor
from quorate.errors import QuorateError

FILE_NAME: Final = "journal"

_FILE_MAGIC: Final = b"QRTJRNL1"
_FILE_HEADER: Final = struct.Struct("<8sQI")
_SALT: Final = struct.Struct("<Q")
_RECORD_MAGIC: Final = b"\xa7QrJ"
_RECORD_HEADER: Final = struct.Struct("<4sIIQB")
_RECORD_IDENTITY: Final = struct.Struct("<QQIQB")
_ENTRY_HEADER: Final = struct.Struct("<QQ")
_INDEX: Final = struct.Struct("<Q")


class RecordType(IntEnum):
    """What a record says."""

    ENTRY = 1
    TRUNCATE = 2
    TERM = 3
    RESET = 4


class JournalDamagedError(QuorateError):
    """Bytes that were promised to be durable are not what was written; refuse to start."""


class Entry(NamedTuple):
    """One entry of the Raft log; a tuple of this order, because PySyncObj unpacks it."""

    command: bytes
    log_index: int
    term: int


class SnapshotEnd(NamedTuple):
    """The last two entries that a snapshot covers; PySyncObj keeps both at the log's start."""

    previous: Entry
    last: Entry


class Content(NamedTuple):
    """What a record is to say."""

    type: RecordType
    payload: bytes


def entry_added(entry: Entry) -> Content:
    """Say that an entry follows."""
    return Content(
        RecordType.ENTRY, _ENTRY_HEADER.pack(entry.log_index, entry.term) + entry.command
    )


def added_entry(payload: bytes) -> Entry:
    """Return the entry that :func:`entry_added` tells of."""
    index, term = _ENTRY_HEADER.unpack_from(payload)
    return Entry(payload[_ENTRY_HEADER.size :], index, term)


def truncated_from(log_index: int) -> Content:
    """Say that the entries from an index on are gone."""
    return Content(RecordType.TRUNCATE, _INDEX.pack(log_index))


def truncation(payload: bytes) -> int:
    """Return the index that :func:`truncated_from` tells of."""
    return int(_INDEX.unpack(payload)[0])


def term_begun(term: int, vote: str | None) -> Content:
    """Say in which term this controller takes part, and for whom it voted in it."""
    return Content(RecordType.TERM, dump_cbor([term, vote]))


RESET: Final = Content(RecordType.RESET, b"")
"""All entries are gone."""


def encode_header(salt: int) -> bytes:
    """Return how the file of a generation begins."""
    return _FILE_HEADER.pack(_FILE_MAGIC, salt, zlib.crc32(_SALT.pack(salt)))


def decode_header(content: bytes) -> tuple[int, int]:
    """Return a file's salt, and where its records begin.

    Raises:
        JournalDamagedError: it does not begin as journals do.
    """
    if len(content) < _FILE_HEADER.size:
        raise JournalDamagedError("the journal has no header")
    magic, salt, crc = _FILE_HEADER.unpack_from(content)
    if magic != _FILE_MAGIC or crc != zlib.crc32(_SALT.pack(salt)):
        raise JournalDamagedError("the journal's header is damaged, or not one")
    return salt, _FILE_HEADER.size


def encode_records(
    contents: Iterable[Content], *, salt: int, position: int, synced_end: int
) -> bytes:
    """Return records as they stand at a position of the file."""
    parts: list[bytes] = []
    for record_type, payload in contents:
        crc = _crc(salt, position, synced_end, record_type, payload)
        header = _RECORD_HEADER.pack(_RECORD_MAGIC, crc, len(payload), synced_end, record_type)
        parts += (header, payload)
        position += len(header) + len(payload)
    return b"".join(parts)


class Record(NamedTuple):
    """A record as it was found; ``type`` may be one of the future."""

    type: int
    payload: bytes
    synced_end: int
    end: int


def record_at(content: bytes, position: int, salt: int) -> Record | None:
    """Return the record at a position, or ``None`` if there is no valid one."""
    start = position + _RECORD_HEADER.size
    if start > len(content):
        return None
    magic, crc, length, synced_end, record_type = _RECORD_HEADER.unpack_from(content, position)
    end = start + length
    if magic != _RECORD_MAGIC or end > len(content):
        return None
    payload = content[start:end]
    if crc != _crc(salt, position, synced_end, record_type, payload):
        return None
    return Record(record_type, payload, synced_end, end)


def records_behind(content: bytes, position: int, salt: int) -> Iterator[Record]:
    """Yield all valid records behind a position, wherever they begin."""
    position = content.find(_RECORD_MAGIC, position + 1)
    while position >= 0:
        record = record_at(content, position, salt)
        if record is not None:
            yield record
        position = content.find(_RECORD_MAGIC, position + 1)


def _crc(salt: int, position: int, synced_end: int, record_type: int, payload: bytes) -> int:
    identity = _RECORD_IDENTITY.pack(salt, position, len(payload), synced_end, record_type)
    return zlib.crc32(payload, zlib.crc32(identity))
