"""What a ConsumerGroupHeartbeat leads to: decisions on a draft, nothing is written here.

Modelled after what ``GroupMetadataManager`` of Kafka 4.3 does with it (KIP-848).
"""

from typing import Final

from quorate.broker.groups.assigning.values import Partitions, TopicIdPartition
from quorate.broker.groups.consumer import ConsumerGroup, farewell_to
from quorate.broker.groups.consumer_errors import (
    FencedMemberEpochError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from quorate.broker.groups.consumer_members import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    Member,
    Profile,
)
from quorate.broker.groups.consumer_rebalancing import (
    Draft,
    Terms,
    advance,
    assign,
    follow_topics,
    put_profile,
    refresh_expressions,
    remove_members,
)
from quorate.broker.groups.consumer_records import (
    ProfileFact,
    StandingFact,
    TargetFact,
    by_topic,
)
from quorate.broker.groups.errors import FencedInstanceIdError, GroupMaxSizeReachedError
from quorate.broker.groups.group import UnknownMemberIdError
from quorate.dataclass import dataclass
from quorate.errors import InvalidRequestError
from quorate.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)

OWN_MEMBER_IDS_FROM: Final = 1
"""The version from which clients make their own member ids (KIP-1082)."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a heartbeat, beside what is in it."""

    client_id: str
    client_host: str
    api_version: int


def check(request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]) -> None:
    """Refuse a request that contradicts itself.

    Raises:
        KafkaError: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR.
    """
    epoch = request.member_epoch
    needs_id = version >= OWN_MEMBER_IDS_FROM or epoch not in (JOINING, LEAVING_FOR_A_WHILE)
    wrong = {
        "MemberId can't be empty.": needs_id and not request.member_id.strip(),
        "GroupId can't be empty.": not request.group_id.strip(),
        "InstanceId can't be empty.": _is_blank(request.instance_id),
        "RackId can't be empty.": _is_blank(request.rack_id),
        "MemberEpoch is invalid.": epoch < LEAVING_FOR_A_WHILE,
        "InstanceId can't be null.": epoch == LEAVING_FOR_A_WHILE and request.instance_id is None,
    }
    if epoch == JOINING:
        names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
        wrong |= {
            "RebalanceTimeoutMs must be provided in first request.": (
                request.rebalance_timeout_ms == -1
            ),
            "TopicPartitions must be empty when (re-)joining.": request.topic_partitions != [],
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.": names is None and regex is None,
        }
    for what, is_wrong in wrong.items():
        if is_wrong:
            raise InvalidRequestError(what)
    assignor = request.server_assignor
    if assignor is not None and assignor not in assignors:
        raise UnsupportedAssignorError(
            f"ServerAssignor {assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}."
        )


def _is_blank(text: str | None) -> bool:
    return text is not None and not text.strip()


def beat(
    draft: Draft, request: ConsumerGroupHeartbeatRequest, caller: Caller, terms: Terms
) -> ConsumerGroupHeartbeatResponse:
    """Let a member join, or go on.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID,
            FENCED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED, INVALID_REGULAR_EXPRESSION.
    """
    owned = _owned(request)
    check_room(draft.group, request.member_id, terms)
    if request.instance_id is None:
        member = _dynamic_member(draft.group, request, owned)
    else:
        member = _static_member(draft, request, request.instance_id, owned)
    before = member.standing.assigned
    changed = put_profile(draft, member, _profile(member.profile, request, caller), terms)
    others = refresh_expressions(draft, terms)
    follow_topics(draft, terms, changed=changed or others)
    assign(draft, terms)
    member = advance(draft, member.member_id, owned, terms, subscription_changed=changed)
    answer = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.standing.epoch,
        heartbeat_interval_ms=terms.config.group_consumer_heartbeat_interval_ms,
    )
    if request.member_epoch == JOINING or _is_full(request) or member.standing.assigned != before:
        answer.assignment = ConsumerGroupHeartbeatAssignment(
            topic_partitions=[
                ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in by_topic(member.standing.assigned).items()
            ]
        )
    return answer


