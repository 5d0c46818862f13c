"""Members of the classic protocol in a consumer group; a group that changes its protocol."""

import logging
from typing import Any

import pytest

from quorate.broker.groups.classic import ClassicGroup
from quorate.broker.groups.consumer_watch import RETRY_MS
from quorate.broker.groups.group import CommitSender, GroupIdNotFoundError
from quorate.errors import ErrorCode, KafkaError
from quorate.model import TopicPartition
from quorate.protocol.consumer_protocol import decode_assignment, encode_assignment
from quorate.protocol.messages.groups import JoinGroupResponse
from tests.unit.broker.groups.consumers import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    World,
    parts,
)
from tests.unit.broker.groups.logs import NONE

ALL = parts("a", 0, 1, 2, 3)


@pytest.fixture
def world() -> World:
    return new_world()


def new_world(**settings: Any) -> World:
    made = World(group_initial_rebalance_delay_ms=0, **settings)
    made.set_topic("a", 4)
    made.set_topic("b", 2)
    return made


def classic(world: World) -> ClassicGroup:
    group = world.known[GROUP]
    assert isinstance(group, ClassicGroup)
    return group


def come(world: World, *topics: str, **said: Any) -> JoinGroupResponse:
    """Join as stock clients do: ask for an id, and come back with it."""
    told = world.join_classic("", *topics, **said).value
    assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joining = world.join_classic(told.member_id, *topics, **said)
    world.pass_ms(0)
    return joining.value


def alone(world: World, *topics: str) -> JoinGroupResponse:
    """Be the only member of a classic group, and take everything of topic ``a``."""
    joined = come(world, *(topics or ("a",)))
    synced = world.sync_classic(joined, {joined.member_id: encode_assignment(tuple(ALL))})
    assert synced.value.error_code == 0
    return joined


def upgraded(world: World) -> JoinGroupResponse:
    joined = alone(world)
    assert world.join("m1", "a").error_code == 0
    return joined


def again(
    world: World, joined: JoinGroupResponse, *topics: str, **said: object
) -> JoinGroupResponse:
    return world.join_classic(joined.member_id, *(topics or ("a",)), **said).value


def assigned(world: World, joined: JoinGroupResponse) -> list[TopicPartition]:
    answer = world.sync_classic(joined).value
    assert (answer.error_code, answer.protocol_type, answer.protocol_name) == (
        0,
        "consumer",
        "range",
    )
    return list(decode_assignment(answer.assignment))


def refused(world: World, member_id: str, *topics: str, **said: Any) -> ErrorCode:
    try:
        return ErrorCode(world.join_classic(member_id, *topics, **said).value.error_code)
    except KafkaError as error:
        return error.code


# --- upgrade -----------------------------------------------------------------------------


def test_a_classic_group_becomes_a_consumer_group_when_such_a_member_joins(world: World) -> None:
    first = alone(world)
    new = world.join("m1", "a")
    assert (new.error_code, world.told(new)) == (0, [])
    assert world.group.epoch.epoch == first.generation_id + 1
    member = world.group.members[first.member_id]
    assert member.profile.classic is not None
    assert world.reads(first.member_id) == ALL
    assert world.beat_classic(first) is ErrorCode.REBALANCE_IN_PROGRESS
    after = World(world.log)
    assert after.group.members == world.group.members


def test_an_eager_member_gives_everything_up_and_gets_its_share(world: World) -> None:
    first = upgraded(world)
    second = again(world, first)
    assert (second.error_code, second.generation_id) == (0, first.generation_id + 1)
    assert (second.leader, second.members) == ("", [])
    mine = assigned(world, second)
    told = world.told(world.beat("m1", first.generation_id + 1))
    assert sorted(mine + (told or [])) == ALL
    assert world.beat_classic(second) is NONE
    assert world.beat_classic(first) is ErrorCode.ILLEGAL_GENERATION


def test_a_cooperative_member_keeps_what_it_may(world: World) -> None:
    first = upgraded(world)
    second = again(world, first, owned=ALL)
    assert second.generation_id == first.generation_id
    kept = assigned(world, second)
    assert len(kept) == 2
    assert world.beat_classic(second) is ErrorCode.REBALANCE_IN_PROGRESS
    third = again(world, first, owned=kept)
    assert third.generation_id == first.generation_id + 1
    assert assigned(world, third) == kept


