"""The controller quorum, as Kafka's tools see and change it."""

from collections.abc import Callable
from typing import Any

import pytest

from quorate.broker.handlers.quorum import (
    add_raft_voter,
    describe_quorum,
    remove_raft_voter,
)
from quorate.control.messages import (
    AddVoter,
    AddVoterAnswer,
    DescribeQuorum,
    DescribeQuorumAnswer,
    QuorumReplica,
    RemoveVoter,
    RemoveVoterAnswer,
)
from quorate.errors import ErrorCode
from quorate.model import Endpoint
from quorate.protocol.messages.quorum import (
    AddRaftVoterRequest,
    DescribeQuorumPartitionRequest,
    DescribeQuorumReplicaState,
    DescribeQuorumRequest,
    DescribeQuorumTopicRequest,
    RaftVoterListener,
    RemoveRaftVoterRequest,
)
from quorate.quorum.metadata.topic_names import METADATA_TOPIC
from tests.unit.broker.harness import codes, new_node, now, over, waits

CALLER = over()
OLD, NEW = b"o" * 16, b"n" * 16
CONTROLLER = RaftVoterListener(name="CONTROLLER", host="c4", port=9194)


def asking(*partitions: int, topic: str = METADATA_TOPIC) -> DescribeQuorumRequest:
    indexes = [DescribeQuorumPartitionRequest(partition_index=index) for index in partitions]
    asked = DescribeQuorumTopicRequest(topic_name=topic, partitions=indexes)
    return DescribeQuorumRequest(topics=[asked])


def adding(**fields: Any) -> AddRaftVoterRequest:
    """A request to add controller 4; fields of it may be others."""
    request: dict[str, Any] = {
        "cluster_id": "cluster", "timeout_ms": 1000, "voter_id": 4, "voter_directory_id": NEW,
        "listeners": [RaftVoterListener(name="OTHER", host="x", port=1), CONTROLLER],
    }  # fmt: skip
    return AddRaftVoterRequest(**{**request, **fields})


def removing(**fields: Any) -> RemoveRaftVoterRequest:
    request: dict[str, Any] = {"voter_id": 3, "voter_directory_id": OLD}
    return RemoveRaftVoterRequest(**{**request, **fields})


def states(replicas: list[DescribeQuorumReplicaState]) -> list[tuple[Any, ...]]:
    return [
        (r.replica_id, r.replica_directory_id, r.log_end_offset, r.last_fetch_timestamp,
         r.last_caught_up_timestamp)
        for r in replicas
    ]  # fmt: skip


def test_the_quorum_is_described_as_the_controller_sees_it() -> None:
    node = new_node()
    answer = describe_quorum(node.broker, asking(0), CALLER)
    assert node.controller.requests == [DescribeQuorum()]
    assert node.controller.timeouts_ms == [10_000], "a look is worth no longer wait"
    node.controller.answer(
        DescribeQuorumAnswer(
            leader_id=3,
            leader_epoch=5,
            high_watermark=100,
            voters=(QuorumReplica(3, 100, OLD, Endpoint("c3", 9193), 7000, 6000),),
            metadata_version=90,
            observers=(QuorumReplica(4, 98, NEW, Endpoint("c4", 9194), 6999, 5000),),
        )
    )
    response = now(answer)
    (topic,) = response.topics
    (partition,) = topic.partitions
    assert (topic.topic_name, partition.partition_index) == (METADATA_TOPIC, 0)
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (3, 5, 100)
    assert states(partition.current_voters) == [(3, OLD, 100, 7000, 6000)]
    assert states(partition.observers) == [(4, NEW, 98, 6999, 5000)]
    listeners = [(n.node_id, s.name, s.host, s.port) for n in response.nodes for s in n.listeners]
    assert listeners == [(3, "CONTROLLER", "c3", 9193), (4, "CONTROLLER", "c4", 9194)]


