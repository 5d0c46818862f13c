"""What producers and brokers ask of a transaction's coordinator, in all versions of the words."""

from typing import Any

import pytest

from quorate.broker.handlers.transactions import add_offsets_to_txn
from quorate.broker.shards.topics import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from quorate.broker.transactions.coordinator import BATCH_PATIENCE_MS
from quorate.control.messages import DONE, CreateTopicsAnswer, TopicCreation
from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.protocol.messages.transactions import AddOffsetsToTxnRequest
from tests.unit.broker.handlers.transacting import (
    ID,
    PID,
    add,
    add_offsets,
    ask,
    end,
    find,
    init,
    new_transactions,
    topics,
    transaction,
)
from tests.unit.broker.harness import Node, new_node, now, over, waits

NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
OLD_FENCED = ErrorCode.INVALID_PRODUCER_EPOCH


def added(answer: Any) -> list[ErrorCode]:
    return [
        ErrorCode(p.partition_error_code)
        for topic in now(answer).results_by_topic_v3_and_below
        for p in topic.results_by_partition
    ]


def told(answer: Any) -> dict[str, list[ErrorCode]]:
    return {
        result.transactional_id: [
            ErrorCode(p.partition_error_code)
            for topic in result.topic_results
            for p in topic.results_by_partition
        ]
        for result in now(answer).results_by_transaction
    }


def code(answer: Any) -> ErrorCode:
    return ErrorCode(now(answer).error_code)


def producer(answer: Any) -> tuple[int, int]:
    assert code(answer) == NONE
    return now(answer).producer_id, now(answer).producer_epoch


def markers(node: Node, partition: int, topic: str = "t") -> int:
    """Return how many markers a partition has: nothing else is written here."""
    return node.leader(topic, partition).log.log_end_offset


def test_a_transaction_through_all_its_requests() -> None:
    node = new_transactions()
    assert [c.error_code for c in now(find(node, ID, "other")).coordinators] == [0, 0]
    assert producer(init(node)) == (PID, 0)
    assert added(add(node, 0, 2)) == [NONE, NONE]
    assert code(end(node)) == NONE
    assert [markers(node, n) for n in range(3)] == [1, 0, 1]
    assert code(end(node)) == NONE
    assert [markers(node, n) for n in range(3)] == [1, 0, 1]


@pytest.mark.parametrize(("version", "ends"), [(4, (-1, -1)), (5, (PID, 1))])
def test_from_version_5_on_the_end_brings_the_next_epoch(
    version: int, ends: tuple[int, int]
) -> None:
    node = new_transactions()
    init(node)
    assert told(ask(node, transaction(0))) == {ID: [NONE]}
    answer = now(end(node, version=version))
    assert answer.error_code == 0
    if version == 5:
        assert (answer.producer_id, answer.producer_epoch) == ends
        assert producer(end(node, version=version)) == ends
        assert code(end(node, version=version, commit=False)) == ErrorCode.INVALID_TXN_STATE


def test_brokers_ask_about_many_transactions_at_once() -> None:
    node = new_transactions()
    init(node)
    init(node, transactional_id="other")
    assert added(add(node, 0)) == [NONE]
    verifying = [
        transaction(0, 1, verify_only=True),
        transaction(0, transactional_id="other", producer_id=PID + 1, verify_only=True),
        transaction(0, transactional_id="nobody", verify_only=True),
        transaction(0, transactional_id="", verify_only=True),
        transaction(0, transactional_id="third", producer_id=PID + 9),
    ]
    assert told(ask(node, *verifying)) == {
        ID: [NONE, ErrorCode.TRANSACTION_ABORTABLE],
        "other": [ErrorCode.TRANSACTION_ABORTABLE],
        "nobody": [ErrorCode.INVALID_PRODUCER_ID_MAPPING],
        "": [ErrorCode.INVALID_REQUEST],
        "third": [ErrorCode.INVALID_PRODUCER_ID_MAPPING],
    }
    assert told(ask(node)) == {}


def test_one_transaction_whose_end_hangs_holds_up_no_others_for_long() -> None:
    node = new_transactions()
    node.create_topic("away", replicas=(2,), leader_id=2)
    init(node)
    init(node, transactional_id="other")
    added(add(node, 0, v3_and_below_topics=topics(0, topic="away")))
    assert code(end(node)) == NONE
    both = transaction(0), transaction(0, transactional_id="other", producer_id=PID + 1)
    first = ask(node, *both)
    assert waits(first)
    node.wait(BATCH_PATIENCE_MS)
    expected = {ID: [ErrorCode.CONCURRENT_TRANSACTIONS], "other": [NONE]}
    assert told(first) == told(ask(node, *both)) == expected


