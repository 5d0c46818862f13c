from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.client.routing.retries import Backoff, Remedy, remedy_for
from quorate.errors import RETRIABLE, ErrorCode

BACKOFF = Backoff(first_ms=100, max_ms=1_000)


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Remedy.REFRESH),
        (ErrorCode.NETWORK_EXCEPTION, Remedy.REFRESH),
        (ErrorCode.KAFKA_STORAGE_ERROR, Remedy.REFRESH),
        (ErrorCode.NOT_ENOUGH_REPLICAS, Remedy.RETRY),
        (ErrorCode.REQUEST_TIMED_OUT, Remedy.RETRY),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Remedy.GIVE_UP),
        (ErrorCode.INVALID_RECORD, Remedy.GIVE_UP),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Remedy.GIVE_UP),
    ],
)
def test_each_error_has_a_remedy(code: ErrorCode, remedy: Remedy) -> None:
    assert remedy_for(code) is remedy


@pytest.mark.parametrize("code", list(ErrorCode))
def test_only_errors_that_may_pass_are_tried_again(code: ErrorCode) -> None:
    assert (remedy_for(code) is not Remedy.GIVE_UP) == (code in RETRIABLE)


@given(attempts=st.integers(1, 10_000), seed=st.integers())
def test_pauses_double_up_to_the_limit_and_scatter_by_a_fifth(attempts: int, seed: int) -> None:
    pause_ms = BACKOFF.pause_ms(attempts, Random(seed))
    expected_ms = min(1_000, 100 * 2 ** min(attempts - 1, 20))
    assert 0.8 * expected_ms <= pause_ms <= 1.2 * expected_ms
