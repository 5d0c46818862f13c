import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec, module_from_spec
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import CorruptRecordError
from quorate.model import TopicPartition
from quorate.records import record
from quorate.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    behind_room,
    crc_matches,
    parse_header,
    read_sound_header,
    seal_batch,
)
from quorate.records.compiled import load_compiled
from quorate.records.compression import Codec, compress
from quorate.records.record import (
    NO_PRODUCER,
    Columns,
    ColumnsInPython,
    Header,
    ProducerStamp,
    Record,
    RecordBatchBuilder,
    encode_headers,
    read_records,
    record_bytes_max,
    zigzag,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

TP = TopicPartition("appLogs", 3)


@pytest.fixture(scope="module", params=["compiled", "in Python"], autouse=True)
def twin(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test holds for the compiled functions and for their twins."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "in Python":
            patch.setattr(record, "_speed", None)
        elif record._speed is None:  # pyright: ignore[reportPrivateUsage]
            pytest.skip("not compiled here")
        yield


Row: TypeAlias = tuple[int, bytes | None, bytes | None, tuple[Header, ...]]

payloads = st.none() | st.binary(max_size=40) | st.just(b"v" * 9_000)
rows = st.tuples(
    st.integers(0, 2**40) | st.integers(1_700_000_000_000, 1_700_000_000_100),
    st.none() | st.binary(max_size=20),
    payloads,
    st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=9)), max_size=3).map(
        tuple
    ),
)


def build(records: list[Row], codec: Codec = Codec.NONE) -> bytearray:
    builder = RecordBatchBuilder()
    for time_ms, key, value, headers in records:
        encoded = encode_headers(headers)
        size_bytes = record_bytes_max(key, value, encoded)
        builder.append(time_ms, key, value, encoded, size_bytes)
    batch = builder.build(codec, NO_PRODUCER)
    if codec == Codec.NONE:
        assert len(batch) <= builder.size_bytes
    return batch


def read(batch: bytes | bytearray) -> list[Record]:
    return read_records(batch, parse_header(batch, 0), TP, bytes_max=1 << 26)


def as_rows(records: list[Record]) -> list[Row]:
    return [(r.timestamp_ms, r.key, r.value, r.headers) for r in records]


