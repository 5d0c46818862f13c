"""Groups and their coordinators; classic members join, sync, send heartbeats and leave."""

from typing import Final

from quorate.protocol.fields import (
    OWN_TAG,
    array,
    binary,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
)
from quorate.protocol.message import message, nested
from quorate.protocol.messages.metadata import OPERATIONS_NOT_ASKED_FOR

GROUPS_MAX: Final = 100_000
"""Of one request about groups of the same kind: more would be looked for for seconds."""


@message(versions="0-6", flexible="3+", elements_max=GROUPS_MAX)
class FindCoordinatorRequest:
    """Asks who coordinates groups (key type 0), transactions (1) or share groups (2)."""

    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array("string", "4+")


@nested
class Coordinator:
    """Who coordinates one key."""

    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """Answers a FindCoordinatorRequest."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3")
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")


@nested
class JoinGroupRequestProtocol:
    """One way of assigning partitions that a member knows."""

    name: str = string()
    metadata: bytes = binary()


@message(versions="0-9", flexible="6+")
class JoinGroupRequest:
    """Joins a classic group, or joins it again for a rebalance."""

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+")
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+")


@nested
class JoinGroupResponseMember:
    """A member, for the one that leads the group."""

    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+")
    metadata: bytes = binary()


@message(versions="0-9", flexible="6+")
class JoinGroupResponse:
    """Answers a JoinGroupRequest when all are there; only the leader learns who they are."""

    throttle_time_ms: int = int32("2+")
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+")
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)


@message(versions="0-4", flexible="4+")
class HeartbeatRequest:
    """Says that a member of a classic group is alive."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+")


@message(versions="0-4", flexible="4+")
class HeartbeatResponse:
    """Answers a HeartbeatRequest."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16()


@nested
class MemberIdentity:
    """A member that leaves."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+")
    reason: str | None = string("5+", nullable="5+")


@message(versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """Takes members out of a classic group; one at a time up to version 2."""

    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


@nested
class MemberResponse:
    """What became of one member."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+")
    error_code: int = int16()


@message(versions="0-5", flexible="4+")
class LeaveGroupResponse:
    """Answers a LeaveGroupRequest."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")


@nested
class SyncGroupRequestAssignment:
    """What the leader gives to one member."""

    member_id: str = string()
    assignment: bytes = binary()


@message(versions="0-5", flexible="4+")
class SyncGroupRequest:
    """Brings the leader's assignments, and asks for one's own."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+")
    protocol_type: str | None = string("5+", nullable="5+")
    protocol_name: str | None = string("5+", nullable="5+")
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@message(versions="0-5", flexible="4+")
class SyncGroupResponse:
    """Answers a SyncGroupRequest when the leader has assigned."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+")
    protocol_name: str | None = string("5+", nullable="5+")
    assignment: bytes = binary()


@message(versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    """Asks about classic groups and their members."""

    groups: list[str] = array("string")
    include_authorized_operations: bool = boolean("3+")
    include_own_fields: bool = boolean("5+", tag=OWN_TAG)


@nested
class DescribedGroupMember:
    """One member of a group."""

    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+")
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = binary()
    member_assignment: bytes = binary()


@nested
class DescribedGroup:
    """One group and its members; the tagged fields are our own, for who asks for them."""

    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+")
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=OPERATIONS_NOT_ASKED_FOR)
    generation_id: int = int32("5+", default=-1, tag=OWN_TAG)
    leader: str = string("5+", tag=OWN_TAG + 1)
    rebalance_reason: str = string("5+", tag=OWN_TAG + 2)
    state_since_ms: int = int64("5+", default=-1, tag=OWN_TAG + 3)


@message(versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    """Answers a DescribeGroupsRequest."""

    throttle_time_ms: int = int32("1+")
    groups: list[DescribedGroup] = array(DescribedGroup)


@message(versions="0-5", flexible="3+")
class ListGroupsRequest:
    """Lists the groups of one coordinator; empty filters let everything pass."""

    states_filter: list[str] = array("string", "4+")
    types_filter: list[str] = array("string", "5+")


@nested
class ListedGroup:
    """One group."""

    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+")
    group_type: str = string("5+")


@message(versions="0-5", flexible="3+")
class ListGroupsResponse:
    """Answers a ListGroupsRequest."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)


@message(versions="0-2", flexible="2+", elements_max=GROUPS_MAX)
class DeleteGroupsRequest:
    """Deletes groups without members."""

    groups_names: list[str] = array("string")


@nested
class DeletableGroupResult:
    """What became of one group."""

    group_id: str = string()
    error_code: int = int16()


@message(versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    """Answers a DeleteGroupsRequest."""

    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
