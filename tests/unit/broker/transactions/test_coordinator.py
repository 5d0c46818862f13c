"""The coordinator writes what is decided, has it carried out, and goes on where others ended."""

import pytest

from quorate.broker.shards.effects import Effects, Entry
from quorate.broker.transactions.coordinator import (
    BATCH_PATIENCE_MS,
    ID_BYTES_MAX,
    PATIENCE_MS,
    WRITE_AGAIN_MS,
)
from quorate.broker.transactions.deciding import ProducerKey
from quorate.broker.transactions.markers import RETRY_MIN_MS
from quorate.broker.transactions.records import transaction_key, transaction_value
from quorate.broker.transactions.transaction import V0, TxnState
from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.records.batch import PRODUCER_EPOCH_MAX
from quorate.records.record import record_bytes_max
from quorate.settings import TopicConfig
from tests.unit.broker.transactions.coordinating import ID, NONE, World
from tests.unit.broker.transactions.standing import T0, T1, TIMEOUT_MS, standing

CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR
OVERDUE_MS = 10_000
"""How often overdue transactions are looked for, by default."""


def test_a_transaction_from_its_beginning_to_its_end() -> None:
    world = World()
    producer = world.init().producer
    assert producer == (4000, 0)
    assert world.add(producer, T0, T1).code == NONE
    ended = world.end(producer)
    assert (ended.producer, world.state()) == ((4000, 1), TxnState.PREPARE_COMMIT)
    asked = world.brokers.one()
    assert (asked.broker_id, asked.markers()) == (1, {4000: ["t-0", "t-1"]})
    asked.answer()
    assert world.state() is TxnState.COMPLETE_COMMIT
    assert world.add(ended.producer, T0).code == NONE


def test_what_is_not_committed_is_not_told_and_not_carried_out() -> None:
    world = World()
    producer = world.begun()
    world.log.commits_at_once = False
    ended = world.end(producer)
    assert (ended, world.brokers.asked) == ([], [])
    world.log.settle()
    assert (ended.code, len(world.brokers.asked)) == (NONE, 1)


def test_an_end_that_is_committed_late_is_carried_out_all_the_same() -> None:
    world = World()
    producer = world.begun()
    world.log.commits_at_once = False
    ended = world.end(producer)
    world.log.settle(NOT_AVAILABLE)
    assert (ended.code, world.brokers.asked) == (NOT_AVAILABLE, [])
    world.wait(WRITE_AGAIN_MS)
    world.log.settle()
    assert len(world.brokers.asked) == 1


def test_what_the_partition_refuses_has_not_happened() -> None:
    world = World()
    producer = world.begun()
    world.log.refuses = NOT_AVAILABLE
    assert world.end(producer).code == NOT_AVAILABLE
    assert world.add(producer, T1).code == NOT_AVAILABLE
    assert (world.state(), world.brokers.asked) == (TxnState.ONGOING, [])
    world.log.refuses = None
    assert world.end(producer).code == NONE


@pytest.mark.parametrize("code", [NOT_AVAILABLE, NOT_COORDINATOR])
def test_the_last_step_is_tried_until_it_is_written(code: ErrorCode) -> None:
    world = World()
    world.end(world.begun())
    world.log.refuses = code  # the latter is what is told of a full disk, too
    world.brokers.one().answer()
    world.wait(WRITE_AGAIN_MS - 1)
    world.log.refuses = None
    assert world.state() is TxnState.PREPARE_COMMIT
    world.wait(1)
    assert world.state() is TxnState.COMPLETE_COMMIT


def test_answers_wait_until_what_they_rest_on_is_committed() -> None:
    world = World()
    producer = world.init().producer
    world.log.commits_at_once = False
    first, same, other = world.add(producer), world.add(producer), world.add(ProducerKey(1, 0))
    assert [first, same, other] == [[], [], []]
    world.log.settle()
    assert [first.code, same.code, other.code] == [
        NONE,
        NONE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ]
    world.add(producer, T1)
    lost = world.add(producer, T1)
    world.log.settle(NOT_COORDINATOR)
    assert lost.code == NOT_COORDINATOR


# --- patience -----------------------------------------------------------------


