"""ConsumerGroup: a group whose partitions the broker assigns (KIP-848)."""

from collections import Counter
from dataclasses import replace
from typing import Final, TypeVar

from quorate.broker.groups.assigning.values import NOTHING, Partitions, TopicIdPartition
from quorate.broker.groups.consumer_errors import StaleMemberEpochError
from quorate.broker.groups.consumer_members import (
    Member,
    Profile,
    Standing,
)
from quorate.broker.groups.consumer_records import (
    EpochFact,
    Expression,
    ExpressionFact,
    Fact,
    GroupEpoch,
    OldTopicsFact,
    ProfileFact,
    StandingFact,
    TargetEpoch,
    TargetEpochFact,
    TargetFact,
    write_fact,
)
from quorate.broker.groups.errors import IllegalGenerationError
from quorate.broker.groups.group import CommitSender, HeldSince, UnknownMemberIdError
from quorate.broker.shards.effects import Entry
from quorate.errors import UnsupportedVersionError
from quorate.protocol.consumer_protocol import PROTOCOL_TYPE

EPOCHS_IN_COMMIT_FROM: Final = 9
"""The version of OffsetCommit whose senders know that a generation may be a member epoch."""

NO_TARGET: Final = TargetEpoch(-1, 0)

V = TypeVar("V")


