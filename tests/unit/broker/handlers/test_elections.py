"""ElectLeaders as Kafka's clients ask for it: translated for the controller."""

import pytest

from quorate.broker.handlers.elections import elect_leaders
from quorate.control.messages import Failure
from quorate.control.partition_messages import (
    ElectedPartition,
    Election,
    ElectLeaders,
    ElectLeadersAnswer,
)
from quorate.errors import ErrorCode
from quorate.protocol.messages.placement import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from tests.unit.broker.harness import codes, new_node, now, over

CALLER = over()
NOT_NEEDED = Failure(int(ErrorCode.ELECTION_NOT_NEEDED), "not needed")
ASKED = ElectLeadersRequest(
    topic_partitions=[
        TopicPartitions(topic="a", partitions=[0, 2]),
        TopicPartitions(topic="b", partitions=[1]),
        TopicPartitions(topic="a", partitions=[1]),
    ],
    timeout_ms=5000,
)

Results = dict[str, list[tuple[int, int, str | None]]]


def results(response: ElectLeadersResponse) -> Results:
    return {
        topic.topic: [
            (p.partition_id, p.error_code, p.error_message) for p in topic.partition_result
        ]
        for topic in response.replica_election_results
    }


def test_the_controller_elects_and_each_partition_is_answered() -> None:
    node = new_node()
    answer = elect_leaders(node.broker, ASKED, CALLER)
    wanted = {"a": (0, 2, 1), "b": (1,)}
    assert node.controller.requests == [ElectLeaders(Election.PREFERRED, wanted, "User:ANONYMOUS")]
    assert node.controller.timeouts_ms == [5000]
    elected = ElectedPartition("a", 0, Failure()), ElectedPartition("a", 2, NOT_NEEDED)
    node.controller.answer(ElectLeadersAnswer(elected))
    response = now(answer)
    assert codes([response]) == [ErrorCode.NONE]
    assert results(response) == {"a": [(0, 0, None), (2, NOT_NEEDED.code, "not needed")]}


def test_unclean_elections_of_everything_can_be_asked_for() -> None:
    node = new_node()
    elect_leaders(node.broker, ElectLeadersRequest(election_type=1, topic_partitions=None), CALLER)
    assert node.controller.requests == [ElectLeaders(Election.UNCLEAN, None, "User:ANONYMOUS")]


def test_a_failure_of_the_whole_is_told_at_each_partition_too() -> None:
    node = new_node()
    answer = elect_leaders(node.broker, ASKED, CALLER)
    node.controller.fail(ErrorCode.REQUEST_TIMED_OUT, "too late")
    response = now(answer)
    assert codes([response]) == [ErrorCode.REQUEST_TIMED_OUT]
    told = (ErrorCode.REQUEST_TIMED_OUT, "too late")
    assert results(response) == {"a": [(0, *told), (2, *told), (1, *told)], "b": [(1, *told)]}


@pytest.mark.parametrize("election_type", [-1, 2, 127])
def test_other_kinds_of_election_are_refused(election_type: int) -> None:
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=None)
    response = now(elect_leaders(new_node().broker, request, CALLER))
    assert codes([response]) == [ErrorCode.INVALID_REQUEST]
    assert response.replica_election_results == []
