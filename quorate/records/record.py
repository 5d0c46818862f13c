"""Records inside a batch: data and control, written and read.

One record on the wire, after the batch's header and after decompression (all varints zigzag)::

    length | attributes 0 | timestamp delta | offset delta | key length, key | value length, value
           | header count | (header key length, header key, header value length, header value)*

Producers spend most of their processor time in the writer and consumers in the reader. Where a
compiler was at hand when Quorate was installed, ``_speed.c`` does both; the twins in Python, used
everywhere else, handle many records per step: the writer collects columns and lays them out by
slices, and the reader inlines its varints.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, NoReturn, TypeAlias, cast

from quorate.errors import CorruptRecordError
from quorate.model import TopicPartition
from quorate.records.batch import (
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    behind_room,
    seal_batch,
)
from quorate.records.compiled import load_compiled
from quorate.records.compression import Codec, compress, decompress

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # type checkers have it: one that knows defaults

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

_speed: Any = load_compiled("_speed")

T = TypeVar("T")

Header: TypeAlias = tuple[str, bytes | None]

RECORD_OVERHEAD_BYTES_MAX: Final = 21
"""What a record without headers needs beside its key and value, at most: five varints, a byte
for attributes, and a byte for the number of headers (as Kafka's ``DefaultRecord`` reckons)."""

RECORD_BYTES_MIN: Final = 7
"""An empty record: length, attributes, two deltas, two null lengths, no headers; a byte each."""


class Record(NamedTuple, Generic[K, V]):
    """One record as read from a log; its key and value are bytes unless somebody reads them.

    A tuple, because consumers make millions of them per second; take its fields by name.
    """

    topic_partition: TopicPartition
    offset: int
    timestamp_ms: int
    """When it was made or appended, as the topic's ``message.timestamp.type`` says; -1: unknown."""

    key: K | None
    value: V | None
    headers: tuple[Header, ...]

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.topic_partition.topic

    @property
    def partition(self) -> int:
        """The partition's number within the topic."""
        return self.topic_partition.partition


def zigzag(value: int) -> bytes:
    """Return a signed number as a varint, small magnitudes first (protobuf's sint)."""
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


_TABLE_SIZE: Final = 1 << 14


@cache
def _zigzags() -> tuple[bytes, ...]:
    return tuple(map(zigzag, range(_TABLE_SIZE)))


@cache
def _no_key_then_length() -> tuple[bytes, ...]:
    return tuple(b"\x01" + length for length in _zigzags())


_LENGTH_MAX: Final = 1 << 13
"""Values below this many bytes are laid out by tables."""

_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1


# NamedTuple's own constructor is a Python function; this is what it calls.
_new_record = cast(
    "Callable[[type[Record], tuple[object, ...]], Record]",
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType]
)

_new_pair = cast("Callable[[type[Any], tuple[Any, int]], Any]", _new_record)


