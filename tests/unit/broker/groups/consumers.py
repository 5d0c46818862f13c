"""A coordinator of groups on a log that is a list; topics change, commits come later."""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from quorate.broker.groups.assigning.values import TopicIdPartition
from quorate.broker.groups.classic_groups import ClassicGroups
from quorate.broker.groups.classic_members import Applicant, Assigner, Leaver
from quorate.broker.groups.committing import OffsetKeeper
from quorate.broker.groups.consumer import ConsumerGroup
from quorate.broker.groups.consumer_groups import ConsumerGroups
from quorate.broker.groups.consumer_heartbeats import Caller
from quorate.broker.groups.group import Group, GroupContext, GroupProtocol, Surroundings
from quorate.broker.groups.records import KeyType
from quorate.broker.replication.deadlines import Deadlines
from quorate.broker.shards.effects import Entry
from quorate.errors import ErrorCode, KafkaError
from quorate.model import TopicPartition
from quorate.promise import Promise
from quorate.protocol.consumer_protocol import Subscription, encode_subscription
from quorate.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from quorate.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse
from quorate.quorum.metadata.image import (
    EMPTY_IMAGE,
    ConfigResource,
    MetadataImage,
    PartitionState,
    TopicImage,
)
from quorate.quorum.metadata.sharded import ShardedDraft
from quorate.settings import NodeConfig
from tests.unit.broker.groups.logs import NONE, ListWriter, pass_ms

GROUP = "readers"
WALL_CLOCK_AHEAD_MS = 1_700_000_000_000
SESSION_MS = 45_000
REBALANCE_MS = 10_000

Owned = Iterable[tuple[str, int]]


