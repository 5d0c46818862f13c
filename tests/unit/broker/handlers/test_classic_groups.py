"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup as clients of each version know them."""

from dataclasses import replace
from typing import Any

import pytest

from quorate.broker.handlers import classic_groups
from quorate.errors import ErrorCode
from quorate.promise import Promise
from quorate.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.unit.broker.harness import Node, new_node, now, over, waits

GROUP = "readers"


def coordinating() -> Node:
    node = new_node({"group.initial.rebalance.delay.ms": "0"})
    node.join()
    node.create_topic("__consumer_offsets", replicas=(1, 2))
    return node


def code(answer: Any) -> str:
    return ErrorCode(now(answer).error_code).name


def ask_to_join(node: Node, version: int = 9, **said: Any) -> Any:
    fields: dict[str, Any] = {
        "group_id": GROUP,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"t")],
    }
    caller = replace(over(version), client_id="app", client_host="/10.0.0.1")
    return classic_groups.join_group(node.broker, JoinGroupRequest(**{**fields, **said}), caller)


def join(node: Node, version: int = 9, **said: Any) -> JoinGroupResponse:
    """Join, and wait for others as long as that takes."""
    answer = ask_to_join(node, version, **said)
    if version >= 4:
        answer = ask_to_join(node, version, member_id=now(answer).member_id, **said)
    node.wait(1)
    told: JoinGroupResponse = now(answer)
    return told


def sync(node: Node, answer: JoinGroupResponse, version: int = 5, **said: Any) -> Any:
    fields: dict[str, Any] = {
        "group_id": GROUP,
        "generation_id": answer.generation_id,
        "member_id": answer.member_id,
        "protocol_type": "consumer" if version >= 5 else None,
        "protocol_name": "range" if version >= 5 else None,
        "assignments": [
            SyncGroupRequestAssignment(member_id=m.member_id, assignment=b"all")
            for m in answer.members
        ],
    }
    request = SyncGroupRequest(**{**fields, **said})
    synced = classic_groups.sync_group(node.broker, request, over(version))
    node.replicas.settle()
    return synced


def beat(node: Node, answer: JoinGroupResponse, group_id: str = GROUP) -> str:
    request = HeartbeatRequest(
        group_id=group_id, generation_id=answer.generation_id, member_id=answer.member_id
    )
    return code(classic_groups.heartbeat(node.broker, request, over()))


def test_a_member_joins_and_is_described_with_where_it_is() -> None:
    node = coordinating()
    answer = join(node, reason="begin")
    assert now(sync(node, answer)).assignment == b"all"
    assert beat(node, answer) == "NONE"
    group: Any = node.broker.coordinators.of(GROUP).context.groups[GROUP]
    (member,) = group.describe().members
    assert (member.client_id, member.client_host) == ("app", "/10.0.0.1")
    assert group.describe().rebalance_reason.endswith("joins: 'begin'")


@pytest.mark.parametrize("version", range(10))
def test_refusals_have_no_protocol_in_the_words_of_the_version(version: int) -> None:
    node = coordinating()
    refused = now(ask_to_join(node, version, protocols=[]))
    assert code(refused) == "INCONSISTENT_GROUP_PROTOCOL"
    assert refused.protocol_name == (None if version >= 7 else "")
    assert join(node, version).protocol_name == "range"


def test_members_of_version_0_may_take_their_session_timeout_to_join_again() -> None:
    node = coordinating()
    join(node, 0, session_timeout_ms=7_000, rebalance_timeout_ms=-1)
    group: Any = node.broker.coordinators.of(GROUP).context.groups[GROUP]
    assert [m.rebalance_timeout_ms for m in group.members] == [7_000]
    node = coordinating()
    assert waits(ask_to_join(node, 1, rebalance_timeout_ms=-5))
    group = node.broker.coordinators.of(GROUP).context.groups[GROUP]
    assert [m.rebalance_timeout_ms for m in group.members] == [0]