class ProducerStamp(NamedTuple):
    """Who wrote a batch, and its place in what that producer wrote to the partition (KIP-98)."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


NO_PRODUCER: Final = ProducerStamp(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)


class ColumnsInPython:
    """Records of one batch to be, as columns: cheap to append to, laid out all at once.

    Invariants: ``count`` records; ``values`` has one entry for each, ``keys`` and ``headers``
    (encoded) only for records that have some, ``runs`` one (first index, timestamp) for each run of
    records with the same timestamp; ``size_bytes`` is no less than what the batch will take
    uncompressed. The type in ``_speed.c`` is its twin.
    """

    __slots__ = (
        "append_limit_bytes",
        "count",
        "headers",
        "keys",
        "last_timestamp_ms",
        "runs",
        "size_bytes",
        "values",
    )

    def __init__(self, size_bytes: int) -> None:
        self.values: list[bytes | None] = []
        self.keys: dict[int, bytes] = {}
        self.headers: dict[int, bytes] = {}
        self.runs: list[tuple[int, int]] = []
        self.last_timestamp_ms = -(2**63)
        self.count = 0
        self.size_bytes: int = size_bytes
        self.append_limit_bytes = 0

    def append_plain(self, value: object, time_ns: int, kind: type[T], /) -> T | None:
        """Add a record of nothing but a value, and return ``kind((self, index))``.

        Returns None, and adds nothing, if that takes more: the value is not of type bytes, it would
        go over ``append_limit_bytes``, or the last record was not made in the same millisecond.
        """
        if type(value) is not bytes or time_ns // 1_000_000 != self.last_timestamp_ms:
            return None
        size_bytes = self.size_bytes + len(value) + RECORD_OVERHEAD_BYTES_MAX
        if size_bytes > self.append_limit_bytes:
            return None
        index = self.count
        self.values.append(value)
        self.size_bytes = size_bytes
        self.count = index + 1
        made: T = _new_pair(kind, (self, index))
        return made


if TYPE_CHECKING:
    Columns = ColumnsInPython
else:
    Columns = ColumnsInPython if _speed is None else _speed.Columns


class RecordBatchBuilder(Columns):
    """Collects records, and makes a batch of them; at least one before anything is asked."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(HEADER_BYTES)

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        size_bytes: int,
    ) -> int:
        """Add a record and return its index in the batch.

        Args:
            timestamp_ms: When the record was made.
            key: The key, or None.
            value: The value, or None.
            headers: What :func:`encode_headers` returned, empty for none.
            size_bytes: What :func:`record_bytes_max` returned for the record.
        """
        index = self.count
        if timestamp_ms != self.last_timestamp_ms:
            self.runs.append((index, timestamp_ms))
            self.last_timestamp_ms = timestamp_ms
        if key is not None:
            self.keys[index] = key
        if headers:
            self.headers[index] = headers
        self.values.append(value)
        self.size_bytes += size_bytes
        self.count = index + 1
        return index

    @property
    def first_timestamp_ms(self) -> int:
        """The timestamp that the others are written as differences to."""
        return self.runs[0][1]

    @property
    def max_timestamp_ms(self) -> int:
        """The latest of the timestamps."""
        return max(timestamp_ms for _, timestamp_ms in self.runs)

    def timestamp_ms(self, index: int) -> int:
        """Return the timestamp of one of the records."""
        return next(stamp for first, stamp in reversed(self.runs) if first <= index)

    def build(
        self, codec: Codec, producer: ProducerStamp, *, transactional: bool = False
    ) -> bytearray:
        """Return the whole batch at base offset 0; at least one record must have been added."""
        batch = self.encode()
        if codec != Codec.NONE:
            batch = behind_room(compress(codec, memoryview(batch)[HEADER_BYTES:]))
        return seal_batch(
            batch,
            attributes=codec | TRANSACTIONAL_BIT if transactional else codec,
            record_count=self.count,
            base_timestamp_ms=self.first_timestamp_ms,
            max_timestamp_ms=self.max_timestamp_ms,
            producer=producer,
        )

    def encode(self) -> bytearray:
        """Lay out the records, uncompressed and behind room for the batch's header."""
        if _speed is not None:
            encoded: bytearray = _speed.encode_records(
                self.values, self.keys, self.headers, self.runs, HEADER_BYTES
            )
            return encoded
        return self.encode_in_python()

    def encode_in_python(self) -> bytearray:
        """Do the same as :meth:`encode`, compiled code or not."""
        parts = [bytes(HEADER_BYTES)]
        ends = [first for first, _ in self.runs[1:]]
        ends.append(self.count)
        for (first, timestamp_ms), end in zip(self.runs, ends, strict=True):
            lead = b"\x00" + zigzag(wrapped(timestamp_ms - self.first_timestamp_ms))
            begin = first
            while begin < end:
                width = (begin.bit_length() + 7) // 7  # bytes of an offset delta from here on
                stop = min(end, 1 << 7 * width - 1)
                parts += self._encode_run(begin, stop, lead, width)
                begin = stop
        return bytearray().join(parts)

    def _encode_run(self, begin: int, end: int, lead: bytes, width: int) -> list[bytes]:
        """Lay out records that share their attributes, timestamp and width of offset delta."""
        values = self.values[begin:end]
        if not (self.keys or self.headers or None in values):
            lengths = list(map(len, cast("list[bytes]", values)))
            if max(lengths) < _LENGTH_MAX and end <= _TABLE_SIZE:
                return self._encode_plain_run(begin, end, lead, width, lengths)
        return self._encode_mixed_run(begin, end, lead)

    def _encode_plain_run(
        self, begin: int, end: int, lead: bytes, width: int, lengths: list[int]
    ) -> list[bytes]:
        """Lay out records of nothing but a value, a column at a time instead of a record."""
        length_of = _record_lengths(len(lead) + width + 2)
        parts = [b"\x00"] * (6 * len(lengths))
        if lengths.count(lengths[0]) == len(lengths):
            parts[0::6] = [length_of[lengths[0]]] * len(lengths)
            parts[3::6] = [_no_key_then_length()[lengths[0]]] * len(lengths)
        else:
            parts[0::6] = list(map(length_of.__getitem__, lengths))
            parts[3::6] = list(map(_no_key_then_length().__getitem__, lengths))
        parts[1::6] = [lead] * len(lengths)
        parts[2::6] = _zigzags()[begin:end]
        parts[4::6] = self.values[begin:end]  # type: ignore[assignment]
        return parts

    def _encode_mixed_run(self, begin: int, end: int, lead: bytes) -> list[bytes]:
        """Lay out records that may have keys and headers, or lack values, one by one."""
        parts: list[bytes] = []
        table, table_size = _zigzags(), _TABLE_SIZE
        keys, headers = self.keys, self.headers
        for index in range(begin, end):
            value = self.values[index]
            head = lead + (table[index] if index < table_size else zigzag(index))
            key = keys.get(index)
            if key is None:
                head += b"\x01"
            else:
                size = len(key)
                head += (table[size] if size < table_size else zigzag(size)) + key
            tail = headers.get(index, b"\x00")
            if value is None:
                tail = b"\x01" + tail
                value = b""
            else:
                size = len(value)
                head += table[size] if size < table_size else zigzag(size)
            size = len(head) + len(value) + len(tail)
            parts += (table[size] if size < table_size else zigzag(size), head, value, tail)
        return parts


