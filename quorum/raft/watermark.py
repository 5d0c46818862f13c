"""How much of the journal was synced, noted in a second file after every sync.

A journal whose last records are gone looks like one whose last write was cut off by a crash.  The
watermark tells them apart.  It is not synced itself, so after a power cut it may be old, but never
ahead; two places are written in turn, so that one of them is whole.
"""

import struct
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from quorate.quorum.raft.storage import Storage

FILE_NAME: Final = "watermark"
_SLOT_BYTES: Final = 512
_SLOTS: Final = 2
_CONTENT: Final = struct.Struct("<QQQ")
_CRC: Final = struct.Struct("<I")


class Watermark(NamedTuple):
    """The generation of the journal with this salt is synced up to this byte."""

    salt: int
    synced_end: int
    number: int

    def write(self, storage: "Storage") -> None:
        """Note it in the file; one that is lost before it is durable is missed by nobody."""
        content = _CONTENT.pack(*self)
        slot = content + _CRC.pack(zlib.crc32(content))
        storage.write_at(FILE_NAME, self.number % _SLOTS * _SLOT_BYTES, slot)


class Readable(Protocol):
    """Files that can be read."""

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or ``None`` if there is no such file."""
        ...


def read_watermarks(storage: Readable) -> list[Watermark]:
    """Return what can be read; of a file that is not there, nothing."""
    content = storage.read(FILE_NAME) or b""
    slots = [content[n * _SLOT_BYTES :][: _CONTENT.size + _CRC.size] for n in range(_SLOTS)]
    return [Watermark(*_CONTENT.unpack_from(slot)) for slot in slots if _is_whole(slot)]


def _is_whole(slot: bytes) -> bool:
    if len(slot) != _CONTENT.size + _CRC.size:
        return False
    (crc,) = _CRC.unpack_from(slot, _CONTENT.size)
    return bool(crc == zlib.crc32(slot[: _CONTENT.size]))
