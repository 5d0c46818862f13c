"""A broker that coordinates groups, and what clients ask it."""

from dataclasses import replace
from typing import Any

from quorate.broker.groups.coordinator import GroupCoordinator
from quorate.broker.handlers.classic_groups import join_group, leave_group, sync_group
from quorate.broker.handlers.consumer_groups import consumer_group_heartbeat
from quorate.broker.handlers.context import Caller
from quorate.broker.handlers.group_offsets import offset_commit, offset_fetch
from quorate.broker.shards.topics import GROUPS_TOPIC
from quorate.protocol.consumer_protocol import Subscription, encode_subscription
from quorate.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from quorate.protocol.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from quorate.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tests.unit.broker.harness import Node, new_node, now, over

SESSION_MS = 10_000


def new_coordinator(partitions: int = 1, **texts: str) -> Node:
    """Return a broker that leads the topic of groups, and ``t`` with three partitions."""
    settings = {name.replace("_", "."): text for name, text in texts.items()}
    node = new_node({"group.initial.rebalance.delay.ms": "0", **settings})
    node.join()
    node.create_topic(GROUPS_TOPIC, partitions)
    node.create_topic("t", 3)
    return node


def coordinator_of(node: Node, group_id: str = "g") -> GroupCoordinator:
    return node.broker.coordinators.of(group_id)


def committing(
    *offsets: int, group_id: str = "g", topic: str = "t", metadata: str | None = None, **more: Any
) -> OffsetCommitRequest:
    """Return a request that commits one offset for each partition, from the first on."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=metadata
        )
        for index, offset in enumerate(offsets)
    ]
    topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    return OffsetCommitRequest(group_id=group_id, topics=topics, **more)


def commit(node: Node, *offsets: int, version: int = 8, **more: Any) -> list[int]:
    """Commit, and return the codes of the answer."""
    answer = now(offset_commit(node.broker, committing(*offsets, **more), over(version)))
    return [p.error_code for topic in answer.topics for p in topic.partitions]


def fetched(node: Node, group_id: str = "g", **more: Any) -> dict[tuple[str, int], int]:
    """Return all that a group has committed."""
    group = OffsetFetchRequestGroup(group_id=group_id, topics=None, **more)
    answer = now(offset_fetch(node.broker, OffsetFetchRequest(groups=[group]), over(9)))
    (told,) = answer.groups
    assert not told.error_code, told.error_code
    return {
        (topic.name, p.partition_index): p.committed_offset
        for topic in told.topics
        for p in topic.partitions
    }


def join(node: Node, group_id: str = "g", topics: tuple[str, ...] = ("t",), kind: str = "") -> Any:
    """Have a member join, and assign nothing to it; return the answer to its JoinGroup."""
    metadata = encode_subscription(Subscription(topics=topics))
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        protocol_type=kind or "consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    promised = join_group(node.broker, request, Caller("PLAINTEXT", 3, "me", "/h"))
    node.wait(0)
    joined = now(promised)
    assert not joined.error_code, joined.error_code
    sync = SyncGroupRequest(
        group_id=group_id, generation_id=joined.generation_id, member_id=joined.member_id
    )
    assert not now(sync_group(node.broker, sync, over(3))).error_code
    return joined


def beat(node: Node, member_id: str = "m1", epoch: int = 0, **said: Any) -> Any:
    """Heartbeat; join, if the epoch is 0."""
    if epoch == 0:
        said = {
            "rebalance_timeout_ms": 1_000,
            "subscribed_topic_names": ["t"],
            "topic_partitions": [],
            **said,
        }
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, **said
    )
    caller = replace(over(1), client_id="app", client_host="/10.0.0.1")
    return now(consumer_group_heartbeat(node.broker, request, caller))


def leave(node: Node, member_id: str, group_id: str = "g") -> None:
    request = LeaveGroupRequest(group_id=group_id, member_id=member_id)
    assert not now(leave_group(node.broker, request, over(2))).error_code