@cache
def _record_lengths(other_bytes: int) -> tuple[bytes, ...]:
    """Return the encoded length of a record by its value's length, given what else is in it."""
    table = _zigzags()
    return tuple(zigzag(other_bytes + size + len(table[size])) for size in range(_LENGTH_MAX))


def encode_headers(headers: Iterable[Header]) -> bytes:
    """Lay out the headers of one record; nothing for none."""
    parts: list[bytes] = [b""]
    count = 0
    for name, value in headers:
        encoded = name.encode()
        parts += (zigzag(len(encoded)), encoded)
        parts += (b"\x01",) if value is None else (zigzag(len(value)), value)
        count += 1
    if not count:
        return b""
    parts[0] = zigzag(count)
    return b"".join(parts)


def record_bytes_max(key: bytes | None, value: bytes | None, headers: bytes) -> int:
    """Return how much a record takes in a batch, or slightly more."""
    key_bytes = 0 if key is None else len(key)
    value_bytes = 0 if value is None else len(value)
    return RECORD_OVERHEAD_BYTES_MAX + key_bytes + value_bytes + len(headers)


def read_records(
    batch: bytes | bytearray | memoryview,
    header: BatchHeader,
    topic_partition: TopicPartition,
    *,
    bytes_max: int,
) -> list[Record]:
    """Return the records of a batch whose header and checksum were checked.

    Args:
        batch: the whole batch, header included; of which nothing is kept.
        header: the batch's header.
        topic_partition: where the records are from.
        bytes_max: how many bytes the records may take once decompressed.

    Raises:
        CorruptRecordError: the bytes are not records, or not as many as the header says.
        UnsupportedCompressionTypeError: no codec has the number in the header.
    """
    if header.compression == Codec.NONE:
        buffer, position, end = batch, HEADER_BYTES, header.size_bytes
    else:
        packed = bytes(batch[HEADER_BYTES : header.size_bytes])
        buffer, position = decompress(header.compression, packed, bytes_max=bytes_max), 0
        end = len(buffer)
    if not 0 <= header.record_count * RECORD_BYTES_MIN <= end - position:
        raise CorruptRecordError(f"{header.record_count} records in {end - position} bytes")
    read = _read_in_python if _speed is None else _read_compiled
    return read(buffer, position, end, header, topic_partition)


def _read_compiled(
    data: bytes | bytearray | memoryview,
    at: int,
    end: int,
    header: BatchHeader,
    topic_partition: TopicPartition,
) -> list[Record]:
    try:
        records: list[Record] = _speed.read_records(
            data,
            at,
            end,
            header.record_count,
            header.base_offset,
            header.base_timestamp_ms,
            header.max_timestamp_ms if header.is_log_append_time else None,
            topic_partition,
            Record,
        )
    except ValueError as error:
        raise CorruptRecordError(str(error)) from None
    return records


def _read_in_python(
    data: bytes | bytearray | memoryview,
    at: int,
    end: int,
    header: BatchHeader,
    topic_partition: TopicPartition,
) -> list[Record]:
    try:  # slices of bytes become keys and values
        records = _read_records(bytes(data), at, end, header, topic_partition)
    except IndexError:
        raise CorruptRecordError("the last record of a batch is cut off") from None
    if header.is_log_append_time:
        stamp_ms = header.max_timestamp_ms
        return [record._replace(timestamp_ms=stamp_ms) for record in records]
    return records