def test_a_node_that_votes_and_observes_with_another_disk_is_listed_once() -> None:
    node = new_node()
    answer = describe_quorum(node.broker, asking(0), CALLER)
    voters = (QuorumReplica(3, 9, OLD, Endpoint("c3", 1)), QuorumReplica(1, 9))
    observers = (QuorumReplica(3, -1, NEW, Endpoint("c3", 2)),)
    node.controller.answer(DescribeQuorumAnswer(1, 5, 9, voters, 9, observers))
    nodes = [(n.node_id, n.listeners[0].port) for n in now(answer).nodes]
    assert nodes == [(3, 1)]


@pytest.mark.parametrize("request_", [asking(1), asking(0, 1), asking(0, topic="appLogs")])
def test_only_the_partition_of_the_metadata_has_a_quorum(request_: DescribeQuorumRequest) -> None:
    node = new_node()
    (topic,) = now(describe_quorum(node.broker, request_, CALLER)).topics
    assert set(codes(topic.partitions)) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    (asked,) = request_.topics
    indexes = [partition.partition_index for partition in topic.partitions]
    assert (topic.topic_name, indexes) == (
        asked.topic_name,
        [partition.partition_index for partition in asked.partitions],
    )
    assert node.controller.requests == []


def test_without_a_controller_the_quorum_is_not_known() -> None:
    node = new_node()
    answer = describe_quorum(node.broker, asking(0), CALLER)
    node.controller.fail(ErrorCode.NOT_CONTROLLER, "away")
    assert (now(answer).error_code, now(answer).error_message) == (ErrorCode.NOT_CONTROLLER, "away")


def test_a_voter_is_added_with_the_listener_of_controllers() -> None:
    node = new_node()
    answer = add_raft_voter(node.broker, adding(), CALLER)
    assert node.controller.requests == [AddVoter(4, NEW, Endpoint("c4", 9194))]
    node.controller.answer(AddVoterAnswer(()))
    assert (now(answer).error_code, now(answer).error_message) == (0, None)
    assert len(node.broker.deadlines) == 0


def test_a_voter_is_removed() -> None:
    node = new_node()
    answer = remove_raft_voter(node.broker, removing(), CALLER)
    assert node.controller.requests == [RemoveVoter(3, OLD)]
    node.controller.answer(RemoveVoterAnswer(()))
    assert (now(answer).error_code, now(answer).error_message) == (0, None)


@pytest.mark.parametrize(
    ("handler", "request_"), [(add_raft_voter, adding()), (remove_raft_voter, removing())]
)
def test_what_the_controller_refuses_is_refused_with_its_reason(
    handler: Callable[..., Any], request_: object
) -> None:
    node = new_node()
    answer = handler(node.broker, request_, CALLER)
    node.controller.fail(ErrorCode.DUPLICATE_VOTER, "votes already")
    assert codes([now(answer)]) == [ErrorCode.DUPLICATE_VOTER]
    assert now(answer).error_message == "votes already"


def test_a_voter_that_takes_too_long_to_add_may_be_added_later() -> None:
    node = new_node()
    answer = add_raft_voter(node.broker, adding(timeout_ms=1000), CALLER)
    node.wait(999)
    assert waits(answer)
    node.wait(1)
    assert codes([now(answer)]) == [ErrorCode.REQUEST_TIMED_OUT]
    node.controller.answer(AddVoterAnswer(()))


@pytest.mark.parametrize(
    ("handler", "request_", "code"),
    [
        (add_raft_voter, adding(cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (add_raft_voter, adding(voter_id=-1), ErrorCode.INVALID_REQUEST),
        (add_raft_voter, adding(voter_directory_id=bytes(16)), ErrorCode.INVALID_REQUEST),
        (add_raft_voter, adding(listeners=[]), ErrorCode.INVALID_REQUEST),
        (remove_raft_voter, removing(cluster_id="another"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (remove_raft_voter, removing(voter_directory_id=bytes(16)), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_request_that_names_no_voter_of_this_cluster_is_refused(
    handler: Callable[..., Any], request_: object, code: ErrorCode
) -> None:
    node = new_node()
    refused = now(handler(node.broker, request_, CALLER))
    assert codes([refused]) == [code]
    assert refused.error_message
    assert node.controller.requests == []