def test_a_classic_member_joins_again_when_what_it_waits_for_is_free(world: World) -> None:
    world.join("m1", "a")
    joined = come(world, "a")
    assert assigned(world, joined) == []
    assert world.beat_classic(joined) is NONE
    kept = world.told(world.beat("m1", 1))
    world.beat("m1", 1, kept)
    assert world.beat_classic(joined) is ErrorCode.REBALANCE_IN_PROGRESS
    assert len(assigned(world, again(world, joined))) == 2


def test_members_that_are_joining_are_told_to_join_the_new_group(world: World) -> None:
    first = alone(world)
    second = world.join_classic("", "a").value
    waiting = world.join_classic(second.member_id, "a")
    assert not waiting.resolved
    world.join("m1", "a")
    assert waiting.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(world.group.members) == {first.member_id, second.member_id, "m1"}


def test_who_cannot_be_understood_cannot_be_upgraded(world: World) -> None:
    come(world, metadata=b"\0\3?")
    with pytest.raises(GroupIdNotFoundError, match="malformed"):
        world.join("m1", "a")
    assert isinstance(classic(world), ClassicGroup)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"group_consumer_migration_policy": "disabled"}, "switched off"),
        ({"group_consumer_migration_policy": "downgrade"}, "switched off"),
        ({"group_consumer_max_size": 0}, "too many members"),
    ],
)
def test_an_upgrade_may_be_forbidden(settings: dict[str, object], why: str) -> None:
    world = new_world(**settings)
    alone(world)
    with pytest.raises(GroupIdNotFoundError, match=why):
        world.join("m1", "a")


def test_only_consumers_are_upgraded(world: World) -> None:
    joining = world.join_classic("", protocol_type="connect", metadata=b"", version=3)
    world.pass_ms(0)
    assert joining.value.error_code == 0
    with pytest.raises(GroupIdNotFoundError, match="no consumers"):
        world.join("m1", "a")


def test_an_empty_group_changes_its_protocol_without_further_ado(world: World) -> None:
    joined = alone(world)
    world.classic.leave(GROUP, [])
    world.pass_ms(SESSION_MS + REBALANCE_MS)
    assert classic(world).is_empty
    assert world.told(world.join("m1", "a")) == ALL
    world.beat("m1", -1)
    after = alone(world)
    assert after.member_id != joined.member_id
    assert World(world.log).known.keys() == {GROUP}


