"""What a change of a consumer group's members or topics leads to: an epoch, an assignment.

Decisions are made on a draft: what the group becomes by the facts put into it so far. Once they are
written, the same facts make the group the same.
"""

import logging
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final

from quorate.broker.groups.assigning.ranges import assign_ranges
from quorate.broker.groups.assigning.uniform import assign_uniformly
from quorate.broker.groups.assigning.values import Assignor, Partitions, Reader, Readers
from quorate.broker.groups.consumer import ConsumerGroup, farewell_to
from quorate.broker.groups.consumer_errors import InvalidRegularExpressionError
from quorate.broker.groups.consumer_members import Member, Profile
from quorate.broker.groups.consumer_reconciling import Goal, reconcile
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
)
from quorate.broker.groups.consumer_regex import compile_regex
from quorate.dataclass import dataclass
from quorate.quorum.metadata.image import MetadataImage
from quorate.settings import NodeConfig

logger = logging.getLogger(__name__)

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}

EXPRESSIONS_PAUSE_MS: Final = 1_000
"""A group's regular expressions are matched with new topics so often at most (in Kafka: 10 s)."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a decision goes by.

    Attributes:
        now_ms: the wall clock.
        names_version: a version of the metadata since which no topic was created or deleted.
    """

    image: MetadataImage
    now_ms: int
    config: NodeConfig
    names_version: int