@pytest.mark.parametrize("version", [V0, 2])
def test_the_next_transaction_begins_as_soon_as_the_last_one_is_at_its_end(version: int) -> None:
    world = World()
    producer = world.init().producer
    world.add(producer, version=version)
    producer = world.end(producer, version=version).producer
    added = world.add(producer, T1, version=version)
    # The first request, once more: it must not wait until it would end the next transaction.
    assert world.end(ProducerKey(4000, 0), version=version).code == CONCURRENT
    assert added == []
    world.brokers.one().answer()
    assert added.code == NONE
    assert world.state() is TxnState.ONGOING


def test_who_waits_too_long_for_that_is_sent_away() -> None:
    world = World()
    producer = world.end(world.begun()).producer
    added = world.add(producer)
    world.wait(PATIENCE_MS)
    assert added.code == CONCURRENT
    world.brokers.one().answer()
    assert (len(added), world.state()) == (1, TxnState.COMPLETE_COMMIT)


def test_a_request_about_many_waits_for_an_end_only_as_long_as_that_takes_usually() -> None:
    world = World()
    producer = world.end(world.begun()).producer
    added = world.add(producer, is_batched=True)
    world.wait(BATCH_PATIENCE_MS - 1)
    assert added == []
    world.wait(1)
    assert added.code == CONCURRENT
    # By now it takes longer than usual, so that nobody else is kept waiting for it.
    late = world.add(producer, is_batched=True)
    alone = world.add(producer)
    assert (late.code, alone) == (CONCURRENT, [])
    world.brokers.one().answer()
    assert alone.code == NONE
    assert len(late) == 1


def test_a_new_producer_aborts_what_the_last_one_has_under_way() -> None:
    world = World()
    old = world.begun()
    new = world.init()
    assert (world.state(), new) == (TxnState.PREPARE_ABORT, [])
    asked = world.brokers.one()
    (marker,) = asked.request.markers
    assert (marker.transaction_result, marker.producer_epoch) == (False, 2)
    asked.answer()
    assert new.producer == (4000, 3)
    for commit in (True, False):
        assert world.end(old, commit=commit).code == FENCED
    assert world.add(old).code == FENCED


def test_a_new_producer_that_waits_too_long_asks_again() -> None:
    world = World()
    world.begun()
    new = world.init()
    world.wait(PATIENCE_MS)
    assert new.code == CONCURRENT
    assert world.init() == []
    world.brokers.one().answer()
    assert world.init().producer == (4000, 4)


def test_a_new_producer_hears_of_a_refused_abort() -> None:
    world = World()
    world.begun()
    world.log.refuses = NOT_AVAILABLE
    assert world.init().code == NOT_AVAILABLE
    assert world.state() is TxnState.ONGOING


def test_a_new_producer_does_not_wait_for_a_second_transaction_that_it_aborts() -> None:
    world = World()
    producer = world.end(world.begun()).producer
    added, new = world.add(producer), world.init()
    world.brokers.one().answer()
    assert (added.code, new.code, world.state()) == (NONE, CONCURRENT, TxnState.PREPARE_ABORT)
    world.brokers.one().answer()
    assert world.init().producer == (4000, producer.producer_epoch + 3)


# --- producer ids -------------------------------------------------------------


def test_without_a_producer_id_to_give_producers_are_to_try_again() -> None:
    world = World()
    world.gives_ids = False
    assert world.init().code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_the_epochs_of_a_producer_id_run_out() -> None:
    world = World()
    world.init()
    before = world.coordinator.find(ID)
    assert before is not None
    for version in (V0, 2):
        producer = world.init().producer
        while producer.producer_epoch < 32_766:
            producer = world.init(producer).producer
        world.add(producer, version=version)
        ended = world.end(producer, version=version)
        world.brokers.one().answer()
        follower = ended.producer if version else world.init().producer
        assert follower.producer_id > producer.producer_id
        assert follower.producer_epoch == 0
        assert world.add(follower, version=version).code == NONE
        world.end(follower, version=version)
        world.brokers.one().answer()


