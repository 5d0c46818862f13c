"""Members of groups that do wrong: the errors that Apache Kafka gives.

Every test runs against Apache Kafka too, so that what it asks for is what Kafka does.
"""

import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from quorate.errors import ErrorCode
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from quorate.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from quorate.tools.bench import topics
from tests.compat.clients.model import DEADLINE_S, Server
from tests.compat.wire import Wire, connected

pytestmark = [pytest.mark.compat, pytest.mark.slow]

JOIN_VERSIONS = range(10)
RETRIED = ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")
SESSION_MS = 30_000


@pytest.fixture
def group(target: Server, topic: str) -> str:
    """A group of the test's own, whose coordinator answers."""
    deadline = time.monotonic() + DEADLINE_S
    with connected(target) as wire:
        while True:
            asked = FindCoordinatorRequest(coordinator_keys=[topic])
            (told,) = wire.ask(ApiKey.FIND_COORDINATOR, 4, asked).coordinators
            beat = HeartbeatRequest(group_id=topic, generation_id=1, member_id="x")
            ready = (
                error_of(told) == "NONE"
                and error_of(wire.ask(ApiKey.HEARTBEAT, 4, beat)) == "UNKNOWN_MEMBER_ID"
            )
            if ready:
                return topic
            assert time.monotonic() < deadline, "no coordinator"
            time.sleep(0.02)


class Member:
    """One member on a connection of its own."""

    def __init__(self, wire: Wire, group: str, instance_id: str | None = None) -> None:
        self.wire = wire
        self.group = group
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.others: list[str] = []

    def join(self, *, version: int = 9, **said: Any) -> JoinGroupResponse:
        """Join, and come back with the id that is told, as clients do."""
        answer = self.join_once(version=version, **said)
        if error_of(answer) == "MEMBER_ID_REQUIRED":
            self.member_id = answer.member_id
            answer = self.join_once(version=version, **said)
        return answer

    def join_once(self, *, version: int = 9, **said: Any) -> JoinGroupResponse:
        return self.take(self.wire.ask(ApiKey.JOIN_GROUP, version, self.joining(**said)))

    def joining(
        self, *, protocols: str = "range", metadata: bytes = b"m", **said: Any
    ) -> JoinGroupRequest:
        named = [
            JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols.split()
        ]
        fields: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": 20_000,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocols": named,
        }
        return JoinGroupRequest(**{**fields, **said})

    def take(self, answer: JoinGroupResponse) -> JoinGroupResponse:
        if not answer.error_code:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.others = [member.member_id for member in answer.members]
        return answer

    def sync(self, *, version: int = 5, **said: Any) -> SyncGroupResponse:
        """Sync; a leader gives everybody its own id."""
        fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer" if version >= 5 else None,
            "protocol_name": "range" if version >= 5 else None,
            "assignments": [
                SyncGroupRequestAssignment(member_id=m, assignment=m.encode()) for m in self.others
            ],
        }
        body = SyncGroupRequest(**{**fields, **said})
        told: SyncGroupResponse = self.wire.ask(ApiKey.SYNC_GROUP, version, body)
        return told

    def beat(self, *, version: int = 4, **said: Any) -> str:
        fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        body = HeartbeatRequest(**{**fields, **said})
        return error_of(self.wire.ask(ApiKey.HEARTBEAT, version, body))

    def leave(self) -> None:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        self.wire.ask(
            ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(group_id=self.group, members=[identity])
        )


class Members:
    """Makes members, and lets those leave that are left."""

    def __init__(self, target: Server, group: str) -> None:
        self._target = target
        self._group = group
        self._stack = ExitStack()
        self._made: list[Member] = []
        self.threads = ThreadPoolExecutor(8)

    def new(self, instance_id: str | None = None) -> Member:
        wire = self._stack.enter_context(connected(self._target))
        self._made.append(Member(wire, self._group, instance_id))
        return self._made[-1]

    def stable(self, count: int, **said: Any) -> list[Member]:
        """Return so many members that have synced; the first leads."""
        members = [self.new() for _ in range(count)]
        members[0].join(**said)
        members[0].sync()
        for n in range(1, count):
            joining = self.threads.submit(members[n].join, **said)
            for old in members[:n]:
                while old.beat() != "REBALANCE_IN_PROGRESS":
                    time.sleep(0.005)
            again = [self.threads.submit(old.join, **said) for old in members[:n]]
            for each in (joining, *again):
                assert error_of(each.result(DEADLINE_S)) == "NONE"
            synced = [self.threads.submit(each.sync) for each in members[: n + 1]]
            assert all(each.result(DEADLINE_S).assignment for each in synced)
        return members

    def close(self) -> None:
        self.threads.shutdown()
        self._stack.close()


