"""ListGroups, DescribeGroups, DeleteGroups; what is forgotten with time, or with its topic."""

from typing import Any

import pytest

from quorate.broker.groups.coordinator import EXPIRED_AT_ONCE
from quorate.broker.groups.records import Committed, offset_key, offset_prefix, offset_value
from quorate.broker.handlers.classic_groups import join_group
from quorate.broker.handlers.consumer_groups import consumer_group_heartbeat
from quorate.broker.handlers.groups import delete_groups, describe_groups, list_groups
from quorate.broker.handlers.operations import ON_GROUPS
from quorate.broker.shards.topics import GROUPS_TOPIC
from quorate.errors import ErrorCode
from quorate.model import NO_LEADER
from quorate.protocol.consumer_protocol import Subscription, encode_subscription
from quorate.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from quorate.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    ListGroupsRequest,
)
from quorate.protocol.messages.metadata import OPERATIONS_NOT_ASKED_FOR
from quorate.quorum.metadata import records as r
from tests.unit.broker.handlers.grouping import (
    SESSION_MS,
    commit,
    coordinator_of,
    fetched,
    join,
    leave,
    new_coordinator,
)
from tests.unit.broker.harness import Node, new_node, now, over, waits

NONE = int(ErrorCode.NONE)
MINUTE_MS = 60_000


def listed(node: Node, **filters: Any) -> dict[str, tuple[str, str, str]]:
    answer = now(list_groups(node.broker, ListGroupsRequest(**filters), over(5)))
    assert answer.error_code == NONE
    return {g.group_id: (g.group_type, g.protocol_type, g.group_state) for g in answer.groups}


def described(node: Node, *group_ids: str, version: int = 6) -> Any:
    request = DescribeGroupsRequest(groups=list(group_ids))
    return now(describe_groups(node.broker, request, over(version))).groups


def delete(node: Node, *group_ids: str) -> list[int]:
    request = DeleteGroupsRequest(groups_names=list(group_ids))
    results = now(delete_groups(node.broker, request, over(2))).results
    assert [result.group_id for result in results] == list(dict.fromkeys(group_ids))
    return [result.error_code for result in results]


def expire(node: Node) -> int:
    """Look for what is too old, in all coordinators; return in how many steps."""
    return sum(1 for coordinator in node.broker.coordinators for _ in coordinator.expire())


def test_what_may_be_done_with_a_group_is_told_to_who_asks() -> None:
    node = new_coordinator()
    join(node, "g")
    for asked, operations in ((False, OPERATIONS_NOT_ASKED_FOR), (True, ON_GROUPS)):
        request = DescribeGroupsRequest(groups=["g", "x"], include_authorized_operations=asked)
        found, missing = now(describe_groups(node.broker, request, over(6))).groups
        assert found.authorized_operations == operations
        assert missing.authorized_operations == OPERATIONS_NOT_ASKED_FOR


# --- lists ---------------------------------------------------------------------


def test_all_groups_are_listed_also_those_that_are_only_offsets() -> None:
    node = new_coordinator(4)
    join(node, "members")
    for number in range(5):
        commit(node, 1, group_id=f"simple-{number}")
    groups = listed(node)
    assert groups.pop("members") == ("classic", "consumer", "Stable")
    assert groups == {f"simple-{number}": ("classic", "", "Empty") for number in range(5)}
    assert list(listed(node, states_filter=["stable"])) == ["members"]
    assert list(listed(node, states_filter=["Dead"])) == []
    assert len(listed(node, types_filter=["Classic"])) == 6
    assert len(listed(node, types_filter=["consumer"])) == 0


def test_a_group_that_is_only_offsets_of_transactions_under_way_is_listed() -> None:
    node = new_coordinator()
    value = offset_value(Committed(77, -1, "", node.broker.now_ms, -1))
    coordinator_of(node).replay_pending(5, offset_key(offset_prefix("g", "t"), 0), value)
    assert listed(node) == {"g": ("classic", "", "Empty")}
    (group,) = described(node, "g")
    assert (group.error_code, group.group_state) == (NONE, "Empty")


