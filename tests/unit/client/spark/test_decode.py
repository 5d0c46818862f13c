"""Records as columns of Arrow, compiled and by numpy: as the twin in Python has them."""

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.client.spark import decode
from quorate.client.spark.batches import BatchReader, Chunk, Span
from quorate.client.spark.decode import FIELDS, Decoder
from quorate.errors import CorruptRecordError
from quorate.model import TopicPartition
from quorate.records.batch import HEADER_BYTES, behind_room, parse_header, seal_batch
from quorate.records.compression import Codec
from quorate.records.record import ProducerStamp
from tests.unit.client.spark.fetched import Row, batch, plain

T = TopicPartition("t\u00f6pic", 4)
FAR = 1 << 40
ALL = list(FIELDS)


@pytest.fixture(params=["compiled", "by numpy"], autouse=True, scope="module")
def how(request: pytest.FixtureRequest) -> Generator[str]:
    """Every test holds for both."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "by numpy":
            patch.setattr(decode, "_read_columns", None)
        elif decode._read_columns is None:  # pyright: ignore[reportPrivateUsage]
            pytest.skip("not compiled here")
        yield request.param


def rows() -> st.SearchStrategy[Row]:
    middling = st.binary(min_size=2, max_size=3).map(lambda piece: piece * 100)
    large = st.binary(min_size=9, max_size=10).map(lambda piece: piece * 1000)
    small = st.none() | st.binary(max_size=12) | middling
    header = st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3))
    return st.builds(
        Row,
        key=small,
        value=small | large,
        timestamp_ms=st.integers(-1, 2**44) | st.sampled_from([0, 2**62, -(2**62)]),
        headers=st.just(()) | st.lists(header, max_size=2).map(tuple),
    )


batches_of_rows = st.lists(
    st.tuples(
        st.lists(rows(), min_size=1, max_size=6),
        st.sampled_from(Codec),
        st.none() | st.integers(0, 2**40),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=4,
)


def fetched(parts: Any) -> tuple[bytes, int]:
    data, offset = b"", 0
    for listed, codec, append_ms, gap in parts:
        data += batch(offset + gap, listed, codec=codec, append_ms=append_ms)
        offset += gap + len(listed)
    return data, offset


@given(batches_of_rows, st.sets(st.sampled_from(ALL), min_size=1), st.data())
def test_every_column_is_what_the_twin_in_python_reads(
    parts: Any, columns: set[str], data: st.DataObject
) -> None:
    raw, end = fetched(parts)
    start = data.draw(st.integers(0, end))
    stop = data.draw(st.integers(start, end))
    reader = BatchReader(T, 0, committed_only=False)
    view = memoryview(bytearray(raw))
    chunk = reader.chunk(view, reader.take(view, (), FAR))
    decoder = Decoder(reader, sorted(columns), start, stop)
    decoded = decoder.decode(chunk)
    assert decoded == decoder.decode_in_python(chunk)
    for each in decoded:
        each.validate(full=True)


def read_or_refused(read: Any, chunk: Chunk) -> Any:
    try:
        return read(chunk)
    except CorruptRecordError as error:
        return str(error)


@given(st.data())
def test_damaged_records_are_refused_or_read_as_the_twin_does(
    how: str, data: st.DataObject
) -> None:
    listed = data.draw(st.lists(rows(), min_size=1, max_size=4))
    raw = batch(0, listed)
    damaged = bytearray(raw[HEADER_BYTES:])
    places = st.integers(0, min(len(damaged), 80) - 1)  # where there are numbers
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=3)):
        damaged[place] = value
    cut = data.draw(st.just(len(damaged)) | st.integers(0, len(damaged)))
    count = len(listed) + data.draw(st.sampled_from([0, 0, 1, -1]))
    chunk = broken(bytes(damaged[:cut]), count)
    # Headers that nobody wants are not looked at by numpy.
    wanted = ALL if how == "by numpy" else sorted(data.draw(st.sets(st.sampled_from(ALL))))
    decoder = Decoder(BatchReader(T, 0, committed_only=False), wanted, 0, FAR)
    found = read_or_refused(decoder.decode, chunk)
    assert found == read_or_refused(decoder.decode_in_python, chunk)
    if not isinstance(found, str):
        for each in found:
            each.validate(full=True)


def decoded(data: bytes, columns: list[str] | None = None) -> Any:
    reader = BatchReader(T, 0, committed_only=False)
    view = memoryview(data)
    chunk = reader.chunk(view, reader.take(view, (), FAR))
    (only,) = Decoder(reader, columns or ALL, 0, FAR).decode(chunk)
    return only


def test_a_row_looks_as_in_sparks_source() -> None:
    row = Row(b"k", None, 1_500, (("h", b"x"), ("n", None)))
    (first, second) = decoded(batch(7, [row, Row(None, b"", 1_501)])).to_pylist()
    timestamp = first.pop("timestamp")
    assert (timestamp.timestamp(), timestamp.microsecond) == (1.5, 500_000)
    assert first == {
        "key": b"k",
        "value": None,
        "topic": T.topic,
        "partition": 4,
        "offset": 7,
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"x"}, {"key": "n", "value": None}],
    }
    assert (second["key"], second["value"], second["headers"]) == (None, b"", None)


def test_the_brokers_time_counts_where_the_topic_says_so() -> None:
    (row,) = decoded(batch(0, plain(1), append_ms=5_000)).to_pylist()
    assert (row["timestamp"].timestamp(), row["timestampType"]) == (5.0, 1)


def test_large_batches_are_cut_into_ones_that_spark_likes() -> None:
    reader = BatchReader(T, 0, committed_only=False)
    view = memoryview(batch(0, [Row(None, b"", 0)] * 70_000))
    chunk = reader.chunk(view, reader.take(view, (), FAR))
    parts = Decoder(reader, ["offset"], 0, FAR).decode(chunk)
    assert [part.num_rows for part in parts] == [65_536, 70_000 - 65_536]


def test_records_of_many_megabytes_are_read() -> None:
    value = bytes(3 * 1024 * 1024)
    table = decoded(batch(0, [Row(b"k", value, 0)]), ["value"])
    assert table.to_pylist() == [{"value": value}]


def broken(records: bytes, count: int = 1) -> Chunk:
    sealed = seal_batch(
        behind_room(records),
        attributes=0,
        record_count=count,
        base_timestamp_ms=0,
        max_timestamp_ms=0,
        producer=ProducerStamp(-1, -1, -1),
    )
    return Chunk(sealed, (Span(parse_header(sealed, 0), HEADER_BYTES, len(sealed)),))


@pytest.mark.parametrize(
    "records",
    [
        b"\x0c\x00\x00\x00\x01\x01\x00\x00",  # a byte behind the record
        b"\x0b\x00\x00\x00\x01\x01\x00",  # a negative length
        b"\x7e\x00\x00\x00\x01\x01\x00",  # longer than its batch
        b"\x0c\x00\x00\x00\x03\x01\x00",  # a key of length -2
        b"\x0c\x00\x00\x00\x01\x7e\x00",  # a value longer than its record
        b"\x0c\x00\x00\x00\x01\x01\x01",  # a negative number of headers
        b"\x0e\x00\x00\x00\x01\x01\x00\x00",  # a byte behind the headers
        b"\x22\x00" + b"\xff" * 11 + b"\x01\x00\x01\x01\x00",  # a number of more than ten bytes
        b"\x1e\x00" + b"\x80" * 9 + b"\x02\x00\x01\x01\x00",  # a number of more than 64 bits
        b"\xff\xff\xff\xff\xff\x01",  # a record of gigabytes
        b"\x80",  # cut off within a length
        b"\x14\x00\x00\x00\x01\x01\x02\x02\xff\x01",  # a byte longer than its batch
        b"\x12\x00\x00\x00\x01\x01\x02\x01\x01",  # a header without a name
        b"\x12\x00\x00\x00\x01\x01\x02\x00\x03",  # a header's value of length -2
        b"\x14\x00\x00\x00\x01\x01\x02\x00\x01\x00",  # a byte behind the headers
        b"\x0e\x00\x00\x00\x01\x01\x04\x00",  # more headers than there is room for
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + bytes(9),  # half of all that can be told
    ],
)
def test_bytes_that_are_no_records_are_refused(records: bytes) -> None:
    reader = BatchReader(T, 0, committed_only=False)
    with pytest.raises(CorruptRecordError, match="partition 4, at offset 0"):
        Decoder(reader, ALL, 0, FAR).decode(broken(records))


def test_a_headers_name_that_is_no_text_is_replaced() -> None:
    reader = BatchReader(T, 0, committed_only=False)
    chunk = broken(b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01")
    (only,) = Decoder(reader, ALL, 0, FAR).decode(chunk)
    assert only.column("headers").to_pylist() == [[{"key": "\ufffd", "value": None}]]


@pytest.mark.parametrize("size", [60, 100, 10_000, 300_000, 3_000_000])
def test_lengths_of_any_width_are_walked_over(size: int) -> None:
    (row,) = decoded(batch(0, [Row(None, bytes(size), 0)]), ["value"]).to_pylist()
    assert len(row["value"]) == size


def test_records_of_more_than_128_mib_are_left_to_the_twin_by_numpy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walked = decode._walk(broken(b"\x80\x80\x80\x80\x08" + bytes(10)))  # pyright: ignore[reportPrivateUsage]
    assert walked is None
    monkeypatch.setattr(decode, "_POSITION_MAX", 10)
    assert decoded(batch(0, plain(2)), ["value"]).num_rows == 2


def test_nothing_gives_nothing() -> None:
    reader = BatchReader(T, 0, committed_only=False)
    assert Decoder(reader, ALL, 0, FAR).decode(Chunk(b"", ())) == []


def test_what_a_caller_may_not_ask_of_the_compiled_function() -> None:
    read: Any = decode._read_columns  # pyright: ignore[reportPrivateUsage]
    if read is None:
        pytest.skip("not compiled here")
    for at, end, count in ((-1, 5, 1), (3, 2, 1), (0, 11, 1), (0, 5, -1)):
        with pytest.raises(ValueError, match="positions outside of the data"):
            read(bytes(10), [(at, end, count, 0, 0, None)], 0, FAR, 63)
    for batches in ([None], [(0, 0, 0, 0, 0)], [(0, 0, 0, 0, 0, "now")], ()):
        with pytest.raises(TypeError):
            read(bytes(10), batches, 0, FAR, 63)
    gigabyte = (0, 1 << 30, 0, 0, 0, None)
    with pytest.raises(ValueError, match="positions outside of the data"):
        read(bytes(10), [gigabyte], 0, FAR, 63)
    assert read(b"", [], 0, FAR, 2) == (0, None, (None, bytes(4), b""), None, None, None, None)
