"""A classic group's record: what of a group outlives its coordinator."""

from typing import Final

from quorate.broker.groups.classic_members import Member
from quorate.broker.groups.records import GroupMetadataValue, MemberMetadata

UNKNOWN_TIMEOUT: Final = -1


def metadata_of(member: Member, protocol: str | None, assignment: bytes) -> MemberMetadata:
    """Return a member as its group's record has it: only the protocol in use is kept."""
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignment,
    )


def member_of(told: MemberMetadata, value: GroupMetadataValue) -> Member:
    """Return a member as its group's record has it."""
    timeout_ms = told.rebalance_timeout
    return Member(
        member_id=told.member_id,
        instance_id=told.group_instance_id,
        client_id=told.client_id,
        client_host=told.client_host,
        session_timeout_ms=told.session_timeout,
        rebalance_timeout_ms=told.session_timeout if timeout_ms == UNKNOWN_TIMEOUT else timeout_ms,
        protocols=((value.protocol or "", told.subscription),),
        assignment=told.assignment,
    )
