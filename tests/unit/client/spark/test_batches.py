"""What of fetched bytes is given out."""

import re

import pytest

from quorate.client.spark.batches import BatchReader, plain_records
from quorate.errors import CorruptRecordError
from quorate.model import TopicPartition
from quorate.records.batch import HEADER_BYTES, behind_room, parse_header, seal_batch
from quorate.records.compression import Codec
from quorate.records.record import ProducerStamp
from tests.unit.client.spark.fetched import TRANSACTIONAL, batch, marker, plain

T = TopicPartition("t", 4)
FAR = 1 << 40


def reader(start: int = 0, *, committed_only: bool = False) -> BatchReader:
    return BatchReader(T, start, committed_only=committed_only)


def taken(
    batches: BatchReader, data: bytes, aborted: tuple[tuple[int, int], ...] = (), end: int = FAR
) -> list[int]:
    """Return the base offsets of what is given out."""
    return [header.base_offset for _, header in batches.take(memoryview(data), aborted, end)]


def test_whole_batches_are_given_out_and_a_cut_one_is_not() -> None:
    first, second = batch(0, plain(3)), batch(3, plain(2))
    batches = reader()
    assert taken(batches, first + second[:-1]) == [0]
    assert batches.next_offset == 3
    assert taken(batches, second + b"x" * 20) == [3]
    assert taken(batches, b"") == []


def test_what_is_behind_the_end_or_before_the_start_is_not() -> None:
    data = batch(0, plain(3)) + batch(3, plain(2)) + batch(5, plain(2))
    batches = reader(start=3)
    assert taken(batches, data, end=5) == [3]
    assert batches.next_offset == 5


def test_aborted_transactions_are_seen_by_those_who_do_not_mind() -> None:
    data = b"".join(
        (
            batch(0, plain(1), attributes=TRANSACTIONAL, producer_id=7),
            batch(1, plain(1)),
            marker(2, 7, commit=False),
            batch(3, plain(1), attributes=TRANSACTIONAL, producer_id=7),
            marker(4, 7, commit=True),
        )
    )
    assert taken(reader(), data, ((0, 7),)) == [0, 1, 3]
    batches = reader(committed_only=True)
    assert taken(batches, data, ((0, 7), (90, 8))) == [1, 3]
    assert batches.next_offset == 5


def test_an_abort_is_told_anew_by_each_response() -> None:
    batches = reader(committed_only=True)
    first = batch(0, plain(1), attributes=TRANSACTIONAL, producer_id=7)
    second = batch(1, plain(1), attributes=TRANSACTIONAL, producer_id=7)
    assert taken(batches, first, ((0, 7),)) == []
    assert taken(batches, second + marker(2, 7, commit=False), ((0, 7),)) == []
    assert taken(batches, batch(3, plain(1), attributes=TRANSACTIONAL, producer_id=7)) == [3]
    assert taken(batches, marker(4, 7, commit=False)) == []


def test_an_abort_whose_marker_was_compacted_away_hides_nothing_that_came_later() -> None:
    batches = reader(committed_only=True)
    first = batch(0, plain(1), attributes=TRANSACTIONAL, producer_id=7)
    assert taken(batches, first, ((0, 7),)) == []
    assert taken(batches, batch(3, plain(1), attributes=TRANSACTIONAL, producer_id=7)) == [3]


def test_a_commit_marker_ends_no_abort() -> None:
    batches = reader(committed_only=True)
    data = marker(0, 7, commit=True) + batch(1, plain(1), attributes=TRANSACTIONAL, producer_id=7)
    assert taken(batches, data, ((0, 7),)) == []


def test_a_damaged_batch_says_where_it_is() -> None:
    data = bytearray(batch(0, plain(3)) + batch(3, plain(3)))
    data[-1] ^= 1
    text = "corrupt batch in topic t, partition 4, at offset 3: the checksum of the batch does not"
    with pytest.raises(CorruptRecordError, match=re.escape(text)):
        taken(reader(), bytes(data))


def test_bytes_that_lead_nowhere_are_refused() -> None:
    with pytest.raises(CorruptRecordError, match="at offset 9: 20 bytes without a record"):
        taken(reader(start=9), b"x" * 20)
    with pytest.raises(CorruptRecordError, match="without a record asked for"):
        taken(reader(start=9), batch(0, plain(3)))


def test_chunks_have_records_without_compression() -> None:
    data = batch(0, plain(3)) + batch(3, plain(2), codec=Codec.ZSTD)
    batches = reader()
    view = memoryview(data)
    wanted = batches.take(view, (), FAR)
    both = batches.chunk(view, wanted)
    assert both.record_count == 5
    values = [
        record.value
        for span in both.spans
        for record in plain_records(bytes(both.data[span.at : span.end]), span.header, T)
    ]
    assert values == [b"v0", b"v1", b"v2", b"v0", b"v1"]
    alone = batches.chunk(view, wanted[:1])
    assert alone.data is view
    assert alone.spans[0].at == HEADER_BYTES


def test_what_does_not_decompress_says_where_it_is() -> None:
    sealed = seal_batch(
        behind_room(b"nonsense"),
        attributes=Codec.GZIP,
        record_count=1,
        base_timestamp_ms=0,
        max_timestamp_ms=0,
        producer=ProducerStamp(-1, -1, -1),
    )
    with pytest.raises(CorruptRecordError, match="partition 4, at offset 0: records are not gzip"):
        reader().chunk(memoryview(sealed), [(0, parse_header(sealed, 0))])


def test_more_records_than_bytes_could_hold_are_refused() -> None:
    sealed = seal_batch(
        behind_room(bytes(13)),
        attributes=0,
        record_count=2,
        base_timestamp_ms=0,
        max_timestamp_ms=0,
        producer=ProducerStamp(-1, -1, -1),
    )
    with pytest.raises(CorruptRecordError, match="2 records in 13 bytes"):
        reader().chunk(memoryview(sealed), [(0, parse_header(sealed, 0))])
