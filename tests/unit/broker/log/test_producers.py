"""Sequences of idempotent producers: Kafka's rules, snapshots, expiry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.log.aborted import NO_MARK
from quorate.broker.log.documents import CorruptDocumentError, encode_document
from quorate.broker.log.producers import KIND, VERSION, Origin, ProducerStates, decode_producers
from quorate.errors import (
    InvalidProducerEpochError,
    OutOfOrderSequenceError,
)
from quorate.records.batch import CONTROL_BIT, SEQUENCE_MAX, TRANSACTIONAL_BIT, BatchHeader
from quorate.records.control import EndMarker
from quorate.records.record import ProducerStamp
from quorate.settings import TopicConfig
from tests.unit.broker.log.batches import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    append,
    make_batch,
    new_disk,
    new_log,
    open_data,
)


def batch_of(
    sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0, timestamp_ms: int = 0
) -> BatchHeader:
    return BatchHeader(
        0,
        100,
        0,
        2,
        0,
        0,
        count - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        epoch,
        sequence,
        count,
    )


def control_of(epoch: int, timestamp_ms: int) -> BatchHeader:
    header = batch_of(-1, epoch=epoch, timestamp_ms=timestamp_ms)
    return header._replace(attributes=TRANSACTIONAL_BIT | CONTROL_BIT)


def write(states: ProducerStates, header: BatchHeader) -> None:
    """Check and note a batch, as a leader does."""
    assert states.check(header) is None
    states.note(header, states.end_offset)


def test_sequences_without_a_gap_are_accepted() -> None:
    states = ProducerStates(0)
    for sequence, count in ((0, 3), (3, 1), (4, 10)):
        write(states, batch_of(sequence, count))
    assert states.end_offset == 14
    assert len(states) == 1


def test_an_unknown_producer_may_begin_anywhere() -> None:
    states = ProducerStates(100)
    write(states, batch_of(55))
    write(states, batch_of(56))


def test_a_gap_and_a_step_back_are_out_of_order() -> None:
    states = ProducerStates(0)
    write(states, batch_of(0, 3))
    for sequence in (1, 2, 4, 1000):
        with pytest.raises(OutOfOrderSequenceError):
            states.check(batch_of(sequence))


def test_after_the_largest_sequence_comes_zero() -> None:
    states = ProducerStates(0)
    write(states, batch_of(SEQUENCE_MAX - 1, 2))
    write(states, batch_of(0))

    across = ProducerStates(0)
    write(across, batch_of(SEQUENCE_MAX, 3))
    found = across.check(batch_of(SEQUENCE_MAX, 3))
    assert found is not None
    assert found.last_sequence == 1
    write(across, batch_of(2))


def test_each_of_the_last_five_batches_is_known_again_and_no_older_one() -> None:
    states = ProducerStates(0)
    for number in range(6):
        write(states, batch_of(number * 2, 2))

    for number in range(1, 6):
        written = states.check(batch_of(number * 2, 2))
        assert written is not None
        assert (written.base_offset, written.last_offset) == (number * 2, number * 2 + 1)
    with pytest.raises(OutOfOrderSequenceError):
        states.check(batch_of(0, 2))
    with pytest.raises(OutOfOrderSequenceError):
        states.check(batch_of(10, 1))  # the same beginning, but not the same batch


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one() -> None:
    states = ProducerStates(0)
    write(states, batch_of(0, 5))

    with pytest.raises(OutOfOrderSequenceError):
        states.check(batch_of(5, epoch=1))
    write(states, batch_of(0, epoch=1))
    with pytest.raises(InvalidProducerEpochError):
        states.check(batch_of(5, epoch=0))
    with pytest.raises(InvalidProducerEpochError):
        states.check(batch_of(0, 5, epoch=0))  # no duplicate any more
    write(states, batch_of(1, epoch=1))


def test_producers_that_count_nothing_leave_no_trace() -> None:
    states = ProducerStates(0)
    write(states, batch_of(-1, producer_id=-1))
    assert len(states) == 0
    assert states.end_offset == 1


def test_a_marker_may_begin_an_epoch_and_has_no_sequence() -> None:
    states = ProducerStates(0)
    write(states, batch_of(0, 3))
    marker = EndMarker(committed=True, coordinator_epoch=0)
    states.note(control_of(epoch=0, timestamp_ms=5), 3, marker)
    write(states, batch_of(3))

    states.note(control_of(epoch=2, timestamp_ms=9), 5, marker)
    with pytest.raises(InvalidProducerEpochError):
        states.check(batch_of(4, epoch=1))
    with pytest.raises(OutOfOrderSequenceError):
        states.check(batch_of(4, epoch=2))
    write(states, batch_of(0, epoch=2))


def test_idle_producers_expire() -> None:
    states = ProducerStates(0)
    write(states, batch_of(0, producer_id=1, timestamp_ms=1000))
    write(states, batch_of(0, producer_id=2, timestamp_ms=1500))

    assert states.expire(1999, 1000) == 0
    assert states.expire(2000, 1000) == 1
    assert states.get(1) is None
    assert states.get(2) is not None
    write(states, batch_of(17, producer_id=1))


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.booleans()), max_size=30),
)
def test_a_snapshot_is_as_good_as_the_states(steps: list[tuple[int, int, bool]]) -> None:
    states = ProducerStates(0)
    for producer_id, count, bump in steps:
        known = states.get(producer_id)
        epoch = known.epoch if known else 0
        sequence = known.next_sequence if known else 0
        header = batch_of(sequence, count, producer_id=producer_id, epoch=epoch, timestamp_ms=count)
        if bump and known:
            header = header._replace(base_sequence=0, producer_epoch=epoch + 1)
        write(states, header)

    origin = Origin(bytes(range(16)), 5)
    restored, restored_origin = decode_producers(states.encode(origin, NO_MARK))

    assert restored_origin == origin
    assert restored.end_offset == states.end_offset
    assert restored.encode(origin, NO_MARK) == states.encode(origin, NO_MARK)
    for producer_id in (1, 2, 3):
        before, after = states.get(producer_id), restored.get(producer_id)
        assert (before is None) == (after is None)
        if before and after:
            assert (before.epoch, before.next_sequence) == (after.epoch, after.next_sequence)
            assert before.batches == after.batches


@pytest.mark.parametrize("body", [{}, [], {"end_offset": 1, "leader_epoch": 0, "producers": [[1]]}])
def test_what_is_no_snapshot_is_refused(body: object) -> None:
    with pytest.raises(CorruptDocumentError):
        decode_producers(encode_document(KIND, VERSION, body))


def test_a_producer_all_of_whose_records_are_too_old_is_known_after_a_restart() -> None:
    disk = new_disk()
    store = open_data(disk)
    log = store.create(PARTITION, TOPIC_ID, TopicConfig(retention_ms=10), now_ms=NOW_MS)
    batch = make_batch([b"v"], producer=ProducerStamp(7, 3, 0))
    log.append(batch, leader_epoch=5, now_ms=NOW_MS)
    checkpoint = store.start_checkpoint([log])
    checkpoint.run()
    store.finish_flush(checkpoint)
    assert log.apply_retention(high_watermark=1, now_ms=NOW_MS + 100) == 1
    store.close(clean=True, now_ms=NOW_MS)

    log = open_data(disk).logs[PARTITION]

    assert log.log_start_offset == log.log_end_offset == 1
    with pytest.raises(InvalidProducerEpochError):
        log.append(
            make_batch([b"w"], producer=ProducerStamp(7, 2, 0)), leader_epoch=5, now_ms=NOW_MS
        )


def test_a_repeated_batch_is_answered_with_its_offset_even_after_a_restart() -> None:
    disk = new_disk()
    log = new_log(disk)
    append(log, b"before")
    batch = make_batch([b"a", b"b"], producer=ProducerStamp(9, 0, 0))
    again = memoryview(bytearray(batch))
    first = log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    assert (first.base_offset, first.duplicate) == (1, False)

    for restart in (False, True):
        if restart:
            disk.restart()
            found = open_data(disk).get(PARTITION)
            assert found is not None
            log = found
        repeated = log.append(memoryview(bytearray(again)), leader_epoch=0, now_ms=NOW_MS)
        assert repeated == first._replace(duplicate=True)
        assert log.log_end_offset == 3
    follows = log.append(
        make_batch([b"c"], producer=ProducerStamp(9, 0, 2)), leader_epoch=0, now_ms=NOW_MS
    )
    assert follows.base_offset == 3
