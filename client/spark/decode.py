"""Records of batches as columns of Arrow, without a Python object for each.

Compiled code (``quorate/records/_columns.c``) does it in one go, where there is any. Without,
Python walks over the lengths of records, numpy reads their numbers for all of them at once, and
Arrow gathers keys and values. What is out of the ordinary (bytes that are no records; without
compiled code also headers that are wanted) goes through :func:`decode_in_python`, which tests hold
the others to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from quorate.client.spark.arrow import Array, Bytes, Integers, RecordBatch, Schema, pa
from quorate.client.spark.batches import BatchReader, Chunk, Span, plain_records
from quorate.records.compiled import load_compiled

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from quorate.records.record import Record


HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
FIELDS: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", HEADER_TYPE)),
}
"""Columns by name; Spark wants exactly these types, and every column nullable."""

_read_columns: Any = getattr(load_compiled("_columns"), "read_columns", None)
_FLAGS: Final = {
    "key": 1,
    "value": 2,
    "offset": 4,
    "timestamp": 8,
    "timestampType": 16,
    "headers": 32,
}
"""What to ask the compiled function for."""

TIMESTAMP_MS_MAX: Final = (2**63 - 1) // 1_000
BATCH_ROWS_MAX: Final = 65_536
_TENTH_BYTE_SHIFT: Final = 63

_POSITION_MAX: Final = 2**31 - 1
"""Arrow's binary columns count their bytes in 32 bits."""


def arrow_schema(columns: Sequence[str]) -> Schema:
    """Return the schema of these columns, in that order."""
    return pa.schema([pa.field(name, FIELDS[name]) for name in columns])


