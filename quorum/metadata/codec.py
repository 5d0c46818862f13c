"""Bytes of records and of snapshots of the image.

A record is a CBOR map with integer keys; key 0 is its type.  A reader ignores fields that it does
not know, but a record of an unknown type stops it: to skip one would be to disagree with others.
"""

from collections.abc import Callable
from typing import Any, Final

from quorate.control.codec import (
    DecodeError,
    as_array,
    as_map,
    decode_fields,
    dump_cbor,
    encode_fields,
    load_cbor,
)
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.image import (
    EMPTY_IMAGE,
    InconsistentRecordError,
    MetadataImage,
    apply_records,
    image_records,
)

SNAPSHOT_FORMAT: Final = 1
SNAPSHOT_CAUSE: Final = "snapshot"
_TYPE: Final = 0

# Numbers are never reused.
_TYPES: Final[dict[int, Callable[..., r.MetadataRecord]]] = {
    1: r.ClusterFormatted,
    10: r.BrokerRegistered,
    11: r.BrokerFenced,
    12: r.BrokerUnfenced,
    13: r.BrokerUnregistered,
    20: r.TopicCreated,
    21: r.TopicRemoved,
    22: r.PartitionCreated,
    23: r.PartitionChanged,
    30: r.ConfigSet,
    31: r.ConfigDeleted,
    40: r.ProducerIdsAllocated,
    50: r.RequestAnswered,
}
_NUMBERS: Final[dict[object, int]] = {cls: number for number, cls in _TYPES.items()}


def encode_record(record: r.MetadataRecord) -> bytes:
    """Return a record as bytes."""
    return dump_cbor(_to_map(record))


def decode_record(data: bytes) -> r.MetadataRecord:
    """Return the record of some bytes.

    Raises:
        DecodeError: not a record, or one of a type that this version does not know.
    """
    return _from_map(load_cbor(data))


def _to_map(record: r.MetadataRecord) -> dict[int, Any]:
    body = encode_fields(record)
    body[_TYPE] = _NUMBERS[type(record)]
    return body


def _from_map(value: Any) -> r.MetadataRecord:
    body = as_map(value)
    cls = _TYPES.get(body.get(_TYPE, -1))
    if cls is None:
        raise DecodeError(f"unknown record type {body.get(_TYPE)!r}")
    record: r.MetadataRecord = decode_fields(cls, body)
    return record


def encode_image(image: MetadataImage) -> bytes:
    """Return a snapshot of the image."""
    records = [_to_map(record) for record in image_records(image, SNAPSHOT_CAUSE, 0)]
    return dump_cbor([SNAPSHOT_FORMAT, image.version, records])


def decode_image(data: bytes) -> MetadataImage:
    """Return the image of a snapshot.

    Raises:
        DecodeError: not a snapshot, or not one of this format.
    """
    match as_array(load_cbor(data)):
        case [format_version, *_] if format_version != SNAPSHOT_FORMAT:
            raise DecodeError(f"unknown snapshot format {format_version!r}")
        case [_, int() as version, bodies]:
            records = [_from_map(body) for body in as_array(bodies)]
        case _:
            raise DecodeError("not a metadata snapshot")
    if version == 0 and not records:
        return EMPTY_IMAGE
    try:
        return apply_records(EMPTY_IMAGE, version, records)
    except InconsistentRecordError as error:
        raise DecodeError(f"the snapshot contradicts itself: {error}") from error
