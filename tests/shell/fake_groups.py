"""A coordinator in memory, for one member of ours in one group; others only exist in its books."""

from dataclasses import dataclass, field
from typing import Any

from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.protocol.consumer_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_subscription,
)
from quorate.protocol.messages.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from quorate.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.shell.fake_cluster import FakeCluster

Place = tuple[str, int]


@dataclass
class FakeGroup:
    """A classic group: one real member at most, which is always its leader."""

    cluster: FakeCluster
    group_id: str = "g"
    broker_id: int = 1
    member: str = ""
    """The member's id; empty without one."""

    generation: int = 0
    rebalancing: bool = False
    others: dict[str, Subscription] = field(default_factory=dict[str, Subscription])
    assignments: dict[str, tuple[TopicPartition, ...]] = field(
        default_factory=dict[str, tuple[TopicPartition, ...]]
    )
    committed: dict[Place, tuple[int, int]] = field(default_factory=dict[Place, tuple[int, int]])
    """Offset and leader epoch."""

    reasons: list[str] = field(default_factory=list[str])
    """Why members joined and left."""

    given_ids: int = 0

    def __post_init__(self) -> None:
        self.cluster.handlers |= {
            FindCoordinatorRequest: self.find,
            JoinGroupRequest: self.join,
            SyncGroupRequest: self.sync,
            HeartbeatRequest: self.heartbeat,
            LeaveGroupRequest: self.leave,
            OffsetCommitRequest: self.commit,
            OffsetFetchRequest: self.fetch,
        }

    # What tests do

    def other_joins(self, member_id: str, *topics: str) -> None:
        self.others[member_id] = Subscription(topics)
        self.rebalancing = True

    def other_leaves(self, member_id: str) -> None:
        del self.others[member_id]
        self.rebalancing = True

    def forget_member(self) -> None:
        """Its session ends."""
        self.member, self.rebalancing = "", False
        self.generation += 1

    # What the coordinator does

    def find(self, _broker_id: int, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        found = [
            Coordinator(key=key, node_id=self.broker_id, host="broker", port=self.broker_id)
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=found)

    def join(self, broker_id: int, request: JoinGroupRequest) -> JoinGroupResponse:
        if broker_id != self.broker_id:
            return JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
        if not request.member_id:
            self.given_ids += 1
            member_id = f"member-{self.given_ids}"
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        if self.member not in ("", request.member_id) or (
            not self.member and request.member_id != f"member-{self.given_ids}"
        ):
            return JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        self.member, self.rebalancing = request.member_id, False
        self.reasons.append(request.reason or "")
        self.generation += 1
        protocol = request.protocols[0]
        metadata = {request.member_id: protocol.metadata} | {
            other: encode_subscription(subscription) for other, subscription in self.others.items()
        }
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=protocol.name,
            leader=request.member_id,
            member_id=request.member_id,
            members=[
                JoinGroupResponseMember(member_id=member_id, metadata=told)
                for member_id, told in metadata.items()
            ],
        )

    def sync(self, _broker_id: int, request: SyncGroupRequest) -> SyncGroupResponse:
        if code := self.refusal(request.member_id, request.generation_id):
            return SyncGroupResponse(error_code=code)
        given = {each.member_id: each.assignment for each in request.assignments}
        self.assignments = {each: decode_assignment(data) for each, data in given.items()}
        for other, subscription in self.others.items():
            self.others[other] = Subscription(subscription.topics, self.assignments[other])
        return SyncGroupResponse(
            protocol_type="consumer",
            protocol_name=request.protocol_name,
            assignment=given[request.member_id],
        )

    def refusal(self, member_id: str, generation: int) -> int:
        if member_id != self.member:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION

    def heartbeat(self, broker_id: int, request: HeartbeatRequest) -> HeartbeatResponse:
        if broker_id != self.broker_id:
            return HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
        code = self.refusal(request.member_id, request.generation_id)
        if code == ErrorCode.NONE and self.rebalancing:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        return HeartbeatResponse(error_code=code)

    def leave(self, _broker_id: int, request: LeaveGroupRequest) -> LeaveGroupResponse:
        (leaving,) = request.members
        code = ErrorCode.NONE
        if leaving.member_id == self.member:
            self.member = ""
        elif leaving.member_id == f"member-{self.given_ids}":
            self.given_ids += 1  # it was about to join, and cannot any more
        else:
            code = ErrorCode.UNKNOWN_MEMBER_ID
        self.reasons.append(f"left: {leaving.reason}")
        told = MemberResponse(member_id=leaving.member_id, error_code=code)
        return LeaveGroupResponse(members=[told])

    def commit(self, broker_id: int, request: OffsetCommitRequest) -> OffsetCommitResponse:
        generation = request.generation_id_or_member_epoch
        if broker_id != self.broker_id:
            code: int = ErrorCode.NOT_COORDINATOR
        elif generation < 0 and not self.member:
            code = ErrorCode.NONE  # nobody is in the group: anybody may commit
        else:
            code = self.refusal(request.member_id, generation)
        response = OffsetCommitResponse()
        for topic in request.topics:
            answered = OffsetCommitResponseTopic(name=topic.name)
            for told in topic.partitions:
                if code == ErrorCode.NONE:
                    where = (told.committed_offset, told.committed_leader_epoch)
                    self.committed[topic.name, told.partition_index] = where
                answered.partitions.append(
                    OffsetCommitResponsePartition(
                        partition_index=told.partition_index, error_code=code
                    )
                )
            response.topics.append(answered)
        return response

    def fetch(self, _broker_id: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
        (asked,) = request.groups
        group = OffsetFetchResponseGroup(group_id=asked.group_id)
        for topic in asked.topics or ():
            answered = OffsetFetchResponseTopics(name=topic.name)
            for number in topic.partition_indexes:
                offset, epoch = self.committed.get((topic.name, number), (-1, -1))
                answered.partitions.append(
                    OffsetFetchResponsePartitions(
                        partition_index=number,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                    )
                )
            group.topics.append(answered)
        return OffsetFetchResponse(groups=[group])

    def owned_by_member(self, request: Any) -> tuple[TopicPartition, ...]:
        """What a member said that it owned when it joined."""
        return decode_subscription(request.protocols[0].metadata).owned
