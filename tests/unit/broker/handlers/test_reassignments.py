"""Reassignments as Kafka's clients ask for them: translated for the controller, listed here."""

from quorate.broker.handlers.reassignments import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from quorate.control.messages import Failure
from quorate.control.partition_messages import (
    AlterReassignments,
    AlterReassignmentsAnswer,
    ReassignedPartition,
)
from quorate.errors import ErrorCode
from quorate.protocol.messages.placement import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)
from quorate.quorum.metadata import records as r
from tests.unit.broker.harness import Node, codes, new_node, now, over

CALLER = over()


def topic(name: str, **partitions: list[int] | None) -> ReassignableTopic:
    """Return a topic to move; partitions are named p0, p1, ..."""
    return ReassignableTopic(
        name=name,
        partitions=[
            ReassignablePartition(partition_index=int(key[1:]), replicas=replicas)
            for key, replicas in partitions.items()
        ],
    )


def results(
    response: AlterPartitionReassignmentsResponse,
) -> dict[tuple[str, int], tuple[ErrorCode, str | None]]:
    return {
        (topic.name, p.partition_index): (ErrorCode(p.error_code), p.error_message)
        for topic in response.responses
        for p in topic.partitions
    }


MOVE = AlterPartitionReassignmentsRequest(
    timeout_ms=5000, topics=[topic("a", p0=[1, 2], p1=None), topic("b", p0=[3])]
)


def test_the_controller_moves_and_each_partition_is_answered() -> None:
    node = new_node()
    answer = alter_partition_reassignments(node.broker, MOVE, CALLER)
    wanted: dict[str, dict[int, tuple[int, ...] | None]] = {
        "a": {0: (1, 2), 1: None},
        "b": {0: (3,)},
    }
    assert node.controller.requests == [AlterReassignments(wanted, True, "User:ANONYMOUS")]
    assert node.controller.timeouts_ms == [5000]
    refused = Failure(int(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS), "none")
    node.controller.answer(
        AlterReassignmentsAnswer(
            (
                ReassignedPartition("a", 0, Failure()),
                ReassignedPartition("a", 1, refused),
                ReassignedPartition("b", 0, Failure()),
            )
        )
    )
    response = now(answer)
    assert codes([response]) == [ErrorCode.NONE]
    assert results(response) == {
        ("a", 0): (ErrorCode.NONE, None),
        ("a", 1): (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "none"),
        ("b", 0): (ErrorCode.NONE, None),
    }


def test_a_partition_that_is_to_go_to_two_places_goes_nowhere() -> None:
    node = new_node()
    topics = [topic("a", p0=[1]), topic("a", p0=[2], p1=[2])]
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=False, topics=topics
    )
    answer = alter_partition_reassignments(node.broker, request, CALLER)
    assert node.controller.requests == [
        AlterReassignments({"a": {1: (2,)}}, False, "User:ANONYMOUS")
    ]
    node.controller.answer(AlterReassignmentsAnswer((ReassignedPartition("a", 1, Failure()),)))
    response = now(answer)
    assert results(response) == {
        ("a", 0): (ErrorCode.INVALID_REQUEST, "the partition is named twice"),
        ("a", 1): (ErrorCode.NONE, None),
    }
    assert not response.allow_replication_factor_change


def test_a_failure_of_the_whole_is_told_at_each_partition_too() -> None:
    node = new_node()
    answer = alter_partition_reassignments(node.broker, MOVE, CALLER)
    node.controller.fail(ErrorCode.UNSUPPORTED_VERSION, "upgrade")
    response = now(answer)
    assert (response.error_code, response.error_message) == (35, "upgrade")
    assert set(results(response).values()) == {(ErrorCode.UNSUPPORTED_VERSION, "upgrade")}


def on_the_move() -> Node:
    node = new_node()
    topic_id = node.create_topic("a", 3, leader_id=2, replicas=(2, 3))
    node.create_topic("b", leader_id=2, replicas=(2,))
    moved = r.PartitionChanged(
        cause="test",
        time_ms=0,
        topic_id=topic_id,
        partition=1,
        leader_id=2,
        leader_epoch=0,
        isr=(2,),
        replicas=(4, 2, 3),
        adding_replicas=(4,),
        removing_replicas=(3,),
    )
    node.apply(r.FeatureLevelSet("test", 0, "metadata.version", 3), moved)
    return node


Moving = dict[str, list[tuple[int, list[int], list[int], list[int]]]]


def moving(response: ListPartitionReassignmentsResponse) -> Moving:
    return {
        topic.name: [
            (p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
            for p in topic.partitions
        ]
        for topic in response.topics
    }


def listed(node: Node, *asked: tuple[str, list[int]]) -> Moving:
    topics = [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
        for name, indexes in asked
    ]
    request = ListPartitionReassignmentsRequest(topics=topics)
    return moving(list_partition_reassignments(node.broker, request, CALLER))


def test_what_moves_is_listed_of_everything_or_of_what_is_named() -> None:
    node = on_the_move()
    everything = ListPartitionReassignmentsRequest()
    found = {"a": [(1, [4, 2, 3], [4], [3])]}
    assert moving(list_partition_reassignments(node.broker, everything, CALLER)) == found
    assert listed(node, ("a", [0, 1, 2, 3, -1]), ("b", [0]), ("nowhere", [0])) == found
    assert listed(node, ("a", [0]), ("b", [0])) == {}
