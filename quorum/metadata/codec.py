"""Bytes of records, one by one or in batches.

A record is a CBOR map with integer keys; key 0 is its type.  A reader ignores fields that it does
not know, but a record of an unknown type stops it: to skip one would be to disagree with others.

A batch is ``[cause, time_ms, record...]``; records with the cause and time of the batch leave these
them out.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from quorate.control.codec import (
    DecodeError,
    as_array,
    as_map,
    decoder_of,
    dump_cbor,
    encode_fields,
    load_cbor,
)
from quorate.quorum.metadata import records as r

_TYPE: Final = 0
_CAUSE: Final = r.CAUSE_KEY.number
_TIME: Final = r.TIME_KEY.number

# Numbers are never reused.
_TYPES: Final[dict[int, type[r.MetadataRecord]]] = {
    1: r.ClusterFormatted,
    2: r.FeatureLevelSet,
    10: r.BrokerRegistered,
    11: r.BrokerFenced,
    12: r.BrokerUnfenced,
    13: r.BrokerUnregistered,
    14: r.BrokerChanged,
    20: r.TopicCreated,
    21: r.TopicRemoved,
    22: r.PartitionCreated,
    23: r.PartitionChanged,
    30: r.ConfigSet,
    31: r.ConfigDeleted,
    40: r.ProducerIdsAllocated,
    50: r.RequestAnswered,
    60: r.AclAdded,
    61: r.AclRemoved,
    62: r.ScramCredentialSet,
    63: r.ScramCredentialRemoved,
    64: r.ClientQuotaSet,
    65: r.ClientQuotaRemoved,
}
_NUMBERS: Final[dict[object, int]] = {cls: number for number, cls in _TYPES.items()}
_DECODERS: Final[dict[int, Callable[[Any], r.MetadataRecord]]] = {
    number: decoder_of(cls) for number, cls in _TYPES.items()
}


def encode_record(record: r.MetadataRecord) -> bytes:
    """Return a record as bytes."""
    return dump_cbor(_to_map(record))


def decode_record(data: bytes) -> r.MetadataRecord:
    """Return the record of some bytes.

    Raises:
        DecodeError: not a record, or one of a type that this version does not know.
    """
    return _from_map(as_map(load_cbor(data)))


def encode_batch(records: Sequence[r.MetadataRecord]) -> bytes:
    """Return records as bytes, in order."""
    if not records:
        return dump_cbor(["", 0])
    cause, time_ms = records[0].cause, records[0].time_ms
    batch: list[Any] = [cause, time_ms]
    for record in records:
        body = _to_map(record)
        if record.cause == cause and record.time_ms == time_ms:
            del body[_CAUSE], body[_TIME]
        batch.append(body)
    return dump_cbor(batch)


def decode_batch(data: bytes | memoryview) -> list[r.MetadataRecord]:
    """Return the records of some bytes.

    Raises:
        DecodeError: not a batch, or one with a record of a type that this version does not know.
    """
    cause, time_ms, bodies = _opened(data)
    return [_from_map(_with(as_map(body), cause, time_ms)) for body in bodies]


def decode_those(
    data: bytes | memoryview, types: Collection[type[r.MetadataRecord]]
) -> list[r.MetadataRecord]:
    """Return the records of some types, for who has no use for the others of a batch.

    Raises:
        DecodeError: not a batch.
    """
    numbers = {_NUMBERS[each] for each in types}
    cause, time_ms, bodies = _opened(data)
    wanted = [body for body in map(as_map, bodies) if body.get(_TYPE) in numbers]
    return [_from_map(_with(body, cause, time_ms)) for body in wanted]


def _opened(data: bytes | memoryview) -> tuple[str, int, list[Any]]:
    """Return a batch's cause, time and records, undecoded."""
    match as_array(load_cbor(data)):
        case [str() as cause, int() as time_ms, *bodies]:
            return cause, time_ms, bodies
        case _:
            raise DecodeError("not a batch of metadata records")


def _with(body: dict[Any, Any], cause: str, time_ms: int) -> dict[Any, Any]:
    """Return a record's map with its batch's cause and time, unless it has its own."""
    if _CAUSE not in body:
        body[_CAUSE] = cause
        body[_TIME] = time_ms
    return body


def _to_map(record: r.MetadataRecord) -> dict[int, Any]:
    body = encode_fields(record)
    body[_TYPE] = _NUMBERS[type(record)]
    return body


def _from_map(body: dict[Any, Any]) -> r.MetadataRecord:
    number = body.get(_TYPE)
    decode = _DECODERS.get(number) if type(number) is int else None
    if decode is None:
        raise DecodeError(f"unknown record type {number!r}: written by a newer version of Quorate?")
    return decode(body)
