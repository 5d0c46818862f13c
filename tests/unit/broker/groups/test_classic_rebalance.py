"""How members of a classic group come together, and how the group goes on without some of them."""

import gc
import json

import pytest

from quorate.broker.groups.records import GroupMetadataValue
from quorate.broker.shards.formats import decode_value
from quorate.errors import ErrorCode, KafkaError
from quorate.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse
from tests.unit.broker.groups.classic import GROUP, REBALANCE_MS, SESSION_MS, World

NONE = ErrorCode.NONE
ROUND_ROBIN = ("roundrobin", b"roundrobin: t")
RANGE = ("range", b"range: t")


def code(answer: JoinGroupResponse | SyncGroupResponse) -> str:
    return ErrorCode(answer.error_code).name


def refusal(world: World, **said: object) -> str:
    with pytest.raises(KafkaError) as refused:
        world.join(**said)  # type: ignore[arg-type]
    return refused.value.code.name


def last_record(world: World) -> GroupMetadataValue:
    value = world.log[-1].value
    assert value is not None
    return decode_value(GroupMetadataValue, value)


def test_a_first_member_is_told_an_id_and_leads_when_nobody_else_has_come_in_time() -> None:
    world = World()
    told = world.join().value
    assert code(told) == "MEMBER_ID_REQUIRED"
    assert told.member_id.startswith("app-")
    assert world.group.state_name == "Empty"
    promise = world.join(told.member_id)
    world.pass_ms(2_999)
    assert not promise.resolved
    world.pass_ms(1)
    answer = promise.value
    assert (code(answer), answer.generation_id, answer.leader) == ("NONE", 1, told.member_id)
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert [(m.member_id, m.metadata) for m in answer.members] == [(told.member_id, b"range: t")]
    assert not answer.skip_assignment
    assert world.group.state_name == "CompletingRebalance"
    assert world.sync(answer).value.assignment == told.member_id.encode()
    assert world.group.state_name == "Stable"


def test_members_of_old_clients_join_without_an_id_at_once() -> None:
    world = World()
    promise = world.join(version=3)
    world.pass_ms(3_000)
    assert promise.value.generation_id == 1


def test_the_first_rebalance_waits_on_while_members_come_but_no_longer_than_they_may_take() -> None:
    world = World()
    first = world.come(rebalance_ms=8_000)
    for _ in range(2):
        world.pass_ms(2_900)
        world.come(rebalance_ms=8_000)
    world.pass_ms(2_199)
    assert not first.resolved
    world.pass_ms(1)  # 8 s after the first came
    assert len(first.value.members) == 3


def test_without_a_delay_the_first_member_need_not_wait() -> None:
    world = World(group_initial_rebalance_delay_ms=0)
    promise = world.come()
    world.pass_ms(0)
    assert promise.value.generation_id == 1


def test_only_the_leader_learns_who_is_there() -> None:
    world = World()
    leader, follower = world.stable(2)
    assert {m.member_id for m in leader.members} == {leader.member_id, follower.member_id}
    assert follower.members == []
    assert follower.leader == leader.member_id


def test_a_follower_waits_for_what_the_leader_assigns() -> None:
    world = World()
    promises = [world.come(), world.come()]
    world.pass_ms(6_000)
    leader, follower = (promise.value for promise in promises)
    waiting = world.sync(follower)
    assert not waiting.resolved
    assert world.sync(leader).value.assignment == leader.member_id.encode()
    assert waiting.value.assignment == follower.member_id.encode()
    assert (waiting.value.protocol_type, waiting.value.protocol_name) == ("consumer", "range")


def test_assignments_are_given_when_their_record_is_committed() -> None:
    world = World()
    promise = world.come()
    world.pass_ms(3_000)
    world.writer.commits_at_once = False
    synced = world.sync(promise.value)
    assert not synced.resolved
    assert world.group.state_name == "CompletingRebalance"
    record = last_record(world)
    assert (record.generation, record.protocol, record.leader) == (
        1,
        "range",
        promise.value.member_id,
    )
    assert record.members[0].assignment == promise.value.member_id.encode()
    world.writer.settle()
    assert synced.value.assignment == promise.value.member_id.encode()


def test_who_joins_while_assignments_are_being_stored_ends_the_generation() -> None:
    world = World()
    promise = world.come()
    world.pass_ms(3_000)
    world.writer.commits_at_once = False
    synced = world.sync(promise.value)
    late = world.come()
    assert code(synced.value) == "REBALANCE_IN_PROGRESS"
    world.writer.settle()
    assert world.group.state_name == "PreparingRebalance"
    assert world.group.members.get(promise.value.member_id).assignment == b""  # type: ignore[union-attr]
    again = world.join(promise.value.member_id)
    assert again.value.generation_id == late.value.generation_id == 2
    world.writer.settle()
    assert world.group.state_name == "CompletingRebalance"


