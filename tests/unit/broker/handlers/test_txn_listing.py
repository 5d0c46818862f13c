"""Which transactions there are, and how they stand."""

from typing import Any

import pytest

from quorate.broker.groups import consumer_regex
from quorate.broker.handlers.txn_listing import describe_transactions, list_transactions
from quorate.broker.shards.topics import TRANSACTIONS_TOPIC
from quorate.errors import ErrorCode
from quorate.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from tests.unit.broker.handlers.transacting import (
    ID,
    PID,
    TIMEOUT_MS,
    add,
    end,
    init,
    new_transactions,
)
from tests.unit.broker.harness import NOW_MS, Node, now, over

IDS = ("payments", "orders-1", "orders-2")


def described(node: Node, *transactional_ids: str) -> Any:
    request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
    return now(describe_transactions(node.broker, request, over(0))).transaction_states


def listed(node: Node, **filters: Any) -> list[str]:
    answer = now(list_transactions(node.broker, ListTransactionsRequest(**filters), over(2)))
    assert answer.error_code == 0
    return sorted(state.transactional_id for state in answer.transaction_states)


def some() -> Node:
    """Return a broker with three ids, of which two are in a transaction, one for a second more."""
    node = new_transactions()
    for number, transactional_id in enumerate(IDS):
        init(node, transactional_id=transactional_id)
        if number < 2:
            node.wait(1_000 * number)
            add(
                node,
                0,
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=PID + number,
            )
    return node


def test_a_transaction_is_described() -> None:
    node = new_transactions()
    init(node)
    add(node, 2, 0)
    (state,) = described(node, ID)
    assert (state.error_code, state.transactional_id, state.transaction_state) == (0, ID, "Ongoing")
    assert (state.producer_id, state.producer_epoch) == (PID, 0)
    assert (state.transaction_timeout_ms, state.transaction_start_time_ms) == (TIMEOUT_MS, NOW_MS)
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [("t", [0, 2])]
    end(node)
    (state,) = described(node, ID)
    assert (state.transaction_state, state.topics) == ("CompleteCommit", [])


def test_what_cannot_be_described_says_why() -> None:
    node = new_transactions()
    codes = [ErrorCode(state.error_code) for state in described(node, "", "nobody")]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND]
    for partition in range(2):
        node.lead(TRANSACTIONS_TOPIC, partition, 1, leader_id=2)
    (state,) = described(node, "elsewhere")
    assert state.error_code == ErrorCode.NOT_COORDINATOR


def test_all_transactions_are_listed_or_those_that_are_asked_for() -> None:
    node = some()
    assert listed(node) == sorted(IDS)
    assert listed(node, state_filters=["Ongoing"]) == ["orders-1", "payments"]
    assert listed(node, state_filters=["Empty", "Ongoing"]) == sorted(IDS)
    assert listed(node, producer_id_filters=[PID + 2, 9]) == ["orders-2"]
    assert listed(node, duration_filter=500, state_filters=["Ongoing"]) == ["payments"]
    assert listed(node, transactional_id_pattern="orders-.*") == ["orders-1", "orders-2"]
    assert listed(node, transactional_id_pattern="") == sorted(IDS)


def test_a_pattern_matches_ids_that_no_topic_may_have() -> None:
    node = new_transactions()
    init(node, transactional_id="Sink: a/1")
    assert listed(node, transactional_id_pattern="Sink: .*") == ["Sink: a/1"]


def test_unknown_states_let_nothing_pass_and_are_told() -> None:
    node = some()
    request = ListTransactionsRequest(state_filters=["Asleep"])
    answer = now(list_transactions(node.broker, request, over(2)))
    assert (answer.unknown_state_filters, answer.transaction_states) == (["Asleep"], [])


def test_a_pattern_that_is_none_is_refused() -> None:
    request = ListTransactionsRequest(transactional_id_pattern="(")
    answer = now(list_transactions(some().broker, request, over(2)))
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_pattern_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    node = some()
    monkeypatch.setattr(consumer_regex, "STEPS_MAX", 0)
    request = ListTransactionsRequest(transactional_id_pattern="orders-.*")
    answer = now(list_transactions(node.broker, request, over(2)))
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.transaction_states == []


def test_while_something_is_loading_nothing_is_listed() -> None:
    node = some()
    node.broker.aside = lambda _run, _then: None
    node.lead(TRANSACTIONS_TOPIC, 0, 1)
    node.lead(TRANSACTIONS_TOPIC, 1, 1)
    answer = now(list_transactions(node.broker, ListTransactionsRequest(), over(2)))
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_transactional_id_is_described_once_however_often_it_is_named() -> None:
    states = described(some(), "payments", "none", "payments")
    assert [state.transactional_id for state in states] == ["payments", "none"]