def test_a_group_that_cannot_be_deleted_makes_no_way(world: World) -> None:
    world.join("m1", "a")
    world.beat("m1", -1)
    world.writer.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refused(world, "", "a") is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_who_was_only_told_an_id_does_not_take_the_new_group_along(world: World) -> None:
    told = world.join_classic("", "a").value
    assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
    world.join("m1", "a")
    world.pass_ms(SESSION_MS // 2)
    world.beat("m1", 1)
    world.pass_ms(SESSION_MS // 2)
    assert world.beat("m1", 1).error_code == NONE
    assert World(world.log).group.members == world.group.members


def test_a_first_generation_under_way_ends_with_its_group() -> None:
    world = World(group_initial_rebalance_delay_ms=3_000)
    world.set_topic("a", 4)
    told = world.join_classic("", "a").value
    waiting = world.join_classic(told.member_id, "a")
    world.join("m1", "a")
    assert waiting.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_ms(3_000 + REBALANCE_MS)
    assert set(world.group.members) == {told.member_id, "m1"}
    assert World(world.log).group.members == world.group.members


# --- classic members ---------------------------------------------------------------------


def test_who_does_not_fit_is_refused(world: World) -> None:
    upgraded(world)
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused(world, "", "a", protocol_type="connect") is inconsistent
    assert refused(world, "", "a", protocols=["sticky"]) is inconsistent
    assert refused(world, "", "a", protocols=[]) is inconsistent
    assert refused(world, "x", metadata=b"") is inconsistent
    assert refused(world, "", "a", protocols=["sticky", "range"]) is ErrorCode.MEMBER_ID_REQUIRED


def test_classic_members_may_be_shut_out() -> None:
    world = new_world(group_consumer_migration_policy="disabled")
    world.join("m1", "a")
    assert refused(world, "", "a") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_takes_in_no_classic_member_either() -> None:
    world = new_world(group_consumer_max_size=1)
    world.join("m1", "a")
    assert refused(world, "", "a") is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_old_clients_are_named_at_once(world: World) -> None:
    world.join("m1", "a")
    joined = world.join_classic("", "a", version=3).value
    assert joined.error_code == 0
    assert joined.member_id in world.group.members


def test_what_a_sync_says_must_be_what_the_join_was_told(world: World) -> None:
    world.join("m1", "a")
    joined = come(world, "a")

    def code(**said: Any) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            world.sync_classic(joined, **said)
        return caught.value.code

    assert code(generation=1) is ErrorCode.ILLEGAL_GENERATION
    assert code(protocol_type="connect") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code(protocol_name="sticky") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code(member_id="m1", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code(member_id="nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    told = world.sync_classic(joined, protocol_type=None, protocol_name=None).value
    assert (told.error_code, told.protocol_type) == (0, None)


def test_a_sync_waits_for_the_commit_of_what_it_tells(world: World) -> None:
    world.join("m1", "a")
    joined = come(world, "a")
    world.writer.commits_at_once = False
    synced = world.sync_classic(joined)
    assert not synced.resolved
    world.writer.settle(ErrorCode.NOT_COORDINATOR)
    assert synced.value.error_code == ErrorCode.NOT_COORDINATOR


def test_a_join_that_is_not_known_to_be_committed_is_refused(world: World) -> None:
    world.join("m1", "a")
    asked = world.join_classic("", "a").value
    world.writer.commits_at_once = False
    joining = world.join_classic(asked.member_id, "a")
    world.writer.settle(ErrorCode.NOT_COORDINATOR)
    assert (joining.value.error_code, joining.value.member_id) == (
        ErrorCode.NOT_COORDINATOR,
        asked.member_id,
    )
    world.writer.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refused(world, "other", "a") is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_classic_member_that_asks_to_join_is_not_silent_though_that_cannot_be_written(
    world: World,
) -> None:
    joined = upgraded(world)
    world.writer.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    for _ in range(2):
        world.pass_ms(SESSION_MS - 1)
        world.beat("m1", 2)
        assert refused(world, joined.member_id, "b") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.writer.refuses = None
    world.pass_ms(RETRY_MS)
    assert set(world.group.members) == {"m1", joined.member_id}


def test_a_sync_after_the_next_change_asks_to_join_again(world: World) -> None:
    world.join("m1", "a")
    joined = come(world, "a")
    world.join("m2", "a")
    with pytest.raises(KafkaError) as caught:
        world.sync_classic(joined)
    assert caught.value.code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_classic_member_that_comes_within_the_interval_waits_for_the_assignment() -> None:
    world = new_world(group_consumer_assignment_interval_ms=1_000)
    world.join("m1", "a")
    joined = come(world, "a")
    assert assigned(world, joined) == []
    assert world.beat_classic(joined) is NONE
    world.pass_ms(1_000)
    assert world.beat_classic(joined) is ErrorCode.REBALANCE_IN_PROGRESS
    second = again(world, joined)
    assert second.generation_id == joined.generation_id + 1
    assert world.beat_classic(second) is NONE


def test_who_does_not_join_again_in_time_is_out(world: World) -> None:
    first = upgraded(world)
    assert world.beat_classic(first) is ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_ms(REBALANCE_MS // 2)
    assert world.beat_classic(first) is ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_ms(REBALANCE_MS // 2)
    assert set(world.group.members) == {"m1"}


def test_who_joins_again_in_time_and_syncs_stays(world: World) -> None:
    first = upgraded(world)
    assert world.beat_classic(first) is ErrorCode.REBALANCE_IN_PROGRESS
    world.pass_ms(REBALANCE_MS - 1)
    joined = again(world, first)
    assigned(world, joined)
    world.pass_ms(2 * REBALANCE_MS)  # within its session: all that it has to keep from now on
    assert first.member_id in world.group.members


def test_who_does_not_sync_in_time_is_out(world: World) -> None:
    world.join("m1", "a")
    joined = come(world, "a")
    assert world.beat_classic(joined) is NONE
    world.pass_ms(REBALANCE_MS)
    assert set(world.group.members) == {"m1"}


def test_who_synced_is_out_only_when_its_own_session_ends(world: World) -> None:
    world.join("m1", "a")
    joined = come(world, "a", session_ms=20_000)
    assigned(world, joined)
    world.pass_ms(19_999)
    assert world.beat_classic(joined) is NONE
    world.pass_ms(19_999)
    assert joined.member_id in world.group.members
    world.pass_ms(1)
    assert set(world.group.members) == {"m1"}


def test_members_of_both_kinds_leave_or_are_taken_out(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    joined = upgraded(world)
    world.join("m2", "a", instance_id="i")
    with caplog.at_level(logging.INFO):
        codes = world.leave_classic(
            (joined.member_id, None), ("nobody", None), ("", "i"), ("", "j"), ("x", "i")
        )
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert codes.value == [NONE, unknown, NONE, unknown, ErrorCode.FENCED_INSTANCE_ID]
    assert set(world.group.members) == {"m1"}
    assert caplog.messages[0].startswith(
        f'event=group-changed group={GROUP} cause="{joined.member_id} left (\\"bye\\"), m2 left'
    )


def test_who_does_not_leave_changes_nothing(world: World) -> None:
    world.join("m1", "a")
    written = len(world.log)
    assert world.leave_classic(("nobody", None)).value == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert len(world.log) == written


def test_leaving_may_not_be_known_to_be_committed(world: World) -> None:
    world.join("m1", "a")
    world.writer.refuses = ErrorCode.NOT_COORDINATOR
    assert world.leave_classic(("m1", None)).value == [ErrorCode.NOT_COORDINATOR]
    assert set(world.group.members) == {"m1"}


def test_a_static_member_comes_back_with_the_classic_protocol(world: World) -> None:
    """It goes on with what it had; somebody else still speaks the new protocol."""
    world.join("m0", "a")
    world.join("m1", "a", instance_id="i")
    joined = world.join_classic("", "a", instance_id="i").value
    assert joined.error_code == 0
    assert world.group.instances == {"i": joined.member_id}
    assert world.beat_classic(joined, "i") is NONE
    assert refused(world, "m1", "a", instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    back = world.join_classic(joined.member_id, "a", instance_id="i").value
    assert back.member_id == joined.member_id
    new = world.join_classic("", "a", instance_id="new").value
    assert world.group.instances["new"] == new.member_id


# --- downgrade ---------------------------------------------------------------------------


def test_when_the_last_member_of_the_new_protocol_leaves_the_group_is_classic_again(
    world: World,
) -> None:
    first = upgraded(world)
    second = again(world, first)
    mine = assigned(world, second)
    assert world.beat("m1", -1).error_code == 0
    group = classic(world)
    assert (group.state_name, group.generation) == ("PreparingRebalance", second.generation_id)
    group.check_commit(CommitSender(second.member_id, None, second.generation_id, False, 9))
    (member,) = group.members
    assert (member.member_id, list(decode_assignment(member.assignment))) == (
        first.member_id,
        mine,
    )
    joining = world.join_classic(first.member_id, "a")
    world.pass_ms(0)
    assert joining.value.leader == first.member_id
    assert world.beat_classic(first) is ErrorCode.ILLEGAL_GENERATION
    after = World(world.log)
    assert isinstance(after.known[GROUP], ClassicGroup)


def test_when_it_is_silent_too(world: World) -> None:
    first = upgraded(world)
    second = again(world, first)
    assigned(world, second)
    for _ in range(3):
        world.pass_ms(SESSION_MS // 3)
        if world.consumer.coordinates(GROUP):
            assert world.beat_classic(second) is NONE
    assert not world.consumer.coordinates(GROUP)


@pytest.mark.parametrize(
    "settings", [{"group_consumer_migration_policy": "upgrade"}, {"group_max_size": 0}]
)
def test_a_downgrade_may_be_forbidden(settings: dict[str, Any]) -> None:
    world = new_world()
    upgraded(world)
    after = World(world.log, world.image, **settings)
    after.beat("m1", -1)
    assert after.consumer.coordinates(GROUP)


def test_what_cannot_be_downgraded_stays_and_is_tried_again(world: World) -> None:
    upgraded(world)
    world.writer.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.refused("m1", -1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "m1" in world.group.members


def test_the_last_member_of_the_new_protocol_may_come_back_as_a_classic_one(world: World) -> None:
    first = alone(world)
    world.join("m1", "a", instance_id="i")
    joining = world.join_classic("", "a", instance_id="i")
    group = classic(world)
    names = {member.member_id for member in group.members}
    assert first.member_id in names
    assert group.members.with_instance_id("i") is not None
    world.join_classic(first.member_id, "a")
    world.pass_ms(REBALANCE_MS)
    assert joining.value.error_code == 0


def test_coming_back_like_that_may_not_be_possible_to_write(world: World) -> None:
    alone(world)
    world.join("m1", "a", instance_id="i")
    world.writer.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refused(world, "", "a", instance_id="i") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.consumer.coordinates(GROUP)
