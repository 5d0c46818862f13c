"""Markers: the control batches that end transactions (Kafka class ``EndTransactionMarker``).

A marker is a batch of one record, never compressed and never given to consumers. Its key says which
kind it is, its value which coordinator wrote it::

    key    version 0 (2 bytes) | type (2): 0 abort, 1 commit
    value  version 0 (2 bytes) | coordinator epoch (4)
"""

from struct import Struct, error
from typing import Final, NamedTuple

from quorate.errors import CorruptRecordError
from quorate.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    behind_room,
    seal_batch,
)
from quorate.records.record import ProducerStamp, read_bytes, read_varint, zigzag

ABORT: Final = 0
COMMIT: Final = 1

MARKER_BYTES_MAX: Final = 4096
"""More than any marker takes: ours are 78 bytes long."""

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_VERSION: Final = 0

ABORT_KEY: Final = _KEY.pack(_VERSION, ABORT)
"""The key of the control record that ends a transaction in vain."""


class EndMarker(NamedTuple):
    """How a transaction ended."""

    committed: bool
    coordinator_epoch: int
    """The leader epoch of the coordinator's partition: a marker of an older one came too late."""


class TransactionEnd(NamedTuple):
    """A producer's transaction ends."""

    producer_id: int
    producer_epoch: int
    marker: EndMarker
    version: int
    """Of the transaction: from 2 on, the epoch is the one behind that of its records (KIP-890)."""


def end_marker_batch(end: TransactionEnd, now_ms: int) -> bytearray:
    """Return a batch that ends a producer's transaction, at base offset 0, to be patched."""
    producer_id, producer_epoch, marker, _ = end
    key = _KEY.pack(_VERSION, COMMIT if marker.committed else ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    body = b"".join(
        (b"\0\0\0", zigzag(len(key)), key, zigzag(len(value)), value, b"\0")
    )  # no attributes, no time and no offset behind those of the batch; no headers
    return seal_batch(
        behind_room(zigzag(len(body)) + body),
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
        record_count=1,
        base_timestamp_ms=now_ms,
        max_timestamp_ms=now_ms,
        producer=ProducerStamp(producer_id, producer_epoch, NO_SEQUENCE),
    )


def find_end_marker(batch: bytes, header: BatchHeader) -> EndMarker | None:
    """Return how a transaction ended, by its control batch; None if nothing tells it."""
    try:
        return read_end_marker(batch, header)
    except CorruptRecordError:
        return None


def read_end_marker(batch: bytes, header: BatchHeader) -> EndMarker | None:
    """Return how a transaction ended, by its control batch.

    None if compaction left nothing of the marker, or it is a control batch of another kind.

    Raises:
        CorruptRecordError: it is damaged.
    """
    if header.record_count == 0:
        return None
    try:
        _, at = read_varint(batch, HEADER_BYTES)
        _, at = read_varint(batch, at + 1)
        _, at = read_varint(batch, at)
        key, at = read_bytes(batch, at)
        value, at = read_bytes(batch, at)
        _, kind = _KEY.unpack_from(key or b"")
        if kind not in (ABORT, COMMIT):
            return None
        _, coordinator_epoch = _VALUE.unpack_from(value or b"")
    except (IndexError, error):
        raise CorruptRecordError("a control batch that cannot be read") from None
    return EndMarker(kind == COMMIT, coordinator_epoch)
