"""Members with a name of their own: they may come back without anybody noticing (KIP-345)."""

import pytest

from quorate.broker.groups.classic_members import Leaver
from quorate.broker.groups.records import GroupMetadataValue
from quorate.broker.shards.formats import decode_value
from quorate.errors import ErrorCode, KafkaError
from quorate.protocol.messages.groups import JoinGroupResponse
from tests.unit.broker.groups.classic import GROUP, REBALANCE_MS, SESSION_MS, World

NONE = ErrorCode.NONE
FENCED = ErrorCode.FENCED_INSTANCE_ID


def stable_pair(world: World) -> tuple[JoinGroupResponse, JoinGroupResponse]:
    """A stable group of the static members "a", who leads, and "b"."""
    promises = [world.join(instance_id=name) for name in ("a", "b")]
    world.pass_ms(6_000)
    leader, follower = (promise.value for promise in promises)
    for answer, name in ((leader, "a"), (follower, "b")):
        world.sync(answer, instance_id=name)
    assert world.group.state_name == "Stable"
    return leader, follower


def test_a_static_member_needs_no_second_attempt_to_join() -> None:
    world = World()
    promise = world.join(instance_id="a")
    world.pass_ms(3_000)
    answer = promise.value
    assert answer.generation_id == 1
    assert answer.member_id.startswith("a-")
    assert answer.members[0].group_instance_id == "a"


def test_a_static_member_comes_back_without_a_rebalance_and_its_old_self_is_fenced() -> None:
    world = World()
    leader, follower = stable_pair(world)
    back = world.join(instance_id="b").value
    assert (back.generation_id, back.leader, back.members) == (1, leader.member_id, [])
    assert back.member_id != follower.member_id
    assert world.group.state_name == "Stable"
    assert world.sync(back, instance_id="b").value.assignment == follower.member_id.encode()
    assert world.beat(back, instance_id="b") is NONE
    assert world.beat(follower, instance_id="b") is FENCED
    assert world.beat(follower) is ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(KafkaError) as refused:
        world.join(follower.member_id, instance_id="b")
    assert refused.value.code is FENCED
    with pytest.raises(KafkaError) as refused:
        world.sync(follower, instance_id="b")
    assert refused.value.code is FENCED


def test_a_leader_that_comes_back_leads_and_need_not_assign() -> None:
    world = World()
    leader, follower = stable_pair(world)
    back = world.join(instance_id="a").value
    assert back.leader == back.member_id
    assert back.skip_assignment
    assert {m.member_id for m in back.members} == {back.member_id, follower.member_id}
    assert world.sync(back, instance_id="a").value.assignment == leader.member_id.encode()


def test_a_leader_that_came_back_leads_on_when_another_one_goes() -> None:
    world = World()
    leader, follower = stable_pair(world)
    third = world.join(instance_id="c")
    for old, name in ((leader, "a"), (follower, "b")):
        world.join(old.member_id, instance_id=name)
    world.sync(third.value, instance_id="c")
    back = world.join(instance_id="a")  # all join again: it has the last place now
    world.leave(follower)
    assert world.group.members.leader_id == world.join(third.value.member_id).value.leader
    assert back.value.leader == back.value.member_id


def test_a_leader_that_cannot_skip_assigning_is_not_told_that_it_leads() -> None:
    world = World()
    leader, _ = stable_pair(world)
    back = world.join(instance_id="a", version=8).value
    assert (back.leader, back.members, back.skip_assignment) == (leader.member_id, [], False)


def test_a_member_that_came_back_is_known_to_the_next_coordinator() -> None:
    world = World()
    leader, follower = stable_pair(world)
    back = world.join(instance_id="a", session_ms=20_000, client_id="new").value
    value = world.log[-1].value
    assert value is not None
    record = decode_value(GroupMetadataValue, value)
    assert record.leader == back.member_id
    later = World(world.log)
    assert later.beat(back, instance_id="a") is NONE
    assert later.beat(leader, instance_id="a") is FENCED
    assert later.beat(follower, instance_id="b") is NONE
    assert later.group.members.leader_id == back.member_id
    assert later.sync(back, instance_id="a").value.assignment == leader.member_id.encode()


@pytest.mark.parametrize("late", [False, True])
def test_a_member_that_comes_back_hears_if_that_cannot_be_stored(*, late: bool) -> None:
    world = World()
    _, follower = stable_pair(world)
    if late:
        world.writer.commits_at_once = False
    else:
        world.writer.refuses = ErrorCode.NOT_COORDINATOR
    promise = world.join(instance_id="b")
    world.writer.settle(ErrorCode.NOT_COORDINATOR)
    assert promise.value.error_code == ErrorCode.NOT_COORDINATOR
    # What stands in the log counts, whether or not that is known to be committed.
    assert world.beat(follower, instance_id="b") is (FENCED if late else NONE)


def test_who_is_replaced_in_turn_before_that_is_stored_is_not_a_member() -> None:
    world = World()
    stable_pair(world)
    world.writer.commits_at_once = False
    first = world.join(instance_id="b")
    second = world.join(instance_id="b")
    world.writer.settle()
    assert first.value.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert second.value.error_code == NONE
    assert world.beat(second.value, instance_id="b") is NONE