def test_a_transaction_in_an_epoch_that_nobody_has_ends_and_leads_to_another_producer_id() -> None:
    world = World()
    # Such a record is in logs of coordinators that accepted the epoch.
    ongoing = standing(TxnState.ONGOING, PRODUCER_EPOCH_MAX, start_ms=world.now_ms)
    world.log.entries.append(Entry(transaction_key(ID), transaction_value(ongoing)))
    world.fail_over()
    world.wait(TIMEOUT_MS + OVERDUE_MS)
    assert world.state() is TxnState.PREPARE_ABORT
    world.brokers.one().answer()
    world.next_id = 5000
    assert world.init().producer == (5000, 0)


# --- what is wrong ------------------------------------------------------------


@pytest.mark.parametrize("transactional_id", ["", "x" * (ID_BYTES_MAX + 1), "é" * (ID_BYTES_MAX)])
def test_ids_that_cannot_be_are_refused(transactional_id: str) -> None:
    world = World()
    producer = ProducerKey(1, 0)
    refused = ErrorCode.INVALID_REQUEST
    assert world.init(transactional_id=transactional_id).code == refused
    assert world.add(producer, transactional_id=transactional_id).code == refused
    assert world.end(producer, transactional_id=transactional_id).code == refused


def test_transactions_may_not_take_too_long() -> None:
    for timeout_ms in (1, 900_000):
        assert World().init(timeout_ms=timeout_ms).code == NONE
    for timeout_ms in (-1, 0, 900_001):
        refused = ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert World().init(timeout_ms=timeout_ms).code == refused


def test_verifying_changes_nothing() -> None:
    world = World()
    producer = world.begun()
    written = len(world.log.entries)
    told: list[object] = []
    world.coordinator.verify(ID, producer, (T0, T1), told.append)
    world.coordinator.verify(ID, ProducerKey(4000, 9), (T0,), told.append)
    world.coordinator.verify("", producer, (T0,), told.append)
    world.log.commits_at_once = False
    world.add(producer, T1)
    world.coordinator.verify(ID, producer, (T1,), told.append)
    world.log.settle(NOT_COORDINATOR)
    assert told == [
        {T0: NONE, T1: ErrorCode.TRANSACTION_ABORTABLE},
        {T0: FENCED},
        {T0: ErrorCode.INVALID_REQUEST},
        {T1: NOT_COORDINATOR},
    ]
    assert len(world.log.entries) == written + 1


# --- the clock ----------------------------------------------------------------


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    world = World()
    producer = world.begun()
    world.wait(TIMEOUT_MS - OVERDUE_MS)
    assert world.state() is TxnState.ONGOING
    world.wait(2 * OVERDUE_MS)
    assert world.state() is TxnState.PREPARE_ABORT
    world.brokers.one().answer()
    assert world.end(producer).code == FENCED
    assert world.init().producer == (4000, 3)


def test_an_abort_that_cannot_be_written_is_decided_again() -> None:
    world = World()
    world.begun()
    world.log.refuses = NOT_AVAILABLE
    world.wait(TIMEOUT_MS + 2 * OVERDUE_MS)
    assert world.state() is TxnState.ONGOING
    world.log.refuses = None
    world.wait(OVERDUE_MS)
    assert world.state() is TxnState.PREPARE_ABORT


@pytest.mark.parametrize("characters", [20, 3_000])
def test_ids_that_nobody_used_for_long_are_forgotten(characters: int) -> None:
    hour_ms = 3_600_000
    world = World(transactional_id_expiration_ms=str(2 * hour_ms))
    ids = [f"{number}".zfill(characters) for number in range(500)]
    for each in ids:
        world.init(transactional_id=each)
    world.init(timeout_ms=900_000)
    world.wait(hour_ms)
    world.init()
    assert len(world.coordinator) == len(ids) + 1
    written: set[str] = set()
    write = world.log.write

    def noting(effects: Effects) -> bool:
        batch_bytes = sum(record_bytes_max(key, value, b"") for key, value in effects.entries)
        assert batch_bytes < TopicConfig().max_message_bytes, "the topic takes no more at once"
        taken = write(effects)
        written.update(world.log.subjects)
        return taken

    world.log.write = noting  # type: ignore[method-assign]
    world.wait(hour_ms)
    assert written == set(ids)
    assert [transactional_id for transactional_id, _ in world.coordinator.items()] == [ID]
    assert world.init(ProducerKey(4000, 0), transactional_id=ids[0]).producer.producer_epoch == 0


