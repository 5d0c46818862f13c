"""A send counts as failed only if no attempt of it can have reached a log."""

import pytest

from quorate.errors import ErrorCode
from quorate.jepsen.clients.outcomes import (
    ALL_IN_SYNC,
    NOBODY,
    of_answer,
    of_attempts,
    of_commit,
    of_last_attempt,
)
from quorate.jepsen.history import Kind

LEADER = 1


@pytest.mark.parametrize(
    ("code", "acks", "kind"),
    [
        (ErrorCode.NONE, ALL_IN_SYNC, Kind.OK),
        (ErrorCode.NONE, LEADER, Kind.OK),
        (ErrorCode.NONE, NOBODY, Kind.INFO),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, ALL_IN_SYNC, Kind.OK),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ALL_IN_SYNC, Kind.FAIL),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ALL_IN_SYNC, Kind.INFO),
        (ErrorCode.MESSAGE_TOO_LARGE, ALL_IN_SYNC, Kind.FAIL),
        (ErrorCode.INVALID_RECORD, ALL_IN_SYNC, Kind.FAIL),
        (ErrorCode.PRODUCER_FENCED, ALL_IN_SYNC, Kind.FAIL),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ALL_IN_SYNC, Kind.FAIL),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ALL_IN_SYNC, Kind.FAIL),
        (ErrorCode.REQUEST_TIMED_OUT, ALL_IN_SYNC, Kind.INFO),
        (ErrorCode.KAFKA_STORAGE_ERROR, ALL_IN_SYNC, Kind.INFO),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ALL_IN_SYNC, Kind.INFO),
        (ErrorCode.NETWORK_EXCEPTION, LEADER, Kind.INFO),
    ],
)
def test_a_broker_says_of_an_attempt(code: ErrorCode, acks: int, kind: Kind) -> None:
    assert of_answer(code, acks) is kind


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
def test_a_leader_that_was_deposed_while_it_waited_may_have_appended(code: ErrorCode) -> None:
    assert of_answer(code, ALL_IN_SYNC) is Kind.INFO
    assert of_answer(code, LEADER) is Kind.FAIL  # who does not wait has not appended either


def test_a_code_that_nobody_thought_of_is_unknown() -> None:
    known = {code for code in ErrorCode if of_answer(code, ALL_IN_SYNC) is not Kind.INFO}
    assert len(known) < len(ErrorCode) / 4


def test_a_send_without_attempts_failed() -> None:
    assert of_attempts([]) is Kind.FAIL


@pytest.mark.parametrize(
    ("attempts", "kind"),
    [
        ([Kind.FAIL], Kind.FAIL),
        ([Kind.FAIL, Kind.FAIL], Kind.FAIL),
        ([Kind.FAIL, Kind.INFO, Kind.FAIL], Kind.INFO),
        ([Kind.INFO, Kind.OK], Kind.OK),
        ([Kind.FAIL, Kind.OK], Kind.OK),
    ],
)
def test_one_attempt_that_may_be_there_is_enough_not_to_know(
    attempts: list[Kind], kind: Kind
) -> None:
    assert of_attempts(attempts) is kind


def test_clients_that_try_again_by_themselves_tell_of_the_last_attempt_only() -> None:
    refused = ErrorCode.MESSAGE_TOO_LARGE
    assert of_last_attempt(refused, 1, ALL_IN_SYNC, answered=True) is Kind.FAIL
    assert of_last_attempt(refused, 2, ALL_IN_SYNC, answered=True) is Kind.INFO


def test_a_client_that_lost_patience_knows_only_if_it_never_tried() -> None:
    timed_out = ErrorCode.REQUEST_TIMED_OUT
    assert of_last_attempt(timed_out, 0, ALL_IN_SYNC, answered=False) is Kind.FAIL
    assert of_last_attempt(timed_out, 1, ALL_IN_SYNC, answered=False) is Kind.INFO


def test_an_error_of_the_clients_own_is_no_brokers_word() -> None:
    fenced = ErrorCode.PRODUCER_FENCED
    assert of_last_attempt(fenced, 1, ALL_IN_SYNC, answered=False) is Kind.INFO


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.NONE, Kind.OK),
        (ErrorCode.UNKNOWN_MEMBER_ID, Kind.FAIL),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Kind.FAIL),
        (ErrorCode.NOT_COORDINATOR, Kind.INFO),  # it has appended, and was deposed while it waited
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Kind.INFO),  # it has appended, and lacks replicas
        (ErrorCode.REQUEST_TIMED_OUT, Kind.INFO),
    ],
)
def test_a_coordinator_says_of_a_commit(code: ErrorCode, kind: Kind) -> None:
    assert of_commit(code) is kind
