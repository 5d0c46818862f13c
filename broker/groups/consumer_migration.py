"""How a group changes from the classic protocol to the new one with members in it, and back.

The records of one kind are taken back and those of the other are written, in one batch. Kafka has
this in ``GroupMetadataManager`` (KIP-848, "Online Migration").
"""

from typing import Final

from quorate.broker.groups.classic import ClassicGroup
from quorate.broker.groups.classic_members import Member as ClassicMember
from quorate.broker.groups.classic_members import elect_protocol
from quorate.broker.groups.consumer import ConsumerGroup
from quorate.broker.groups.consumer_classic import ids_of, named
from quorate.broker.groups.consumer_members import (
    ClassicMembership,
    ClassicProtocol,
    Member,
    Profile,
    Standing,
)
from quorate.broker.groups.consumer_records import (
    EpochFact,
    Fact,
    GroupEpoch,
    ProfileFact,
    StandingFact,
    TargetEpoch,
    TargetEpochFact,
    TargetFact,
)
from quorate.broker.groups.group import GroupIdNotFoundError
from quorate.broker.groups.records import (
    GROUP_METADATA_VERSION,
    GroupMetadataValue,
    KeyType,
    MemberMetadata,
    names_key,
)
from quorate.broker.shards.effects import Entry
from quorate.broker.shards.formats import encode_value
from quorate.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from quorate.protocol.primitives import DecodeError
from quorate.quorum.metadata.image import MetadataImage
from quorate.settings import NodeConfig

UPGRADES: Final = ("upgrade", "bidirectional")
DOWNGRADES: Final = ("downgrade", "bidirectional")


def check_upgrade(group: ClassicGroup, config: NodeConfig) -> None:
    """Refuse to make a group one of the new protocol.

    Raises:
        GroupIdNotFoundError: it is forbidden, too large, or not one of consumers.
    """
    why = ""
    if config.group_consumer_migration_policy not in UPGRADES:
        why = "that is switched off"
    elif group.protocol_type != PROTOCOL_TYPE:
        why = "its members are no consumers"
    elif len(group.members) > config.group_consumer_max_size:
        why = "it has too many members"
    if why:
        raise GroupIdNotFoundError(
            f"Group {group.group_id} cannot be upgraded from the classic protocol: {why}."
        )


def upgraded(group: ClassicGroup, image: MetadataImage) -> list[Fact]:
    """Return the facts of a group with the same members: they have what they were assigned.

    The generation is the epoch. Members that are joining are told to join again.

    Raises:
        GroupIdNotFoundError: what its members say cannot be read.
    """
    facts: list[Fact] = [
        EpochFact(group.group_id, GroupEpoch(group.generation, 0)),
        TargetEpochFact(group.group_id, TargetEpoch(group.generation, 0)),
    ]
    for member in group.members:
        try:
            facts += _upgraded_member(group, member, image)
        except DecodeError as error:
            raise GroupIdNotFoundError(
                f"Group {group.group_id} cannot be upgraded from the classic protocol: what member "
                f"{member.member_id} says is malformed: {error}."
            ) from None
    return facts


def _upgraded_member(
    group: ClassicGroup, member: ClassicMember, image: MetadataImage
) -> list[Fact]:
    protocols = tuple(ClassicProtocol(*each) for each in member.protocols)
    subscription = decode_subscription(
        member.metadata(group.protocol_name) or protocols[0].metadata
    )
    target = ids_of(decode_assignment(member.assignment), image)
    profile = Profile(
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMembership(member.session_timeout_ms, protocols),
    )
    generation = group.generation
    standing = Standing(generation, generation, assigned=dict.fromkeys(target, generation))
    group_id, member_id = group.group_id, member.member_id
    return [
        ProfileFact(group_id, member_id, profile),
        TargetFact(group_id, member_id, target),
        StandingFact(group_id, member_id, standing),
    ]


def may_downgrade(group: ConsumerGroup, config: NodeConfig) -> bool:
    """Whether all members that are left speak the classic protocol, and may go on in it."""
    return (
        not group.is_empty
        and all(member.profile.classic is not None for member in group.members.values())
        and config.group_consumer_migration_policy in DOWNGRADES
        and len(group.members) <= config.group_max_size
    )


def downgraded(
    before: ConsumerGroup, group: ConsumerGroup, image: MetadataImage, now_ms: int
) -> list[Entry]:
    """Return the records that make a classic group of what is left of one of the new protocol.

    Its generation is the epoch that members are at, if they are: so they may commit what they have
    read before they join again.

    Args:
        before: the group as it is recorded.
        group: the group without those who left.
        image: tells the names of topics.
        now_ms: the wall clock.
    """
    protocol = elect_protocol(_classic(m).protocols for m in group.members.values())
    value = GroupMetadataValue(
        protocol_type=PROTOCOL_TYPE,
        generation=before.epoch.epoch,
        protocol=protocol,
        leader=next(iter(group.members)),
        current_state_timestamp=now_ms,
        members=[
            _downgraded_member(group, member, protocol, image) for member in group.members.values()
        ],
    )
    key = names_key(KeyType.GROUP_METADATA, group.group_id)
    return [*before.tombstones(), Entry(key, encode_value(value, GROUP_METADATA_VERSION))]


def _classic(member: Member) -> ClassicMembership:
    classic = member.profile.classic
    assert classic is not None, "all who are left speak the classic protocol"
    return classic


def _downgraded_member(
    group: ConsumerGroup, member: Member, protocol: str | None, image: MetadataImage
) -> MemberMetadata:
    profile, classic = member.profile, _classic(member)
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=profile.instance_id,
        client_id=profile.client_id,
        client_host=profile.client_host,
        rebalance_timeout=profile.rebalance_timeout_ms,
        session_timeout=classic.session_timeout_ms,
        subscription=dict(classic.protocols)[protocol or ""],
        assignment=encode_assignment(named(group.target_of(member.member_id), image)),
    )