def test_a_broker_asks_itself_the_same_way() -> None:
    node = new_transactions()
    init(node)
    t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    for add_it, expected in ((True, NONE), (False, NONE)):
        verified = node.broker.verify_transaction(ID, PID, 0, (t0,), add=add_it)
        assert verified.value == {t0: expected}
    verified = node.broker.verify_transaction(ID, PID, 0, (t0, t1), add=False)
    assert verified.value == {t0: NONE, t1: ErrorCode.TRANSACTION_ABORTABLE}
    node.lead(TRANSACTIONS_TOPIC, 0, 1, leader_id=-1)
    node.lead(TRANSACTIONS_TOPIC, 1, 1, leader_id=-1)
    lost = node.broker.verify_transaction(ID, PID, 0, (t0,), add=False)
    assert lost.value == {t0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    node.lead(TRANSACTIONS_TOPIC, 0, 2, leader_id=2)
    node.lead(TRANSACTIONS_TOPIC, 1, 2, leader_id=2)
    lost = node.broker.verify_transaction(ID, PID, 0, (t0,), add=False)
    assert lost.value == {t0: ErrorCode.NETWORK_EXCEPTION}


@pytest.mark.parametrize("version", [1, 3])
def test_if_one_partition_does_not_exist_none_is_added(version: int) -> None:
    node = new_transactions()
    init(node)
    unknown, skipped = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert added(add(node, 0, 3, -1, version=version)) == [skipped, unknown, unknown]
    assert told(ask(node, transaction(0, 9))) == {ID: [skipped, unknown]}
    assert code(end(node)) == ErrorCode.INVALID_TXN_STATE


def test_old_clients_hear_old_words_for_being_fenced() -> None:
    node = new_transactions()
    init(node)
    init(node)
    for version, expected in ((1, OLD_FENCED), (2, FENCED)):
        assert added(add(node, 0, version=version)) == [expected]
        assert code(add_offsets(node, version=version)) == expected
        assert code(end(node, version=version)) == expected
    for version, expected in ((3, OLD_FENCED), (4, FENCED)):
        refused = init(node, version=version, producer_id=PID, producer_epoch=0)
        assert code(refused) == OLD_FENCED or expected == FENCED
        assert code(refused) == expected


def test_half_a_producer_is_refused() -> None:
    node = new_transactions()
    for name in (ID, None):
        for half in ({"producer_id": PID}, {"producer_epoch": 1}):
            refused = init(node, transactional_id=name, **half)
            assert code(refused) == ErrorCode.INVALID_REQUEST
            assert (now(refused).producer_id, now(refused).producer_epoch) == (-1, -1)


def test_nobody_else_may_decide_how_transactions_end() -> None:
    node = new_transactions()
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert code(init(node, version=6, enable2_pc=True)) == refused
    assert code(init(node, version=6, keep_prepared_txn=True)) == refused


def test_who_does_not_coordinate_says_so() -> None:
    node = new_transactions()
    init(node)
    for partition in range(2):
        node.lead(TRANSACTIONS_TOPIC, partition, 1, leader_id=2)
    elsewhere = ErrorCode.NOT_COORDINATOR
    assert code(init(node)) == code(end(node)) == code(add_offsets(node)) == elsewhere
    assert added(add(node, 0)) == [elsewhere]
    assert told(ask(node, transaction(0, verify_only=True))) == {ID: [elsewhere]}


def test_the_partition_of_a_groups_offsets_takes_part() -> None:
    node = new_transactions()
    init(node)
    assert code(add_offsets(node)) == NONE
    assert code(end(node, commit=False)) == NONE
    assert markers(node, 0, GROUPS_TOPIC) == 1


def test_the_topic_of_groups_is_made_for_that() -> None:
    node = new_node()
    node.join()
    node.create_topic(TRANSACTIONS_TOPIC, 1)
    node.broker.producer_ids.add_block(PID, 1)
    init(node)
    request = AddOffsetsToTxnRequest(transactional_id=ID, producer_id=PID, group_id="g")
    failed = add_offsets_to_txn(node.broker, request, over(3))
    node.controller.fail(ErrorCode.REQUEST_TIMED_OUT, "nobody there")
    assert code(failed) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    made = add_offsets_to_txn(node.broker, request, over(3))
    node.create_topic(GROUPS_TOPIC, 1)
    node.controller.answer(CreateTopicsAnswer((TopicCreation(GROUPS_TOPIC, DONE),)))
    assert code(made) == NONE


def test_a_restarted_coordinator_knows_everything() -> None:
    node = new_transactions()
    init(node)
    add(node, 0)
    for partition in range(2):
        node.lead(TRANSACTIONS_TOPIC, partition, 1)
    assert code(end(node)) == NONE
    assert markers(node, 0) == 1