def _owned(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    if request.topic_partitions is None:
        return None
    return frozenset(
        TopicIdPartition(each.topic_id, number)
        for each in request.topic_partitions
        for number in each.partitions
    )


def check_room(group: ConsumerGroup, member_id: str, terms: Terms) -> None:
    """Refuse one more member than there may be.

    Raises:
        GroupMaxSizeReachedError: the group is full.
    """
    size_max = terms.config.group_consumer_max_size
    if len(group.members) >= size_max and member_id not in group.members:
        raise GroupMaxSizeReachedError(
            f"The consumer group has reached its maximum capacity of {size_max} members."
        )


def _profile(before: Profile, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> Profile:
    """Return what a member is by now; what it does not say has not changed."""
    names, rebalance_timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    return Profile(
        instance_id=_or(request.instance_id, before.instance_id),
        rack_id=_or(request.rack_id, before.rack_id),
        client_id=caller.client_id,
        client_host=caller.client_host,
        topic_names=before.topic_names if names is None else frozenset(names),
        topic_regex=_or(request.subscribed_topic_regex, before.topic_regex),
        rebalance_timeout_ms=(
            before.rebalance_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms
        ),
        server_assignor=_or(request.server_assignor, before.server_assignor),
        classic=None,
    )


def _or(told: str | None, before: str | None) -> str | None:
    return before if told is None else told


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a request says everything, as those do that follow an error."""
    subscribes = (
        request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    )
    return (
        request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None
    )


def _dynamic_member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, owned: Partitions | None
) -> Member:
    if request.member_epoch == JOINING:
        return group.members.get(request.member_id, Member(request.member_id))
    member = group.member(request.member_id)
    _check_epoch(member, request.member_epoch, owned)
    return member


def _check_epoch(member: Member, told: int, owned: Partitions | None) -> None:
    """Refuse a member that is elsewhere, unless it just did not hear of its newest epoch."""
    standing = member.standing
    if told == standing.epoch:
        return
    if told > standing.epoch:
        raise FencedMemberEpochError(
            f"The member epoch {told} is greater than the one known here, {standing.epoch}: the "
            "member must give up all its partitions and rejoin."
        )
    if told != standing.previous_epoch or owned is None or not owned <= standing.assigned.keys():
        raise FencedMemberEpochError(
            f"The member epoch {told} is smaller than the one known here, {standing.epoch}: the "
            "member must give up all its partitions and rejoin."
        )


def _static_member(
    draft: Draft,
    request: ConsumerGroupHeartbeatRequest,
    instance_id: str,
    owned: Partitions | None,
) -> Member:
    member = draft.group.static_member(instance_id)
    if request.member_epoch != JOINING:
        member = present_static_member(draft.group, request.member_id, instance_id)
        _check_epoch(member, request.member_epoch, owned)
        return member
    if member is None:  # it may be a member already, which had no instance id, or another
        return draft.group.members.get(request.member_id, Member(request.member_id))
    if member.profile.classic is None and member.standing.epoch != LEAVING_FOR_A_WHILE:
        if member.member_id == request.member_id:
            return member  # it begins anew, or did not hear that it had joined
        raise UnreleasedInstanceIdError(
            f"Static member {request.member_id} cannot join: member {member.member_id} has not "
            f"left, and has the instance id {instance_id}."
        )
    return succeed(draft, member, request.member_id)


def present_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> Member:
    """Return the member of an instance id.

    Raises:
        UnknownMemberIdError: nobody has that instance id.
        FencedInstanceIdError: another member has it by now.
    """
    member = group.static_member(instance_id)
    if member is None:
        raise UnknownMemberIdError(f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise FencedInstanceIdError(
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}."
        )
    return member


def succeed(draft: Draft, old: Member, member_id: str) -> Member:
    """Let a static member go on under another member id, with what it has and is to have."""
    group = draft.group
    new = Member(member_id, old.profile, old.standing.back())
    draft.put(
        *farewell_to(group.group_id, old.member_id),
        ProfileFact(group.group_id, member_id, new.profile),
        TargetFact(group.group_id, member_id, group.target_of(old.member_id)),
        StandingFact(group.group_id, member_id, new.standing),
    )
    return new


def leave(
    draft: Draft, request: ConsumerGroupHeartbeatRequest, terms: Terms
) -> ConsumerGroupHeartbeatResponse:
    """Let a member leave, for good or for a while.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    group = draft.group
    if request.instance_id is None:
        member = group.member(request.member_id)
    else:
        member = present_static_member(group, request.member_id, request.instance_id)
    if request.member_epoch == LEAVING:
        remove_members(draft, [member.member_id], terms)
    else:
        away = member.standing.away()
        draft.put(StandingFact(group.group_id, member.member_id, away))
    return ConsumerGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch
    )