def _read_records(  # noqa: C901, PLR0912, PLR0915 - varints in line: three times faster than calls
    data: bytes, at: int, end: int, header: BatchHeader, topic_partition: TopicPartition
) -> list[Record]:
    """Read all records; every varint of at most two bytes (up to 8191) without a call."""
    records: list[Record] = []
    cls: type[Record] = Record
    add, new, low, high = records.append, _new_record, _INT64_MIN, _INT64_MAX
    base_offset, base_timestamp_ms = header.base_offset, header.base_timestamp_ms
    for _ in range(header.record_count):
        number = data[at]
        at += 1
        if number > 0x7F:
            number = number & 0x7F | data[at] << 7
            at += 1
            if number > 0x3FFF:
                number, at = _long_varint(data, at, number)
        record_end = at + (number >> 1)
        if number & 1 or record_end > end:
            _refuse("a record's length does not fit its batch")
        at += 1  # attributes of a record: none are defined
        number = data[at]
        at += 1
        if number > 0x7F:
            number = number & 0x7F | data[at] << 7
            at += 1
            if number > 0x3FFF:
                number, at = _long_varint(data, at, number)
        timestamp_ms = base_timestamp_ms + ((number >> 1) ^ -(number & 1))
        number = data[at]
        at += 1
        if number > 0x7F:
            number = number & 0x7F | data[at] << 7
            at += 1
            if number > 0x3FFF:
                number, at = _long_varint(data, at, number)
        offset = base_offset + ((number >> 1) ^ -(number & 1))
        if not (low <= offset <= high and low <= timestamp_ms <= high):
            offset, timestamp_ms = wrapped(offset), wrapped(timestamp_ms)
        if data[at] == 1:
            key = None
            at += 1
        else:
            key, at = read_bytes(data, at)
        number = data[at]
        at += 1
        if number > 0x7F:
            number = number & 0x7F | data[at] << 7
            at += 1
            if number > 0x3FFF:
                number, at = _long_varint(data, at, number)
        if number & 1:
            value = None if number == 1 else _refuse("a value of negative length")
        else:
            value = data[at : at + (number >> 1)]
            at += number >> 1
        if data[at] == 0:
            headers: tuple[Header, ...] = ()
            at += 1
        else:
            headers, at = _read_headers(data, at, record_end)
        if at != record_end:
            _refuse("a record's length is not that of its parts")
        add(new(cls, (topic_partition, offset, timestamp_ms, key, value, headers)))
    if at != end:
        _refuse("bytes after the last record of a batch")
    return records


def _refuse(why: str) -> NoReturn:
    raise CorruptRecordError(why)


def wrapped(value: int) -> int:
    """Return a sum modulo 2**64, as Java reckons: strangers may make it overflow."""
    return ((value - _INT64_MIN) & (1 << 64) - 1) + _INT64_MIN


def _long_varint(data: bytes, at: int, low: int) -> tuple[int, int]:
    """Read on behind two bytes of a varint, both of which said that more follow.

    ``low`` is what they gave, with the second one's continuation bit still in it.
    """
    value = low & 0x3FFF
    for shift in range(14, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value, at) if value >> 64 == 0 else _refuse("a number of more than 64 bits")
    _refuse("a number of more than ten bytes")


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned number (of a signed one: its zigzag) and where it ends.

    Raises:
        IndexError: the data end before.
        CorruptRecordError: it is no number of 64 bits.
    """
    number = data[at]
    at += 1
    if number > 0x7F:
        number = number & 0x7F | data[at] << 7
        at += 1
        if number > 0x3FFF:
            return _long_varint(data, at, number)
    return number, at


def read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Read a length and as many bytes; length -1 stands for null."""
    number, at = read_varint(data, at)
    if number & 1:
        return (None, at) if number == 1 else _refuse("a negative length")
    end = at + (number >> 1)
    return data[at:end], end


def _read_headers(data: bytes, at: int, end: int) -> tuple[tuple[Header, ...], int]:
    number, at = read_varint(data, at)
    if number & 1 or number > end - at:  # twice the count; a header takes two bytes at least
        _refuse("more headers than the record can hold")
    headers: list[Header] = []
    for _ in range(number >> 1):
        name, at = read_bytes(data, at)
        value, at = read_bytes(data, at)
        if name is None or at > end:
            _refuse("a header does not fit its record")
        headers.append((name.decode(errors="replace"), value))  # as Java reads it
    return tuple(headers), at