@pytest.fixture
def members(target: Server, group: str) -> Generator[Members]:
    made = Members(target, group)
    yield made
    made.close()


def error_of(answer: object) -> str:
    return ErrorCode(answer.error_code).name  # type: ignore[attr-defined]


@pytest.mark.feature("JoinGroup 0 to 9, SyncGroup, Heartbeat and LeaveGroup in all versions")
@pytest.mark.parametrize("version", JOIN_VERSIONS)
def test_a_member_joins_syncs_lives_and_leaves_in_every_version(
    members: Members, version: int
) -> None:
    member = members.new()
    asked = member.join_once(version=version)
    if version >= 4:
        assert error_of(asked) == "MEMBER_ID_REQUIRED"
        assert asked.member_id.startswith("wire-")
        member.member_id = asked.member_id
        asked = member.join_once(version=version)
    assert error_of(asked) == "NONE"
    assert (asked.generation_id, asked.leader, asked.protocol_name) == (1, asked.member_id, "range")
    assert asked.protocol_type == ("consumer" if version >= 7 else None)
    assert [m.member_id for m in asked.members] == [asked.member_id]
    synced = member.sync(version=min(version, 5))
    assert synced.assignment == member.member_id.encode()
    assert member.beat(version=min(version, 4)) == "NONE"
    leaving = min(version, 5)
    identity = MemberIdentity(member_id=member.member_id)
    told = member.wire.ask(
        ApiKey.LEAVE_GROUP,
        leaving,
        LeaveGroupRequest(group_id=member.group, member_id=member.member_id)
        if leaving < 3
        else LeaveGroupRequest(group_id=member.group, members=[identity]),
    )
    assert error_of(told) == "NONE"
    assert member.beat() == "UNKNOWN_MEMBER_ID"


@pytest.mark.feature("group id that is empty: INVALID_GROUP_ID")
def test_groups_have_names(members: Members) -> None:
    member = members.new()
    assert error_of(member.join_once(group_id="")) == "INVALID_GROUP_ID"
    assert error_of(member.sync(group_id="")) == "INVALID_GROUP_ID"
    assert member.beat(group_id="") == "INVALID_GROUP_ID"
    told = member.wire.ask(ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(group_id=""))
    assert error_of(told) == "INVALID_GROUP_ID"


@pytest.mark.feature("session timeout that is not allowed: INVALID_SESSION_TIMEOUT")
@pytest.mark.parametrize("timeout_ms", [0, -1, 999, 1_800_001])
def test_session_timeouts_have_bounds(members: Members, timeout_ms: int) -> None:
    refused = members.new().join_once(session_timeout_ms=timeout_ms)
    assert error_of(refused) == "INVALID_SESSION_TIMEOUT"


@pytest.mark.feature("member, generation or group not known: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION")
def test_only_members_of_this_generation_are_members(members: Members, group: str) -> None:
    stranger = members.new()
    stranger.member_id, stranger.generation = "nobody", 1
    assert error_of(stranger.join_once()) == "UNKNOWN_MEMBER_ID"
    assert error_of(stranger.sync()) == "UNKNOWN_MEMBER_ID"
    assert stranger.beat() == "UNKNOWN_MEMBER_ID"
    (member,) = members.stable(1)
    assert error_of(stranger.join_once()) == "UNKNOWN_MEMBER_ID"
    assert error_of(stranger.sync()) == "UNKNOWN_MEMBER_ID"
    assert stranger.beat() == "UNKNOWN_MEMBER_ID"
    assert member.beat(generation_id=7) == "ILLEGAL_GENERATION"
    assert error_of(member.sync(generation_id=0)) == "ILLEGAL_GENERATION"
    assert member.beat(group_instance_id="a") == "UNKNOWN_MEMBER_ID"
    assert member.beat() == "NONE"
    told = member.wire.ask(
        ApiKey.LEAVE_GROUP,
        5,
        LeaveGroupRequest(
            group_id=group,
            members=[MemberIdentity(member_id="nobody"), MemberIdentity(group_instance_id="none")],
        ),
    )
    assert error_of(told) == "NONE"
    assert [error_of(each) for each in told.members] == ["UNKNOWN_MEMBER_ID"] * 2
    told = member.wire.ask(
        ApiKey.LEAVE_GROUP, 1, LeaveGroupRequest(group_id=group, member_id="nobody")
    )
    assert error_of(told) == "UNKNOWN_MEMBER_ID"