class Draft:
    """A group as it becomes, and the facts that make it so; the group itself stays as it is."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.facts: list[Fact] = []
        self.topics_seen = group.topics_seen

    def put(self, *facts: Fact) -> None:
        """Make facts true."""
        for fact in facts:
            if not self.facts:
                self.group = self.group.copy()
            self.group.apply(fact)
            self.facts.append(fact)


def remove_members(draft: Draft, member_ids: Iterable[str], terms: Terms) -> None:
    """Take members out; the next heartbeat of anybody else finds a new epoch."""
    before = {m: draft.group.members[m].profile for m in member_ids}
    for member_id in before:
        draft.put(*farewell_to(draft.group.group_id, member_id))
    for profile in before.values():
        _drop_expression(draft, profile.topic_regex or "")
    begin_epoch(draft, terms)


def put_profile(draft: Draft, member: Member, profile: Profile, terms: Terms) -> bool:
    """Note what a member says of itself; return whether it subscribes to something else now.

    Raises:
        InvalidRegularExpressionError: what it subscribes by is none.
    """
    group_id, member_id = draft.group.group_id, member.member_id
    before = member.profile
    if member_id not in draft.group.members or profile != draft.group.members[member_id].profile:
        draft.put(ProfileFact(group_id, member_id, profile))
    expression = profile.topic_regex or ""
    if expression != (before.topic_regex or ""):
        _drop_expression(draft, before.topic_regex or "")
        if expression and expression not in draft.group.expressions:
            draft.put(_resolved(group_id, expression, terms))
        return True
    return profile.topic_names != before.topic_names


def _drop_expression(draft: Draft, expression: str) -> None:
    """Forget what nobody subscribes by any more."""
    group = draft.group
    if expression in group.expressions and not group.subscribers_of_expression(expression):
        draft.put(ExpressionFact(group.group_id, expression, None))


def _resolved(group_id: str, expression: str, terms: Terms) -> ExpressionFact:
    topics = compile_regex(expression).select(terms.image.topics)
    value = Expression(topics, terms.names_version, terms.now_ms)
    return ExpressionFact(group_id, expression, value)


def _resolved_again(
    group_id: str, expression: str, before: Expression, terms: Terms
) -> ExpressionFact:
    """Match an expression anew; one that takes too long by now stands for what it stood for.

    Who asks for something may not have brought it, and if this was not written down, everybody who
    does would have it tried again.
    """
    try:
        return _resolved(group_id, expression, terms)
    except InvalidRegularExpressionError as error:
        logger.warning("group %r goes on with the topics of before: %s", group_id, error)
        same = Expression(before.topics, terms.names_version, terms.now_ms)
        return ExpressionFact(group_id, expression, same)


def refresh_expressions(draft: Draft, terms: Terms) -> bool:
    """Match regular expressions anew if there may be other topics, or it was long ago.

    Returns:
        Whether any of them stands for other topics now.
    """
    group, others = draft.group, False
    for text, expression in group.expressions.items():
        age_ms = terms.now_ms - expression.timestamp_ms
        # A clock that is behind that of the coordinator before must not hold this up.
        paused = 0 <= age_ms < EXPRESSIONS_PAUSE_MS
        outdated = expression.version < terms.names_version and not paused
        if outdated or age_ms >= terms.config.group_consumer_regex_refresh_interval_ms:
            draft.put(_resolved_again(group.group_id, text, expression, terms))
            others |= draft.group.expressions[text].topics != expression.topics
    return others


def hash_of(topics: Iterable[str], image: MetadataImage) -> int:
    """Return a number that differs if topics of these names come, go, or get more partitions."""
    digest = blake2b(digest_size=8)
    any_topic = False
    for name in sorted(topics):
        topic = image.topics.get(name)
        if topic is not None:
            any_topic = True
            digest.update(topic.topic_id + len(topic.partitions).to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True) if any_topic else 0


def follow_topics(draft: Draft, terms: Terms, *, changed: bool) -> None:
    """Begin a new epoch if a subscription has changed, or topics have."""
    group = draft.group
    begins = changed or group.epoch.epoch == 0
    if not begins and group.topics_seen is not terms.image.topics:
        begins = hash_of(group.topics(), terms.image) != group.epoch.metadata_hash
    draft.topics_seen = terms.image.topics
    if begins:
        begin_epoch(draft, terms)


def begin_epoch(draft: Draft, terms: Terms) -> None:
    """Begin a new epoch of the group, which asks for a new assignment."""
    group = draft.group
    metadata_hash = hash_of(group.topics(), terms.image)
    draft.put(EpochFact(group.group_id, GroupEpoch(group.epoch.epoch + 1, metadata_hash)))
    if group.has_old_topics:
        draft.put(OldTopicsFact(group.group_id, value=False))


def is_assignment_due(group: ConsumerGroup, terms: Terms) -> bool:
    """Whether it is to be decided anew who reads what.

    Not again within ``group.consumer.assignment.interval.ms``, so that a hundred members that come
    together do not cause a hundred assignments.
    """
    if group.epoch.epoch <= group.target_epoch.epoch:
        return False
    pause_ms = terms.config.group_consumer_assignment_interval_ms
    made_at_ms = group.target_epoch.timestamp_ms
    return not made_at_ms <= terms.now_ms < made_at_ms + pause_ms


def assign(draft: Draft, terms: Terms) -> None:
    """Decide anew who is to read what, if that is due."""
    group = draft.group
    if not is_assignment_due(group, terms):
        return
    name = group.preferred_assignor() or terms.config.group_consumer_assignors[0]
    assignment = ASSIGNORS[name](_readers(group, terms.image))
    for member_id, target in assignment.items():
        if group.targets.get(member_id) != target:
            draft.put(TargetFact(group.group_id, member_id, target))
    draft.put(TargetEpochFact(group.group_id, TargetEpoch(group.epoch.epoch, terms.now_ms)))


def _readers(group: ConsumerGroup, image: MetadataImage) -> Readers:
    members = tuple(
        Reader(
            member.member_id,
            member.profile.instance_id,
            subscribed_ids(group, member.profile, image),
            group.target_of(member.member_id),
        )
        for member in group.members.values()
    )
    topics = (image.topics[name] for name in group.topics() if name in image.topics)
    return Readers(members, {topic.topic_id: len(topic.partitions) for topic in topics})


def subscribed_ids(
    group: ConsumerGroup, profile: Profile, image: MetadataImage
) -> frozenset[bytes]:
    """Return the ids of the topics that a member subscribes to and that exist."""
    found = (image.topics.get(name) for name in group.topics_of(profile))
    return frozenset(topic.topic_id for topic in found if topic is not None)


def advance(
    draft: Draft,
    member_id: str,
    owned: Partitions | None,
    terms: Terms,
    *,
    subscription_changed: bool,
) -> Member:
    """Bring a member as near to its target as others let it, and return it."""
    group = draft.group
    member = group.members[member_id]
    epoch = group.target_epoch.epoch
    if member.standing.is_settled_at(epoch) and not subscription_changed:
        return member
    goal = Goal(
        epoch=epoch,
        target=group.target_of(member_id),
        subscribed=subscribed_ids(group, member.profile, terms.image),
        subscription_changed=subscription_changed,
    )
    standing = reconcile(
        member.standing, goal, owned, lambda partition: group.owner_of(partition) is not None
    )
    if standing != member.standing:
        draft.put(StandingFact(group.group_id, member_id, standing))
    return draft.group.members[member_id]