def plain(count: int, size: int = 100) -> list[Row]:
    return [(1_700_000_000_000 + i // 50, None, b"%0*d" % (size, i), ()) for i in range(count)]


@given(records=st.lists(rows, min_size=1, max_size=80), codec=st.sampled_from(Codec))
def test_records_come_back_as_they_were_written(records: list[Row], codec: Codec) -> None:
    found = read(build(records, codec))
    assert as_rows(found) == records
    assert [r.offset for r in found] == list(range(len(records)))
    assert {r.topic_partition for r in found} == {TP}


@given(records=st.lists(rows, min_size=1, max_size=80))
def test_batches_are_those_that_kafka_python_writes(records: list[Row]) -> None:
    theirs: Any = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    for offset, (time_ms, key, value, headers) in enumerate(records):
        theirs.append(offset, timestamp=time_ms, key=key, value=value, headers=list(headers))
    expected = bytearray(theirs.build())
    ours = bytearray(build(records))
    # Clients leave the leader epoch to the broker, and write 0 or -1.
    expected[12:16] = ours[12:16]
    assert ours == expected


@given(records=st.lists(rows, min_size=1, max_size=80))
def test_kafka_python_reads_our_batches(records: list[Row]) -> None:
    batch: Any = DefaultRecordBatch(build(records))
    assert batch.validate_crc()
    assert [(r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch] == records


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8_191, 8_192, 8_193, 17_000])
def test_many_plain_records_are_laid_out_like_one_by_one(count: int) -> None:
    records = plain(count, size=20)
    assert as_rows(read(build(records))) == records


def test_plain_records_of_all_sizes_are_laid_out_like_one_by_one() -> None:
    records: list[Row] = [(5, None, b"x" * size, ()) for size in (0, 1, 62, 63, 64, 127, 8_191)]
    assert as_rows(read(build(records))) == records


def test_one_record_with_a_key_does_not_disturb_its_plain_neighbours() -> None:
    records = [*plain(100), (7, b"key", b"value", (("h", None),)), *plain(100)]
    assert as_rows(read(build(records))) == records


def test_long_keys_and_headers_are_read() -> None:
    records: list[Row] = [(1, b"k" * 9_000, b"v", (("h", b"x" * 20_000),))]
    assert as_rows(read(build(records))) == records


def test_null_and_empty_keys_and_values_are_different() -> None:
    records: list[Row] = [(1, None, None, ()), (1, b"", b"", ()), (1, None, b"", ())]
    assert as_rows(read(build(records))) == records


def test_the_header_says_what_is_in_the_batch() -> None:
    records: list[Row] = [(1_000, None, b"a", ()), (4_000, None, b"b", ()), (900, None, b"c", ())]
    builder = RecordBatchBuilder()
    for time_ms, key, value, _ in records:
        builder.append(time_ms, key, value, b"", 30)
    batch = builder.build(Codec.LZ4, ProducerStamp(77, 5, 12))
    header = parse_header(batch, 0)
    assert crc_matches(memoryview(batch), 0, header)
    assert header == BatchHeader(
        base_offset=0,
        batch_length=len(batch) - 12,
        leader_epoch=-1,
        magic=2,
        crc=header.crc,
        attributes=Codec.LZ4,
        last_offset_delta=2,
        base_timestamp_ms=1_000,
        max_timestamp_ms=4_000,
        producer_id=77,
        producer_epoch=5,
        base_sequence=12,
        record_count=3,
    )


def test_timestamps_of_records_can_be_asked_for_before_they_are_sent() -> None:
    builder = RecordBatchBuilder()
    for time_ms in (5, 5, 7, 7, 6):
        builder.append(time_ms, None, b"", b"", 21)
    assert [builder.timestamp_ms(index) for index in range(5)] == [5, 5, 7, 7, 6]


class Handle(tuple[Any, int]):
    __slots__ = ()


KINDS: list[Any] = [ColumnsInPython]
if Columns is not ColumnsInPython:
    KINDS.append(Columns)


@pytest.mark.parametrize("kind", KINDS)
def test_plain_records_of_the_same_millisecond_are_added_with_a_handle(kind: Any) -> None:
    columns = kind(61)
    columns.append_limit_bytes = 200
    columns.last_timestamp_ms = 7
    first = columns.append_plain(b"one", 7_000_001, Handle)
    second = columns.append_plain(b"", 7_999_999, Handle)
    assert type(first) is Handle
    assert hash(first) == hash((columns, 0))
    assert (first[0], first[1], second[1]) == (columns, 0, 1)
    assert (columns.values, columns.count) == ([b"one", b""], 2)
    assert columns.size_bytes == 61 + 21 + 3 + 21
    assert (columns.runs, columns.keys, columns.headers) == ([], {}, {})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("value", "time_ns"),
    [
        (b"x", 6_999_999),
        (b"x", 8_000_000),
        (bytes(60), 7_000_000),
        (None, 7_000_000),
        ("", 7_000_000),
    ],
)
def test_records_that_need_more_thought_are_left_to_the_caller(
    kind: Any, value: Any, time_ns: int
) -> None:
    columns = kind(61)
    columns.append_limit_bytes = 61 + 21 + 59
    columns.last_timestamp_ms = 7
    assert columns.append_plain(value, time_ns, Handle) is None
    assert (columns.count, columns.size_bytes, columns.values) == (0, 61, [])


def test_where_nothing_was_compiled_the_twins_do_the_work() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "quorate.records._speed", None)
        spec = find_spec("quorate.records.record")
        assert spec is not None
        assert spec.loader is not None
        fresh: Any = module_from_spec(spec)
        spec.loader.exec_module(fresh)
    assert fresh.Columns is fresh.ColumnsInPython