@pytest.mark.feature("protocols that others do not know: INCONSISTENT_GROUP_PROTOCOL")
def test_members_need_a_protocol_in_common(members: Members) -> None:
    inconsistent = "INCONSISTENT_GROUP_PROTOCOL"
    other = members.new()
    assert error_of(other.join_once(protocols="")) == inconsistent
    assert error_of(other.join_once(protocol_type="")) == inconsistent
    (member,) = members.stable(1)
    assert error_of(other.join_once(protocols="sticky")) == inconsistent
    assert error_of(other.join_once(protocol_type="connect")) == inconsistent
    assert error_of(member.sync(protocol_name="sticky")) == inconsistent
    assert error_of(member.sync(protocol_type="connect")) == inconsistent
    assert error_of(member.sync(protocol_type=None, protocol_name=None)) == inconsistent
    assert error_of(member.sync(version=4)) == "NONE"


@pytest.mark.feature("all join again when one comes: REBALANCE_IN_PROGRESS")
def test_a_rebalance_from_the_first_word_to_the_last(members: Members) -> None:
    leader, follower = members.stable(2)
    assert (leader.generation, len(leader.others), follower.others) == (2, 2, [])
    new = members.new()
    joining = members.threads.submit(new.join)
    while leader.beat() != "REBALANCE_IN_PROGRESS":
        time.sleep(0.005)
    assert error_of(leader.sync()) == "REBALANCE_IN_PROGRESS"
    again = [members.threads.submit(each.join) for each in (leader, follower)]
    answers = [each.result(DEADLINE_S) for each in (joining, *again)]
    assert {answer.generation_id for answer in answers} == {3}
    assert {answer.leader for answer in answers} == {leader.member_id}
    assert len(leader.others) == 3
    assert new.others == []
    assert leader.beat() == "NONE"
    waiting = [members.threads.submit(each.sync) for each in (new, follower)]
    assert leader.sync().assignment == leader.member_id.encode()
    assert [each.result(DEADLINE_S).assignment for each in waiting] == [
        new.member_id.encode(),
        follower.member_id.encode(),
    ]
    # A follower asks again, and nothing has changed; a leader may have seen new partitions.
    assert follower.join().generation_id == 3
    assert follower.sync().assignment == follower.member_id.encode()
    follower.leave()
    assert leader.beat() == "REBALANCE_IN_PROGRESS"
    assert follower.beat() == "UNKNOWN_MEMBER_ID"


@pytest.mark.feature("a leader that leaves its members waiting")
def test_who_waits_for_a_leader_that_leaves_is_told_to_join_again(members: Members) -> None:
    leader, follower = members.stable(2)
    joining = members.threads.submit(leader.join)
    while follower.beat() != "REBALANCE_IN_PROGRESS":
        time.sleep(0.005)
    follower.join()
    joining.result(DEADLINE_S)
    waiting = members.threads.submit(follower.sync)
    time.sleep(0.05)
    leader.leave()
    assert error_of(waiting.result(DEADLINE_S)) == "REBALANCE_IN_PROGRESS"
    assert follower.join().leader == follower.member_id


@pytest.mark.feature("a member that is silent, and one that never syncs, is taken out")
def test_members_that_do_not_do_their_part_are_out(members: Members) -> None:
    leader, silent = members.stable(2, session_timeout_ms=1_500, rebalance_timeout_ms=1_500)
    deadline = time.monotonic() + DEADLINE_S
    while leader.beat() == "NONE":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert leader.join(session_timeout_ms=SESSION_MS, rebalance_timeout_ms=1_500).generation_id == 3
    assert silent.beat() == "UNKNOWN_MEMBER_ID"
    # The leader has joined and does not sync.
    while leader.beat() == "NONE":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert leader.beat() == "UNKNOWN_MEMBER_ID"