class Decoder:
    """Makes Arrow's record batches of the records of one range: of some columns, always the same.

    ``start`` and ``end`` are the offsets of the range; what is outside is left out.
    """

    def __init__(self, reader: BatchReader, columns: Sequence[str], start: int, end: int) -> None:
        self.reader = reader
        self.schema = arrow_schema(columns)
        self.start = start
        self.end = end

    def decode(self, chunk: Chunk) -> list[RecordBatch]:
        """Return the records of a chunk; none, if none of them is in the range.

        Raises:
            CorruptRecordError: There are no such records in its bytes; says where.
        """
        arrays = self._compiled(chunk) if _read_columns is not None else self._arrays(chunk)
        if arrays is None:
            return self.decode_in_python(chunk)
        return self._sliced(arrays)

    def _sliced(self, arrays: dict[str, Array]) -> list[RecordBatch]:
        whole = pa.RecordBatch.from_arrays(
            [arrays[name] for name in self.schema.names], schema=self.schema
        )
        rows = whole.num_rows
        return [whole.slice(at, BATCH_ROWS_MAX) for at in range(0, rows, BATCH_ROWS_MAX)]

    # By compiled code

    def _compiled(self, chunk: Chunk) -> dict[str, Array] | None:
        """Return all columns, or None if this is for the twin."""
        batches = [
            (
                span.at,
                span.end,
                span.header.record_count,
                span.header.base_offset,
                span.header.base_timestamp_ms,
                span.header.max_timestamp_ms if span.header.is_log_append_time else None,
            )
            for span in chunk.spans
        ]
        names = self.schema.names
        wanted = sum(_FLAGS.get(name, 0) for name in names)
        read = _read_columns(chunk.data, batches, self.start, self.end, wanted)
        if read is None:
            return None
        rows, key, value, offsets, timestamps, types, headers = read
        arrays: dict[str, Array] = {}
        for name, numbers in (
            ("offset", offsets),
            ("timestamp", timestamps),
            ("timestampType", types),
        ):
            if numbers is not None:
                arrays[name] = _array(FIELDS[name], rows, (None, numbers))
        for name, texts in (("key", key), ("value", value)):
            if texts is not None:
                arrays[name] = _array(FIELDS[name], rows, texts)
        if headers is not None:
            count, validity, positions, keys, values = headers
            pairs = pa.StructArray.from_arrays(
                [_array(pa.string(), count, keys), _array(pa.binary(), count, values)],
                fields=list(HEADER_TYPE),
            )
            buffers = [pa.py_buffer(validity), pa.py_buffer(positions)]
            arrays["headers"] = pa.Array.from_buffers(
                FIELDS["headers"], rows, buffers, children=[pairs]
            )
        for name in {"topic", "partition"} & set(names):
            arrays[name] = self._constant(name, rows)
        return arrays

    # By numpy and Arrow

    def _arrays(self, chunk: Chunk) -> dict[str, Array] | None:
        """Return all columns, or None if this is for the other one."""
        places = _walk(chunk)
        if not places or len(chunk.data) > _POSITION_MAX:
            return None
        both = np.array(places, np.int64)
        fields = _Fields(np.frombuffer(chunk.data, np.uint8), both[0::2], both[1::2])
        if fields.broken or ("headers" in self.schema.names and fields.has_headers):
            return None
        counts = np.array([span.header.record_count for span in chunk.spans], np.int64)
        offsets = fields.offset_deltas + _repeated(chunk, counts, "base_offset")
        wanted = np.flatnonzero((offsets >= self.start) & (offsets < self.end))
        everything = len(wanted) == len(offsets)
        if not everything:
            fields.keep(wanted)
        arrays: dict[str, Array] = {}
        for name in self.schema.names:
            if name == "offset":
                arrays[name] = _numbers(offsets if everything else offsets[wanted], FIELDS[name])
            elif name in {"key", "value"}:
                arrays[name] = fields.gathered(chunk.data, name)
            elif name in {"timestamp", "timestampType"}:
                values = self._stamps(chunk, counts, fields.timestamp_deltas, name)
                arrays[name] = _numbers(values if everything else values[wanted], FIELDS[name])
            else:
                arrays[name] = self._constant(name, len(wanted))
        return arrays

    def _stamps(
        self, chunk: Chunk, counts: Integers, deltas: Integers, name: str
    ) -> npt.NDArray[Any]:
        appended = np.repeat(
            np.array([span.header.is_log_append_time for span in chunk.spans], bool), counts
        )
        if name == "timestampType":
            return appended.astype(np.int32)
        made_ms: Integers = deltas + _repeated(chunk, counts, "base_timestamp_ms")
        if appended.any():
            latest_ms = _repeated(chunk, counts, "max_timestamp_ms")
            made_ms = np.where(appended, latest_ms, made_ms)
        micros: Integers = np.clip(made_ms, -TIMESTAMP_MS_MAX, TIMESTAMP_MS_MAX) * 1_000
        return micros

    def _constant(self, name: str, rows: int) -> Array:
        topic, partition = self.reader.topic_partition
        if name == "topic":
            encoded = topic.encode()
            positions = np.arange(0, (rows + 1) * len(encoded), len(encoded), dtype=np.int32)
            buffers = [None, pa.py_buffer(positions), pa.py_buffer(encoded * rows)]
            return pa.Array.from_buffers(FIELDS[name], rows, buffers)
        if name == "partition":
            return _numbers(np.full(rows, partition, np.int32), FIELDS[name])
        return pa.nulls(rows, FIELDS[name])

    # By Python

    def decode_in_python(self, chunk: Chunk) -> list[RecordBatch]:
        """Do the same as :meth:`decode`, record by record."""
        rows: list[tuple[Record, int]] = []
        for span in chunk.spans:
            appended = int(span.header.is_log_append_time)
            rows += [(record, appended) for record in self._records(chunk, span)]
        wanted = [(r, kind) for r, kind in rows if self.start <= r.offset < self.end]
        columns = {
            "key": [record.key for record, _ in wanted],
            "value": [record.value for record, _ in wanted],
            "topic": [record.topic for record, _ in wanted],
            "partition": [record.partition for record, _ in wanted],
            "offset": [record.offset for record, _ in wanted],
            "timestamp": [_micros(record.timestamp_ms) for record, _ in wanted],
            "timestampType": [kind for _, kind in wanted],
            "headers": [
                [{"key": name, "value": value} for name, value in record.headers] or None
                for record, _ in wanted
            ],
        }
        return self._sliced(
            {name: pa.array(columns[name], FIELDS[name]) for name in self.schema.names}
        )

    def _records(self, chunk: Chunk, span: Span) -> list[Record]:
        data = bytes(memoryview(chunk.data)[span.at : span.end])
        partition = self.reader.topic_partition
        return self.reader.guarded(span.header, lambda: plain_records(data, span.header, partition))


def _micros(timestamp_ms: int) -> int:
    return min(max(timestamp_ms, -TIMESTAMP_MS_MAX), TIMESTAMP_MS_MAX) * 1_000


def _repeated(chunk: Chunk, counts: Integers, field: str) -> Integers:
    """Return a field of the batches' headers for each of their records."""
    values = np.array([getattr(span.header, field) for span in chunk.spans], np.int64)
    return np.repeat(values, counts)


