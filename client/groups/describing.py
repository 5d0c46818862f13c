"""Requests about groups and their members, and what their answers say (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from quorate.client.groups.results import (
    CLASSIC,
    CONSUMER,
    DEAD,
    GroupDescription,
    GroupListing,
    MemberDescription,
)
from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
)
from quorate.protocol.messages.groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
    LeaveGroupRequest,
    ListGroupsResponse,
    MemberIdentity,
)
from quorate.protocol.primitives import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quorate.protocol.messages.consumer_groups import (
        Assignment,
        ConsumerGroupDescribeGroup,
        ConsumerGroupDescribeMember,
        ConsumerGroupDescribeResponse,
    )

Refused: TypeAlias = tuple[int, str | None]
"""An error code, and what was said about it."""

NOT_HERE: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
"""What ConsumerGroupDescribe says of classic groups: DescribeGroups may know more."""


def listings_of(response: ListGroupsResponse) -> list[GroupListing]:
    """Return the groups that one broker coordinates."""
    return [
        GroupListing(
            group_id=told.group_id,
            type=type_name(told.group_type),
            protocol_type=told.protocol_type,
            state=told.group_state,
        )
        for told in response.groups
    ]


def type_name(told: str) -> str:
    """Return the type of a group as Kafka's tools write it; brokers differ in capitals."""
    return told.capitalize()


def consumer_groups_of(
    response: ConsumerGroupDescribeResponse, coordinators: dict[str, int]
) -> dict[str, GroupDescription | Refused]:
    """Return the groups of KIP-848 in an answer, and why others are not."""
    return {
        told.group_id: (told.error_code, told.error_message)
        if told.error_code
        else _consumer_group(told, coordinators[told.group_id])
        for told in response.groups
    }


def _consumer_group(told: ConsumerGroupDescribeGroup, coordinator_id: int) -> GroupDescription:
    return GroupDescription(
        group_id=told.group_id,
        type=CONSUMER,
        protocol_type=PROTOCOL_TYPE,
        state=told.group_state,
        assignor=told.assignor_name,
        members=tuple(_consumer_member(member) for member in told.members),
        coordinator_id=coordinator_id,
        epoch=told.group_epoch,
        assignment_epoch=told.assignment_epoch,
    )


def _consumer_member(told: ConsumerGroupDescribeMember) -> MemberDescription:
    return MemberDescription(
        member_id=told.member_id,
        instance_id=told.instance_id,
        client_id=told.client_id,
        host=told.client_host,
        assignment=_assigned(told.assignment),
        target=_assigned(told.target_assignment),
        member_epoch=told.member_epoch,
        rack_id=told.rack_id,
        topics=tuple(told.subscribed_topic_names),
        topic_regex=told.subscribed_topic_regex or None,
    )


def _assigned(told: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, number)
        for topic in told.topic_partitions
        for number in topic.partitions
    )


def classic_groups_of(
    response: DescribeGroupsResponse, coordinators: dict[str, int]
) -> dict[str, GroupDescription | Refused]:
    """Return the classic groups in an answer.

    Before version 6 a group that does not exist is described as dead.
    """
    found: dict[str, GroupDescription | Refused] = {}
    for told in response.groups:
        if told.error_code:
            found[told.group_id] = (told.error_code, told.error_message)
        elif told.group_state == DEAD:
            found[told.group_id] = (ErrorCode.GROUP_ID_NOT_FOUND, None)
        else:
            found[told.group_id] = _classic_group(told, coordinators[told.group_id])
    return found


def _classic_group(told: DescribedGroup, coordinator_id: int) -> GroupDescription:
    consumers = told.protocol_type == PROTOCOL_TYPE
    return GroupDescription(
        group_id=told.group_id,
        type=CLASSIC,
        protocol_type=told.protocol_type,
        state=told.group_state,
        assignor=told.protocol_data,
        members=tuple(_classic_member(member, consumers=consumers) for member in told.members),
        coordinator_id=coordinator_id,
        generation_id=None if told.generation_id < 0 else told.generation_id,
        leader=told.leader,
        rebalance_reason=told.rebalance_reason,
        state_since_ms=None if told.state_since_ms < 0 else told.state_since_ms,
    )


def _classic_member(told: DescribedGroupMember, *, consumers: bool) -> MemberDescription:
    """Return a member; brokers do not look into what members tell each other, so it may be wrong.

    Before the group has agreed on a protocol, brokers tell neither.
    """
    assignment: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    rack_id = None
    if consumers:
        try:
            assignment = decode_assignment(told.member_assignment)
            if told.member_metadata:
                subscription = decode_subscription(told.member_metadata)
                topics, rack_id = subscription.topics, subscription.rack_id or None
        except DecodeError:
            pass
    return MemberDescription(
        member_id=told.member_id,
        instance_id=told.group_instance_id,
        client_id=told.client_id,
        host=told.client_host,
        assignment=assignment,
        rack_id=rack_id,
        topics=topics,
    )


def leave_request(
    group_id: str, members: Iterable[MemberDescription], reason: str
) -> LeaveGroupRequest:
    """Return the request to take members out of a group; static ones by their instance id."""
    return LeaveGroupRequest(
        group_id=group_id,
        members=[
            MemberIdentity(
                member_id="" if member.instance_id else member.member_id,
                group_instance_id=member.instance_id,
                reason=reason,
            )
            for member in members
        ],
    )
