"""Which brokers a plan may move replicas to."""

import pytest

from quorate.client.admin_results import BrokerDescription
from quorate.model import Endpoint, TopicPartition
from quorate.tools.problems import RefusedError, UsageError
from quorate.tools.reassign_work import PlanRequest, candidates

NOW = {TopicPartition("t", 0): (1, 2), TopicPartition("t", 1): (2, 3)}


def broker(
    broker_id: int, *, is_fenced: bool = False, is_draining: bool = False
) -> tuple[int, BrokerDescription]:
    return broker_id, BrokerDescription(
        broker_id, Endpoint("h", 1), f"r{broker_id}", is_fenced, is_draining=is_draining
    )


BROKERS = dict(
    [broker(1), broker(2, is_fenced=True), broker(3, is_draining=True), broker(4), broker(5)]
)


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        (PlanRequest(), [1, 4, 5]),
        (PlanRequest(remove=(4,)), [1, 5]),
        (PlanRequest(add=(4,)), [1, 4]),
        (PlanRequest(add=(3, 4)), [1, 3, 4]),
        (PlanRequest(add=(4,), remove=(1,)), [4]),
        (PlanRequest(to=(3, 5)), [3, 5]),
    ],
)
def test_replicas_go_to_brokers_in_service_unless_others_are_named(
    request_: PlanRequest, found: list[int]
) -> None:
    assert candidates(request_, BROKERS, NOW) == {number: f"r{number}" for number in found}


def test_a_broker_that_does_not_run_or_does_not_exist_is_refused() -> None:
    with pytest.raises(RefusedError, match="fenced"):
        candidates(PlanRequest(add=(2,)), BROKERS, NOW)
    with pytest.raises(UsageError, match="no broker 9"):
        candidates(PlanRequest(remove=(9,)), BROKERS, NOW)
