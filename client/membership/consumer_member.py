"""A member of a group whose coordinator assigns (KIP-848): what it says, what answers mean.

Modelled after what Kafka's consumers do (``ConsumerMembershipManager`` of its Java client).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from quorate.client.errors import FencedInstanceError, error_for
from quorate.client.membership.identity import GroupMetadata
from quorate.client.membership.member import Next
from quorate.dataclass import dataclass
from quorate.errors import MEANINGS, RETRIABLE, ErrorCode, known_code
from quorate.model import TopicPartition
from quorate.protocol.consumer_protocol import NO_GENERATION
from quorate.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quorate.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse

JOINING: Final = 0
LEAVING: Final = -1
LEAVING_FOR_A_WHILE: Final = -2
"""What a static member says: its partitions stay its own until its session ends (KIP-345)."""

FIRST_INTERVAL_MS: Final = 5_000
"""How often it beats until the coordinator has said so."""


class TopicIdPartition(NamedTuple):
    """A partition of a topic, which is not the one of a later topic of that name."""

    topic_id: bytes
    partition: int


Places = frozenset[TopicIdPartition]
NOWHERE: Final[Places] = frozenset()


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression that the group's coordinator matches with the names of topics (RE2).

    Whole names have to match. It needs ``group_protocol="consumer"``.
    """

    pattern: str


@dataclass(frozen=True, slots=True)
class Interest:
    """What a member wants to read: topics, and those that an expression matches; empty: none."""

    topics: frozenset[str] = frozenset()
    expression: str = ""


@dataclass(frozen=True, slots=True)
class ConsumerMemberSettings:
    """What a member tells the coordinator; the names are those of the consumer's arguments."""

    group_id: str
    group_instance_id: str | None
    rebalance_timeout_ms: int
    remote_assignor: str | None
    rack_id: str | None


class _Said(NamedTuple):
    """What a heartbeat tells that others need not repeat."""

    interest: Interest
    owned: Places


