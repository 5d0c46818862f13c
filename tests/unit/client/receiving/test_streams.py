from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.client.receiving.positions import EARLIEST_TIMESTAMP, OffsetReset
from quorate.client.receiving.streams import PartitionStream
from quorate.errors import CorruptRecordError, OffsetOutOfRangeError
from quorate.model import TopicPartition
from quorate.protocol.messages.data import AbortedTransaction, PartitionData
from quorate.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    assign_offset,
    behind_room,
    seal_batch,
    sum_up,
)
from quorate.records.control import ABORT_KEY
from quorate.records.record import NO_PRODUCER, ProducerStamp, Record, RecordBatchBuilder

TP = TopicPartition("appLogs", 0)


def batch_at(
    offset: int,
    count: int,
    *,
    producer_id: int = -1,
    attributes: int = 0,
    key: bytes | None = None,
) -> bytes:
    builder = RecordBatchBuilder()
    for number in range(count):
        builder.append(1, key, b"%d" % (offset + number), b"", 30)
    stamp = NO_PRODUCER if producer_id < 0 else ProducerStamp(producer_id, 0, 0)
    placed = seal_batch(
        builder.encode(),
        attributes=attributes,
        record_count=count,
        base_timestamp_ms=1,
        max_timestamp_ms=1,
        producer=stamp,
    )
    assign_offset(placed, 0, offset, 0)
    return bytes(placed)


def stream_at(offset: int | None, *, committed_only: bool = False) -> PartitionStream:
    stream = PartitionStream(TP, EARLIEST_TIMESTAMP, committed_only=committed_only, check_crcs=True)
    if offset is not None:
        stream.seek(offset)
    return stream


def add(stream: PartitionStream, records: bytes, aborted: tuple[tuple[int, int], ...] = ()) -> None:
    assert stream.fetch_offset is not None
    data = PartitionData(
        high_watermark=1_000,
        log_start_offset=3,
        records=memoryview(records),
        aborted_transactions=[
            AbortedTransaction(producer_id=producer_id, first_offset=first)
            for producer_id, first in aborted
        ],
    )
    stream.add(data, stream.fetch_offset, stream.position.generation)


def offsets(records: list[Record]) -> list[int]:
    return [record.offset for record in records]


def test_records_come_out_in_order_and_the_position_follows() -> None:
    stream = stream_at(0)
    add(stream, batch_at(0, 3) + batch_at(3, 2))
    assert stream.fetch_offset == 5
    assert stream.has_records
    assert offsets(stream.take(2)) == [0, 1]
    assert stream.position.offset == 2
    assert offsets(stream.take(100)) == [2, 3, 4]
    assert stream.position.offset == 5
    assert stream.take(100) == []
    assert not stream.has_records
    assert (stream.high_watermark, stream.log_start_offset) == (1_000, 3)
    assert stream.buffered_bytes == 0


def test_records_of_a_batch_before_the_position_are_left_out() -> None:
    stream = stream_at(12)
    add(stream, batch_at(10, 5))
    assert offsets(stream.take(100)) == [12, 13, 14]


def test_a_batch_that_is_cut_off_is_fetched_again() -> None:
    stream = stream_at(0)
    add(stream, batch_at(0, 3) + batch_at(3, 2)[:70])
    assert stream.fetch_offset == 3
    add(stream, batch_at(3, 2)[:])
    assert offsets(stream.take(100)) == [0, 1, 2, 3, 4]