@pytest.mark.parametrize(("setting", "is_compiled"), [("1", False), ("0", True), ("", True)])
def test_the_environment_can_turn_compiled_code_off(
    setting: str, is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUORATE_PURE_PYTHON", setting)
    available = find_spec("quorate.records._speed") is not None
    assert (load_compiled("_speed") is not None) == (is_compiled and available)


@pytest.mark.skipif(len(KINDS) == 1, reason="not compiled here")
def test_compiled_columns_refuse_what_would_harm_them() -> None:
    columns = KINDS[1](61)
    for arguments in [(b"x",), (b"x", 7, 8), (b"x", 7, dict), (b"x", 2**70, Handle)]:
        with pytest.raises((TypeError, OverflowError)):
            columns.append_plain(*arguments)
    builder = RecordBatchBuilder()
    builder.append(1, None, "text", b"", 9)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        builder.encode()


def test_a_broker_that_stamps_batches_gives_all_records_its_time() -> None:
    batch = bytearray(build(plain(3)))
    batch[22] |= TIMESTAMP_TYPE_BIT
    batch[35:43] = (99).to_bytes(8, "big")
    assert {r.timestamp_ms for r in read(bytes(batch))} == {99}


def test_offsets_count_from_the_base_offset_of_the_batch() -> None:
    batch = (1_000).to_bytes(8, "big") + build(plain(3))[8:]
    assert [r.offset for r in read(batch)] == [1_000, 1_001, 1_002]


def test_control_batches_are_read_like_others() -> None:
    marker = RecordBatchBuilder()
    marker.append(1, b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00", b"", 40)
    batch = seal_batch(
        marker.encode(),
        attributes=CONTROL_BIT,
        record_count=1,
        base_timestamp_ms=1,
        max_timestamp_ms=1,
        producer=NO_PRODUCER,
    )
    assert parse_header(batch, 0).is_control
    assert read(batch)[0].key == b"\x00\x00\x00\x01"


def test_a_record_knows_its_topic_and_partition() -> None:
    (found,) = read(build(plain(1)))
    assert (found.topic, found.partition) == ("appLogs", 3)


def test_a_record_is_a_tuple_to_sets_and_dicts() -> None:
    batch = build([(7, b"k", b"v", ())])
    (found,) = read(batch)
    assert hash(found) == hash(tuple(found))
    assert hash(read_sound_header(memoryview(batch), 0)) == hash(tuple(parse_header(batch, 0)))


@given(st.integers(-(2**63), 2**63 - 1))
def test_zigzag_numbers_are_small_for_small_magnitudes(value: int) -> None:
    encoded = zigzag(value)
    assert len(encoded) == max(1, -(-((value << 1) ^ (value >> 63)).bit_length() // 7))


# What others get wrong


def sealed(records: bytes, count: int) -> bytearray:
    return seal_batch(
        behind_room(records),
        attributes=0,
        record_count=count,
        base_timestamp_ms=0,
        max_timestamp_ms=0,
        producer=NO_PRODUCER,
    )


VALUE = b"\x00\x00\x00\x01\x02a\x00"  # attributes, deltas, no key, "a", no headers


def test_the_smallest_record_is_read() -> None:
    assert [r.value for r in read(sealed(b"\x0e" + VALUE, 1))] == [b"a"]


@pytest.mark.parametrize(
    ("records", "count", "why"),
    [
        (b"\x0e" + VALUE, 2, "2 records in"),
        (b"\x0e" + VALUE, -1, "-1 records"),
        (b"\x0e" + VALUE + b"\x00" * 8, 1, "bytes after the last"),
        (b"\x0d" + VALUE, 1, "length does not fit"),
        (b"\x7e" + VALUE, 1, "length does not fit"),
        (b"\x0c" + VALUE, 1, "not that of its parts|cut off"),
        (b"\x0e\x00\x00\x00\x03\x02a\x00", 1, "negative length"),
        (b"\x0e\x00\x00\x00\x01\x03a\x00", 1, "negative length"),
        (b"\x0e\x00\x00\x00\x01\x0ea\x00", 1, "cut off"),
        (b"\x0e\x00\x00\x00\x01\x02a\x05", 1, "more headers"),
        (b"\x0e\x00\x00\x00\x01\x02a\x40", 1, "more headers"),
        (b"\x14\x00\x00\x00\x01\x02a\x02\x01\x01\x00", 1, "header does not fit"),
        (b"\x14\x00\x00\x00\x01\x02a\x02\x10\xff\x01", 1, "cut off|does not fit"),
        (b"\xff" * 20, 1, "ten bytes"),
        (b"\x7e\x00" + b"\xff" * 62, 1, "ten bytes"),
        (b"\x7e\x00" + b"\xff" * 9 + b"\x02" * 53, 1, "64 bits"),
        (b"\x00" * 9, 1, "not that of its parts|cut off"),
    ],
)
def test_bytes_that_are_not_records_are_refused(records: bytes, count: int, why: str) -> None:
    with pytest.raises(CorruptRecordError, match=why):
        read(sealed(records, count))


def test_a_headers_name_that_is_no_text_is_replaced_as_java_does() -> None:
    (only,) = read(sealed(b"\x16\x00\x00\x00\x01\x02a\x02\x04b\xff\x01", 1))
    assert (only.value, only.headers) == (b"a", (("b\ufffd", None),))


@given(data=st.data())
def test_damaged_records_are_refused_or_read_and_nothing_else_happens(data: st.DataObject) -> None:
    batch = bytearray(build([*plain(5), (1, b"key", None, (("name", b"value"),))]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    try:
        found = read(bytes(batch))
    except CorruptRecordError:
        return
    assert len(found) == 6


def assert_both_twins_read_the_same(batch: bytes) -> None:
    results: list[list[Record] | None] = []
    for speed in (record._speed, None):  # pyright: ignore[reportPrivateUsage]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(record, "_speed", speed)
            try:
                results.append(read(batch))
            except CorruptRecordError:
                results.append(None)
    assert results[0] == results[1]


@given(data=st.data())
def test_both_twins_refuse_and_read_the_same(data: st.DataObject) -> None:
    batch = bytearray(build([*plain(70, size=3), (1, b"key", None, (("name", b"value"),))]))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    assert_both_twins_read_the_same(bytes(batch))


numbers = st.integers(-70, 9_000) | st.integers(-(2**63), 2**63 - 1)
lengths = st.integers(-2, 20) | numbers


@st.composite
def almost_records(draw: st.DrawFn) -> bytes:
    """Bytes with the outline of a record, and any number where a number stands."""
    parts = [b"\x00", zigzag(draw(numbers)), zigzag(draw(numbers))]
    for _ in range(2):
        payload = draw(st.binary(max_size=20))
        length = draw(st.just(len(payload)) | lengths)
        parts += (zigzag(length), payload)
    count = draw(st.integers(0, 3))
    parts.append(zigzag(draw(st.just(count) | lengths)))
    parts += (b"\x02" + draw(st.binary(min_size=1, max_size=1)) + b"\x01" for _ in range(count))
    body = b"".join(parts)
    return zigzag(draw(st.just(len(body)) | lengths)) + body


@given(
    records=st.lists(almost_records(), min_size=1, max_size=5),
    base_offset=st.just(0) | st.integers(0, 2**63 - 1),
    base_timestamp_ms=numbers,
    attributes=st.sampled_from([0, 0, TIMESTAMP_TYPE_BIT]),
)
def test_both_twins_take_any_number_the_same_way(
    records: list[bytes], base_offset: int, base_timestamp_ms: int, attributes: int
) -> None:
    batch = seal_batch(
        behind_room(b"".join(records)),
        attributes=attributes,
        record_count=len(records),
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=7,
        producer=NO_PRODUCER,
    )
    assert_both_twins_read_the_same(base_offset.to_bytes(8, "big") + batch[8:])


def test_offsets_and_times_that_overflow_begin_again_below_as_in_java() -> None:
    body = b"\x00" + zigzag(2**62) + b"\x02\x01\x01\x00"
    batch = seal_batch(
        behind_room(zigzag(len(body)) + body),
        attributes=0,
        record_count=1,
        base_timestamp_ms=2**62 + 5,
        max_timestamp_ms=0,
        producer=NO_PRODUCER,
    )
    (found,) = read((2**63 - 1).to_bytes(8, "big") + batch[8:])
    assert (found.offset, found.timestamp_ms) == (-(2**63), -(2**63) + 5)


def test_times_farther_apart_than_64_bits_tell_are_written_as_by_java() -> None:
    builder = RecordBatchBuilder()
    stamps = [-(2**62), 2**62, 2**63 - 1]
    for time_ms in stamps:
        builder.append(time_ms, None, b"v", b"", 0)
    assert builder.encode_in_python().count(zigzag(-(2**63))) == 1
    assert builder.encode() == builder.encode_in_python()
    built = bytes(builder.build(Codec.NONE, NO_PRODUCER))
    assert [found.timestamp_ms for found in read(built)] == stamps


@given(records=st.lists(rows, min_size=1, max_size=80))
def test_both_twins_write_the_same(records: list[Row]) -> None:
    builder = RecordBatchBuilder()
    for time_ms, key, value, headers in records:
        builder.append(time_ms, key, value, encode_headers(headers), 0)
    assert builder.encode() == builder.encode_in_python()


def test_records_that_decompress_to_too_much_are_refused() -> None:
    batch = build(plain(1_000), Codec.ZSTD)
    with pytest.raises(CorruptRecordError, match="decompress to over"):
        read_records(batch, parse_header(batch, 0), TP, bytes_max=1_000)


def test_a_count_that_compressed_bytes_cannot_hold_is_refused() -> None:
    packed = compress(Codec.GZIP, b"\x0e" + VALUE)
    batch = sealed(packed, 1_000_000)
    batch[22] = Codec.GZIP
    with pytest.raises(CorruptRecordError, match="1000000 records in 8 bytes"):
        read(batch)


def test_a_batch_of_a_transaction_says_so() -> None:
    builder = RecordBatchBuilder()
    builder.append(1, None, b"x", b"", 30)
    plain, ours = (
        parse_header(builder.build(Codec.NONE, ProducerStamp(7, 1, 0), transactional=each), 0)
        for each in (False, True)
    )
    assert not plain.is_transactional
    assert ours.is_transactional
    assert ours.attributes & 0x07 == Codec.NONE
