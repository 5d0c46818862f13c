"""CRC-32C (Castagnoli), the checksum of record batches and of our own files."""

from collections.abc import Callable

import google_crc32c

from quorate.records.compiled import load_compiled

_value: Callable[[bytes], int] = google_crc32c.value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
_extend: Callable[[int, bytes], int] = google_crc32c.extend  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def crc32c_of_bytes(buffer: bytes | bytearray | memoryview) -> int:
    """Return the CRC-32C of the buffer: the twin of the compiled function.

    The library reads ``bytes`` only, so anything else is copied once.
    """
    return _value(buffer if type(buffer) is bytes else bytes(buffer))


crc32c: Callable[[bytes | bytearray | memoryview], int] = getattr(
    load_compiled("_batch"), "crc32c", crc32c_of_bytes
)
"""Returns the CRC-32C of a buffer as an unsigned 32-bit number.

For a part of a larger buffer pass a memoryview, so that slicing does not copy.
"""


def extend_crc32c(checksum: int, chunk: bytes) -> int:
    """Return the CRC-32C of what ``checksum`` sums up followed by the chunk."""
    return _extend(checksum, chunk)
