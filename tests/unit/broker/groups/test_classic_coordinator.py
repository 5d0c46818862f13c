"""What outlives a coordinator, and what others of its parts learn of classic groups."""

import pytest

from quorate.broker.groups.classic import AWAITED_MAX
from quorate.broker.groups.group import CommitSender
from quorate.broker.groups.records import (
    GROUP_METADATA_VERSION,
    GroupMetadataValue,
    KeyType,
    MemberMetadata,
    names_key,
)
from quorate.broker.shards.effects import Entry
from quorate.broker.shards.formats import encode_value
from quorate.errors import ErrorCode, KafkaError
from quorate.protocol.consumer_protocol import Subscription, encode_subscription
from quorate.protocol.messages.groups import DescribedGroupMember
from tests.unit.broker.groups.classic import GROUP, SESSION_MS, WALL_CLOCK_AHEAD_MS, World

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def commit(world: World, **said: object) -> str:
    plain = CommitSender("", None, -1, transactional=False, api_version=9)
    try:
        world.group.check_commit(plain._replace(**said))  # type: ignore[arg-type]
    except KafkaError as error:
        return error.code.name
    return "NONE"


# --- loading and unloading ----------------------------------------------------


def test_members_go_on_with_another_coordinator_as_if_just_heard_of() -> None:
    world = World()
    leader, follower = world.stable(2)
    later = World(world.log)
    assert later.group.state_name == "Stable"
    later.pass_ms(SESSION_MS - 1)
    assert later.beat(leader) is NONE
    later.pass_ms(SESSION_MS - 1)
    assert later.beat(follower) is UNKNOWN
    assert later.beat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    again = later.join(leader.member_id).value
    assert again.generation_id == 2
    assert later.sync(again).value.assignment


def test_a_generation_that_had_not_synced_is_forgotten_and_all_join_again() -> None:
    world = World()
    (leader,) = world.stable(1)
    again = world.join(leader.member_id).value
    assert again.generation_id == 2
    later = World(world.log)
    assert later.beat(again) is ErrorCode.ILLEGAL_GENERATION


def test_an_empty_group_is_remembered_with_its_generation() -> None:
    world = World()
    (only,) = world.stable(1)
    world.leave(only)
    later = World(world.log)
    assert later.group.state_name == "Empty"
    assert later.group.generation == 2
    assert later.group.idle_since_ms(0) == world.group.idle_since_ms(0)
    assert later.group.idle_since_ms(0) == WALL_CLOCK_AHEAD_MS + world.deadlines.now_ms
    promise = later.come()
    later.pass_ms(3_000)
    assert promise.value.generation_id == 3


def test_a_tombstone_takes_a_group_back() -> None:
    world = World()
    (only,) = world.stable(1)
    world.leave(only)
    told = world.join().value
    (tombstone,) = world.group.tombstones()
    assert tombstone == Entry(names_key(KeyType.GROUP_METADATA, GROUP), None)
    world.groups.replay(KeyType.GROUP_METADATA, *tombstone)
    assert world.known == {}
    assert len(world.deadlines) == 0
    with pytest.raises(KafkaError) as refused:
        world.join(told.member_id)
    assert refused.value.code is UNKNOWN
    world.groups.replay(KeyType.GROUP_METADATA, *tombstone)
    assert World([*world.log, tombstone]).known == {}


def test_a_group_that_never_had_members_is_taken_back_too() -> None:
    world = World()
    world.join()
    assert world.group.expects_members
    world.writer.append(world.group.tombstones())
    assert world.known == {}


def test_generations_grow_even_where_nothing_can_be_written() -> None:
    world = World()
    world.writer.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    promise = world.come()
    world.pass_ms(3_000)
    assert promise.value.generation_id == 1
    world.leave(promise.value)
    world.join()
    world.pass_ms(SESSION_MS)
    again = world.come()
    world.pass_ms(3_000)
    assert again.value.generation_id == 3
    assert len(world.group.tombstones()) == 1


def test_whoever_waits_hears_that_the_coordinator_is_another_one() -> None:
    world = World()
    (old,) = world.stable(1)
    joining = world.come()
    world.groups.unload()
    assert joining.value.error_code == ErrorCode.NOT_COORDINATOR
    assert world.group.state_name == "Dead"
    assert len(world.deadlines) == 0
    joining.abandon()
    other = World()
    promises = [other.come(), other.come()]
    other.pass_ms(6_000)
    syncing = other.sync(promises[1].value)
    other.writer.commits_at_once = False
    stored = other.sync(promises[0].value)
    other.groups.unload()
    assert syncing.value.error_code == stored.value.error_code == ErrorCode.NOT_COORDINATOR
    other.writer.settle(ErrorCode.NOT_COORDINATOR)
    assert old.generation_id == 1