@pytest.mark.feature("static members: replaced without a rebalance, the old one FENCED_INSTANCE_ID")
def test_a_static_member_is_replaced_and_fenced(members: Members, group: str) -> None:
    first = members.new("a")
    answer = first.join_once()
    assert error_of(answer) == "NONE"
    assert first.member_id.startswith("a-")
    first.sync()
    second = members.new("a")
    answer = second.join_once()
    assert (error_of(answer), answer.generation_id, answer.leader) == ("NONE", 1, second.member_id)
    assert answer.skip_assignment
    assert [m.member_id for m in answer.members] == [second.member_id]
    synced = second.sync(assignments=[])
    assert synced.assignment
    assert synced.assignment != second.member_id.encode()
    for fenced in (first.join_once(), first.sync()):
        assert error_of(fenced) == "FENCED_INSTANCE_ID"
    assert first.beat() == "FENCED_INSTANCE_ID"
    assert first.beat(group_instance_id=None) == "UNKNOWN_MEMBER_ID"
    third = members.new("a")
    answer = third.join_once(version=8)
    assert (answer.leader, answer.members) == (second.member_id, [])
    told = third.wire.ask(
        ApiKey.LEAVE_GROUP,
        3,
        LeaveGroupRequest(
            group_id=group,
            members=[
                MemberIdentity(member_id=first.member_id, group_instance_id="a"),
                MemberIdentity(group_instance_id="a"),
            ],
        ),
    )
    assert [error_of(each) for each in told.members] == ["FENCED_INSTANCE_ID", "NONE"]
    assert third.beat() == "UNKNOWN_MEMBER_ID"


def commit(member: Member, topic: str, *, metadata: str = "", **said: Any) -> str:
    """Commit an offset of partition 0, or of another one; return the error."""
    partition = OffsetCommitRequestPartition(
        partition_index=said.pop("partition", 0), committed_offset=7, committed_metadata=metadata
    )
    fields: dict[str, Any] = {
        "group_id": member.group,
        "generation_id_or_member_epoch": member.generation,
        "member_id": member.member_id,
        "topics": [OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    }
    body = OffsetCommitRequest(**{**fields, **said})
    told = member.wire.ask(ApiKey.OFFSET_COMMIT, 8, body)
    return error_of(told.topics[0].partitions[0])


@pytest.mark.feature("commits: unknown topics and members, old generations, oversized metadata")
def test_commits_that_are_refused(members: Members, target: Server, group: str, topic: str) -> None:
    topics.create_topic(target.bootstrap, topic, partitions=1, config={})
    (member,) = members.stable(1)
    assert commit(member, topic) == "NONE"
    assert commit(member, "nowhere") == "UNKNOWN_TOPIC_OR_PARTITION"
    assert commit(member, topic, partition=999) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert commit(member, topic, metadata="m" * 4096) == "NONE"
    assert commit(member, topic, metadata="m" * 4097) == "OFFSET_METADATA_TOO_LARGE"
    assert commit(member, topic, member_id="nobody") == "UNKNOWN_MEMBER_ID"
    assert commit(member, topic, group_id="") == "ILLEGAL_GENERATION", "it has no members"
    for generation in (0, member.generation + 1):
        told = commit(member, topic, generation_id_or_member_epoch=generation)
        assert told == "ILLEGAL_GENERATION"
    outside = commit(member, topic, generation_id_or_member_epoch=-1, member_id="")
    assert outside == "UNKNOWN_MEMBER_ID", f"{group} has members"


@pytest.mark.feature("subscriptions that no record can hold together: UNKNOWN_SERVER_ERROR")
def test_a_group_whose_subscriptions_no_record_can_hold_gets_no_assignment(
    members: Members,
) -> None:
    said: dict[str, Any] = {"metadata": bytes(700_000)}
    (leader,) = members.stable(1, **said)
    new = members.new()
    joining = members.threads.submit(new.join, **said)
    while leader.beat() != "REBALANCE_IN_PROGRESS":
        time.sleep(0.005)
    assert error_of(leader.join(**said)) == error_of(joining.result(DEADLINE_S)) == "NONE"
    waiting = members.threads.submit(new.sync)
    assert error_of(leader.sync()) == "UNKNOWN_SERVER_ERROR"
    assert error_of(waiting.result(DEADLINE_S)) in {"UNKNOWN_SERVER_ERROR", "REBALANCE_IN_PROGRESS"}
    leader.leave()
    assert error_of(new.join()) == "NONE", "without the other's it fits"
    assert new.sync().assignment == new.member_id.encode()
