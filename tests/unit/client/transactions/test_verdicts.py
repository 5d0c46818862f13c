import pytest

from quorate.client.transactions.verdicts import (
    Verdict,
    verdict_of_coordinator,
    verdict_of_leader,
)
from quorate.errors import ErrorCode


@pytest.mark.parametrize(
    ("code", "coordinator", "leader"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Verdict.RETRY, Verdict.ABORT),
        (ErrorCode.CONCURRENT_TRANSACTIONS, Verdict.RETRY, Verdict.ABORT),
        (ErrorCode.REQUEST_TIMED_OUT, Verdict.RETRY, Verdict.ABORT),
        (ErrorCode.TRANSACTION_ABORTABLE, Verdict.ABORT, Verdict.ABORT),
        (ErrorCode.ILLEGAL_GENERATION, Verdict.ABORT, Verdict.ABORT),
        (ErrorCode.UNKNOWN_PRODUCER_ID, Verdict.RENEW, Verdict.RENEW),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, Verdict.RENEW, Verdict.RENEW),
        (ErrorCode.PRODUCER_FENCED, Verdict.FENCED, Verdict.FENCED),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Verdict.FENCED, Verdict.ABORT),
        (ErrorCode.INVALID_TXN_STATE, Verdict.FAIL, Verdict.ABORT),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, Verdict.FAIL, Verdict.ABORT),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Verdict.FAIL, Verdict.FAIL),
        (ErrorCode.UNSUPPORTED_VERSION, Verdict.FAIL, Verdict.FAIL),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Verdict.FAIL, Verdict.ABORT),
    ],
)
def test_what_an_error_means_depends_on_who_says_it(
    code: ErrorCode, coordinator: Verdict, leader: Verdict
) -> None:
    assert verdict_of_coordinator(code) is coordinator
    assert verdict_of_leader(code) is leader
