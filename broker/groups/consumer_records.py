"""The records of consumer groups in ``__consumer_offsets``, in Kafka 4.3's formats.

Each is a fact about a group; a fact of None is a tombstone. What Kafka 4.0 wrote is read, too: it
kept the partition counts of topics in a record of their own, where a hash of them does since 4.1.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from quorate.broker.groups.assigning.values import Partitions, TopicIdPartition
from quorate.broker.groups.consumer_members import (
    ClassicMembership,
    ClassicProtocol,
    Holding,
    MemberState,
    Profile,
    Standing,
)
from quorate.broker.groups.records import KeyType, names_key, read_names
from quorate.broker.shards.effects import Entry
from quorate.broker.shards.formats import decode_value, encode_value
from quorate.dataclass import dataclass
from quorate.errors import CorruptRecordError
from quorate.protocol.fields import array, binary, int8, int32, int64, string, struct, uuid
from quorate.protocol.message import message, nested

VERSION: Final = 0
"""The version of all these values; what came later is in tagged fields."""

# --- values, as they are written ------------------------------------------------


@message(versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    """The epoch of a group; 0 is the hash of no topics, and of a group that Kafka 4.0 wrote."""

    epoch: int = int32()
    metadata_hash: int = int64(default=0, tag=0)


@nested
class ClassicProtocolValue:
    """A protocol that a classic member knows."""

    name: str = string()
    metadata: bytes = binary()


@nested
class ClassicMemberMetadata:
    """What a classic member said beside what all members say."""

    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocolValue] = array(ClassicProtocolValue)


@message(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    """What a member said about itself."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array("string")
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, nullable="0+", tag=0
    )


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    """At which epoch the assignment is, and when it was made."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(default=0, tag=0)


@nested
class TargetPartitions:
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    """What a member is to read."""

    topic_partitions: list[TargetPartitions] = array(TargetPartitions)


@nested
class HeldPartitions:
    """Partitions of one topic, and when each was given; not told by Kafka up to 4.2."""

    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")
    assignment_epochs: list[int] | None = array("int32", nullable="0+", default=None, tag=0)


@message(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    """What a member has."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[HeldPartitions] = array(HeldPartitions)
    partitions_pending_revocation: list[HeldPartitions] = array(HeldPartitions)


@message(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    """The topics that a regular expression stands for."""

    topics: list[str] = array("string")
    version: int = int64()
    timestamp: int = int64()


# --- facts ----------------------------------------------------------------------


class GroupEpoch(NamedTuple):
    """The epoch of a group's members and topics."""

    epoch: int
    metadata_hash: int


class TargetEpoch(NamedTuple):
    """The epoch that the assignment was made for, and when (by the wall clock)."""

    epoch: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Expression:
    """The names of topics that a regular expression stands for.

    Attributes:
        version: of the metadata that it was matched with.
    """

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class EpochFact(NamedTuple):
    """The group's epoch; a tombstone is the last that is heard of a group."""

    group_id: str
    value: GroupEpoch | None


class ProfileFact(NamedTuple):
    """What a member said; a tombstone is the last that is heard of it."""

    group_id: str
    member_id: str
    value: Profile | None


class TargetEpochFact(NamedTuple):
    """The assignment's epoch."""

    group_id: str
    value: TargetEpoch | None


class TargetFact(NamedTuple):
    """What a member is to read."""

    group_id: str
    member_id: str
    value: Partitions | None


class StandingFact(NamedTuple):
    """What a member has."""

    group_id: str
    member_id: str
    value: Standing | None


class ExpressionFact(NamedTuple):
    """What a regular expression stands for."""

    group_id: str
    expression: str
    value: Expression | None


class OldTopicsFact(NamedTuple):
    """That there is a record (or not) that Kafka 4.0 wrote, and nobody reads any more."""

    group_id: str
    value: bool


Fact: TypeAlias = (
    EpochFact
    | ProfileFact
    | TargetEpochFact
    | TargetFact
    | StandingFact
    | ExpressionFact
    | OldTopicsFact
)


def write_fact(fact: Fact) -> Entry:
    """Return the record of a fact."""
    kind = next(kind for kind, known in KINDS.items() if isinstance(fact, known.fact))
    group_id, *name = fact[:-1]
    key = names_key(kind, group_id, *name)
    ends = fact.value is None or fact.value is False
    return Entry(key, None if ends else encode_value(_value(fact), VERSION))


def _value(fact: Fact) -> object:
    match fact.value:
        case GroupEpoch(epoch, metadata_hash):
            return ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
        case Profile() as profile:
            return _profile_value(profile)
        case TargetEpoch(epoch, timestamp_ms):
            return ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=epoch, assignment_timestamp=timestamp_ms
            )
        case Standing() as standing:
            return ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=standing.epoch,
                previous_member_epoch=standing.previous_epoch,
                state=int(standing.state),
                assigned_partitions=_held_value(standing.assigned),
                partitions_pending_revocation=_held_value(standing.revoking),
            )
        case Expression(topics, version, timestamp_ms):
            return ConsumerGroupRegularExpressionValue(
                topics=sorted(topics), version=version, timestamp=timestamp_ms
            )
        case target:
            assert isinstance(target, frozenset), "what Kafka 4.0 wrote is not written any more"
            return ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=[
                    TargetPartitions(topic_id=topic_id, partitions=numbers)
                    for topic_id, numbers in by_topic(target).items()
                ]
            )