def test_a_header_that_is_cut_off_is_fetched_again() -> None:
    stream = stream_at(0)
    add(stream, batch_at(0, 3) + batch_at(3, 2)[:20])
    assert stream.fetch_offset == 3


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    start=st.integers(0, 20),
    seed=st.integers(),
)
def test_however_answers_are_cut_no_record_is_skipped_or_repeated(
    sizes: list[int], start: int, seed: int
) -> None:
    rng = Random(seed)
    log = [batch_at(sum(sizes[:i]), size) for i, size in enumerate(sizes)]
    end = sum(sizes)
    start = min(start, end)
    stream = stream_at(start)
    taken: list[int] = []
    for _ in range(200):
        if rng.random() < 0.5:
            taken += offsets(stream.take(rng.randrange(1, 7)))
        assert stream.fetch_offset is not None
        if stream.fetch_offset < end:
            at, first = 0, 0
            while at + sizes[first] <= stream.fetch_offset:
                at += sizes[first]
                first += 1
            data = b"".join(log[first:])
            add(stream, data[: max(len(log[first]), rng.randrange(len(data) + 1))])
    taken += offsets(stream.take(1_000))
    assert taken == list(range(start, end))


def test_gaps_that_compaction_left_are_skipped() -> None:
    stream = stream_at(0)
    add(stream, batch_at(0, 2) + batch_at(10, 2))
    assert offsets(stream.take(100)) == [0, 1, 10, 11]
    assert stream.position.offset == 12


def test_an_empty_batch_moves_the_position_past_it() -> None:
    stream = stream_at(0)
    empty = seal_batch(
        behind_room(b""),
        attributes=0,
        record_count=1,
        base_timestamp_ms=0,
        max_timestamp_ms=0,
        producer=NO_PRODUCER,
    )
    # Compaction removed the records and kept the offsets: count 0, last delta 0.
    empty[57:61] = bytes(4)
    stream = PartitionStream(TP, None, committed_only=False, check_crcs=False)
    stream.seek(0)
    add(stream, bytes(empty) + batch_at(1, 1))
    assert offsets(stream.take(100)) == [1]


def test_seeking_drops_what_is_buffered_and_what_is_on_its_way() -> None:
    stream = stream_at(0)
    add(stream, batch_at(0, 3))
    stream.take(1)
    generation = stream.position.generation
    stream.seek(50)
    stream.add(PartitionData(records=memoryview(batch_at(3, 3))), 3, generation)
    assert stream.take(10) == []
    assert stream.fetch_offset == stream.position.offset == 50


def test_an_answer_for_another_offset_is_void() -> None:
    stream = stream_at(0)
    stream.add(PartitionData(records=memoryview(batch_at(3, 3))), 3, stream.position.generation)
    assert stream.fetch_offset == 0


def test_an_answer_without_records_only_tells_where_the_ends_are() -> None:
    stream = stream_at(0)
    stream.add(PartitionData(high_watermark=7, records=None), 0, stream.position.generation)
    assert stream.high_watermark == 7
    assert not stream.has_records


def test_where_to_begin_is_asked_for_until_it_is_found() -> None:
    stream = stream_at(None)
    assert stream.position.asked_timestamp == EARLIEST_TIMESTAMP
    generation = stream.position.generation
    stream.found(40, generation)
    assert stream.fetch_offset == 40
    stream.look_for(-1)
    stream.found(99, generation)
    assert stream.fetch_offset is None


def test_paused_partitions_keep_their_records() -> None:
    stream = stream_at(0)
    add(stream, batch_at(0, 1))
    stream.paused = True
    assert not stream.has_records
    stream.paused = False
    assert stream.has_records


def test_a_wrong_checksum_stops_the_partition_behind_the_good_records() -> None:
    stream = stream_at(0)
    damaged = bytearray(batch_at(2, 2))
    damaged[-1] ^= 1
    add(stream, batch_at(0, 2) + bytes(damaged))
    assert offsets(stream.take(100)) == [0, 1]
    with pytest.raises(CorruptRecordError, match="appLogs-0 at 2: checksum is wrong"):
        stream.take(100)
    stream.seek(4)
    assert stream.take(100) == []


def test_bytes_that_are_no_batches_stop_the_partition() -> None:
    stream = stream_at(0)
    add(stream, bytes(100))
    with pytest.raises(CorruptRecordError, match="appLogs-0 at 0"):
        stream.take(1)