class ConsumerGroup:
    """The fold of a group's facts; the group's epoch counts what its members and topics were.

    The target is what each member is to read as of the assignment's epoch, their standing how far
    they are with it. See ``docs/flows/consumer-group.md``.

    Invariant: a partition has one owner at most: who reads it, or is to give it up.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = GroupEpoch(0, 0)
        self.members: dict[str, Member] = {}
        self.instances: dict[str, str] = {}
        """Member ids of static members."""
        self.target_epoch = NO_TARGET
        self.targets: dict[str, Partitions] = {}
        self.expressions: dict[str, Expression] = {}
        self.has_old_topics = False
        self.topics_seen: object = None
        """The topics of the metadata when they were last compared with the epoch's hash."""
        self._owners: dict[TopicIdPartition, str] = {}

    def copy(self) -> "ConsumerGroup":
        """Return a group like this one, to find out what it would become."""
        other = ConsumerGroup(self.group_id)
        other.epoch, other.target_epoch = self.epoch, self.target_epoch
        other.has_old_topics, other.topics_seen = self.has_old_topics, self.topics_seen
        other.members = self.members.copy()
        other.instances = self.instances.copy()
        other.targets = self.targets.copy()
        other.expressions = self.expressions.copy()
        other._owners = self._owners.copy()
        return other

    # --- what others ask ---------------------------------------------------------

    @property
    def group_type(self) -> str:
        """The type of group."""
        return "consumer"

    @property
    def protocol_type(self) -> str:
        """What its members are."""
        return PROTOCOL_TYPE

    @property
    def state_name(self) -> str:
        """Kafka's name of the state."""
        if not self.members:
            return "Empty"
        epoch = self.target_epoch.epoch
        if self.epoch.epoch > epoch:
            return "Assigning"
        if all(member.standing.is_settled_at(epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def expects_members(self) -> bool:
        """Whether somebody was told an id to come back with: here nobody has to."""
        return False

    def member(self, member_id: str) -> Member:
        """Return a member.

        Raises:
            UnknownMemberIdError: there is none of that id.
        """
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError(
                f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str | None) -> Member | None:
        """Return the member of a ``group.instance.id``, if there is one."""
        member_id = self.instances.get(instance_id or "")
        return None if member_id is None else self.members[member_id]

    def target_of(self, member_id: str) -> Partitions:
        """Return what a member is to read."""
        return self.targets.get(member_id, NOTHING)

    def owner_of(self, partition: TopicIdPartition) -> str | None:
        """Return who reads a partition or is to give it up."""
        return self._owners.get(partition)

    def waits_for_others(self, member: Member) -> bool:
        """Whether others still have some of what the member is to read."""
        missing = self.target_of(member.member_id).difference(member.standing.assigned)
        return any(self.owner_of(partition) is not None for partition in missing)

    def preferred_assignor(self) -> str | None:
        """Return the assignor that most members want, if any member has a wish."""
        wishes = Counter(
            member.profile.server_assignor
            for member in self.members.values()
            if member.profile.server_assignor is not None
        )
        return min(wishes, key=lambda name: (-wishes[name], name), default=None)

    def topics_of(self, profile: Profile) -> frozenset[str]:
        """Return the names of all topics that a member subscribes to, whether they exist or not."""
        expression = self.expressions.get(profile.topic_regex or "")
        if expression is None:
            return profile.topic_names
        return profile.topic_names | expression.topics

    def subscribers_of_expression(self, expression: str) -> int:
        """Return how many members subscribe by that regular expression."""
        return sum(m.profile.topic_regex == expression for m in self.members.values())

    def topics(self) -> frozenset[str]:
        """Return the names of all topics that members subscribe to."""
        return frozenset[str]().union(*(self.topics_of(m.profile) for m in self.members.values()))

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""
        return any(topic in self.topics_of(m.profile) for m in self.members.values())

    def idle_since_ms(self, commit_timestamp_ms: int) -> int:
        """Return the time of the commit: that is what counts for these groups (as in Kafka)."""
        return commit_timestamp_ms

    # --- offsets -----------------------------------------------------------------

    def check_commit(self, sender: CommitSender) -> HeldSince | None:
        """Refuse offsets of whom is at no epoch of this group.

        Who names an epoch that it was at before has not heard yet of the one that it is at, and may
        commit what it has had since then (KIP-1251).

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID; STALE_MEMBER_EPOCH, or for a classic member
                ILLEGAL_GENERATION; UNSUPPORTED_VERSION.
        """
        if sender.generation < 0 and not self.members:
            return None  # an administrator, or a consumer that takes partitions of its own choice
        anonymous = not sender.member_id and sender.instance_id is None and sender.generation == -1
        if sender.transactional and anonymous:
            return None  # a producer too old to say for whom it commits (KIP-447)
        member = self.member(sender.member_id)
        classic = member.profile.classic is not None
        if not (classic or sender.transactional) and sender.api_version < EPOCHS_IN_COMMIT_FROM:
            raise UnsupportedVersionError(
                "OffsetCommit version 9 or above must be used by members using the consumer group "
                "protocol"
            )
        if sender.generation == member.standing.epoch:
            return None
        if classic or sender.generation > member.standing.epoch:
            raise self._wrong_epoch(member, sender.generation)
        return {**member.standing.revoking, **member.standing.assigned}

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse to tell offsets to whom is not at its epoch.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID; STALE_MEMBER_EPOCH, or for a classic member
                ILLEGAL_GENERATION.
        """
        if member_id is None and member_epoch < 0:
            return  # an administrator, or a consumer that does not say who it is
        member = self.member(member_id or "")
        if member_epoch != member.standing.epoch:
            raise self._wrong_epoch(member, member_epoch)

    def _wrong_epoch(
        self, member: Member, told: int
    ) -> StaleMemberEpochError | IllegalGenerationError:
        if member.profile.classic is not None:
            return IllegalGenerationError(
                f"The received generation id {told} does not match the expected member epoch "
                f"{member.standing.epoch}."
            )
        return StaleMemberEpochError(
            f"The received member epoch {told} does not match the expected member epoch "
            f"{member.standing.epoch}."
        )

    # --- facts -------------------------------------------------------------------

    def apply(self, fact: Fact) -> None:
        """Fold one fact into the group, in any order that a compacted log may bring."""
        match fact:
            case EpochFact():
                self.epoch = fact.value or GroupEpoch(0, 0)
            case TargetEpochFact():
                self.target_epoch = fact.value or NO_TARGET
            case OldTopicsFact():
                self.has_old_topics = fact.value
            case TargetFact():
                _put(self.targets, fact.member_id, fact.value)
            case ExpressionFact():
                _put(self.expressions, fact.expression, fact.value)
            case ProfileFact():
                self._put_profile(fact.member_id, fact.value)
            case _:
                self._put_standing(fact.member_id, fact.value)

    def _put_profile(self, member_id: str, profile: Profile | None) -> None:
        before = self.members.get(member_id, Member(member_id))
        instance_id = before.profile.instance_id
        if instance_id is not None and self.instances.get(instance_id) == member_id:
            del self.instances[instance_id]
        if profile is None:
            self._release(member_id, before.standing)
            self.members.pop(member_id, None)
            return
        self.members[member_id] = replace(before, profile=profile)
        if profile.instance_id is not None:
            self.instances[profile.instance_id] = member_id

    def _put_standing(self, member_id: str, standing: Standing | None) -> None:
        before = self.members.get(member_id)
        if before is None:
            if standing is None:
                return
            before = Member(member_id)
        self._release(member_id, before.standing)
        standing = standing or Standing()
        self.members[member_id] = replace(before, standing=standing)
        for holding in (standing.assigned, standing.revoking):
            self._owners.update(dict.fromkeys(holding, member_id))

    def _release(self, member_id: str, standing: Standing) -> None:
        for holding in (standing.assigned, standing.revoking):
            for partition in holding:
                if self._owners.get(partition) == member_id:
                    del self._owners[partition]

    def tombstones(self) -> list[Entry]:
        """Return what takes back all records of the group."""
        return [write_fact(fact) for fact in self.farewell()]

    def farewell(self) -> list[Fact]:
        """Return the facts that end the group; its epoch's is the last."""
        facts: list[Fact] = []
        for member_id in self.members:
            facts += farewell_to(self.group_id, member_id)
        facts += [
            TargetFact(self.group_id, member_id, None)
            for member_id in self.targets
            if member_id not in self.members
        ]
        facts += [ExpressionFact(self.group_id, text, None) for text in self.expressions]
        facts.append(TargetEpochFact(self.group_id, None))
        if self.has_old_topics:
            facts.append(OldTopicsFact(self.group_id, value=False))
        facts.append(EpochFact(self.group_id, None))
        return facts


def farewell_to(group_id: str, member_id: str) -> list[Fact]:
    """Return the facts that end a membership."""
    return [
        StandingFact(group_id, member_id, None),
        TargetFact(group_id, member_id, None),
        ProfileFact(group_id, member_id, None),
    ]


def _put(mapping: dict[str, V], key: str, value: V | None) -> None:
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value
