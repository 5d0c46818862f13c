"""Groups between the protocols, by every policy: both brokers take, refuse and list the same."""

import time
from pathlib import Path
from typing import Any, Final

import pytest

from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.consumer_protocol import (
    Subscription,
    encode_assignment,
    encode_subscription,
)
from quorate.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from quorate.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from quorate.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tests.compat import serving
from tests.compat.asking import both, new_topics
from tests.compat.clients.ours import Ours
from tests.compat.serving import Broker
from tests.compat.twins import Side, alike
from tests.conftest import IN_A_HURRY

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.client("Quorate")]

NEW: Final = "new"
"""The member of the new protocol."""
Told = list[tuple[Any, ...]]


class Story:
    """A member of either protocol in one group of one broker, and what they are told."""

    def __init__(self, side: Side, topic: str, group: str) -> None:
        self.side = side
        self.topic = topic
        self.group = group
        self.told: Told = []
        self.member_id = ""
        self.generation = self.epoch = 0

    def ask(self, api_key: ApiKey, version: int, body: Any) -> Any:
        return self.side.ask(api_key, version, alike(body))

    def tell(self, what: str, code: int, *more: Any) -> None:
        self.told.append((what, ErrorCode(code).name, *more))

    def asked_to_join(self) -> Any:
        metadata = encode_subscription(Subscription((self.topic,)))
        body = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        answer = self.ask(ApiKey.JOIN_GROUP, 9, body)
        self.member_id = answer.member_id
        return answer

    def join(self) -> None:
        answer = self.asked_to_join()
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            answer = self.asked_to_join()
        self.tell("join", answer.error_code, answer.protocol_name)
        if answer.error_code:
            self.member_id = ""
            return
        self.generation = answer.generation_id
        assignment = encode_assignment(tuple(TopicPartition(self.topic, n) for n in range(3)))
        sync = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id=self.member_id, assignment=assignment)
            ],
        )
        self.tell("sync", self.ask(ApiKey.SYNC_GROUP, 5, sync).error_code)

    def beat(self) -> None:
        body = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id
        )
        self.tell("beat", self.ask(ApiKey.HEARTBEAT, 4, body).error_code)

    def leave(self) -> None:
        body = LeaveGroupRequest(
            group_id=self.group, members=[MemberIdentity(member_id=self.member_id)]
        )
        answer = self.ask(ApiKey.LEAVE_GROUP, 5, body)
        self.tell("leave", answer.error_code, [member.error_code for member in answer.members])
        self.member_id = ""

    def new_beats(self, epoch: int | None = None) -> None:
        joins = epoch == 0
        body = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=NEW,
            member_epoch=self.epoch if epoch is None else epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=[self.topic] if joins else None,
            topic_partitions=[] if joins else None,
        )
        answer = self.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, body)
        self.tell(f"new member {epoch}", answer.error_code)
        if not answer.error_code:
            self.epoch = answer.member_epoch

    def commit(self, offset: int, *, new: bool) -> None:
        part = OffsetCommitRequestPartition(partition_index=int(new), committed_offset=offset)
        body = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.epoch if new else self.generation,
            member_id=NEW if new else self.member_id,
            topics=[OffsetCommitRequestTopic(name=self.topic, partitions=[part])],
        )
        answer = self.ask(ApiKey.OFFSET_COMMIT, 9, body)
        self.tell(f"commit {new}", answer.topics[0].partitions[0].error_code)

    def look(self) -> None:
        body = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=self.group, topics=None)]
        )
        (group,) = self.ask(ApiKey.OFFSET_FETCH, 9, body).groups
        offsets = sorted(
            (part.partition_index, part.committed_offset)
            for topic in group.topics
            for part in topic.partitions
        )
        self.tell("offsets", group.error_code, offsets)
        listed = self.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest()).groups
        kinds = [each.group_type for each in listed if each.group_id == self.group]
        self.tell("listed", 0, kinds)


def classic_first(story: Story) -> None:
    """A classic group is joined by a member of the new protocol, which then leaves it."""
    story.join()
    story.commit(1, new=False)
    story.new_beats(0)
    story.commit(2, new=True)
    story.beat()
    story.commit(3, new=False)
    story.look()
    story.join()
    story.commit(4, new=False)
    story.new_beats()
    story.commit(5, new=True)
    story.new_beats(-1)
    story.look()
    story.beat()
    story.commit(6, new=False)
    story.join()
    story.commit(7, new=False)
    story.leave()
    story.new_beats(0)
    story.commit(8, new=True)
    story.look()


def new_first(story: Story) -> None:
    """A group of the new protocol is joined by a classic member, and left to it."""
    story.new_beats(0)
    story.commit(1, new=True)
    story.join()
    story.commit(2, new=False)
    story.new_beats()
    story.commit(3, new=True)
    story.beat()
    story.look()
    story.new_beats(-1)
    story.commit(4, new=False)
    story.look()
    story.beat()
    story.join()
    story.commit(5, new=False)
    story.look()
    story.leave()
    story.join()
    story.commit(6, new=False)
    story.look()


@pytest.mark.feature("groups between the protocols by policy {policy}: as with Kafka")
@pytest.mark.parametrize("policy", ["disabled", "upgrade", "downgrade", "bidirectional"])
def test_both_move_groups_between_the_protocols_alike(
    apache_kafka: Broker, ours: Ours, tmp_path: Path, policy: str
) -> None:
    settings = {**IN_A_HURRY, "group.consumer.migration.policy": policy}
    with serving.kafka(settings) as kafka, serving.quorate(settings, tmp_path) as own:
        servers = kafka.server, own.server
        with both(*servers) as twins:
            topics = new_topics(twins, servers, ours, "migrating")
            for play in (classic_first, new_first):
                group = f"{play.__name__}-{time.time_ns()}"
                stories = [Story(side, topics[0], group) for side in twins.sides]
                for story in stories:
                    play(story)
                assert stories[1].told == stories[0].told, policy