def _profile_value(profile: Profile) -> ConsumerGroupMemberMetadataValue:
    classic = profile.classic
    return ConsumerGroupMemberMetadataValue(
        instance_id=profile.instance_id,
        rack_id=profile.rack_id,
        client_id=profile.client_id,
        client_host=profile.client_host,
        subscribed_topic_names=sorted(profile.topic_names),
        subscribed_topic_regex=profile.topic_regex,
        rebalance_timeout_ms=profile.rebalance_timeout_ms,
        server_assignor=profile.server_assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocolValue(name=p.name, metadata=p.metadata) for p in classic.protocols
            ],
        ),
    )


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    """Return the numbers of the partitions of each topic, in order."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return topics


def _held_value(holding: Holding) -> list[HeldPartitions]:
    return [
        HeldPartitions(
            topic_id=topic_id,
            partitions=numbers,
            assignment_epochs=[holding[TopicIdPartition(topic_id, n)] for n in numbers],
        )
        for topic_id, numbers in by_topic(holding).items()
    ]


def read_fact(kind: int, key: bytes, value: bytes | None) -> Fact:
    """Return the fact of a record of one of these types.

    Raises:
        CorruptRecordError: it is none.
    """
    known = KINDS[KeyType(kind)]
    names = read_names(key, known.names)
    fact: Fact = known.fact(*names, known.read(value))
    return fact


def _is_there(value: bytes | None) -> bool:
    return value is not None


def _read_epoch(value: bytes | None) -> GroupEpoch | None:
    if value is None:
        return None
    told = decode_value(ConsumerGroupMetadataValue, value)
    return GroupEpoch(told.epoch, told.metadata_hash)


def _read_target_epoch(value: bytes | None) -> TargetEpoch | None:
    if value is None:
        return None
    told = decode_value(ConsumerGroupTargetAssignmentMetadataValue, value)
    return TargetEpoch(told.assignment_epoch, told.assignment_timestamp)


def _read_profile(value: bytes | None) -> Profile | None:
    if value is None:
        return None
    told = decode_value(ConsumerGroupMemberMetadataValue, value)
    return Profile(
        instance_id=told.instance_id,
        rack_id=told.rack_id,
        client_id=told.client_id,
        client_host=told.client_host,
        topic_names=frozenset(told.subscribed_topic_names),
        topic_regex=told.subscribed_topic_regex,
        rebalance_timeout_ms=told.rebalance_timeout_ms,
        server_assignor=told.server_assignor,
        classic=_read_classic(told.classic_member_metadata),
    )


def _read_classic(told: ClassicMemberMetadata | None) -> ClassicMembership | None:
    if told is None:
        return None
    if not told.supported_protocols:
        raise CorruptRecordError("a member that speaks the classic protocol, and no assignor's")
    return ClassicMembership(
        told.session_timeout_ms,
        tuple(ClassicProtocol(p.name, p.metadata) for p in told.supported_protocols),
    )


def _read_target(value: bytes | None) -> Partitions | None:
    if value is None:
        return None
    told = decode_value(ConsumerGroupTargetAssignmentMemberValue, value)
    return frozenset(
        TopicIdPartition(each.topic_id, n)
        for each in told.topic_partitions
        for n in each.partitions
    )


def _read_standing(value: bytes | None) -> Standing | None:
    if value is None:
        return None
    told = decode_value(ConsumerGroupCurrentMemberAssignmentValue, value)
    try:
        state = MemberState(told.state)
    except ValueError:
        raise CorruptRecordError(f"a member in a state {told.state}") from None
    return Standing(
        epoch=told.member_epoch,
        previous_epoch=told.previous_member_epoch,
        state=state,
        assigned=_read_held(told.assigned_partitions, told.member_epoch),
        revoking=_read_held(told.partitions_pending_revocation, told.member_epoch),
    )


def _read_held(told: list[HeldPartitions], epoch: int) -> Holding:
    holding: dict[TopicIdPartition, int] = {}
    for each in told:
        epochs = each.assignment_epochs
        if (
            epochs is None
        ):  # as Kafka does with what it wrote before: commits of older epochs are out
            epochs = [epoch] * len(each.partitions)
        if len(epochs) != len(each.partitions):
            raise CorruptRecordError("not as many epochs as partitions")
        for number, given_at in zip(each.partitions, epochs, strict=True):
            holding[TopicIdPartition(each.topic_id, number)] = given_at
    return holding


def _read_expression(value: bytes | None) -> Expression | None:
    if value is None:
        return None
    told = decode_value(ConsumerGroupRegularExpressionValue, value)
    return Expression(frozenset(told.topics), told.version, told.timestamp)


class _Kind(NamedTuple):
    """A type of record: its fact, how many names its key has, and how its value is read."""

    fact: type[Any]
    names: int
    read: Callable[[bytes | None], object]


KINDS: Final[Mapping[KeyType, _Kind]] = {
    KeyType.CONSUMER_GROUP_METADATA: _Kind(EpochFact, 1, _read_epoch),
    KeyType.CONSUMER_GROUP_PARTITION_METADATA: _Kind(OldTopicsFact, 1, _is_there),
    KeyType.CONSUMER_GROUP_MEMBER_METADATA: _Kind(ProfileFact, 2, _read_profile),
    KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: _Kind(
        TargetEpochFact, 1, _read_target_epoch
    ),
    KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: _Kind(TargetFact, 2, _read_target),
    KeyType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: _Kind(StandingFact, 2, _read_standing),
    KeyType.CONSUMER_GROUP_REGULAR_EXPRESSION: _Kind(ExpressionFact, 2, _read_expression),
}
