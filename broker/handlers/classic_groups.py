"""Members of classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from typing import Final

from quorate.broker.groups.classic_groups import ClassicGroups
from quorate.broker.groups.classic_members import Applicant, Assigner, Leaver
from quorate.broker.groups.consumer_groups import ConsumerGroups
from quorate.broker.groups.coordinator import GroupCoordinator
from quorate.broker.groups.errors import (
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
)
from quorate.broker.groups.group import InvalidGroupIdError
from quorate.broker.handlers.context import Broker, Caller
from quorate.errors import ErrorCode, KafkaError
from quorate.promise import Promise
from quorate.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

REBALANCE_TIMEOUT_FROM: Final = 1
RETURNS_WITH_ID_FROM: Final = 4
NULL_PROTOCOL_FROM: Final = 7
SKIPS_ASSIGNMENT_FROM: Final = 9
PROTOCOL_SAID_FROM: Final = 5
"""The version of SyncGroup from which members say how they understood the group (KIP-559)."""
LEAVES_BATCHED_FROM: Final = 3


def join_group(
    broker: Broker, request: JoinGroupRequest, caller: Caller
) -> JoinGroupResponse | Promise[JoinGroupResponse]:
    """Have somebody join a group; the answer comes when all of its members have."""
    config = broker.config
    try:
        if not request.group_id:
            raise InvalidGroupIdError
        shortest_ms, longest_ms = (
            config.group_min_session_timeout_ms,
            config.group_max_session_timeout_ms,
        )
        if not shortest_ms <= request.session_timeout_ms <= longest_ms:
            raise InvalidSessionTimeoutError
        coordinator = broker.coordinators.of(request.group_id)
        coordinator.consumer.make_way(request.group_id)
        joined = _members(coordinator, request.group_id).join(
            request.group_id, _applicant(request, caller)
        )
    except KafkaError as error:
        answer = JoinGroupResponse(error_code=int(error.code), member_id=request.member_id)
        return _with_protocol(answer, caller)
    promise: Promise[JoinGroupResponse] = Promise()
    promise.on_abandoned = joined.abandon
    joined.when_resolved(lambda answer: promise.resolve(_with_protocol(answer, caller)))
    return promise


def _applicant(request: JoinGroupRequest, caller: Caller) -> Applicant:
    has_own = caller.api_version >= REBALANCE_TIMEOUT_FROM
    timeout_ms = request.rebalance_timeout_ms if has_own else request.session_timeout_ms
    return Applicant(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=max(timeout_ms, 0),
        protocol_type=request.protocol_type,
        protocols=tuple((each.name, each.metadata) for each in request.protocols),
        reason=request.reason or "",
        returns_with_id=caller.api_version >= RETURNS_WITH_ID_FROM,
        may_skip_assignment=caller.api_version >= SKIPS_ASSIGNMENT_FROM,
    )


def _with_protocol(answer: JoinGroupResponse, caller: Caller) -> JoinGroupResponse:
    """Say "no protocol" as the version does."""
    answer.protocol_name = answer.protocol_name or (
        None if caller.api_version >= NULL_PROTOCOL_FROM else ""
    )
    return answer


def sync_group(
    broker: Broker, request: SyncGroupRequest, caller: Caller
) -> SyncGroupResponse | Promise[SyncGroupResponse]:
    """Give a member its assignment, when the leader has brought it."""
    try:
        if caller.api_version >= PROTOCOL_SAID_FROM and not (
            request.protocol_type and request.protocol_name
        ):
            raise InconsistentGroupProtocolError
        if not request.group_id:
            raise InvalidGroupIdError
        coordinator = broker.coordinators.of(request.group_id)
        assigner = Assigner(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments={each.member_id: each.assignment for each in request.assignments},
        )
        return _members(coordinator, request.group_id).sync(request.group_id, assigner)
    except KafkaError as error:
        return SyncGroupResponse(error_code=int(error.code))


def heartbeat(broker: Broker, request: HeartbeatRequest, _caller: Caller) -> HeartbeatResponse:
    """Note that a member is alive, and tell it whether to join again."""
    try:
        if not request.group_id:
            raise InvalidGroupIdError
        coordinator = broker.coordinators.of(request.group_id)
        _members(coordinator, request.group_id).heartbeat(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
    except KafkaError as error:
        if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return HeartbeatResponse()  # all members have a fresh session when it is over
        return HeartbeatResponse(error_code=int(error.code))
    return HeartbeatResponse()


def leave_group(
    broker: Broker, request: LeaveGroupRequest, caller: Caller
) -> LeaveGroupResponse | Promise[LeaveGroupResponse]:
    """Let members go, by member id or, for administrators, by instance id (KIP-345)."""
    batched = caller.api_version >= LEAVES_BATCHED_FROM
    leaving = request.members if batched else [MemberIdentity(member_id=request.member_id)]
    leavers = [
        Leaver(each.member_id, each.group_instance_id, each.reason or "") for each in leaving
    ]
    try:
        if not request.group_id:
            raise InvalidGroupIdError
        coordinator = broker.coordinators.of(request.group_id)
        if not coordinator.consumer.coordinates(request.group_id):
            codes = coordinator.classic.leave(request.group_id, leavers)
            return _left(leaving, codes, batched=batched)
        left = coordinator.consumer.leave(request.group_id, leavers)
    except KafkaError as error:
        return LeaveGroupResponse(error_code=int(error.code))
    promise: Promise[LeaveGroupResponse] = Promise()
    left.when_resolved(lambda codes: promise.resolve(_left(leaving, codes, batched=batched)))
    return promise


def _left(
    leaving: list[MemberIdentity], codes: list[ErrorCode], *, batched: bool
) -> LeaveGroupResponse:
    if not batched:
        return LeaveGroupResponse(error_code=int(codes[0]))
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                error_code=int(code),
            )
            for each, code in zip(leaving, codes, strict=True)
        ]
    )


def _members(coordinator: GroupCoordinator, group_id: str) -> ClassicGroups | ConsumerGroups:
    """Return who looks after the classic members of a group: it may be a consumer group by now."""
    if coordinator.consumer.coordinates(group_id):
        return coordinator.consumer
    return coordinator.classic
