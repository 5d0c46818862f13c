"""Batches behind one that was refused for the moment: what clients are told of them."""

import pytest

from quorate.broker.log.producers import ProducerStates
from quorate.broker.replication.refusals import REFUSAL_MS, REFUSALS_MAX, Refusals
from quorate.errors import (
    ErrorCode,
    KafkaError,
    NotEnoughReplicasError,
    OutOfOrderSequenceError,
    StorageError,
)
from quorate.quorum.metadata import records as r
from quorate.records.batch import SEQUENCE_MAX, parse_header
from quorate.records.record import ProducerStamp
from tests.unit.broker.harness import NOW_MS, Node, new_node
from tests.unit.broker.log.batches import make_batch

ACKS_ALL = -1
FULL = ErrorCode.KAFKA_STORAGE_ERROR


def batch(sequence: int, *, epoch: int = 0, producer: int = 7) -> memoryview:
    return make_batch([b"a", b"b"], producer=ProducerStamp(producer, epoch, sequence))


def wrote(*sequences: int) -> ProducerStates:
    states = ProducerStates(0)
    for place, sequence in enumerate(sequences):
        states.note(parse_header(batch(sequence), 0), 2 * place)
    return states


def refused(sequence: int) -> Refusals:
    refusals = Refusals()
    refusals.note(batch(sequence), FULL, NOW_MS)
    return refusals


@pytest.mark.parametrize("known", [wrote(), wrote(0, 2)])
def test_what_is_behind_a_refused_batch_is_answered_as_that_was(known: ProducerStates) -> None:
    refusals = refused(4)
    with pytest.raises(KafkaError, match="sequence 4 was refused") as caught:
        refusals.check(batch(6), known, NOW_MS)
    assert caught.value.code == FULL
    refusals.note(batch(6), FULL, NOW_MS)
    refusals.check(batch(2), known, NOW_MS)  # written before: its producer has not heard of it
    refusals.check(batch(4), known, NOW_MS)
    assert not refusals.waiting_for
    refusals.check(batch(6), known, NOW_MS)


def test_after_the_last_sequence_comes_the_first_one() -> None:
    refusals, known = refused(SEQUENCE_MAX), wrote(SEQUENCE_MAX - 2)
    with pytest.raises(KafkaError, match=f"sequence {SEQUENCE_MAX} was refused"):
        refusals.check(batch(1), known, NOW_MS)
    refusals.check(batch(SEQUENCE_MAX - 2), known, NOW_MS)
    refusals.check(batch(SEQUENCE_MAX), known, NOW_MS)
    assert not refusals.waiting_for


def test_other_producers_and_other_epochs_are_none_of_its_business() -> None:
    refusals = refused(4)
    refusals.check(batch(6, producer=8), wrote(0, 2), NOW_MS)
    refusals.check(batch(6, epoch=1), wrote(0, 2), NOW_MS)
    refusals.check(make_batch([b"x"]), wrote(0, 2), NOW_MS)
    assert len(refusals.waiting_for) == 1


def test_a_refusal_is_forgotten_if_its_batch_was_written_meanwhile_or_does_not_come_again() -> None:
    refusals = refused(0)
    refusals.check(batch(4), wrote(0, 2), NOW_MS)
    assert not refusals.waiting_for
    refusals = refused(0)
    refusals.check(batch(4), wrote(), NOW_MS + REFUSAL_MS)
    assert not refusals.waiting_for


def test_no_more_than_so_many_are_remembered_and_nothing_that_is_no_such_batch() -> None:
    refusals = Refusals()
    refusals.note(make_batch([b"x"]), FULL, NOW_MS)
    refusals.note(memoryview(b"short"), FULL, NOW_MS)
    assert not refusals.waiting_for
    for producer in range(REFUSALS_MAX + 1):
        refusals.note(batch(0, producer=producer), FULL, NOW_MS)
    assert len(refusals.waiting_for) == REFUSALS_MAX
    assert (0, 0) not in refusals.waiting_for
    refusals.check(memoryview(b"short"), wrote(), NOW_MS)


def append(node: Node, sequence: int) -> int:
    result = node.leader().append(batch(sequence), acks=ACKS_ALL, now_ms=NOW_MS)
    return result.base_offset


def test_with_a_full_disk_no_producer_is_told_of_a_gap() -> None:
    node = new_node()
    node.create_topic("appLogs")
    assert append(node, 0) == 0
    node.disk.capacity_bytes = node.disk.used_bytes()
    with pytest.raises(StorageError):
        append(node, 2)
    with pytest.raises(KafkaError, match="comes first") as caught:
        append(node, 4)
    assert caught.value.code == FULL
    node.disk.capacity_bytes = None
    with pytest.raises(KafkaError, match="comes first"):
        append(node, 6)  # it was under way before there was room again
    assert [append(node, sequence) for sequence in (2, 4, 6)] == [2, 4, 6]
    with pytest.raises(OutOfOrderSequenceError):
        append(node, 12)


def test_a_producers_first_batches_stay_in_order_when_too_few_are_in_sync_for_a_moment() -> None:
    node = new_node()
    topic_id = node.create_topic("appLogs", replicas=(1, 2), min_insync_replicas="2")
    with pytest.raises(NotEnoughReplicasError):
        append(node, 0)
    node.apply(r.PartitionChanged("test", 0, topic_id, 0, 1, 0, (1, 2)))
    with pytest.raises(KafkaError, match="comes first") as caught:
        append(node, 2)
    assert caught.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert [append(node, sequence) for sequence in (0, 2)] == [0, 2]
