"""Rows of Arrow as records for partitions: who goes where, in batches of the right size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from quorate.client.sending.partitioner import STICKY_BYTES, murmur2
from quorate.client.spark.arrow import Bytes, Integers, RecordBatch, pa, pc
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.model import TopicPartition
from quorate.records.record import RecordBatchBuilder, encode_headers, record_bytes_max

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from quorate.records.compression import Codec
    from quorate.records.record import ProducerStamp

SHORT_KEY_BYTES: Final = 64
_SEED: Final = np.uint32(0x9747B28C)
_FACTOR: Final = np.uint32(0x5BD1E995)
_POSITIVE: Final = np.uint32(0x7FFFFFFF)
NO_PARTITION: Final = -1


class RowError(QuorateError):
    """A row cannot be written."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Records for one partition, in columns; headers are encoded."""

    topic_partition: TopicPartition
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[bytes]
    timestamps_ms: Sequence[int]

    def __len__(self) -> int:
        return len(self.values)

    def part(self, start: int, end: int) -> Rows:
        """Return some of the rows."""
        return Rows(
            self.topic_partition,
            self.keys[start:end],
            self.values[start:end],
            self.headers[start:end],
            self.timestamps_ms[start:end],
        )

    def encode(
        self, codec: Codec, producer: ProducerStamp, *, transactional: bool = False
    ) -> bytearray:
        """Return the rows as one batch; there must be some."""
        builder = RecordBatchBuilder()
        for key, value, headers, timestamp_ms in zip(
            self.keys, self.values, self.headers, self.timestamps_ms, strict=True
        ):
            builder.append(timestamp_ms, key, value, headers, 0)
        return builder.build(codec, producer, transactional=transactional)