def test_a_member_that_comes_back_with_other_protocols_may_change_the_groups() -> None:
    world = World()
    both = [("range", b""), ("sticky", b"")]
    promises = [world.join(instance_id=name, protocols=both) for name in ("a", "b")]
    world.pass_ms(6_000)
    for promise, name in zip(promises, ("a", "b"), strict=True):
        world.sync(promise.value, instance_id=name)
    back = world.join(instance_id="b", protocols=[("sticky", b"")])
    assert not back.resolved
    again = world.join(promises[0].value.member_id, instance_id="a", protocols=both)
    assert again.value.protocol_name == back.value.protocol_name == "sticky"


def test_a_member_that_comes_back_before_all_have_synced_makes_all_join_again() -> None:
    world = World()
    promises = [world.join(instance_id=name) for name in ("a", "b")]
    world.pass_ms(6_000)
    leader, follower = (promise.value for promise in promises)
    waiting = world.sync(follower, instance_id="b")
    back = world.join(instance_id="b")
    assert waiting.value.error_code == FENCED
    assert world.beat(leader, instance_id="a") is ErrorCode.REBALANCE_IN_PROGRESS
    again = world.join(leader.member_id, instance_id="a")
    assert again.value.generation_id == back.value.generation_id == 2
    for answer, name in ((again.value, "a"), (back.value, "b")):
        world.groups.leave(GROUP, [Leaver(answer.member_id, name, "")])
    assert len(world.deadlines) == 0


def test_a_member_that_comes_back_while_all_join_takes_the_place_of_its_old_self() -> None:
    world = World()
    first = world.join(instance_id="a")
    second = world.join(instance_id="a")
    assert first.value.error_code == FENCED
    world.pass_ms(6_000)
    assert second.value.leader == second.value.member_id
    assert len(second.value.members) == 1


def test_a_static_member_that_is_away_stays_until_its_session_ends() -> None:
    world = World()
    leader, _ = stable_pair(world)
    again = world.join(leader.member_id, instance_id="a")
    assert not again.resolved
    world.pass_ms(SESSION_MS - 1)
    assert not again.resolved
    world.pass_ms(1)
    assert len(again.value.members) == 1


def test_a_rebalance_does_not_leave_out_static_members_that_are_away() -> None:
    world = World()
    sessions_ms = 10 * REBALANCE_MS
    promises = [world.join(instance_id=name, session_ms=sessions_ms) for name in ("a", "b")]
    world.pass_ms(6_000)
    for promise, name in zip(promises, ("a", "b"), strict=True):
        world.sync(promise.value, instance_id=name)
    new = world.join(instance_id="c", session_ms=sessions_ms)
    world.pass_ms(REBALANCE_MS)
    assert {m.group_instance_id for m in new.value.members} == {"a", "b", "c"}
    assert new.value.leader == new.value.member_id
    world.sync(new.value, instance_id="c")
    for coordinator in (world, World(world.log)):
        assert coordinator.group.members.leader_id == new.value.member_id


def test_a_group_whose_static_members_are_all_away_waits_for_them() -> None:
    world = World()
    leader, _ = stable_pair(world)
    world.join(leader.member_id, instance_id="a", session_ms=200_000).abandon()
    world.join(instance_id="b", session_ms=200_000).abandon()
    world.pass_ms(2 * REBALANCE_MS)
    assert world.group.state_name == "PreparingRebalance"
    assert world.group.generation == 1
    world.pass_ms(200_000)
    assert world.group.state_name == "Empty"


def test_to_wait_for_who_is_away_and_allows_no_time_to_join_again_holds_up_nobody() -> None:
    world = World()
    world.join(instance_id="a", rebalance_ms=0).abandon()
    world.pass_ms(3_000)  # else it would never end
    assert world.group.state_name == "PreparingRebalance"
    world.pass_ms(SESSION_MS)
    assert world.group.state_name == "Empty"


def test_a_static_member_that_comes_back_after_the_first_delay_need_not_wait() -> None:
    world = World()
    world.join(instance_id="a").abandon()
    world.pass_ms(3_000)
    assert world.group.state_name == "PreparingRebalance"
    back = world.join(instance_id="a").value
    assert (back.error_code, back.generation_id, back.leader) == (NONE, 1, back.member_id)


def test_administrators_take_out_static_members_by_name() -> None:
    world = World()
    leader, follower = stable_pair(world)
    leavers = [
        Leaver("", "b", "moved"),
        Leaver("", "nobody", ""),
        Leaver("", None, ""),
        Leaver(leader.member_id, "b", ""),
        Leaver("x", "a", ""),
    ]
    codes = world.groups.leave(GROUP, leavers)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert codes == [NONE, unknown, unknown, unknown, FENCED]
    assert world.beat(follower, instance_id="b") is unknown
    assert world.beat(leader, instance_id="a") is ErrorCode.REBALANCE_IN_PROGRESS
    assert "moved" in world.group.describe().rebalance_reason


def test_a_member_that_was_told_an_id_does_not_come_back_as_a_static_one() -> None:
    world = World()
    told = world.join().value
    with pytest.raises(KafkaError) as refused:
        world.join(told.member_id, instance_id="a")
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_successor_has_not_to_sync_in_time_what_its_old_self_did_not() -> None:
    world = World()
    promises = [world.join(instance_id=name, session_ms=600_000) for name in ("a", "b")]
    world.pass_ms(6_000)
    world.sync(promises[0].value, instance_id="a")
    back = world.join(instance_id="b", session_ms=600_000)
    assert back.resolved
    world.pass_ms(REBALANCE_MS)
    assert world.group.state_name == "Stable"
