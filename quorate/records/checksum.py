"""CRC-32C (Castagnoli), the checksum of record batches and of our own files."""

from google_crc32c import value


def crc32c(buffer: bytes | bytearray | memoryview) -> int:
    """Return the CRC-32C of the buffer as an unsigned 32-bit number.

    The library reads ``bytes`` only, so anything else is copied once; for slices of a larger
    buffer pass a memoryview, so that slicing does not copy a second time.
    """
    checksum: int = value(buffer if type(buffer) is bytes else bytes(buffer))
    return checksum