class Distributor:
    """Cuts Arrow's batches into rows for partitions.

    Records with a key go where Kafka's clients send them; those without take turns, some kilobytes
    at a time, beginning at ``turn``.
    """

    def __init__(
        self, topic: str | None, partitions_of: Callable[[str], int], turn: int, batch_bytes: int
    ) -> None:
        """Keep what all batches have in common.

        Args:
            topic: Where all rows go, or None if their column says.
            partitions_of: Returns how many partitions a topic has.
            turn: Where to begin with records that have no key.
            batch_bytes: How large batches get.
        """
        self._topic = topic
        self._partitions_of = partitions_of
        self._turn_bytes = turn * STICKY_BYTES
        self._batch_bytes = batch_bytes

    def distribute(self, batch: RecordBatch, now_ms: int) -> Iterator[Rows]:
        """Give out the rows of a batch, by partition, each in the order that it had.

        Args:
            batch: Columns as :func:`quorate.client.spark.write_options.check_columns` allows them.
            now_ms: The time of rows without one.

        Raises:
            RowError: A row has no topic, or no such partition is there.
        """
        columns = {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
        rows = _Columns(columns, batch.num_rows, now_ms)
        for topic, indices in self._by_topic(columns.get("topic"), batch.num_rows):
            numbers = self._numbers(topic, rows, indices)
            order = np.argsort(numbers, kind="stable")
            bounds = np.flatnonzero(np.diff(numbers[order])) + 1
            for group in np.split(order, bounds):
                if len(group):
                    partition = TopicPartition(topic, int(numbers[group[0]]))
                    yield from self._cut(rows.take(partition, indices[group]))

    def _by_topic(self, column: Any, count: int) -> Iterator[tuple[str, Integers]]:
        if self._topic is not None:
            yield self._topic, np.arange(count)
            return
        encoded = column.dictionary_encode()
        if encoded.null_count:
            raise RowError(
                "null topic present in the data. Use the topic option for setting a default topic."
            )
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        for code, topic in enumerate(encoded.dictionary.to_pylist()):
            yield topic, np.flatnonzero(codes == code)

    def _numbers(self, topic: str, rows: _Columns, indices: Integers) -> Integers:
        """Return the partition of each row."""
        count = self._partitions_of(topic)
        numbers: Integers = rows.partitions[indices]
        wrong = numbers[numbers >= count]
        if wrong.size:
            raise RowError(
                f"a row is for partition {wrong[0]} of {topic!r}, which has 0 to {count - 1}"
                f" of topic {topic}"
            )
        open_rows = np.flatnonzero(numbers == NO_PARTITION)
        if open_rows.size:
            numbers = numbers.copy()
            numbers[open_rows] = self._chosen(rows, indices[open_rows], count)
        return numbers

    def _chosen(self, rows: _Columns, indices: Integers, count: int) -> Integers:
        sizes = rows.sizes[indices]
        reached = self._turn_bytes + np.cumsum(sizes)
        self._turn_bytes = int(reached[-1])
        chosen = reached // STICKY_BYTES % count
        keyed = np.flatnonzero(rows.has_key[indices])
        if keyed.size:
            keys = rows.keys.take(pa.array(indices[keyed]))
            chosen[keyed] = (hashes(keys) & _POSITIVE) % np.uint32(count)
        return chosen

    def _cut(self, rows: Rows) -> Iterator[Rows]:
        begin = size_bytes = 0
        for index in range(len(rows)):
            size = record_bytes_max(rows.keys[index], rows.values[index], rows.headers[index])
            if index > begin and size_bytes + size > self._batch_bytes:
                yield rows.part(begin, index)
                begin, size_bytes = index, 0
            size_bytes += size
        yield rows.part(begin, len(rows))


class _Columns:
    """The columns of an Arrow batch, in the types that records have."""

    def __init__(self, columns: dict[str, Any], count: int, now_ms: int) -> None:
        self.values = columns["value"].cast(pa.binary())
        nothing = pa.nulls(count, pa.binary())
        self.keys = columns["key"].cast(pa.binary()) if "key" in columns else nothing
        self._headers = columns.get("headers")
        self.has_key = ~np.asarray(self.keys.is_null())
        self.sizes = _lengths(self.keys) + _lengths(self.values)
        numbers = columns.get("partition", pa.nulls(count, pa.int32()))
        _check_not_negative("partition", numbers)
        self.partitions = (
            numbers.cast(pa.int64()).fill_null(NO_PARTITION).to_numpy(zero_copy_only=False)
        )
        self._times = _times_ms(columns.get("timestamp"), count, now_ms)

    def take(self, partition: TopicPartition, indices: Integers) -> Rows:
        """Return some rows as records of a partition."""
        wanted = pa.array(indices)
        headers = [b""] * len(indices)
        if self._headers is not None:
            headers = [_headers_of(listed) for listed in self._headers.take(wanted).to_pylist()]
        return Rows(
            partition,
            self.keys.take(wanted).to_pylist(),
            self.values.take(wanted).to_pylist(),
            headers,
            self._times[indices].tolist(),
        )


def _check_not_negative(what: str, numbers: Any) -> None:
    """Check what there is of numbers, as Kafka's ``ProducerRecord`` does.

    Raises:
        RowError: One is negative.
    """
    least = pc.min(numbers).as_py()
    if least is not None and least < 0:
        raise RowError(f"a row has the {what} {least}: it has to be 0 or more, or null")


def _headers_of(listed: list[dict[str, Any] | None] | None) -> bytes:
    pairs: list[tuple[str, bytes | None]] = []
    for each in listed or ():
        if each is None or each["key"] is None:
            raise RowError("a header of a row is null, or has no key: leave it out")
        pairs.append((each["key"], each["value"]))
    return encode_headers(pairs)


def _lengths(column: Any) -> Integers:
    lengths = pc.binary_length(column).fill_null(0)
    result: Integers = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    return result


def _times_ms(column: Any, count: int, now_ms: int) -> Integers:
    if column is None:
        return np.full(count, now_ms, np.int64)
    if pa.types.is_floating(column.type):
        if not pc.all(pc.is_finite(column)).as_py():
            raise RowError("a row's timestamp is no number of seconds: null means now")
        micros = pc.floor(pc.multiply(column, 1_000_000.0)).cast(pa.int64())
    else:
        micros = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    _check_not_negative("timestamp (us)", micros)
    numbers = micros.fill_null(now_ms * 1_000).to_numpy(zero_copy_only=False)
    result: Integers = np.asarray(numbers // 1_000)
    return result


def hashes(keys: Any) -> npt.NDArray[np.uint32]:
    """Return the murmur2 hash of each key, as Kafka's clients reckon it; there are no nulls."""
    sizes = _lengths(keys)
    if sizes.max(initial=0) > SHORT_KEY_BYTES:
        return np.array([murmur2(key) for key in keys.to_pylist()], np.uint32)
    begins = np.frombuffer(keys.buffers()[1], np.int32)[
        keys.offset : keys.offset + len(keys)
    ].astype(np.int64)
    data = np.frombuffer(keys.buffers()[2] or b"", np.uint8)
    data = np.concatenate((data, np.zeros(4, np.uint8)))
    state = _SEED ^ sizes.astype(np.uint32)
    for at in range(0, int(sizes.max(initial=0)) & ~3, 4):
        rows = np.flatnonzero(sizes >= at + 4)
        word = _word(data, begins[rows] + at, 4) * _FACTOR
        word = (word ^ (word >> np.uint32(24))) * _FACTOR
        state[rows] = state[rows] * _FACTOR ^ word
    for rest in (1, 2, 3):
        rows = np.flatnonzero(sizes & 3 == rest)
        word = _word(data, begins[rows] + (sizes[rows] & ~3), rest)
        state[rows] = (state[rows] ^ word) * _FACTOR
    state = (state ^ (state >> np.uint32(13))) * _FACTOR
    return state ^ (state >> np.uint32(15))


def _word(data: Bytes, at: Integers, size_bytes: int) -> npt.NDArray[np.uint32]:
    """Return little-endian numbers of as many bytes."""
    word = np.zeros(len(at), np.uint32)
    for i in range(size_bytes):
        word |= data[at + i].astype(np.uint32) << np.uint32(8 * i)
    return word