def test_nothing_is_listed_while_something_would_be_missing() -> None:
    node = new_coordinator()
    node.broker.aside = lambda _run, _then: None
    commit(node, 1)
    node.lead(GROUPS_TOPIC, 0, 1)
    answer = now(list_groups(node.broker, ListGroupsRequest(), over(5)))
    assert (answer.error_code, answer.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    assert commit(node, 2) == [int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]


# --- descriptions --------------------------------------------------------------


def test_groups_are_described_in_the_order_in_which_they_were_asked_for() -> None:
    node = new_coordinator(4)
    join(node, "members")
    commit(node, 1, group_id="simple")
    simple, members, none = described(node, "simple", "members", "none")
    assert (simple.group_state, simple.protocol_type, simple.members) == ("Empty", "", [])
    assert (members.group_state, len(members.members)) == ("Stable", 1)
    assert (none.group_state, none.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert none.error_message == "Group none not found."
    assert described(node) == []


def test_what_only_we_know_of_a_group_is_told_to_who_asks() -> None:
    node = new_coordinator()
    joined = join(node, "g")
    asked = DescribeGroupsRequest(groups=["g"], include_own_fields=True)
    (told,) = now(describe_groups(node.broker, asked, over(6))).groups
    assert (told.generation_id, told.leader) == (1, joined.member_id)
    assert told.rebalance_reason
    (group,) = described(node, "g")
    assert (group.generation_id, group.leader) == (-1, "")
    assert (group.rebalance_reason, group.state_since_ms) == ("", -1)


def test_clients_of_a_time_before_are_told_that_what_is_not_there_is_dead() -> None:
    (none,) = described(new_coordinator(), "none", version=5)
    assert (none.group_state, none.error_code) == ("Dead", NONE)


def test_a_group_of_another_coordinator_is_asked_for_there() -> None:
    node = new_coordinator()
    node.lead(GROUPS_TOPIC, 0, 1, leader_id=-1)
    (elsewhere,) = described(node, "g")
    assert elsewhere.error_code == ErrorCode.NOT_COORDINATOR
    assert delete(node, "g") == [int(ErrorCode.NOT_COORDINATOR)]


def test_a_group_that_is_lost_meanwhile_is_asked_for_again() -> None:
    node = new_node()
    node.join()
    node.join(2)
    node.create_topic("t")
    topic_id = b"groups".ljust(16)
    node.apply(
        r.TopicCreated("test", 0, GROUPS_TOPIC, topic_id),
        r.PartitionCreated("test", 0, topic_id, 0, (1, 2), (1, 2), 1),
    )
    commit_without_answer(node)
    answer = describe_groups(node.broker, DescribeGroupsRequest(groups=["g"]), over(6))
    node.apply(r.PartitionChanged("test", 0, topic_id, 0, 2, 2, (1, 2)))
    (group,) = now(answer).groups
    assert group.error_code == ErrorCode.NOT_COORDINATOR


def commit_without_answer(node: Node) -> None:
    with pytest.raises(AssertionError, match="still open"):
        commit(node, 1)


def test_a_group_of_the_new_protocol_is_none_of_the_old() -> None:
    node = new_coordinator()
    join_new(node)
    (group,) = described(node, "g")
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert group.error_message == "Group g is not a classic group."
    assert listed(node)["g"][0] == "consumer"


def join_new(node: Node) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert now(consumer_group_heartbeat(node.broker, request, over(1))).error_code == NONE


# --- deletions -----------------------------------------------------------------


def test_a_group_without_members_is_deleted_with_its_offsets() -> None:
    node = new_coordinator()
    commit(node, 1, 2)
    leave(node, join(node).member_id)
    commit(node, 1, group_id="simple")
    join(node, "members")
    results = delete(node, "g", "simple", "members", "none")
    assert results == [
        NONE,
        NONE,
        int(ErrorCode.NON_EMPTY_GROUP),
        int(ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert list(listed(node)) == ["members"]
    node.lead(GROUPS_TOPIC, 0, 1)  # it is read again
    assert list(listed(node)) == ["members"]
    assert fetched(node) == {}


def test_a_group_that_is_named_twice_is_deleted_once() -> None:
    node = new_coordinator()
    commit(node, 1)
    assert delete(node, "g", "none", "g") == [NONE, int(ErrorCode.GROUP_ID_NOT_FOUND)]


def test_a_group_that_waits_for_its_first_member_can_be_deleted_and_does_not_expire() -> None:
    node = new_coordinator()
    asked = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=SESSION_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    told = now(join_group(node.broker, asked, over(4)))
    assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
    expire(node)
    assert list(listed(node)) == ["g"]
    assert delete(node, "g") == [NONE]
    assert listed(node) == {}
    asked.member_id = told.member_id
    refused = now(join_group(node.broker, asked, over(4)))
    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_with_more_offsets_than_fit_into_a_batch_is_deleted() -> None:
    node = new_coordinator()
    name = "x" * 200
    node.create_topic(name, 4000)
    for first in range(0, 4000, 1000):
        coordinator = coordinator_of(node)
        for partition in range(first, first + 1000):
            replay_offset(coordinator, name, partition)
    before = node.leader(GROUPS_TOPIC).log.log_end_offset
    assert delete(node, "g") == [NONE]
    assert listed(node) == {}
    assert node.leader(GROUPS_TOPIC).log.log_end_offset == before + 4000


def test_a_deletion_that_fails_midway_is_said() -> None:
    node = new_coordinator()
    name = "x" * 200
    node.create_topic(name, 4000)
    for partition in range(4000):
        replay_offset(coordinator_of(node), name, partition)
    node.disk.capacity_bytes = 0
    assert delete(node, "g") == [int(ErrorCode.NOT_COORDINATOR)]
    assert len(coordinator_of(node).keeper.offsets.of_group("g")[name]) == 4000


def replay_offset(coordinator: Any, topic: str, partition: int) -> None:
    key = offset_key(offset_prefix("g", topic), partition)
    coordinator.replay(key, offset_value(Committed(1, -1, "", 0, -1)))


# --- time ----------------------------------------------------------------------


def test_offsets_of_consumers_without_a_group_expire_from_their_commit_on() -> None:
    node = new_coordinator(offsets_retention_minutes="10")
    commit(node, 1)
    node.wait(5 * MINUTE_MS)
    commit(node, 1, 2)
    node.wait(9 * MINUTE_MS)
    expire(node)
    assert len(fetched(node)) == 2
    node.wait(MINUTE_MS)
    expire(node)
    assert listed(node) == {}


def test_offsets_of_a_group_expire_from_when_it_became_empty_and_the_group_with_them() -> None:
    node = new_coordinator(offsets_retention_minutes="10", group_max_session_timeout_ms="7200000")
    member_id = join(node).member_id
    commit(node, 1, member_id=member_id, generation_id_or_member_epoch=1)
    node.wait(5_000)
    leave(node, member_id)
    node.wait(10 * MINUTE_MS - 1)
    expire(node)
    expire(node)  # were the group gone already, the offset would count from its commit on
    assert (fetched(node), listed(node)["g"][2]) == ({("t", 0): 1}, "Empty")
    node.wait(1)
    expire(node)
    assert (fetched(node), listed(node)) == ({}, {})


def test_what_members_read_does_not_expire_but_what_they_do_not_read_does() -> None:
    node = new_coordinator(offsets_retention_minutes="1", group_max_session_timeout_ms="7200000")
    node.create_topic("u")
    commit(node, 1)
    commit(node, 1, topic="u")
    join(node)
    node.wait(MINUTE_MS // 10)  # within its session
    for _ in range(9):
        node.broker.now_ms += MINUTE_MS
    expire(node)
    assert fetched(node) == {("t", 0): 1}


def test_what_members_read_of_whom_that_is_not_known_does_not_expire() -> None:
    node = new_coordinator(offsets_retention_minutes="1")
    commit(node, 1)
    join(node, kind="connect")
    node.broker.now_ms += 9 * MINUTE_MS
    expire(node)
    assert fetched(node) == {("t", 0): 1}


def test_an_offset_with_a_time_of_its_own_expires_then() -> None:
    node = new_coordinator()
    commit(node, 1, version=4, retention_time_ms=1000)
    node.wait(999)
    expire(node)
    assert fetched(node) == {("t", 0): 1}
    node.wait(1)
    expire(node)
    assert fetched(node) == {}


def test_nothing_expires_while_members_join_who_may_read_it() -> None:
    node = new_coordinator(offsets_retention_minutes="1")
    node.create_topic("u")
    commit(node, 1, topic="u", version=4, retention_time_ms=1000)
    commit(node, 2, topic="u", group_id="other")
    first = join(node)
    metadata = encode_subscription(Subscription(topics=("t",)))
    second = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    assert waits(join_group(node.broker, second, over(3)))
    node.broker.now_ms += 9 * MINUTE_MS
    expire(node)
    assert fetched(node) == {("u", 0): 1}
    assert fetched(node, "other") == {}
    leave(node, first.member_id)
    assert listed(node)["g"][2] == "CompletingRebalance"
    expire(node)
    assert fetched(node) == {("u", 0): 1}


def test_what_a_transaction_is_about_to_commit_keeps_its_group() -> None:
    node = new_coordinator(offsets_retention_minutes="1")
    commit(node, 1)
    leave(node, join(node).member_id)

    value = offset_value(Committed(77, -1, "", node.broker.now_ms, -1))
    key = offset_key(offset_prefix("g", "t"), 0)
    coordinator_of(node).replay_pending(5, key, value)
    node.wait(MINUTE_MS)
    expire(node)
    assert fetched(node) == {("t", 0): 1}
    coordinator_of(node).replay(key, None)
    coordinator_of(node).replay_pending(5, key, value)
    expire(node)
    assert list(listed(node)) == ["g"]


def test_many_groups_are_looked_at_in_steps() -> None:
    node = new_coordinator()
    for number in range(EXPIRED_AT_ONCE * 2 + 1):
        commit(node, 1, group_id=f"g{number}")
    assert expire(node) == 2


def test_what_was_read_of_a_topic_is_forgotten_with_it() -> None:
    node = new_coordinator()
    node.create_topic("u")
    commit(node, 1, 2)
    commit(node, 1, topic="u")
    commit(node, 1, topic="u", group_id="other")
    node.apply(r.TopicRemoved("test", 0, node.replicas.image.topics["t"].topic_id))
    assert fetched(node) == {("u", 0): 1}
    assert fetched(node, "other") == {("u", 0): 1}


def test_what_transactions_are_about_to_commit_is_forgotten_with_its_topic() -> None:
    node = new_coordinator()
    value = offset_value(Committed(77, -1, "", node.broker.now_ms, -1))
    for group_id in ("g", "other"):
        key = offset_key(offset_prefix(group_id, "t"), 0)
        coordinator_of(node).replay_pending(5, key, value)
    node.apply(r.TopicRemoved("test", 0, node.replicas.image.topics["t"].topic_id))
    coordinator_of(node).end_transaction(5, committed=True)
    assert fetched(node) == fetched(node, "other") == {}


def removal_of(node: Node, topic: str) -> r.TopicRemoved:
    return r.TopicRemoved("test", 0, node.replicas.image.topics[topic].topic_id)


def test_what_was_read_of_a_topic_that_is_deleted_while_nobody_coordinates_is_forgotten() -> None:
    node = new_coordinator()
    node.create_topic("u")
    commit(node, 1, 2)
    commit(node, 1, topic="u")
    node.lead(GROUPS_TOPIC, 0, 1, leader_id=NO_LEADER)
    node.apply(removal_of(node, "t"))
    node.lead(GROUPS_TOPIC, 0, 2)
    assert fetched(node) == {("u", 0): 1}
    node.create_topic("t")
    node.lead(GROUPS_TOPIC, 0, 3)
    assert fetched(node) == {("u", 0): 1}


def test_what_was_read_of_a_topic_that_is_gone_is_not_that_of_the_next_one() -> None:
    node = new_coordinator()
    commit(node, 7, 8)
    commit(node, 7, group_id="other")
    node.disk.capacity_bytes = 0
    node.apply(removal_of(node, "t"))
    node.apply(r.TopicCreated("test", 0, "t", b"another".ljust(16, b"2")))
    another = node.replicas.image.topics["t"].topic_id
    node.apply(r.PartitionCreated("test", 0, another, 0, (1,), (1,), 1))
    assert fetched(node) == {("t", 0): -1, ("t", 1): -1}
    assert commit(node, 1, group_id="other") == [int(ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    node.disk.capacity_bytes = None
    assert commit(node, 1, group_id="other") == [0]
    assert (fetched(node), fetched(node, "other")) == ({}, {("t", 0): 1})


def test_more_than_fits_into_a_batch_is_forgotten_later_too() -> None:
    node = new_coordinator()
    name = "x" * 200
    node.create_topic(name, 4000)
    coordinator = coordinator_of(node)
    for partition in range(4000):
        replay_offset(coordinator, name, partition)
    node.disk.capacity_bytes = 0
    node.apply(removal_of(node, name))
    assert coordinator.keeper.fetch("g", name, 0, stable=False).offset == -1
    node.disk.capacity_bytes = None
    expire(node)
    assert listed(node) == {}


def test_what_could_not_be_forgotten_at_first_is_forgotten_with_what_expires() -> None:
    node = new_coordinator()
    commit(node, 7)
    node.disk.capacity_bytes = 0
    node.apply(removal_of(node, "t"))
    node.disk.capacity_bytes = None
    expire(node)
    assert fetched(node) == {}


@pytest.mark.parametrize("is_made_again", [False, True])
def test_what_was_read_of_a_topic_that_is_deleted_meanwhile_is_forgotten_at_the_end_of_loading(
    *, is_made_again: bool
) -> None:
    node = new_coordinator()
    node.create_topic("u")
    commit(node, 1, 2)
    commit(node, 1, topic="u")
    reading: list[Any] = []
    node.broker.aside = lambda run, then: reading.append((run, then))
    node.lead(GROUPS_TOPIC, 0, 1)
    node.apply(removal_of(node, "t"))
    if is_made_again:
        node.apply(r.TopicCreated("test", 0, "t", b"another".ljust(16, b"2")))
    while reading:
        run, then = reading.pop()
        run()
        then()
    assert fetched(node) == {("u", 0): 1}


def test_records_of_another_time_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    node = new_coordinator()
    coordinator_of(node).replay(b"\0\x63whatever", b"value")
    assert "unknown type 99" in caplog.text


def test_a_group_is_described_once_however_often_it_is_named() -> None:
    groups = described(new_coordinator(), "a", "b", "a")
    assert [group.group_id for group in groups] == ["a", "b"]