def test_an_answer_too_short_for_one_batch_stops_the_partition() -> None:
    stream = stream_at(0)
    add(stream, batch_at(0, 1)[:40])
    with pytest.raises(CorruptRecordError, match="40 bytes without a record"):
        stream.take(1)
    add_again = stream_at(5)
    add(add_again, batch_at(0, 2))
    with pytest.raises(CorruptRecordError, match="without a record that was asked for"):
        add_again.take(1)


def test_errors_are_raised_until_somebody_seeks() -> None:
    stream = stream_at(0)
    stream.fail(OffsetOutOfRangeError("gone"))
    assert stream.has_records
    for _ in range(2):
        with pytest.raises(OffsetOutOfRangeError):
            stream.take(1)
    stream.seek(1)
    assert not stream.has_records


def test_control_batches_are_never_given_out() -> None:
    stream = stream_at(0)
    marker = batch_at(2, 1, producer_id=9, attributes=CONTROL_BIT | TRANSACTIONAL_BIT)
    add(stream, batch_at(0, 2) + marker + batch_at(3, 1))
    assert offsets(stream.take(100)) == [0, 1, 3]


def transactions() -> bytes:
    """0-1 by 9 (aborted), 2 by 8 (committed), 3: 9 aborts, 4 by 9 (committed), 5: without."""
    data = TRANSACTIONAL_BIT
    control = CONTROL_BIT | TRANSACTIONAL_BIT
    return (
        batch_at(0, 2, producer_id=9, attributes=data)
        + batch_at(2, 1, producer_id=8, attributes=data)
        + batch_at(3, 1, producer_id=9, attributes=control, key=ABORT_KEY)
        + batch_at(4, 1, producer_id=9, attributes=data)
        + batch_at(5, 1)
    )


def test_aborted_records_are_left_out_by_those_who_read_committed() -> None:
    stream = stream_at(0, committed_only=True)
    add(stream, transactions(), aborted=((9, 0),))
    assert offsets(stream.take(100)) == [2, 4, 5]


def test_an_aborted_transaction_goes_on_in_the_next_response_which_names_it_again() -> None:
    stream = stream_at(0, committed_only=True)
    begin = batch_at(0, 2, producer_id=9, attributes=TRANSACTIONAL_BIT)
    add(stream, begin, aborted=((9, 0),))
    add(stream, batch_at(2, 1, producer_id=9, attributes=TRANSACTIONAL_BIT), aborted=((9, 0),))
    assert offsets(stream.take(100)) == []
    assert stream.position.offset == 3


def test_an_abort_whose_marker_was_compacted_away_hides_nothing_that_came_later() -> None:
    stream = stream_at(0, committed_only=True)
    begin = batch_at(0, 2, producer_id=9, attributes=TRANSACTIONAL_BIT)
    add(stream, begin, aborted=((9, 0),))
    add(stream, batch_at(4, 1, producer_id=9, attributes=TRANSACTIONAL_BIT))
    assert offsets(stream.take(100)) == [4]


@pytest.mark.parametrize("delta", [0, 63])
def test_offsets_that_make_no_sense_within_a_batch_stop_nobody(delta: int) -> None:
    data = bytearray(batch_at(5, 4))
    size_bytes = (len(data) - HEADER_BYTES) // 4
    data[HEADER_BYTES + 2 * size_bytes + 3] = 2 * delta  # of the third record, instead of 2
    sum_up(memoryview(data), 0, len(data))
    stream = stream_at(5)
    add(stream, bytes(data))
    assert [offsets(stream.take(1)) for _ in range(4)] == [[5], [6], [5 + delta], [8]]
    assert stream.position.offset == 9


def test_aborted_records_are_given_out_to_others() -> None:
    stream = stream_at(0)
    add(stream, transactions())
    assert offsets(stream.take(100)) == [0, 1, 2, 4, 5]


def test_without_a_policy_there_is_no_time_to_ask_for() -> None:
    assert OffsetReset.EARLIEST.timestamp == -2
    assert OffsetReset.LATEST.timestamp == -1
    with pytest.raises(AssertionError):
        OffsetReset.NONE.timestamp  # noqa: B018