class ConsumerMember:
    """One consumer as a member of a consumer group.

    Invariants: ``owned`` are the partitions whose owner was told so, and was not told yet that they
    are to be given up. Who was put out is no member, and loses what it still owns before it may
    :meth:`come_back`; ``assigned`` is what it may read of all that it is to read in the end.
    """

    def __init__(self, settings: ConsumerMemberSettings, member_id: str) -> None:
        self.settings = settings
        self.member_id = member_id
        self.epoch = JOINING
        self.interest = Interest()
        self.interval_ms = FIRST_INTERVAL_MS
        self.owned = NOWHERE
        self.assigned = NOWHERE
        self.is_out = False
        self._was: GroupMetadata | None = None
        self._may_be_known = False
        self._names: dict[bytes, str] = {}
        self._told: _Said | None = None
        self._telling: _Said | None = None

    @property
    def is_member(self) -> bool:
        """Whether the coordinator has it in the group, as far as it knows."""
        return self.epoch > JOINING

    @property
    def identity(self) -> GroupMetadata:
        """Who it is in the group; who it was there, until it is somebody again.

        So commits of what it read before it was put out are refused: those of who is no member are
        taken of anybody.
        """
        settings = self.settings
        if not self.is_member and self._was is not None:
            return self._was
        epoch = self.epoch if self.is_member else NO_GENERATION
        return GroupMetadata(settings.group_id, epoch, self.member_id, settings.group_instance_id)

    # What it says

    def heartbeat_request(self) -> ConsumerGroupHeartbeatRequest:
        """Return the next sign of life, with what has changed; with everything if it joins.

        Everything is also told when nobody knows whether the last heartbeat was heard.
        """
        assert not self.is_out
        settings, now = self.settings, _Said(self.interest, self.owned)
        self._telling = now
        self._may_be_known = True
        request = ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=settings.group_instance_id,
        )
        before = self._told
        if before is None:
            request.rebalance_timeout_ms = settings.rebalance_timeout_ms
            request.server_assignor = settings.remote_assignor
            request.rack_id = settings.rack_id
        if before is None or before.interest != now.interest:
            request.subscribed_topic_names = sorted(now.interest.topics)
            request.subscribed_topic_regex = now.interest.expression
        if self.epoch == JOINING:
            request.topic_partitions = []
        elif before is None or before.owned != now.owned:
            request.topic_partitions = _by_topic(now.owned)
        return request

    def leave_request(self) -> ConsumerGroupHeartbeatRequest | None:
        """Return the request to leave; None if nobody can know it."""
        if not self._may_be_known:
            return None
        instance_id = self.settings.group_instance_id
        return ConsumerGroupHeartbeatRequest(
            group_id=self.settings.group_id,
            member_id=self.member_id,
            member_epoch=LEAVING if instance_id is None else LEAVING_FOR_A_WHILE,
            instance_id=instance_id,
        )

    # What it hears

    def on_heartbeat(self, response: ConsumerGroupHeartbeatResponse) -> Next:
        """Take the answer to a sign of life.

        Raises:
            KafkaError: It cannot be a member of this group.
        """
        code = known_code(response.error_code)
        if code != ErrorCode.NONE:
            return self._after(code, response.error_message)
        self.epoch = response.member_epoch
        self.interval_ms = response.heartbeat_interval_ms or self.interval_ms
        self._told = self._telling
        if response.assignment is not None:
            self.assigned = frozenset(
                TopicIdPartition(topic.topic_id, number)
                for topic in response.assignment.topic_partitions
                for number in topic.partitions
            )
        return Next.GO_ON

    def not_heard(self) -> None:
        """Know that the last heartbeat may not have arrived, or its answer was lost."""
        self._told = None

    def _after(self, code: ErrorCode, message: str | None) -> Next:
        """Return what to do after an error.

        Raises:
            KafkaError: Nothing helps.
        """
        self.not_heard()
        if code in {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}:
            return Next.LOOK_UP
        if code in {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}:
            self.put_out()
            return Next.JOIN
        if code in RETRIABLE:
            return Next.RETRY
        self.put_out()
        text = f"group {self.settings.group_id!r}: it is refused: {message or MEANINGS[code]}"
        if code == ErrorCode.FENCED_INSTANCE_ID:
            raise FencedInstanceError(text)
        if code == ErrorCode.UNRELEASED_INSTANCE_ID:
            raise error_for(
                code,
                f"{text} One that was killed is forgotten when its session has ended, or with"
                " 'quorate groups kick'",
            )
        raise error_for(code, text)

    # Having an assignment

    @property
    def nameless(self) -> frozenset[bytes]:
        """The ids of topics that are assigned and whose names it does not know."""
        return frozenset(each.topic_id for each in self.assigned) - self._names.keys()

    def learn(self, names: Mapping[bytes, str]) -> None:
        """Know what topics are called."""
        used = {each.topic_id for each in self.assigned | self.owned}
        known = self._names | dict(names)
        self._names = {topic_id: known[topic_id] for topic_id in used & known.keys()}

    def named(self, places: Iterable[TopicIdPartition]) -> frozenset[TopicPartition]:
        """Return partitions by the names of their topics."""
        return frozenset(TopicPartition(self._names[p.topic_id], p.partition) for p in places)

    @property
    def to_give_up(self) -> Places:
        """What it owns and may not read any more; after it was put out, everything."""
        return self.owned - self.assigned

    @property
    def to_add(self) -> Places:
        """What it may read from now on, as far as it knows where that is."""
        fresh = self.assigned - self.owned
        return frozenset(each for each in fresh if each.topic_id in self._names)

    def gave_up(self, places: Places) -> None:
        """Know that the owner was told."""
        self.owned -= places

    def took_over(self, places: Places) -> None:
        """Know that the owner was told."""
        self.owned |= places

    # Being out

    def put_out(self) -> None:
        """Know that the group has gone on without it, or that it left."""
        if self.is_member:
            self._was = self.identity
        self.epoch = LEAVING
        self.is_out = True
        self.assigned = NOWHERE
        self._told = None

    def left(self) -> None:
        """Know that it has said that it leaves."""
        self.put_out()
        self._may_be_known = False

    def come_back(self) -> None:
        """Be about to join, once what it owned is given up."""
        assert not self.owned
        self.is_out = False
        self.epoch = JOINING


def _by_topic(places: Places) -> list[ConsumerGroupHeartbeatTopicPartitions]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(places):
        topics.setdefault(topic_id, []).append(number)
    return [
        ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=numbers)
        for topic_id, numbers in topics.items()
    ]