@pytest.mark.parametrize("outcome", [NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_what_comes_of_an_earlier_generations_assignments_is_nothing_to_the_next(
    outcome: ErrorCode,
) -> None:
    world = World()
    promise = world.come()
    world.pass_ms(3_000)
    world.writer.commits_at_once = False
    world.sync(promise.value)
    follower = world.come()
    leader = world.join(promise.value.member_id)
    synced = world.sync(follower.value)
    world.writer.settle(outcome)  # of generation 1, while generation 2 waits for its leader
    assert world.group.state_name == "CompletingRebalance"
    assert not synced.resolved
    world.sync(leader.value)
    assert not synced.resolved
    world.writer.settle()
    assert synced.value.assignment == follower.value.member_id.encode()


@pytest.mark.parametrize("late", [False, True])
def test_assignments_that_cannot_be_stored_are_an_error_and_all_join_again(*, late: bool) -> None:
    world = World()
    promise = world.come()
    world.pass_ms(3_000)
    if late:
        world.writer.commits_at_once = False
    else:
        world.writer.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    synced = world.sync(promise.value)
    world.writer.settle(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert code(synced.value) == "COORDINATOR_NOT_AVAILABLE"
    assert world.beat(promise.value) is ErrorCode.REBALANCE_IN_PROGRESS
    world.writer.refuses = None
    world.writer.commits_at_once = True
    again = world.join(promise.value.member_id).value
    assert again.generation_id == 2
    assert world.sync(again).value.assignment == promise.value.member_id.encode()


def test_a_new_member_makes_all_join_again_and_they_learn_it_from_their_heartbeats() -> None:
    world = World()
    (old,) = world.stable(1)
    assert world.beat(old) is NONE
    new = world.come()
    assert world.beat(old) is ErrorCode.REBALANCE_IN_PROGRESS
    with pytest.raises(KafkaError) as refused:
        world.sync(old)
    assert refused.value.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert not new.resolved
    again = world.join(old.member_id)
    assert new.value.generation_id == again.value.generation_id == 2
    assert again.value.leader == old.member_id
    assert world.beat(old) is ErrorCode.ILLEGAL_GENERATION


def test_who_does_not_join_again_within_the_rebalance_timeout_is_out() -> None:
    world = World()
    leader, gone = world.stable(2)
    new = world.come()
    for _ in range(REBALANCE_MS // 5_000 - 1):
        world.pass_ms(5_000)
        assert world.beat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
        assert world.beat(gone) is ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_ms(5_000)
    assert new.value.generation_id == 2
    assert new.value.leader == new.value.member_id
    assert world.beat(gone) is ErrorCode.UNKNOWN_MEMBER_ID
    assert "did not join again in time" in world.group.describe().rebalance_reason


def test_a_member_that_is_silent_is_out_and_the_others_go_on() -> None:
    world = World()
    leader, silent = world.stable(2)
    for _ in range(3):
        world.pass_ms(SESSION_MS // 3)
        if world.group.state_name == "Stable":
            assert world.beat(leader) is NONE
    world.pass_ms(100)
    assert world.beat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.beat(silent) is ErrorCode.UNKNOWN_MEMBER_ID
    again = world.join(leader.member_id).value
    assert again.generation_id == 2
    assert len(again.members) == 1
    assert "silent" in world.group.describe().rebalance_reason
    assert silent.member_id in world.group.describe().rebalance_reason


def test_the_last_member_leaves_an_empty_group_of_the_next_generation() -> None:
    world = World()
    (only,) = world.stable(1)
    assert world.leave(only) == [NONE]
    assert world.group.state_name == "Empty"
    assert world.group.is_empty
    record = last_record(world)
    assert (record.generation, record.members, record.leader, record.protocol) == (
        2,
        [],
        None,
        None,
    )
    assert record.protocol_type == "consumer"
    assert len(world.deadlines) == 0


def test_an_empty_group_stays_so_even_if_that_cannot_be_written() -> None:
    world = World()
    (only,) = world.stable(1)
    world.writer.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.leave(only)
    assert world.group.is_empty
    assert refusal(world, member_id=only.member_id) == "UNKNOWN_MEMBER_ID"


def test_who_joined_but_does_not_sync_within_the_rebalance_timeout_is_out() -> None:
    world = World()
    promises = [world.come(session_ms=600_000) for _ in range(2)]
    world.pass_ms(6_000)
    leader, silent = (promise.value for promise in promises)
    assert world.sync(leader).value.assignment
    world.pass_ms(REBALANCE_MS - 1)
    assert world.beat(leader) is NONE
    world.pass_ms(1)
    assert world.beat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.beat(silent) is ErrorCode.UNKNOWN_MEMBER_ID
    assert "did not sync in time" in world.group.describe().rebalance_reason


def test_a_leader_that_does_not_sync_is_replaced() -> None:
    world = World()
    promises = [world.come(session_ms=600_000) for _ in range(2)]
    world.pass_ms(6_000)
    leader, follower = (promise.value for promise in promises)
    waiting = world.sync(follower)
    world.pass_ms(REBALANCE_MS)
    assert code(waiting.value) == "REBALANCE_IN_PROGRESS"
    again = world.join(follower.member_id).value
    assert again.leader == follower.member_id
    assert world.beat(leader) is ErrorCode.UNKNOWN_MEMBER_ID


def test_whoever_was_there_first_leads_when_the_leader_goes() -> None:
    world = World()
    first, second, third = world.stable(3)
    world.leave(first)
    answers = [world.join(member.member_id) for member in (third, second)]
    assert {promise.value.leader for promise in answers} == {second.member_id}


def test_the_protocol_is_the_one_that_most_like_best_of_those_that_all_know() -> None:
    world = World()
    promises = [
        world.come(protocols=[RANGE, ROUND_ROBIN]),
        world.come(protocols=[ROUND_ROBIN, RANGE]),
        world.come(protocols=[("sticky", b""), ROUND_ROBIN]),
    ]
    world.pass_ms(6_000)
    assert {promise.value.protocol_name for promise in promises} == {"roundrobin"}
    assert {m.metadata for m in promises[0].value.members} == {ROUND_ROBIN[1]}


def test_members_that_have_nothing_in_common_with_the_others_are_refused() -> None:
    world = World()
    world.stable(1)
    assert refusal(world, protocols=[ROUND_ROBIN]) == "INCONSISTENT_GROUP_PROTOCOL"
    assert refusal(world, protocol_type="connect") == "INCONSISTENT_GROUP_PROTOCOL"
    assert refusal(world, protocols=[]) == "INCONSISTENT_GROUP_PROTOCOL"


def test_a_group_that_waits_for_its_first_members_is_of_their_kind() -> None:
    world = World()
    told = world.join().value
    (member,) = world.stable(1)
    world.leave(member)
    assert world.group.state_name == "PreparingRebalance"
    assert refusal(world, protocol_type="connect") == "INCONSISTENT_GROUP_PROTOCOL"
    assert world.join(told.member_id).value.protocol_type == "consumer"


def test_an_attempt_that_is_refused_leaves_no_group_behind() -> None:
    world = World()
    assert refusal(world, protocols=[]) == "INCONSISTENT_GROUP_PROTOCOL"
    assert refusal(world, protocol_type="") == "INCONSISTENT_GROUP_PROTOCOL"
    assert refusal(world, member_id="nobody") == "UNKNOWN_MEMBER_ID"
    assert world.known == {}


def test_a_member_that_never_comes_back_with_its_id_leaves_no_group_behind() -> None:
    world = World()
    world.join(session_ms=6_000)
    assert GROUP in world.known
    world.pass_ms(6_000)
    assert world.known == {}
    assert len(world.deadlines) == 0


def test_the_group_waits_for_who_was_told_an_id_and_no_longer_than_its_session() -> None:
    world = World()
    (old,) = world.stable(1)
    world.come()
    told = world.join(session_ms=6_000).value
    again = world.join(old.member_id)
    assert not again.resolved
    world.pass_ms(6_000)
    assert again.value.generation_id == 2
    assert refusal(world, member_id=told.member_id) == "UNKNOWN_MEMBER_ID"


def test_who_asks_twice_is_answered_in_the_end_and_told_that_it_asked_again() -> None:
    world = World()
    told = world.join().value
    first, second = world.join(told.member_id), world.join(told.member_id)
    assert code(first.value) == "REBALANCE_IN_PROGRESS"
    world.pass_ms(6_000)
    answer = second.value
    assert code(answer) == "NONE"
    world.writer.commits_at_once = False
    waiting = world.sync(answer)
    other = world.sync(answer)
    assert code(waiting.value) == "REBALANCE_IN_PROGRESS"
    world.writer.settle()
    assert other.value.assignment == told.member_id.encode()
    assert len(world.log) == 1


def test_who_did_not_hear_the_answer_gets_it_again() -> None:
    world = World()
    promises = [world.come(), world.come()]
    world.pass_ms(6_000)
    leader, follower = (promise.value for promise in promises)
    for answer in (leader, follower):
        again = world.join(answer.member_id).value
        assert (again.generation_id, len(again.members)) == (1, len(answer.members))
    world.sync(leader)
    assert world.sync(follower).value.assignment
    # A follower may ask again later, too; a leader that does wants to assign anew.
    assert world.join(follower.member_id).value.generation_id == 1
    assert world.sync(follower).value.assignment == follower.member_id.encode()
    assert not world.join(leader.member_id).resolved
    assert world.group.state_name == "PreparingRebalance"


def test_another_subscription_makes_all_join_again() -> None:
    world = World()
    leader, follower = world.stable(2)
    changed = world.join(follower.member_id, protocols=[("range", b"range: t, u")], reason="more")
    assert not changed.resolved
    again = world.join(leader.member_id).value
    assert {m.metadata for m in again.members} == {b"range: t", b"range: t, u"}
    assert "with another subscription: 'more'" in world.group.describe().rebalance_reason


def test_a_subscription_that_changes_before_all_have_synced_ends_the_generation() -> None:
    world = World()
    promises = [world.come(), world.come()]
    world.pass_ms(6_000)
    leader, follower = (promise.value for promise in promises)
    waiting = world.sync(follower)
    world.join(leader.member_id, protocols=[("range", b"other")])
    assert code(waiting.value) == "REBALANCE_IN_PROGRESS"


def test_the_connection_of_a_member_that_joins_is_gone() -> None:
    world = World()
    (old,) = world.stable(1)
    new = world.come()
    new.abandon()
    again = world.join(old.member_id)
    assert not again.resolved  # it may come back
    world.pass_ms(SESSION_MS)
    assert again.value.generation_id == 2
    assert len(again.value.members) == 1


def test_a_member_that_comes_back_on_another_connection_is_counted_once() -> None:
    world = World()
    (old,) = world.stable(1)
    told = world.join().value
    world.join(told.member_id).abandon()
    back = world.join(told.member_id)
    assert not back.resolved
    again = world.join(old.member_id).value
    assert len(again.members) == 2
    assert back.value.generation_id == 2
    back.abandon()
    assert world.beat(back.value) is NONE


def test_the_connection_of_a_member_that_syncs_is_gone() -> None:
    world = World()
    promises = [world.come(), world.come()]
    world.pass_ms(6_000)
    leader, follower = (promise.value for promise in promises)
    world.sync(follower).abandon()
    back = world.sync(follower)
    assert world.sync(leader).value.assignment
    assert back.value.assignment == follower.member_id.encode()
    back.abandon()


def test_a_member_whose_connection_is_gone_while_it_syncs_has_a_session_again() -> None:
    world = World()
    promises = [world.come(session_ms=60_000), world.come()]
    world.pass_ms(6_000)
    leader, follower = (promise.value for promise in promises)
    world.sync(follower).abandon()
    world.pass_ms(SESSION_MS - 1)
    assert world.beat(leader) is NONE
    world.pass_ms(1)
    assert world.beat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.beat(follower) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_waits_for_its_assignment_needs_no_heartbeats_though_it_sent_some() -> None:
    world = World()
    promises = [world.come(session_ms=60_000), world.come()]
    world.pass_ms(6_000)
    leader, follower = (promise.value for promise in promises)
    synced = world.sync(follower)
    assert world.beat(follower) is NONE
    world.pass_ms(2 * SESSION_MS)
    world.sync(leader)
    assert synced.value.assignment == follower.member_id.encode()


def test_a_heartbeat_while_waiting_changes_nothing() -> None:
    world = World()
    (old,) = world.stable(1)
    told = world.join(session_ms=60_000).value
    again = world.join(old.member_id)
    assert world.beat(old) is ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_ms(2 * SESSION_MS)
    assert not again.resolved
    world.leave(told)
    assert again.value.generation_id == 2


def test_a_member_that_is_new_waits_five_minutes_at_most() -> None:
    world = World()
    (old,) = world.stable(1, rebalance_ms=600_000)
    new = world.come(rebalance_ms=600_000)
    for _ in range(60):
        world.pass_ms(5_000)
        assert world.beat(old) is ErrorCode.REBALANCE_IN_PROGRESS
    assert code(new.value) == "UNKNOWN_MEMBER_ID"


def test_a_new_member_on_another_connection_waits_as_long_without_heartbeats() -> None:
    world = World()
    (old,) = world.stable(1)
    told = world.join().value
    world.join(told.member_id).abandon()
    back = world.join(told.member_id)
    for _ in range(3):
        world.pass_ms(SESSION_MS - 1)
        assert world.beat(old) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.join(old.member_id).value.generation_id == 2
    assert code(back.value) == "NONE"


def test_the_leader_may_forget_somebody_who_gets_nothing_then() -> None:
    world = World()
    promises = [world.come(), world.come()]
    world.pass_ms(6_000)
    leader, follower = (promise.value for promise in promises)
    waiting = world.sync(follower)
    leader.members = [m for m in leader.members if m.member_id == leader.member_id]
    world.sync(leader)
    assert (code(waiting.value), waiting.value.assignment) == ("NONE", b"")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"generation": 0}, "ILLEGAL_GENERATION"),
        ({"protocol_type": "connect"}, "INCONSISTENT_GROUP_PROTOCOL"),
        ({"protocol_name": "sticky"}, "INCONSISTENT_GROUP_PROTOCOL"),
        ({"instance_id": "somebody"}, "UNKNOWN_MEMBER_ID"),
    ],
)
def test_who_syncs_must_be_up_to_date(said: dict[str, object], error: str) -> None:
    world = World()
    promise = world.come()
    world.pass_ms(3_000)
    with pytest.raises(KafkaError) as refused:
        world.sync(promise.value, **said)  # type: ignore[arg-type]
    assert refused.value.code.name == error
    assert world.sync(promise.value, protocol_type=None, protocol_name=None).value.assignment


def test_groups_that_are_not_there_have_no_members() -> None:
    world = World()
    nobody = JoinGroupResponse(member_id="m", generation_id=1)
    assert world.beat(nobody) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.leave(nobody, nobody) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    with pytest.raises(KafkaError) as refused:
        world.sync(nobody)
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(world, member_id="m", protocols=()) == "UNKNOWN_MEMBER_ID"
    assert not world.known


def test_who_leaves_and_was_not_there_disturbs_nobody() -> None:
    world = World()
    (member,) = world.stable(1)
    assert world.leave(JoinGroupResponse(member_id="x")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.beat(member) is NONE


def test_several_members_leave_with_one_request_and_the_story_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    world = World()
    leader, second, third = world.stable(3)
    stranger = JoinGroupResponse(member_id="stranger")
    codes = world.leave(second, stranger, third, reason="scaled\ndown")
    assert codes == [NONE, ErrorCode.UNKNOWN_MEMBER_ID, NONE]
    again = world.join(leader.member_id).value
    world.sync(again)
    (story,) = [m for m in caplog.messages if "event=group-stable" in m and "generation=2" in m]
    assert second.member_id in story
    assert third.member_id in story
    assert story.count(r"leaves: 'scaled\\ndown'") == 2
    assert "\n" not in story
    assert story.endswith("cause=" + json.dumps(world.group.describe().rebalance_reason))


def test_a_member_that_waits_may_leave_and_is_told_that_it_is_gone() -> None:
    world = World()
    (old,) = world.stable(1)
    told = world.join().value
    waiting = world.join(told.member_id)
    assert world.leave(told) == [NONE]
    assert (code(waiting.value), waiting.value.member_id) == ("UNKNOWN_MEMBER_ID", "")
    assert world.join(old.member_id).value.generation_id == 2


def test_a_member_that_syncs_may_leave_and_is_told_that_it_is_gone() -> None:
    world = World()
    promises = [world.come(), world.come()]
    world.pass_ms(6_000)
    waiting = world.sync(promises[1].value)
    world.leave(promises[1].value)
    assert code(waiting.value) == "UNKNOWN_MEMBER_ID"


def test_long_names_make_member_ids_of_a_bearable_length() -> None:
    world = World()
    assert len(world.join(client_id="x" * 32_767).value.member_id) < 300


# --- what is left behind ------------------------------------------------------


OURS = ("quorate.", "tests.")


def test_a_rebalance_leaves_nothing_that_has_to_be_looked_for() -> None:
    world = World()
    members = world.stable(10)
    gc.collect()
    gc.disable()
    try:
        joins = [world.join(member.member_id) for member in members]
        syncs = [world.sync(join.value) for join in joins]
        assert all(sync.value.assignment for sync in syncs)
        del joins, syncs
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        # Other threads of the process may leave things of theirs.
        assert [each for each in gc.garbage if _module_of(each).startswith(OURS)] == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def _module_of(thing: object) -> str:
    """Return where a function was written, or the class of an object."""
    return str(getattr(thing, "__module__", ""))
