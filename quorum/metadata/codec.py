"""Bytes of records, one by one or in batches.

A record is a CBOR map with integer keys; key 0 is its type.  A reader ignores fields that it does
not know, but a record of an unknown type stops it: to skip one would be to disagree with others.

A batch is ``[cause, time_ms, record...]``; records with the cause and time of the batch leave these
them out.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, NamedTuple

from quorate.control.codec import (
    DecodeError,
    Decoders,
    as_array,
    as_map,
    dump_cbor,
    encode_fields,
    load_cbor,
)
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.image import (
    InconsistentRecordError,
    PartitionState,
    initial_state,
)

_TYPE: Final = 0
_CAUSE: Final = r.CAUSE_KEY.number
_TIME: Final = r.TIME_KEY.number

# Of a PartitionCreated.
_TOPIC_ID: Final = 3
_PARTITION: Final = 4
_REPLICAS: Final = 5
_ISR: Final = 6
_LEADER_ID: Final = 7
_PARTITION_CREATED: Final = 22
_PLAIN: Final = frozenset({_TYPE, _TOPIC_ID, _PARTITION, _REPLICAS, _ISR, _LEADER_ID})
"""What a batch says of a partition that was not changed yet."""

MANY: Final = 8
"""With fewer records it is not worth to look for what they have in common."""

NumberedRecord = r.PartitionCreated | r.PartitionChanged

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
    _PARTITION_CREATED: r.PartitionCreated,
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
_DECODERS: Final = Decoders(_TYPES)


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
    if len(records) >= MANY and any(type(record) in _ALL_BUT_NUMBER for record in records):
        return _encode_many(records, cause, time_ms)
    return dump_cbor([cause, time_ms, *[_body(record, cause, time_ms) for record in records]])


def _body(record: r.MetadataRecord, cause: str, time_ms: int) -> dict[int, Any]:
    """Return a record's map as it stands in a batch of this cause and time."""
    body = _to_map(record)
    if record.cause == cause and record.time_ms == time_ms:
        del body[_CAUSE], body[_TIME]
    return body


def _encode_many(records: Sequence[r.MetadataRecord], cause: str, time_ms: int) -> bytes:
    """Return the same bytes in a third of the time, for batches about many partitions.

    Most partitions of a topic differ in nothing but their number, so the rest is encoded once.
    """
    # An array begins with its length, and with so many entries as there are records and two.
    parts = [dump_cbor([cause, time_ms, *([None] * len(records))])[: -len(records)]]
    frames: dict[object, tuple[bytes, bytes] | None] = {}
    for record in records:
        all_but_number = _ALL_BUT_NUMBER.get(type(record))
        key = None if all_but_number is None else all_but_number(record)
        if key is None or key not in frames:
            parts.append(dump_cbor(_body(record, cause, time_ms)))
            if key is not None:
                frames[key] = None  # It may be the only one.
            continue
        assert isinstance(record, NumberedRecord)
        frame = frames[key]
        if frame is None:
            frame = frames[key] = _around_number(record, cause, time_ms)
        parts += (frame[0], dump_cbor(record.partition), frame[1])
    return b"".join(parts)


_ALL_BUT_NUMBER: Final[dict[type[r.MetadataRecord], Callable[[Any], object]]] = {
    cls: attrgetter(*(f.name for f in fields(cls) if f.name != "partition"))
    for cls in (r.PartitionCreated, r.PartitionChanged)
}


def _around_number(record: NumberedRecord, cause: str, time_ms: int) -> tuple[bytes, bytes]:
    """Return what stands before and behind the number of a partition, encoded."""
    body = _body(record, cause, time_ms)
    keys = list(body)
    before = {key: body[key] for key in keys[: keys.index(_PARTITION)]}
    whole = dump_cbor(body)
    begin = len(dump_cbor(before)) + len(dump_cbor(_PARTITION))
    return whole[:begin], whole[begin + len(dump_cbor(record.partition)) :]


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


class NewPartitions(NamedTuple):
    """As many :class:`PartitionCreated` in a row, for who only wants to know what they make."""

    topic_id: bytes
    first: int
    states: list[PartitionState]

    def is_followed_by(self, topic_id: bytes, partition: int) -> bool:
        """Whether that is the next partition of the same topic."""
        return topic_id == self.topic_id and partition == self.first + len(self.states)


Fact = r.MetadataRecord | NewPartitions


def decode_facts(data: bytes | memoryview) -> list[Fact]:
    """Return the records of some bytes like :func:`decode_batch`, with new partitions in runs.

    Partitions in the same state share it, because there are very many of them; so a state is only
    checked where a batch has it first.

    Raises:
        DecodeError: as for :func:`decode_batch`.
    """
    cause, time_ms, bodies = _opened(data)
    facts: list[Fact] = []
    states: dict[object, PartitionState] = {}
    run: NewPartitions | None = None
    for body in map(as_map, bodies):
        state = _plain_state(body, states)
        if state is None:
            facts.append(_from_map(_with(body, cause, time_ms)))
            run = None
        elif run is not None and run.is_followed_by(body[_TOPIC_ID], body[_PARTITION]):
            run.states.append(state)
        else:
            run = NewPartitions(body[_TOPIC_ID], body[_PARTITION], [state])
            facts.append(run)
    return facts


def _plain_state(
    body: dict[Any, Any], states: dict[object, PartitionState]
) -> PartitionState | None:
    """Return the state of a new partition that is as most are; ``None`` for whatever else it is."""
    if body.keys() != _PLAIN or body[_TYPE] != _PARTITION_CREATED:
        return None
    replicas, isr = body[_REPLICAS], body[_ISR]
    if not type(replicas) is type(isr) is list or type(body[_PARTITION]) is not int:
        return None
    try:
        key = (tuple(replicas), tuple(isr), body[_LEADER_ID])
        state = states.get(key)
        if state is None:
            record = _from_map(_with(dict(body), "", 0))
            assert isinstance(record, r.PartitionCreated)
            state = states[key] = initial_state(record)
    except (TypeError, InconsistentRecordError):
        return None
    return state if type(body[_TOPIC_ID]) is bytes else None


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
    if type(number) is not int or number not in _TYPES:
        raise DecodeError(f"unknown record type {number!r}: written by a newer version of Quorate?")
    decode: Callable[[Any], r.MetadataRecord] = _DECODERS[number]
    return decode(body)