class World:
    """One coordinator, its time, and the cluster's topics."""

    def __init__(
        self, log: Sequence[Entry] = (), image: MetadataImage = EMPTY_IMAGE, **settings: Any
    ) -> None:
        self.deadlines = Deadlines()
        self.known: dict[str, Group] = {}
        self.image = image
        protocols: dict[int, GroupProtocol] = {}
        self.writer = ListWriter(protocols)
        settings = {"group_consumer_assignment_interval_ms": 0, **settings}
        surroundings = Surroundings(
            config=NodeConfig(**settings),
            deadlines=self.deadlines,
            random=random.Random(1),
            now_ms=lambda: WALL_CLOCK_AHEAD_MS + self.deadlines.now_ms,
            image=lambda: self.image,
        )
        context = GroupContext(self.known, self.writer, surroundings)
        self.offsets = OffsetKeeper(context)
        self.classic = ClassicGroups(context)
        self.consumer = ConsumerGroups(context)
        protocols |= {int(kind): self.consumer for kind in KeyType if kind > 2}
        protocols[KeyType.GROUP_METADATA] = self.classic
        self.writer.append(log)
        self.writer.settle()
        self.classic.loaded()
        self.consumer.loaded()

    @property
    def log(self) -> list[Entry]:
        return self.writer.log

    @property
    def group(self) -> ConsumerGroup:
        group = self.known[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def pass_ms(self, ms: int) -> None:
        """Let time pass, deadline by deadline."""
        pass_ms(self.deadlines, ms)

    # --- topics --------------------------------------------------------------------

    def set_topic(self, name: str, partitions: int) -> None:
        """Create a topic, or give it more partitions; with none, delete it."""
        self.image = with_topic(self.image, name, partitions)

    def configure(self, **own: str) -> None:
        """Give the group settings of its own, instead of those it had."""
        configs = ShardedDraft(self.image.configs)
        named = {name.replace("_", "."): value for name, value in own.items()}
        configs[ConfigResource("group", GROUP)] = named
        self.image = self.image._replace(version=self.image.version + 1, configs=configs.finish())

    def id_of(self, topic: str) -> bytes:
        return self.image.topics[topic].topic_id

    def names(self, partitions: Iterable[TopicIdPartition]) -> list[TopicPartition]:
        """Return partitions by name; clients leave out those whose topic they do not know."""
        names = self.image.topic_names
        known = [p for p in partitions if p.topic_id in names]
        return sorted(TopicPartition(names[p.topic_id], p.partition) for p in known)

    # --- what members do -----------------------------------------------------------

    def asks(
        self,
        member_id: str,
        epoch: int,
        owned: Owned | None = None,
        *,
        topics: Sequence[str] | None = None,
        version: int = 1,
        group_id: str = GROUP,
        **said: Any,
    ) -> Promise[ConsumerGroupHeartbeatResponse]:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else list(topics),
            topic_partitions=None
            if owned is None
            else [
                ConsumerGroupHeartbeatTopicPartitions(topic_id=self.id_of(t), partitions=[n])
                for t, n in owned
            ],
            **said,
        )
        return self.consumer.beat(request, Caller(f"client-{member_id}", "/10.0.0.1", version))

    def beat(self, *args: Any, **said: Any) -> ConsumerGroupHeartbeatResponse:
        return self.asks(*args, **said).value

    def join(self, member_id: str, *topics: str, **said: Any) -> ConsumerGroupHeartbeatResponse:
        said = {"rebalance_timeout_ms": REBALANCE_MS, "topics": topics or None, **said}
        return self.beat(member_id, 0, [], **said)

    def refused(self, *args: Any, **said: Any) -> ErrorCode:
        """Return why a heartbeat is refused."""
        try:
            return ErrorCode(self.beat(*args, **said).error_code)
        except KafkaError as error:
            return error.code

    def told(self, answer: ConsumerGroupHeartbeatResponse) -> list[TopicPartition] | None:
        """Return what a member was told to read, if that has changed."""
        if answer.assignment is None:
            return None
        return self.names(
            TopicIdPartition(each.topic_id, n)
            for each in answer.assignment.topic_partitions
            for n in each.partitions
        )

    def reads(self, member_id: str) -> list[TopicPartition]:
        return self.names(self.group.members[member_id].standing.assigned)

    # --- what classic members do -----------------------------------------------------

    def applicant(
        self,
        member_id: str,
        *topics: str,
        owned: Sequence[TopicPartition] = (),
        metadata: bytes | None = None,
        protocol_type: str = "consumer",
        protocols: Sequence[str] = ("range",),
        instance_id: str | None = None,
        reason: str = "",
        version: int = 9,
        session_ms: int = SESSION_MS,
    ) -> Applicant:
        if metadata is None:
            metadata = encode_subscription(Subscription(tuple(topics), tuple(owned)))
        return Applicant(
            member_id=member_id,
            instance_id=instance_id,
            client_id="classic",
            client_host="/10.0.0.2",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type=protocol_type,
            protocols=tuple((name, metadata) for name in protocols),
            reason=reason,
            returns_with_id=version >= 4,
            may_skip_assignment=version >= 9,
        )

    def join_classic(self, member_id: str, *topics: str, **said: Any) -> Promise[JoinGroupResponse]:
        """Join with the classic protocol, as its handler does."""
        self.consumer.make_way(GROUP)
        who = self.applicant(member_id, *topics, **said)
        if self.consumer.coordinates(GROUP):
            return self.consumer.join(GROUP, who)
        return self.classic.join(GROUP, who)

    def sync_classic(
        self, joined: JoinGroupResponse, assignments: Mapping[str, bytes] | None = None, **said: Any
    ) -> Promise[SyncGroupResponse]:
        values: dict[str, Any] = {
            "member_id": joined.member_id,
            "instance_id": None,
            "generation": joined.generation_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": assignments or {},
            **said,
        }
        groups = self.consumer if self.consumer.coordinates(GROUP) else self.classic
        return groups.sync(GROUP, Assigner(**values))

    def beat_classic(self, joined: JoinGroupResponse, instance_id: str | None = None) -> ErrorCode:
        groups = self.consumer if self.consumer.coordinates(GROUP) else self.classic
        try:
            groups.heartbeat(GROUP, joined.member_id, instance_id, joined.generation_id)
        except KafkaError as error:
            return error.code
        return NONE

    def leave_classic(self, *leavers: tuple[str, str | None]) -> Promise[list[ErrorCode]]:
        return self.consumer.leave(GROUP, [Leaver(m, i, "bye") for m, i in leavers])


def with_topic(image: MetadataImage, name: str, partitions: int) -> MetadataImage:
    """Return an image in which a topic has so many partitions; with none it is gone."""
    topics, names = ShardedDraft(image.topics), ShardedDraft(image.topic_names)
    before = image.topics.get(name)
    if before is not None:
        topics.discard(name)
        names.discard(before.topic_id)
    if partitions:
        version = image.version + 1
        topic_id = version.to_bytes(16, "big") if before is None else before.topic_id
        state = PartitionState((1,), (1,), 1, 0, 0)
        topics[name] = TopicImage(name, topic_id, (state,) * partitions, 0)
        if before is None:
            names[topic_id] = name
        else:  # the map of names stays the same object
            return image._replace(version=version, topics=topics.finish())
    return image._replace(
        version=image.version + 1, topics=topics.finish(), topic_names=names.finish()
    )


def parts(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]