def test_what_cannot_be_right_is_refused_by_any_broker() -> None:
    node = new_node()
    assert code(ask_to_join(node, group_id="")) == "INVALID_GROUP_ID"
    assert code(ask_to_join(node, session_timeout_ms=5_999)) == "INVALID_SESSION_TIMEOUT"
    assert code(ask_to_join(node, session_timeout_ms=1_800_001)) == "INVALID_SESSION_TIMEOUT"
    nobody = JoinGroupResponse(member_id="m", generation_id=1)
    assert code(sync(node, nobody, group_id="")) == "INVALID_GROUP_ID"
    inconsistent = "INCONSISTENT_GROUP_PROTOCOL"
    assert code(sync(node, nobody, protocol_type=None)) == inconsistent
    assert code(sync(node, nobody, protocol_name=None)) == inconsistent
    assert beat(node, nobody, "") == "INVALID_GROUP_ID"
    leaving = classic_groups.leave_group(node.broker, LeaveGroupRequest(), over())
    assert code(leaving) == "INVALID_GROUP_ID"


def test_another_broker_says_that_it_is_not_the_coordinator() -> None:
    node = coordinating()
    member = join(node)
    node.join(2)
    node.lead("__consumer_offsets", 0, leader_epoch=1, leader_id=2)
    refused = now(ask_to_join(node, member_id=member.member_id))
    assert (code(refused), refused.member_id) == ("NOT_COORDINATOR", member.member_id)
    assert code(sync(node, member)) == beat(node, member) == "NOT_COORDINATOR"
    request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id="m")])
    assert code(classic_groups.leave_group(node.broker, request, over())) == "NOT_COORDINATOR"


def test_a_coordinator_that_loads_lets_members_live() -> None:
    node = coordinating()
    member = join(node)
    sync(node, member)
    later: list[Any] = []
    node.broker.aside = lambda run, then: later.append((run, then))
    node.lead("__consumer_offsets", 0, leader_epoch=1)
    assert code(ask_to_join(node)) == "COORDINATOR_LOAD_IN_PROGRESS"
    assert code(sync(node, member)) == "COORDINATOR_LOAD_IN_PROGRESS"
    assert beat(node, member) == "NONE"
    while later:
        run, then = later.pop()
        run()
        then()
    assert beat(node, member) == "NONE"
    assert now(sync(node, member)).assignment == b"all"


def test_whoever_waits_when_the_coordinator_moves_is_told() -> None:
    node = coordinating()
    member = join(node)
    sync(node, member)
    told = now(ask_to_join(node)).member_id
    waiting = ask_to_join(node, member_id=told)
    assert waits(waiting)
    node.join(2)
    node.lead("__consumer_offsets", 0, leader_epoch=1, leader_id=2)
    assert code(waiting) == "NOT_COORDINATOR"


def test_a_connection_that_is_gone_takes_its_member_along() -> None:
    node = coordinating()
    member = join(node)
    sync(node, member)
    told = now(ask_to_join(node)).member_id
    waiting = ask_to_join(node, member_id=told)
    assert isinstance(waiting, Promise)
    waiting.abandon()
    again = ask_to_join(node, member_id=member.member_id)
    node.wait(10_000)
    assert len(now(again).members) == 1


def test_one_member_leaves_in_old_versions_and_many_in_new_ones() -> None:
    node = coordinating()
    member = join(node)
    sync(node, member)
    for version, error in ((0, "NONE"), (2, "UNKNOWN_MEMBER_ID")):
        request = LeaveGroupRequest(group_id=GROUP, member_id=member.member_id)
        answer = now(classic_groups.leave_group(node.broker, request, over(version)))
        assert (code(answer), answer.members) == (error, [])
    member = join(node)
    sync(node, member)
    leaving = [
        MemberIdentity(member_id=member.member_id, reason="done"),
        MemberIdentity(group_instance_id="a"),
    ]
    request = LeaveGroupRequest(group_id=GROUP, members=leaving)
    answer = now(classic_groups.leave_group(node.broker, request, over(5)))
    assert code(answer) == "NONE"
    assert [(m.member_id, m.group_instance_id, code(m)) for m in answer.members] == [
        (member.member_id, None, "NONE"),
        ("", "a", "UNKNOWN_MEMBER_ID"),
    ]
    group: Any = node.broker.coordinators.of(GROUP).context.groups[GROUP]
    assert group.describe().rebalance_reason.endswith("leaves: 'done'")
