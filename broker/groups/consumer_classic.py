"""Members of consumer groups that speak the classic protocol still, while a group is upgraded.

They join, sync and send heartbeats as ever; a generation is a member's epoch to them, and what
leaders of groups do is done here. Decisions on a draft; nothing is written here. Modelled after
what ``GroupMetadataManager`` of Kafka 4.3 does.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from quorate.broker.groups.assigning.values import Partitions, TopicIdPartition
from quorate.broker.groups.classic_members import Applicant, Assigner, Leaver
from quorate.broker.groups.consumer import ConsumerGroup
from quorate.broker.groups.consumer_heartbeats import check_room, present_static_member, succeed
from quorate.broker.groups.consumer_members import (
    ClassicMembership,
    ClassicProtocol,
    Member,
    MemberState,
)
from quorate.broker.groups.consumer_rebalancing import (
    Draft,
    Terms,
    advance,
    assign,
    follow_topics,
    is_assignment_due,
    put_profile,
    refresh_expressions,
)
from quorate.broker.groups.errors import (
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    RebalanceInProgressError,
)
from quorate.broker.groups.group import UnknownMemberIdError
from quorate.model import TopicPartition
from quorate.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Subscription,
    decode_subscription,
    encode_assignment,
)
from quorate.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse
from quorate.protocol.primitives import DecodeError
from quorate.quorum.metadata.image import MetadataImage


def check_applicant(group: ConsumerGroup, who: Applicant, terms: Terms) -> None:
    """Refuse who cannot be in the group.

    Raises:
        KafkaError: GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL.
    """
    if terms.config.group_consumer_migration_policy == "disabled":
        raise InconsistentGroupProtocolError(
            f"Group {group.group_id} is one of the consumer protocol, and migration is disabled."
        )
    check_room(group, who.member_id, terms)
    others = [m.profile.classic.protocols for m in group.members.values() if m.profile.classic]
    known = Counter(name for protocols in others for name in {p.name for p in protocols})
    fits = any(known[name] == len(others) for name, _ in who.protocols)
    if who.protocol_type != PROTOCOL_TYPE or not fits:
        raise InconsistentGroupProtocolError


def join(draft: Draft, who: Applicant, member_id: str, terms: Terms) -> JoinGroupResponse:
    """Take in a classic member, or bring it on to its next generation.

    Raises:
        KafkaError: as :func:`check_applicant`; UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    check_applicant(draft.group, who, terms)
    subscription = _subscription(who)
    member = _member(draft, who, member_id)
    profile = replace(
        member.profile,
        instance_id=who.instance_id or member.profile.instance_id,
        rack_id=subscription.rack_id or member.profile.rack_id,
        client_id=who.client_id,
        client_host=who.client_host,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        rebalance_timeout_ms=who.rebalance_timeout_ms,
        classic=ClassicMembership(
            who.session_timeout_ms, tuple(ClassicProtocol(*each) for each in who.protocols)
        ),
    )
    changed = put_profile(draft, member, profile, terms)
    others = refresh_expressions(draft, terms)
    follow_topics(draft, terms, changed=changed or others)
    assign(draft, terms)
    owned = ids_of(subscription.owned, terms.image)
    member = advance(draft, member_id, owned, terms, subscription_changed=changed)
    return JoinGroupResponse(
        member_id=member_id,
        generation_id=member.standing.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=who.protocols[0][0],
    )


def _subscription(who: Applicant) -> Subscription:
    """Return what a member subscribes to, which is the same in all its protocols."""
    try:
        return decode_subscription(who.protocols[0][1])
    except DecodeError as error:
        raise InconsistentGroupProtocolError(f"the subscription is malformed: {error}") from None


def ids_of(partitions: Sequence[TopicPartition], image: MetadataImage) -> Partitions:
    """Return the partitions of topics that exist by their ids."""
    return frozenset(
        TopicIdPartition(topic.topic_id, partition)
        for name, partition in partitions
        if (topic := image.topics.get(name)) is not None
    )


def _member(draft: Draft, who: Applicant, member_id: str) -> Member:
    if who.instance_id is None:
        return draft.group.members.get(member_id, Member(member_id))
    if who.member_id:
        return present_static_member(draft.group, member_id, who.instance_id)
    before = draft.group.static_member(who.instance_id)
    return Member(member_id) if before is None else succeed(draft, before, member_id)


def present_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    """Return a member of either protocol.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    if instance_id is None:
        return group.member(member_id)
    return present_static_member(group, member_id, instance_id)


def sync(group: ConsumerGroup, who: Assigner, image: MetadataImage) -> SyncGroupResponse:
    """Return what a member is to read.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
            INCONSISTENT_GROUP_PROTOCOL; REBALANCE_IN_PROGRESS, to have it join again.
    """
    member = check_member(group, who.member_id, who.instance_id, who.generation)
    assert member.profile.classic is not None, "it was checked"
    expected = (PROTOCOL_TYPE, member.profile.classic.protocols[0].name)
    for told, known in zip((who.protocol_type, who.protocol_name), expected, strict=True):
        if told is not None and told != known:
            raise InconsistentGroupProtocolError(f"{told} is not {known}, as the join was answered")
    revoking = member.standing.state is MemberState.UNREVOKED_PARTITIONS
    if group.target_epoch.epoch > member.standing.epoch and not revoking:
        raise RebalanceInProgressError
    return SyncGroupResponse(
        protocol_type=who.protocol_type,
        protocol_name=who.protocol_name,
        assignment=encode_assignment(named(member.standing.assigned, image)),
    )


def named(
    partitions: Iterable[TopicIdPartition], image: MetadataImage
) -> tuple[TopicPartition, ...]:
    """Return the partitions of topics that exist by their names, in order."""
    found = (
        TopicPartition(name, partition)
        for topic_id, partition in partitions
        if (name := image.topic_names.get(topic_id)) is not None
    )
    return tuple(sorted(found))


def check_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> Member:
    """Return the classic member that says where it is.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID (also if it speaks the new protocol), FENCED_INSTANCE_ID,
            ILLEGAL_GENERATION.
    """
    member = present_member(group, member_id, instance_id)
    if member.profile.classic is None:
        raise UnknownMemberIdError(f"Member {member_id} does not use the classic protocol.")
    if generation != member.standing.epoch:
        raise IllegalGenerationError(
            f"The generation {generation} is not the epoch {member.standing.epoch} of member "
            f"{member.member_id}."
        )
    return member


def must_rejoin(group: ConsumerGroup, member: Member, terms: Terms) -> bool:
    """Whether a member is to join again.

    Because there is a newer assignment, or one is due (who joins has it made); because it has
    partitions to give up; or because those that it waited for are free by now.
    """
    standing = member.standing
    newer = standing.epoch < group.target_epoch.epoch or is_assignment_due(group, terms)
    if newer or standing.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    unreleased = standing.state is MemberState.UNRELEASED_PARTITIONS
    return unreleased and not group.waits_for_others(member)


def who_leaves(group: ConsumerGroup, leaver: Leaver) -> Member:
    """Return the member that leaves, or that an administrator takes out, of either protocol.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    member_id = leaver.member_id
    if leaver.instance_id is not None and not member_id:
        static = group.static_member(leaver.instance_id)
        member_id = "" if static is None else static.member_id
    return present_member(group, member_id, leaver.instance_id)