def test_a_group_that_has_become_too_large_is_made_smaller() -> None:
    world = World()
    members = world.stable(3)
    later = World(world.log, group_max_size=2)
    assert later.group.state_name == "PreparingRebalance"
    first, second = (later.join(member.member_id) for member in members[:2])
    with pytest.raises(KafkaError) as refused:
        later.join(members[2].member_id)
    assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.value.generation_id == second.value.generation_id == 2
    assert "group.max.size=2" in later.group.describe().rebalance_reason
    assert World(world.log, group_max_size=3).group.state_name == "Stable"


def test_records_of_earlier_versions_and_odd_ones_are_taken_as_they_are() -> None:
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=6_000,
        rebalance_timeout=-1, subscription=b"s", assignment=b"a",
    )  # fmt: skip
    value = GroupMetadataValue(
        protocol_type="consumer", generation=7, protocol="range", leader="gone",
        members=[member, member],
    )  # fmt: skip
    world = World([Entry(names_key(KeyType.GROUP_METADATA, GROUP), encode_value(value, 1))])
    assert world.group.generation == 7
    (loaded,) = world.group.members
    assert loaded.rebalance_timeout_ms == 6_000
    assert world.group.members.leader_id == "m"
    value.members[0].assignment = b"other"
    later = encode_value(value, GROUP_METADATA_VERSION)
    world.groups.replay(KeyType.GROUP_METADATA, names_key(KeyType.GROUP_METADATA, GROUP), later)
    assert [m.assignment for m in world.group.members] == [b"other"]
    value.members = []
    gone = encode_value(value, GROUP_METADATA_VERSION)
    world.groups.replay(KeyType.GROUP_METADATA, names_key(KeyType.GROUP_METADATA, GROUP), gone)
    assert len(world.group.members) == 0


# --- what others ask ----------------------------------------------------------


def test_what_members_say_of_themselves_is_told_while_it_is_agreed_on() -> None:
    world = World()
    told = world.join().value
    world.join(told.member_id)
    described = world.group.describe()
    assert (described.group_state, described.protocol_type) == ("PreparingRebalance", "consumer")
    assert described.protocol_data == ""
    member = DescribedGroupMember(
        member_id=told.member_id, client_id="app", client_host="/10.0.0.1"
    )
    assert described.members == [member]
    world = World()
    (only,) = world.stable(1, reason="begin")
    described = world.group.describe()
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert described.members[0].member_metadata == b"range: t"
    assert described.members[0].member_assignment == only.member_id.encode()
    assert (described.generation_id, described.leader) == (1, only.member_id)
    assert described.rebalance_reason.endswith("joins: 'begin'")
    assert described.state_since_ms == WALL_CLOCK_AHEAD_MS + 3_000
    assert world.group.group_type == "classic"


def test_commits_come_from_members_of_this_generation() -> None:
    world = World()
    (only,) = world.stable(1)
    good = {"member_id": only.member_id, "generation": 1}
    assert commit(world, **good) == "NONE"
    assert commit(world, **{**good, "generation": 0}) == "ILLEGAL_GENERATION"
    assert commit(world, member_id="x", generation=1) == "UNKNOWN_MEMBER_ID"
    assert commit(world, **good, instance_id="a") == "UNKNOWN_MEMBER_ID"
    assert commit(world) == "UNKNOWN_MEMBER_ID"
    assert commit(world, transactional=True) == "NONE"
    assert commit(world, transactional=True, instance_id="a") == "UNKNOWN_MEMBER_ID"
    world.come()
    assert commit(world, **good) == "NONE"  # it is about to join again: its last chance
    world.join(only.member_id)
    assert commit(world, **good) == "ILLEGAL_GENERATION"
    good["generation"] = 2
    assert commit(world, **good) == "REBALANCE_IN_PROGRESS"
    assert commit(world, **good, transactional=True) == "NONE"


def test_a_commit_is_a_sign_of_life() -> None:
    world = World()
    (only,) = world.stable(1)
    for _ in range(3):
        world.pass_ms(SESSION_MS - 1)
        assert commit(world, member_id=only.member_id, generation=1) == "NONE"


