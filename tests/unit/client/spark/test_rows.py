"""Which rows go to which partition, in which batches."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.client.sending.partitioner import STICKY_BYTES, murmur2, partition_for_key
from quorate.client.spark.arrow import pa
from quorate.client.spark.rows import Distributor, RowError, Rows, hashes
from quorate.model import TopicPartition
from quorate.records.batch import parse_header
from quorate.records.compression import Codec
from quorate.records.record import NO_PRODUCER, read_records

NOW_MS = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def distributed(
    columns: Mapping[str, Any],
    *,
    topic: str | None = "t",
    partitions: int = 3,
    bytes_max: int = 9**9,
) -> list[Rows]:
    distributor = Distributor(topic, lambda _: partitions, 0, bytes_max)
    return list(distributor.distribute(pa.record_batch(dict(columns)), NOW_MS))


@given(st.lists(st.binary(max_size=70), min_size=1), st.integers(0, 3))
def test_keys_are_hashed_as_by_kafkas_clients(keys: list[bytes], skipped: int) -> None:
    column = pa.array(keys, pa.binary())
    assert hashes(column).tolist() == [murmur2(key) for key in keys]
    assert hashes(column.slice(skipped)).tolist() == [murmur2(key) for key in keys[skipped:]]


def test_long_keys_are_hashed_alike() -> None:
    keys = [b"x" * 100, b"short"]
    assert hashes(pa.array(keys, pa.binary())).tolist() == [murmur2(key) for key in keys]


def test_records_with_a_key_go_where_kafkas_clients_send_them() -> None:
    keys = [b"a", b"bb", b"ccc", b"dddd", b"eeeee"]
    batches = distributed({"key": pa.array(keys), "value": pa.array(["v"] * 5)})
    for rows in batches:
        for key in rows.keys:
            assert key is not None
            assert partition_for_key(key, 3) == rows.topic_partition.partition
    assert sorted(key or b"" for rows in batches for key in rows.keys) == keys


def test_records_without_a_key_take_turns_some_kilobytes_at_a_time() -> None:
    values = pa.array([bytes(STICKY_BYTES // 2)] * 8)
    batches = distributed({"value": values})
    assert {rows.topic_partition.partition: len(rows) for rows in batches} == {
        0: 3,
        1: 2,
        2: 3,
    } or (sum(map(len, batches)) == 8 and len(batches) == 3)


def test_a_partition_column_counts_and_null_leaves_the_choice() -> None:
    partitions = pa.array([2, None, 0], pa.int32())
    values = pa.array([b"x", b"y", b"z"])
    batches = distributed({"partition": partitions, "value": values, "key": pa.array([b"k"] * 3)})
    where = {value: rows.topic_partition.partition for rows in batches for value in rows.values}
    assert where == {b"x": 2, b"y": partition_for_key(b"k", 3), b"z": 0}


def test_a_partition_that_is_not_there_is_refused() -> None:
    with pytest.raises(RowError, match="which has 0 to 2"):
        distributed({"partition": pa.array([3], pa.int32()), "value": pa.array([b"x"])})


def test_a_topic_column_counts_unless_all_go_to_one() -> None:
    columns = {"topic": pa.array(["a", "b", "a"]), "value": pa.array([b"1", b"2", b"3"])}
    batches = distributed(columns, topic=None, partitions=1)
    assert [(rows.topic_partition, list(rows.values)) for rows in batches] == [
        (TopicPartition("a", 0), [b"1", b"3"]),
        (TopicPartition("b", 0), [b"2"]),
    ]
    assert {rows.topic_partition.topic for rows in distributed(columns)} == {"t"}
    with pytest.raises(RowError, match="null topic present in the data"):
        distributed({"topic": pa.array(["a", None]), "value": pa.array([b"1", b"2"])}, topic=None)


def test_records_have_the_columns_values_in_their_order() -> None:
    columns = {
        "key": pa.array(["k", None]),
        "value": pa.array([None, b"v"]),
        "headers": pa.array([[{"key": "h", "value": None}], None], HEADERS),
        "timestamp": pa.array([5_999, None], pa.timestamp("us", tz="UTC")),
        "partition": pa.array([0, 0], pa.int32()),
    }
    (rows,) = distributed(columns)
    encoded = rows.encode(Codec.LZ4, NO_PRODUCER)
    records = read_records(encoded, parse_header(encoded, 0), rows.topic_partition, bytes_max=999)
    first, second = records
    assert (first.key, first.value, first.headers) == (b"k", None, (("h", None),))
    assert (first.timestamp_ms, second.timestamp_ms) == (5, NOW_MS)
    assert (second.key, second.value, second.headers) == (None, b"v", ())


def test_times_may_be_seconds() -> None:
    times = pa.array([1.25, None], pa.float64())
    (rows,) = distributed({"value": pa.array([b"x", b"y"]), "timestamp": times}, partitions=1)
    assert list(rows.timestamps_ms) == [1_250, NOW_MS]


def test_batches_are_cut_at_their_size_and_one_record_always_fits() -> None:
    values = pa.array([bytes(100)] * 5 + [bytes(1_000)])
    batches = distributed({"value": values}, partitions=1, bytes_max=300)
    assert [len(rows) for rows in batches] == [2, 2, 1, 1]


def test_no_rows_make_no_batches() -> None:
    assert distributed({"value": pa.array([], pa.binary())}) == []


@pytest.mark.parametrize(
    ("name", "column", "said"),
    [
        ("partition", pa.array([None, -1], pa.int32()), "the partition -1: "),
        ("timestamp", pa.array([None, -1.5], pa.float64()), "-1500000: it has to be 0"),
        ("timestamp", pa.array([None, -1], pa.timestamp("us", tz="UTC")), "-1: it has to be 0"),
        ("timestamp", pa.array([1, float("nan")], pa.float64()), "no number of seconds"),
        ("timestamp", pa.array([1, float("inf")], pa.float64()), "no number of seconds"),
        ("headers", pa.array([None, [{"key": None, "value": b""}]], HEADERS), "has no key"),
        ("headers", pa.array([None, [None]], HEADERS), "has no key"),
    ],
)
def test_what_no_record_can_have_is_refused(name: str, column: Any, said: str) -> None:
    with pytest.raises(RowError, match=said):
        distributed({"value": pa.array([b"x", b"y"]), name: column})
