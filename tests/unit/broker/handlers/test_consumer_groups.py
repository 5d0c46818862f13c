"""ConsumerGroupHeartbeat and -Describe; what classic members of consumer groups ask."""

from typing import Any

from quorate.broker.handlers.classic_groups import heartbeat, leave_group
from quorate.broker.handlers.consumer_groups import consumer_group_describe
from quorate.broker.handlers.operations import ON_GROUPS
from quorate.errors import ErrorCode
from quorate.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from quorate.protocol.messages.groups import HeartbeatRequest, LeaveGroupRequest, MemberIdentity
from quorate.protocol.messages.metadata import OPERATIONS_NOT_ASKED_FOR
from quorate.quorum.metadata import records as r
from tests.unit.broker.handlers.grouping import beat, commit, coordinator_of, join, new_coordinator
from tests.unit.broker.harness import Node, now, over

NONE = ErrorCode.NONE


def describe(node: Node, *group_ids: str) -> list[Any]:
    request = ConsumerGroupDescribeRequest(group_ids=list(group_ids))
    groups: list[Any] = now(consumer_group_describe(node.broker, request, over(1))).groups
    return groups


def test_a_member_joins_reads_commits_and_leaves() -> None:
    node = new_coordinator()
    joined = beat(node)
    (told,) = joined.assignment.topic_partitions
    assert (joined.error_code, joined.member_epoch, told.partitions) == (0, 1, [0, 1, 2])
    at_its_epoch = {"member_id": "m1", "generation_id_or_member_epoch": 1}
    assert commit(node, 5, version=9, **at_its_epoch) == [NONE]
    at_its_epoch["generation_id_or_member_epoch"] = 2
    assert commit(node, 6, version=9, **at_its_epoch) == [ErrorCode.STALE_MEMBER_EPOCH]
    assert beat(node, epoch=1).assignment is None
    assert beat(node, epoch=-1).error_code == NONE
    assert coordinator_of(node).context.groups["g"].is_empty


def test_errors_come_with_their_reason() -> None:
    node = new_coordinator()
    answer = beat(node, epoch=3)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a consumer group.",
    )
    assert beat(node, "").error_code == ErrorCode.INVALID_REQUEST


def test_groups_are_described_each_by_itself() -> None:
    node = new_coordinator()
    beat(node)
    described, missing = describe(node, "g", "other")
    (member,) = described.members
    assert (described.error_code, described.group_id, described.group_state) == (0, "g", "Stable")
    assert (member.client_id, member.client_host) == ("app", "/10.0.0.1")
    assert (missing.error_code, missing.group_id) == (ErrorCode.GROUP_ID_NOT_FOUND, "other")
    assert missing.error_message
    (nameless,) = describe(node, "")
    assert nameless.error_code == ErrorCode.INVALID_GROUP_ID
    assert describe(node) == []


def test_what_may_be_done_with_a_group_is_told_to_who_asks() -> None:
    node = new_coordinator()
    beat(node)
    for asked, operations in ((False, OPERATIONS_NOT_ASKED_FOR), (True, ON_GROUPS)):
        request = ConsumerGroupDescribeRequest(
            group_ids=["g", "other"], include_authorized_operations=asked
        )
        found, missing = now(consumer_group_describe(node.broker, request, over(1))).groups
        assert found.authorized_operations == operations
        assert missing.authorized_operations == OPERATIONS_NOT_ASKED_FOR


def test_the_new_protocol_may_be_switched_off() -> None:
    node = new_coordinator(group_coordinator_rebalance_protocols="classic")
    assert beat(node).error_code == ErrorCode.UNSUPPORTED_VERSION
    (refused,) = describe(node, "g")
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_classic_members_of_a_consumer_group_are_heard_and_leave() -> None:
    node = new_coordinator()
    beat(node)
    joined = join(node)
    assert (joined.error_code, joined.generation_id) == (0, 1)

    def heard(member_id: str) -> int:
        request = HeartbeatRequest(
            group_id="g", generation_id=joined.generation_id, member_id=member_id
        )
        code: int = now(heartbeat(node.broker, request, over(4))).error_code
        return code

    assert heard(joined.member_id) in (NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    assert heard("nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    members = [MemberIdentity(member_id=m) for m in (joined.member_id, "nobody")]
    request = LeaveGroupRequest(group_id="g", members=members)
    left = now(leave_group(node.broker, request, over(5))).members
    assert [m.error_code for m in left] == [NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    alone = LeaveGroupRequest(group_id="g", member_id="nobody")
    assert now(leave_group(node.broker, alone, over(2))).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_cluster_at_group_version_0_has_classic_groups_only() -> None:
    node = new_coordinator()
    node.apply(r.FeatureLevelSet("test", 0, "group.version", 0))
    assert beat(node).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [g.error_code for g in describe(node, "g")] == [ErrorCode.UNSUPPORTED_VERSION]
    node.apply(r.FeatureLevelSet("test", 0, "group.version", 1))
    assert beat(node).error_code == NONE


def test_a_group_is_described_once_however_often_it_is_named() -> None:
    groups = describe(new_coordinator(), "a", "b", "a")
    assert [group.group_id for group in groups] == ["a", "b"]