def test_anybody_may_commit_to_a_group_without_members() -> None:
    world = World()
    world.join()
    assert commit(world) == "NONE"
    assert commit(world, member_id="x", generation=1) == "UNKNOWN_MEMBER_ID"
    world.group.check_fetch(None, -1)


def test_what_the_members_read_is_known_from_their_subscriptions() -> None:
    world = World()
    told = [encode_subscription(Subscription(topics)) for topics in (("t",), ("u", "v"))]
    promises = [world.come(protocols=[("range", data)]) for data in told]
    world.pass_ms(6_000)
    world.sync(promises[0].value)
    reads = world.group.is_subscribed_to
    assert [reads(topic) for topic in "tuvw"] == [True, True, True, False]
    world.leave(promises[1].value)
    world.join(promises[0].value.member_id, protocols=[("range", told[0])])
    assert [reads(topic) for topic in "tuvw"] == [True, False, False, False]
    assert [World(world.log).group.is_subscribed_to(topic) for topic in "tw"] == [True, False]


def test_what_a_static_member_reads_is_known_as_soon_as_it_came_back() -> None:
    world = World()
    first, second = (
        [("range", encode_subscription(Subscription((topic,))))] for topic in ("t", "u")
    )
    promise = world.join(instance_id="a", protocols=first)
    world.pass_ms(3_000)
    world.sync(promise.value, instance_id="a")
    assert [world.group.is_subscribed_to(topic) for topic in "tu"] == [True, False]
    assert world.join(instance_id="a", protocols=second).value.generation_id == 1
    assert [world.group.is_subscribed_to(topic) for topic in "tu"] == [False, True]


def test_what_consumers_read_that_cannot_be_understood_is_anything() -> None:
    world = World()
    world.stable(1)
    assert world.group.is_subscribed_to("anything")
    connect = World()
    promise = connect.come(protocol_type="connect")
    connect.pass_ms(3_000)
    assert promise.resolved
    assert not connect.group.is_subscribed_to("anything")


def test_offsets_are_idle_since_they_were_committed_or_the_group_became_empty() -> None:
    world = World()
    (only,) = world.stable(1)
    world.pass_ms(1_000)
    assert world.group.idle_since_ms(5) == 5
    world.come()
    assert world.group.idle_since_ms(5) is None
    world = World()
    (only,) = world.stable(1)
    world.leave(only)
    emptied_ms = WALL_CLOCK_AHEAD_MS + world.deadlines.now_ms
    world.pass_ms(1_000)
    assert world.group.idle_since_ms(5) == emptied_ms
    assert world.group.idle_since_ms(emptied_ms + 500) == emptied_ms + 500


# --- crowds -------------------------------------------------------------------


def test_a_full_group_takes_in_nobody() -> None:
    world = World(group_max_size=2)
    members = world.stable(2)
    with pytest.raises(KafkaError) as refused:
        world.join()
    assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.beat(members[0]) is NONE
    assert world.join(members[1].member_id).value.generation_id == 1


def test_who_was_told_an_id_may_find_the_group_full() -> None:
    world = World(group_max_size=1)
    told = [world.join().value for _ in range(2)]
    first = world.join(told[0].member_id)
    with pytest.raises(KafkaError) as refused:
        world.join(told[1].member_id)
    assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.pass_ms(3_000)
    assert first.value.generation_id == 1


def test_ten_thousand_members_join_at_once() -> None:
    world = World(group_initial_rebalance_delay_ms=3_000)
    told = [world.join().value for _ in range(10_000)]
    promises = [world.join(each.member_id, rebalance_ms=300_000) for each in told]
    world.pass_ms(6_000)
    leader = promises[0].value
    assert len(leader.members) == 10_000
    waiting = [world.sync(promise.value) for promise in promises[1:]]
    world.sync(leader)
    assert all(promise.value.error_code == NONE for promise in waiting)
    assert len(world.log) == 1
    assert len(world.deadlines) == 1
    world.pass_ms(SESSION_MS)
    assert world.group.is_empty


def test_those_who_never_come_back_with_their_id_take_a_bounded_place() -> None:
    world = World()
    told = [world.join().value for _ in range(AWAITED_MAX + 1)]
    with pytest.raises(KafkaError) as refused:
        world.join(told[0].member_id)
    assert refused.value.code is UNKNOWN  # clients ask for another id then
    assert not world.join(told[1].member_id).resolved
