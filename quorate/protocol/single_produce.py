"""The commonest Produce request, read and answered without message objects.

That is one for a single partition, outside of transactions, with a batch that is whole and as its
producer summed it up. Whatever is not exactly that, or not as it should be, is for the general
reader: a reader here returns None then. There is a compiled one (``sound_produce`` in
``quorate/records/_batch.c``), which reads what its twin here reads.

What this saves are the objects for messages, topics and partitions, on the way in and out, which
cost more than all else that is done about a request with a single record. An answer begins as its
request does: topic and partition are copied from bytes to bytes.
"""

from collections.abc import Callable
from functools import partial
from struct import Struct, error
from typing import Any, Final, NamedTuple, TypeAlias, cast

from quorate.errors import KafkaError
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import REQUEST_START_BYTES, read_request_start, response_encoder
from quorate.protocol.messages.data import (
    PRODUCE_TOPIC_IDS_FROM,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from quorate.protocol.primitives import DecodeError, read_uvarint
from quorate.records.batch import BatchHeader, read_sound_header
from quorate.records.compiled import load_compiled

VERSION_MIN: Final = 7
"""Before, zstd and what a topic's settings do to records need a closer look."""

_START: Final = Struct(">hhiih")
"""No transactional id, acks, timeout, one topic, length of its name."""
_PARTITION: Final = Struct(">iii")
"""One partition, its index, length of its records."""
_NONE: Final = -1
_TOPIC_AT: Final = 14
_ECHO_AT: Final = 8
"""An answer has from the number of topics to the index of the partition what its request has."""

_FLEXIBLE_START: Final = Struct(">BhiB")
"""No transactional id, acks, timeout, one topic."""
_FLEXIBLE_PARTITION: Final = Struct(">Bi")
"""One partition, its index."""
_FLEXIBLE_ONE: Final = 2
"""Flexible versions count from 1, because 0 is null."""
_FLEXIBLE_TOPIC_AT: Final = 8
_FLEXIBLE_ECHO_AT: Final = 7
_NAME_LENGTH_MAX: Final = 0x7F
"""The largest that takes one byte."""
_UUID_BYTES: Final = 16
_NO_TAGS: Final = b"\0\0\0"
"""Behind the records: of the partition, the topic and the request."""

_ANSWER_START: Final = Struct(">ii")
_OUTCOME: Final = Struct(">hqqq")
"""Error code, base offset, append time, log start offset."""


class SingleProduce(NamedTuple):
    """A request for one partition.  A tuple, because one is made for every request."""

    acks: int
    timeout_ms: int
    topic: str | bytes
    """The name; from PRODUCE_TOPIC_IDS_FROM on the id."""
    partition: int
    echo: bytearray
    """Topic and partition as they stand in the answer, too."""
    records_at: int
    records_end: int


Reader: TypeAlias = Callable[[bytearray, int, int], SingleProduce | None]
"""Takes a buffer, and where in it the body of a request begins and ends."""

SoundProduce: TypeAlias = tuple[
    int, int, int, int, str | bytes, int, bytes | bytearray, int, int, BatchHeader
]
"""Version, correlation id, then as in SingleProduce, and the header of the one batch there is. A
plain tuple, because one is made for every request."""

SoundReader: TypeAlias = Callable[[bytearray, int, int], SoundProduce | None]
"""Takes a buffer, and where in it a request begins (with its API key) and ends."""

Writer: TypeAlias = Callable[[int, bytes | bytearray, int, int, int], bytes]
"""Takes correlation id, echo, base offset, append time and log start offset; returns the frame of
an answer without an error."""

_new = cast("Callable[[type[SingleProduce], tuple[Any, ...]], SingleProduce]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]


def sound_produce_reader() -> SoundReader:
    """Return what reads a request of any version from VERSION_MIN on, compiled if it is there."""
    compiled: Any = load_compiled("_batch")
    return read_sound_produce if compiled is None else partial(compiled.sound_produce, BatchHeader)


def read_sound_produce(buffer: bytearray, start: int, end: int) -> SoundProduce | None:
    """Read a request, header included; the twin of the compiled reader."""
    if end - start < REQUEST_START_BYTES:
        return None
    key, version, correlation_id, id_bytes = read_request_start(buffer, start)
    read = _READERS.get(version)
    pos = start + REQUEST_START_BYTES + max(id_bytes, 0)
    if key != ApiKey.PRODUCE or read is None or id_bytes < _NONE or pos >= end:
        return None
    single: SingleProduce | None = None
    if read is _read:
        single = read(buffer, pos, end)
    elif not buffer[pos]:  # no tagged fields in the header
        single = read(buffer, pos + 1, end)
    if single is None:
        return None
    acks, timeout_ms, topic, partition, echo, records_at, records_end = single
    records = memoryview(buffer)[records_at:records_end]
    try:
        header = read_sound_header(records, 0)
    except KafkaError:
        return None
    place = (topic, partition, echo, records_at, records_end)
    found = (version, correlation_id, acks, timeout_ms, *place, header)
    return found if header.size_bytes == len(records) else None


def single_produce_reader(version: int) -> Reader:
    """Return what reads this version."""
    if not APIS[ApiKey.PRODUCE].is_flexible(version):
        return _read
    return _read_with_id if version >= PRODUCE_TOPIC_IDS_FROM else _read_flexible


def _read(buffer: bytearray, pos: int, end: int) -> SingleProduce | None:
    try:
        transaction, acks, timeout_ms, topics, name_bytes = _START.unpack_from(buffer, pos)
        topic_end = pos + _TOPIC_AT + name_bytes
        partitions, index, records_bytes = _PARTITION.unpack_from(buffer, topic_end)
        records_at = topic_end + _PARTITION.size
        if (
            transaction != _NONE
            or topics != 1
            or name_bytes < 0
            or partitions != 1
            or records_bytes < 0
            or records_at + records_bytes != end
        ):
            return None
        topic = buffer[pos + _TOPIC_AT : topic_end].decode()
    except (error, UnicodeDecodeError):
        return None
    echo = buffer[pos + _ECHO_AT : topic_end + 8]
    return _new(SingleProduce, (acks, timeout_ms, topic, index, echo, records_at, end))


def _read_flexible(buffer: bytearray, pos: int, end: int) -> SingleProduce | None:
    name_at = pos + _FLEXIBLE_TOPIC_AT + 1
    try:
        length = buffer[name_at - 1]
        topic_end = name_at + length - 1
        topic = buffer[name_at:topic_end].decode()
    except (IndexError, UnicodeDecodeError):
        return None
    if not 0 < length <= _NAME_LENGTH_MAX:
        return None
    return _read_rest(buffer, pos, end, topic, topic_end)


def _read_with_id(buffer: bytearray, pos: int, end: int) -> SingleProduce | None:
    topic_at = pos + _FLEXIBLE_TOPIC_AT
    topic_end = topic_at + _UUID_BYTES
    return _read_rest(buffer, pos, end, bytes(buffer[topic_at:topic_end]), topic_end)


def _read_rest(
    buffer: bytearray, pos: int, end: int, topic: str | bytes, topic_end: int
) -> SingleProduce | None:
    """Read a flexible version around and behind its topic."""
    try:
        transaction, acks, timeout_ms, topics = _FLEXIBLE_START.unpack_from(buffer, pos)
        partitions, index = _FLEXIBLE_PARTITION.unpack_from(buffer, topic_end)
        echo_end = topic_end + _FLEXIBLE_PARTITION.size
        length, records_at = read_uvarint(buffer, echo_end)
    except (error, IndexError, DecodeError):
        return None
    records_end = records_at + length - 1
    if (
        transaction != 0
        or topics != _FLEXIBLE_ONE
        or partitions != _FLEXIBLE_ONE
        or length == 0
        or records_end + len(_NO_TAGS) != end
        or not buffer.startswith(_NO_TAGS, records_end)
    ):
        return None
    echo = buffer[pos + _FLEXIBLE_ECHO_AT : echo_end]
    return _new(SingleProduce, (acks, timeout_ms, topic, index, echo, records_at, records_end))


_READERS: Final = {
    version: single_produce_reader(version)
    for version in range(VERSION_MIN, APIS[ApiKey.PRODUCE].max_version + 1)
}


def single_produce_writer(version: int) -> Writer:
    """Return what writes the answers of this version, compiled if it is there."""
    header_end = b"\0" if APIS[ApiKey.PRODUCE].response_header_version(version) else b""
    ending = _ending(version)
    compiled: Any = load_compiled("_batch")
    if compiled is not None:
        return partial(compiled.single_answer, header_end, ending)
    return _writer(header_end, ending)


def _writer(header_end: bytes, ending: bytes) -> Writer:
    """Return the twin of the compiled writer."""
    # The size does not count itself; the correlation id is as long.
    rest_bytes = _ANSWER_START.size - 4 + len(header_end) + _OUTCOME.size + len(ending)
    start, outcome = _ANSWER_START.pack, _OUTCOME.pack

    def write(
        correlation_id: int,
        echo: bytes | bytearray,
        base_offset: int,
        append_time_ms: int,
        log_start_offset: int,
    ) -> bytes:
        return b"".join(
            (
                start(rest_bytes + len(echo), correlation_id),
                header_end,
                echo,
                outcome(0, base_offset, append_time_ms, log_start_offset),
                ending,
            )
        )

    return write


def _ending(version: int) -> bytes:
    """Return what is behind the log start offset, by the general writer.

    It is the same in all answers without an error.
    """
    marker = 0x0123_4567_89AB_CDEF
    partition = PartitionProduceResponse(log_start_offset=marker)
    answer = ProduceResponse(responses=[TopicProduceResponse(partition_responses=[partition])])
    encode = response_encoder(APIS[ApiKey.PRODUCE], version)
    (frame,) = cast("list[bytearray]", encode(0, answer))
    return bytes(frame.partition(marker.to_bytes(8, "big"))[2])