def _array(kind: Any, rows: int, buffers: Sequence[bytes | None]) -> Array:
    wrapped = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(kind, rows, wrapped)


def _numbers(values: npt.NDArray[Any], kind: Any) -> Array:
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [None, buffer])


def _walk(chunk: Chunk) -> list[int] | None:
    """Return begin and end of each record, behind its length; None if they do not fit."""
    data = chunk.data
    places: list[int] = []
    add = places.append
    for span in chunk.spans:
        at, end = span.at, span.end
        try:
            for _ in range(span.header.record_count):
                number = data[at]
                at += 1
                if number > 0x7F:
                    number = number & 0x7F | data[at] << 7
                    at += 1
                    if number > 0x3FFF:
                        number = number & 0x3FFF | data[at] << 14
                        at += 1
                        if number > 0x1FFFFF:
                            number = number & 0x1FFFFF | data[at] << 21
                            at += 1
                            if number > 0xFFFFFFF:
                                return None  # records of 128 MiB are rare
                if number & 1:
                    return None
                add(at)
                at += number >> 1
                add(at)
        except IndexError:
            return None
        if at != end:
            return None
    return places


class _Fields:
    """The numbers in front of keys and values, of all records at once.

    ``broken`` says that the bytes are no records: nothing else is of use then.
    """

    def __init__(self, raw: Bytes, begins: Integers, ends: Integers) -> None:
        self._raw = raw
        self._overlong = False
        self.timestamp_deltas, at = self._varints(begins + 1)
        self.offset_deltas, at = self._varints(at)
        self._key_sizes, self._key_at = self._varints(at)
        at = self._behind(self._key_at, self._key_sizes)
        self._value_sizes, self._value_at = self._varints(at)
        at = self._behind(self._value_at, self._value_sizes)
        header_counts, at = self._varints(at)
        self.has_headers = bool(header_counts.any())
        self.broken = self._overlong or bool(
            ((self._key_sizes < -1) | (self._value_sizes < -1) | (header_counts < 0)).any()
            or (at > ends).any()
            or (at[header_counts == 0] != ends[header_counts == 0]).any()
        )

    def _varints(self, at: Integers) -> tuple[Integers, Integers]:
        """Return the numbers at those positions, and where they end. Past the end are zeros."""
        byte = self._raw.take(at, mode="clip").astype(np.int64)
        value, behind = byte & 0x7F, at + 1
        more = np.flatnonzero(byte > 0x7F)
        for shift in range(7, _TENTH_BYTE_SHIFT + 1, 7):
            if not more.size:
                break
            byte = self._raw.take(behind[more], mode="clip").astype(np.int64)
            value[more] |= (byte & 0x7F) << shift
            behind[more] += 1
            if shift == _TENTH_BYTE_SHIFT:  # of which one bit is left: nobody may want an eleventh
                self._overlong |= bool((byte > 1).any())
            more = more[byte > 0x7F]
        unsigned = value.view(np.uint64)
        return (unsigned >> np.uint64(1)).view(np.int64) ^ -(value & 1), behind

    def _behind(self, at: Integers, sizes: Integers) -> Integers:
        return at + np.clip(sizes, 0, len(self._raw))

    def keep(self, rows: Integers) -> None:
        """Leave only these rows for :meth:`gathered`."""
        self._key_sizes, self._key_at = self._key_sizes[rows], self._key_at[rows]
        self._value_sizes, self._value_at = self._value_sizes[rows], self._value_at[rows]

    def gathered(self, data: bytes | bytearray | memoryview, name: str) -> Array:
        """Return a column of keys or values, copied together by Arrow."""
        sizes, begins = (
            (self._key_sizes, self._key_at)
            if name == "key"
            else (self._value_sizes, self._value_at)
        )
        rows = len(sizes)
        if not rows or (sizes < 0).all():
            return pa.nulls(rows, pa.binary())
        # An array over all the bytes: each other element is wanted, and what is between is not.
        positions = np.empty(2 * rows + 1, np.int32)
        positions[0 : 2 * rows : 2] = begins
        positions[1::2] = begins + np.maximum(sizes, 0)
        positions[-1] = positions[-2]
        buffers = [None, pa.py_buffer(positions), pa.py_buffer(data)]
        everything = pa.Array.from_buffers(pa.binary(), 2 * rows, buffers)
        indices = np.arange(0, 2 * rows, 2, dtype=np.int64)
        return everything.take(pa.array(indices, mask=(sizes < 0) if (sizes < 0).any() else None))