# --- failover -----------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_the_next_coordinator_goes_on_with_what_was_decided(commit: bool) -> None:
    world = World()
    world.end(world.begun(T0, T1), commit=commit)
    old = world.brokers.one()
    world.fail_over()
    new = world.brokers.one()
    (marker,) = new.request.markers
    assert (marker.transaction_result, marker.coordinator_epoch) == (commit, 1)
    old.answer()
    assert world.state() is (TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT)
    new.answer()
    assert world.state() is (TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT)


def test_the_next_coordinator_goes_on_with_what_was_under_way() -> None:
    world = World()
    producer = world.begun()
    world.fail_over()
    assert world.add(producer, T1).code == NONE
    assert world.end(producer).code == NONE
    assert world.brokers.one().markers() == {4000: ["t-0", "t-1"]}


def test_who_waits_hears_that_another_coordinates() -> None:
    world = World()
    producer = world.end(world.begun()).producer
    added = world.add(producer)
    coordinator = world.coordinator
    world.fail_over()
    assert added.code == NOT_COORDINATOR
    world.coordinator, old = coordinator, world.coordinator
    assert world.add(producer).code == NOT_COORDINATOR
    world.coordinator = old
    world.wait(PATIENCE_MS)
    assert len(added) == 1


def test_an_end_that_another_may_have_taken_back_is_not_carried_out() -> None:
    world = World()
    producer = world.begun()
    world.log.commits_at_once = False
    world.end(producer)
    world.log.settle(NOT_COORDINATOR)
    world.log.commits_at_once = True
    world.wait(WRITE_AGAIN_MS)
    assert world.brokers.asked == []


def test_an_end_that_is_committed_once_another_coordinates_is_that_ones_to_carry_out() -> None:
    world = World()
    producer = world.begun()
    world.log.commits_at_once = False
    world.end(producer)
    world.coordinator.unload()
    world.log.settle()
    assert world.brokers.asked == []


def test_an_old_coordinator_that_was_to_try_the_last_step_again_does_not() -> None:
    world = World()
    world.end(world.begun())
    world.log.refuses = NOT_AVAILABLE
    world.brokers.one().answer()
    world.log.refuses = None
    world.fail_over()
    world.wait(WRITE_AGAIN_MS)
    assert world.state() is TxnState.PREPARE_COMMIT
    world.brokers.one().answer()
    assert world.state() is TxnState.COMPLETE_COMMIT


def test_an_old_coordinator_writes_no_more() -> None:
    world = World()
    world.end(world.begun())
    old = world.brokers.one()
    world.log.refuses = NOT_AVAILABLE
    world.fail_over()
    old.answer()
    world.log.refuses = None
    world.wait(WRITE_AGAIN_MS)
    assert world.state() is TxnState.PREPARE_COMMIT


def test_no_markers_are_sent_twice_by_one_coordinator() -> None:
    world = World()
    producer = world.begun()
    world.log.commits_at_once = False
    world.end(producer)
    for _ in range(3):
        world.log.settle(NOT_AVAILABLE)
        world.wait(WRITE_AGAIN_MS)
    world.log.settle()
    assert len(world.brokers.asked) == 1


def test_a_topic_that_is_deleted_meanwhile_holds_nothing_up() -> None:
    world = World()
    producer = world.init().producer
    world.add(producer, TopicPartition("gone", 0))
    world.end(producer)
    assert (world.state(), world.brokers.asked) == (TxnState.COMPLETE_COMMIT, [])


def test_markers_that_fail_are_sent_again() -> None:
    world = World()
    world.end(world.begun())
    world.brokers.one().fail()
    world.wait(RETRY_MIN_MS)
    world.brokers.one().answer()
    assert world.state() is TxnState.COMPLETE_COMMIT


def test_records_of_unknown_types_and_of_transactions_are_left_out() -> None:
    world = World()
    world.coordinator.replay(b"\0\7what", b"?")
    world.coordinator.replay_pending(1, b"", None)
    assert list(world.coordinator.end_transaction(1, committed=True)) == []
    assert len(world.coordinator) == 0
