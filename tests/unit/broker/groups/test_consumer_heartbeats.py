"""ConsumerGroupHeartbeat: who joins, goes on, leaves, and what they are told."""

import logging
from typing import Any

import pytest

from quorate.broker.groups import consumer_regex
from quorate.broker.groups.consumer_watch import RETRY_MS
from quorate.errors import ErrorCode
from quorate.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from tests.unit.broker.groups.consumers import GROUP, REBALANCE_MS, SESSION_MS, World, parts
from tests.unit.broker.groups.logs import NONE


@pytest.fixture
def world() -> World:
    return two_topics()


def two_topics(**settings: Any) -> World:
    made = World(**settings)
    made.set_topic("a", 4)
    made.set_topic("b", 2)
    return made


def settle(world: World, *member_ids: str) -> None:
    """Have members beat, and give up what they are to give up, until nothing moves."""
    for _ in range(4):
        for member_id in member_ids:
            standing = world.group.members[member_id].standing
            owned = world.names(standing.assigned)
            assert world.beat(member_id, standing.epoch, owned).error_code == 0


def test_the_first_member_reads_all_and_is_told_when_to_beat(world: World) -> None:
    answer = world.join("m1", "a")
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m1", 1)
    assert answer.heartbeat_interval_ms == 5_000
    assert world.told(answer) == parts("a", 0, 1, 2, 3)
    assert world.group.state_name == "Stable"


def test_who_has_nothing_new_to_hear_is_told_nothing_and_nothing_is_written(world: World) -> None:
    world.join("m1", "a")
    written = len(world.log)
    quiet = world.beat("m1", 1)
    assert (quiet.member_epoch, quiet.assignment) == (1, None)
    assert len(world.log) == written


def test_who_says_all_is_told_all(world: World) -> None:
    world.join("m1", "a")
    said = {"topics": ["a"], "rebalance_timeout_ms": 1}
    assert world.told(world.beat("m1", 1, parts("a", 0), **said)) == parts("a", 0, 1, 2, 3)
    for missing in ("topics", "rebalance_timeout_ms"):
        rest = {name: value for name, value in said.items() if name != missing}
        assert world.told(world.beat("m1", 1, parts("a", 0), **rest)) is None
    assert world.told(world.beat("m1", 1, **said)) is None


def test_an_answer_waits_until_what_it_says_is_committed(world: World) -> None:
    world.writer.commits_at_once = False
    promise = world.asks("m1", 0, [], topics=["a"], rebalance_timeout_ms=1)
    assert not promise.resolved
    again = world.asks("m1", 1)
    assert not again.resolved
    world.writer.settle()
    assert promise.value.error_code == again.value.error_code == 0


def test_what_cannot_be_written_changes_nothing(world: World) -> None:
    world.writer.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.refused("m1", 0, [], topics=["a"], rebalance_timeout_ms=1) is (
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    assert world.known == {}


def test_a_partition_is_given_only_when_its_owner_has_said_that_it_gave_it_up(world: World) -> None:
    world.join("m1", "a")
    second = world.join("m2", "a")
    assert (second.member_epoch, world.told(second)) == (2, [])
    told = world.beat("m1", 1)
    kept = world.told(told)
    assert kept is not None
    assert (told.member_epoch, len(kept)) == (1, 2)
    assert world.group.state_name == "Reconciling"
    assert world.told(world.beat("m2", 2)) is None
    assert world.beat("m1", 1, parts("a", 0, 1, 2, 3)).member_epoch == 1
    assert world.beat("m1", 1, kept).member_epoch == 2
    rest = world.told(world.beat("m2", 2))
    assert rest is not None
    assert sorted(kept + rest) == parts("a", 0, 1, 2, 3)
    assert world.group.state_name == "Stable"


def test_who_does_not_give_up_in_time_is_out(world: World) -> None:
    world.join("m1", "a")
    world.join("m2", "a")
    world.beat("m1", 1)
    world.pass_ms(REBALANCE_MS - 1)
    assert "m1" in world.group.members
    world.pass_ms(1)
    assert world.refused("m1", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.told(world.beat("m2", 2)) == parts("a", 0, 1, 2, 3)


def test_who_gives_up_in_time_stays(world: World) -> None:
    world.join("m1", "a")
    world.join("m2", "a")
    kept = world.told(world.beat("m1", 1))
    world.beat("m1", 1, kept)
    world.pass_ms(REBALANCE_MS + 1)
    assert set(world.group.members) == {"m1", "m2"}


def test_who_is_silent_is_out_and_the_reason_is_said(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.join("m1", "a")
    world.join("m2", "a")
    world.pass_ms(SESSION_MS - 1)
    world.beat("m2", 2)
    with caplog.at_level(logging.INFO):
        world.pass_ms(1)
    assert set(world.group.members) == {"m2"}
    assert caplog.messages == [
        (
            'event=group-changed group=readers cause="m1 did not send a heartbeat in time"'
            " members=1 epoch=3 assigned_for=2"
        )
    ]


def test_a_group_goes_by_settings_of_its_own(world: World) -> None:
    world.configure(consumer_session_timeout_ms="50000", consumer_heartbeat_interval_ms="7000")
    assert world.join("m1", "a").heartbeat_interval_ms == 7_000
    world.pass_ms(50_000 - 1)
    assert not world.group.is_empty
    world.pass_ms(1)
    assert world.group.is_empty
    world.configure(consumer_heartbeat_interval_ms="8000")
    assert world.join("m1", "a").heartbeat_interval_ms == 8_000
    world.pass_ms(SESSION_MS)
    assert world.group.is_empty
    world.configure()
    assert world.join("m1", "a").heartbeat_interval_ms == 5_000


def test_settings_of_a_group_hold_as_far_as_the_node_allows_by_now(world: World) -> None:
    world.configure(
        consumer_session_timeout_ms="70000",
        consumer_heartbeat_interval_ms="4000",
        consumer_assignment_interval_ms="2000",
    )
    assert world.join("m1", "a").heartbeat_interval_ms == 5_000
    world.pass_ms(60_000)
    assert world.group.is_empty
    world.join("m1", "a")
    world.join("m2", "a")
    assert world.group.state_name == "Assigning"
    world.pass_ms(2_000)
    world.beat("m2", 0 + world.group.members["m2"].standing.epoch)
    assert world.group.state_name != "Assigning"


def test_who_is_silent_stays_until_that_can_be_written(world: World) -> None:
    world.join("m1", "a")
    world.writer.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.pass_ms(SESSION_MS)
    assert set(world.group.members) == {"m1"}
    world.writer.refuses = None
    world.pass_ms(RETRY_MS)
    assert world.group.is_empty


def test_who_sends_heartbeats_is_not_silent_though_nothing_can_be_written(world: World) -> None:
    world.join("m1", "a")
    world.set_topic("a", 5)  # there is something to be written
    world.writer.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    for _ in range(2):
        world.pass_ms(SESSION_MS - 1)
        assert world.beat("m1", 1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.writer.refuses = None
    world.pass_ms(RETRY_MS)
    assert world.told(world.beat("m1", 1)) == parts("a", 0, 1, 2, 3, 4)


def test_who_says_in_time_that_it_gave_up_stays_though_that_cannot_be_written(world: World) -> None:
    world.join("m1", "a")
    world.join("m2", "a")
    kept = world.told(world.beat("m1", 1))
    world.writer.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.pass_ms(REBALANCE_MS - 1)
    assert world.refused("m1", 1, kept) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.pass_ms(RETRY_MS)
    world.writer.refuses = None
    world.pass_ms(RETRY_MS)
    assert world.beat("m1", 1, kept).member_epoch == 2


def test_who_does_not_give_up_in_time_is_out_as_soon_as_that_can_be_written(world: World) -> None:
    world.join("m1", "a")
    world.join("m2", "a")
    world.beat("m1", 1)
    world.writer.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.pass_ms(REBALANCE_MS)
    world.writer.refuses = None
    world.beat("m1", 1)  # a sign of life gives nothing up
    world.pass_ms(RETRY_MS)
    assert set(world.group.members) == {"m2"}


def test_after_a_failover_members_have_time_to_be_heard(world: World) -> None:
    world.join("m1", "a")
    world.join("m2", "a")
    world.beat("m1", 1)  # is to give something up
    after = World(world.log)
    after.image = world.image
    after.pass_ms(REBALANCE_MS - 1)
    assert set(after.group.members) == {"m1", "m2"}
    after.pass_ms(1)
    assert set(after.group.members) == {"m2"}
    after.pass_ms(SESSION_MS)
    assert after.group.is_empty


def test_who_coordinates_no_more_lets_nobody_time_out(world: World) -> None:
    world.join("m1", "a")
    world.consumer.unload()
    world.pass_ms(10 * SESSION_MS)
    assert set(world.group.members) == {"m1"}


def test_members_leave_and_the_last_one_leaves_an_empty_group(world: World) -> None:
    world.join("m1", "a")
    world.join("m2", "a")
    gone = world.beat("m1", -1)
    assert (gone.error_code, gone.member_id, gone.member_epoch) == (0, "m1", -1)
    assert world.group.state_name == "Assigning"
    assert world.told(world.beat("m2", 2)) == parts("a", 0, 1, 2, 3)
    world.beat("m2", -1)
    assert (world.group.state_name, world.group.is_empty) == ("Empty", True)
    assert world.refused("m2", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_is_elsewhere_is_fenced_unless_an_answer_was_lost(world: World) -> None:
    world.join("m1", "a")
    assert world.refused("m1", 2) is ErrorCode.FENCED_MEMBER_EPOCH
    world.join("m2", "a")
    kept = world.told(world.beat("m1", 1)) or []
    world.beat("m1", 1, kept)
    assert world.beat("m1", 1, kept).member_epoch == 2
    assert world.refused("m1", 1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.refused("m1", 1, parts("a", 0, 1, 2, 3)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.told(world.join("m1", "a")) == kept


def test_who_begins_anew_has_given_everything_up(world: World) -> None:
    world.join("m1", "a")
    world.join("m2", "a")
    world.beat("m1", 1)
    again = world.join("m1", "a")
    assert (again.member_epoch, len(world.told(again) or ())) == (2, 2)
    assert len(world.told(world.beat("m2", 2)) or ()) == 2


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topics": None}, ErrorCode.INVALID_REQUEST),
        ({"owned": None}, ErrorCode.INVALID_REQUEST),
        ({"owned": parts("a", 0)}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_what_makes_no_sense_is_refused(
    world: World, wrong: dict[str, object], code: ErrorCode
) -> None:
    right: dict[str, object] = {
        "member_id": "m1",
        "epoch": 0,
        "owned": [],
        "topics": ["a"],
        "rebalance_timeout_ms": 1,
    }
    assert world.refused(**{**right, **wrong}) is code
    assert world.log == []


def test_up_to_version_0_members_are_named_here(world: World) -> None:
    request = ConsumerGroupHeartbeatRequest(member_id="")
    named = world.join("", "a", version=0)
    other = world.join("", "a", version=0)
    assert len({"", named.member_id, other.member_id}) == 3
    assert request.member_id == ""
    assert world.refused("", 1, version=0) is ErrorCode.INVALID_REQUEST
    assert world.refused("", -2, version=0, instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_may_be_full() -> None:
    world = two_topics(group_consumer_max_size=1)
    world.join("m1", "a")
    assert world.refused("m2", 0, [], topics=["a"], rebalance_timeout_ms=1) is (
        ErrorCode.GROUP_MAX_SIZE_REACHED
    )
    assert world.beat("m1", 1).error_code == NONE


# --- static members -------------------------------------------------------------------


def test_a_static_member_comes_back_to_what_it_had(world: World) -> None:
    world.join("m1", "a", instance_id="i")
    world.join("m2", "a")
    settle(world, "m1", "m2")
    had = world.reads("m1")
    assert world.beat("m1", -2, instance_id="i").member_epoch == -2
    assert world.told(world.beat("m2", 2)) is None
    back = world.join("m9", "a", instance_id="i")
    assert (back.member_epoch, world.told(back)) == (2, had)
    assert world.group.instances == {"i": "m9"}
    assert world.group.epoch.epoch == 2
    assert world.refused("m1", 2, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert world.refused("m1", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.refused("m9", 2, instance_id="j") is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.refused("m9", 1, instance_id="i") is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.beat("m9", 2, instance_id="i").error_code == NONE


def test_a_static_member_that_does_not_come_back_is_out_when_its_session_ends(
    world: World,
) -> None:
    world.join("m1", "a", instance_id="i")
    world.beat("m1", -2, instance_id="i")
    world.pass_ms(SESSION_MS)
    assert world.group.is_empty
    assert world.group.instances == {}


def test_an_instance_id_that_is_in_use_is_not_given_away(world: World) -> None:
    world.join("m1", "a", instance_id="i")
    said = {"topics": ["a"], "rebalance_timeout_ms": 1, "instance_id": "i"}
    assert world.refused("m2", 0, [], **said) is ErrorCode.UNRELEASED_INSTANCE_ID
    world.beat("m1", -1, instance_id="i")
    assert world.join("m2", "a", instance_id="i").error_code == NONE
    world.pass_ms(SESSION_MS - 1)
    assert set(world.group.members) == {"m2"}


def test_the_session_of_who_was_succeeded_ends_unnoticed(world: World) -> None:
    world.join("m1", "a", instance_id="i")
    world.beat("m1", -2, instance_id="i")
    world.pass_ms(SESSION_MS // 2)
    world.join("m2", "a", instance_id="i")
    epoch = world.group.epoch
    world.pass_ms(SESSION_MS // 2)
    assert (set(world.group.members), world.group.epoch) == ({"m2"}, epoch)


def test_who_left_for_a_while_need_not_give_up_anything_in_time(world: World) -> None:
    world.join("m1", "a", instance_id="i")
    world.join("m2", "a")
    world.beat("m1", 1, instance_id="i")
    assert world.group.members["m1"].standing.revoking
    world.beat("m1", -2, instance_id="i")
    after = World(world.log, world.image)
    for each in (world, after):
        each.pass_ms(REBALANCE_MS)
        assert set(each.group.members) == {"m1", "m2"}


@pytest.mark.parametrize("instance_id", [None, "i"])
def test_a_member_that_joins_again_with_an_instance_id_gives_up_what_it_subscribed_to(
    world: World, instance_id: str | None
) -> None:
    world.join("m1", subscribed_topic_regex="a", instance_id=instance_id)
    world.join("m1", subscribed_topic_regex="b", instance_id="j")
    assert set(world.group.expressions) == {"b"}
    assert world.group.instances == {"j": "m1"}
    assert world.reads("m1") == parts("b", 0, 1)
    answer = world.join("m1", topics=[], subscribed_topic_regex="", instance_id="k")
    assert (world.told(answer), answer.member_epoch) == ([], 3)
    assert world.reads("m1") == []


def test_a_static_member_that_did_not_hear_that_it_joined_joins_again(world: World) -> None:
    joined = world.join("m1", "a", instance_id="i")
    again = world.join("m1", "a", instance_id="i")
    assert (again.member_epoch, world.told(again)) == (joined.member_epoch, world.told(joined))
    assert world.group.instances == {"i": "m1"}


# --- subscriptions and topics -----------------------------------------------------------


def test_another_subscription_takes_effect_at_once(world: World) -> None:
    world.join("m1", "a")
    told = world.beat("m1", 1, parts("a", 0, 1, 2, 3), topics=["b"])
    assert (told.member_epoch, world.told(told)) == (1, [])
    assert world.told(world.beat("m1", 1, [])) == parts("b", 0, 1)


def test_what_is_not_subscribed_to_any_more_is_given_up_before_the_next_assignment() -> None:
    world = two_topics(group_consumer_assignment_interval_ms=1_000)
    world.join("m1", "a", "b")
    held = parts("a", 0, 1, 2, 3) + parts("b", 0, 1)
    told = world.beat("m1", 1, held, topics=["b"])
    assert (told.member_epoch, world.told(told)) == (1, parts("b", 0, 1))
    told = world.beat("m1", 1, held, topics=[])
    assert world.told(told) == []
    world.pass_ms(1_000)
    assert world.beat("m1", 1, []).member_epoch == 3


def test_who_has_given_it_up_already_needs_not_say_so_again() -> None:
    world = two_topics(group_consumer_assignment_interval_ms=1_000)
    world.join("m1", "a", "b")
    told = world.beat("m1", 1, parts("b", 0, 1), topics=["b"])
    assert world.told(told) == parts("b", 0, 1)
    assert world.group.members["m1"].standing.revoking == {}
    assert world.told(world.beat("m1", 1, parts("b", 0, 1), topics=["b", "a"])) is None


def test_many_changes_within_the_interval_make_one_assignment() -> None:
    world = two_topics(group_consumer_assignment_interval_ms=1_000)
    for number in range(5):
        world.join(f"m{number}", "a")
    assert (world.group.epoch.epoch, world.group.target_epoch.epoch) == (5, 1)
    assert world.group.state_name == "Assigning"
    world.pass_ms(999)
    assert world.told(world.beat("m0", 1)) is None
    world.pass_ms(1)
    assert len(world.told(world.beat("m0", 1)) or ()) < 4
    assert world.group.target_epoch.epoch == 5


def test_a_clock_that_was_set_back_does_not_keep_assignments_from_being_made() -> None:
    world = two_topics(group_consumer_assignment_interval_ms=1_000)
    world.deadlines.now_ms = 100_000
    world.join("m1", "a")
    after = World(world.log, group_consumer_assignment_interval_ms=1_000)
    after.image = world.image
    after.join("m2", "a")
    assert after.group.target_epoch.epoch == 2


def test_new_partitions_and_topics_are_read_and_deleted_ones_are_not(world: World) -> None:
    world.join("m1", "a", "c")
    world.set_topic("a", 5)
    told = world.beat("m1", 1)
    assert (told.member_epoch, world.told(told)) == (2, parts("a", 0, 1, 2, 3, 4))
    world.set_topic("c", 1)
    assert world.told(world.beat("m1", 2)) == parts("a", 0, 1, 2, 3, 4) + parts("c", 0)
    world.set_topic("a", 0)
    told = world.beat("m1", 3)
    assert (told.member_epoch, world.told(told)) == (3, parts("c", 0))
    assert world.beat("m1", 3, parts("c", 0)).member_epoch == 4


def test_other_topics_are_no_business_of_the_group(world: World) -> None:
    world.join("m1", "a")
    written = len(world.log)
    world.set_topic("b", 3)
    world.set_topic("z", 3)
    assert world.beat("m1", 1).assignment is None
    assert len(world.log) == written


def test_the_assignor_that_most_members_want_assigns(world: World) -> None:
    world.join("m1", "a", "b", server_assignor="range")
    world.join("m2", "a", "b")
    settle(world, "m1", "m2")
    assert world.reads("m1") == parts("a", 0, 1) + parts("b", 0)
    world.join("m3", "a", "b", server_assignor="uniform")
    assert world.group.preferred_assignor() == "range"  # of two with equal votes the first by name
    world.beat("m1", -1)
    assert world.group.preferred_assignor() == "uniform"


def test_who_joins_a_group_is_said_in_one_line(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        world.join("m1", "a")
        world.beat("m1", 1)
        world.beat("m1", -1)
    assert caplog.messages == [
        (
            f'event=group-changed group={GROUP} cause="member m1 of /10.0.0.1 joined" members=1'
            " epoch=1 assigned_for=1"
        ),
        (
            f'event=group-changed group={GROUP} cause="member m1 left" members=0'
            " epoch=2 assigned_for=1"
        ),
    ]


# --- regular expressions ------------------------------------------------------------------


def test_who_subscribes_by_an_expression_reads_what_matches_it(world: World) -> None:
    assert world.told(world.join("m1", subscribed_topic_regex="a|x.*")) == parts("a", 0, 1, 2, 3)
    world.set_topic("x1", 1)
    assert world.beat("m1", 1).assignment is None  # not that often
    world.pass_ms(1_000)
    assert world.told(world.beat("m1", 1)) == parts("a", 0, 1, 2, 3) + parts("x1", 0)
    world.set_topic("b", 3)
    world.set_topic("y", 3)
    world.pass_ms(1_000)
    assert world.beat("m1", 2).assignment is None


def test_names_and_an_expression_add_up(world: World) -> None:
    answer = world.join("m1", "b", subscribed_topic_regex="a")
    assert world.told(answer) == parts("a", 0, 1, 2, 3) + parts("b", 0, 1)
    assert world.group.is_subscribed_to("a")
    assert not world.group.is_subscribed_to("c")


def test_an_expression_is_forgotten_with_its_last_subscriber(world: World) -> None:
    world.join("m1", subscribed_topic_regex="a")
    world.join("m2", subscribed_topic_regex="a")
    assert set(world.group.expressions) == {"a"}
    world.beat("m1", 1, parts("a", 0, 1, 2, 3), subscribed_topic_regex="b")
    assert set(world.group.expressions) == {"a", "b"}
    world.beat("m2", -1)
    assert set(world.group.expressions) == {"b"}
    world.beat("m1", 1, [], subscribed_topic_regex="", topics=["a"])
    assert world.group.expressions == {}
    world.beat("m1", -1)
    assert world.group.is_empty


def test_expressions_are_matched_again_after_a_long_time(world: World) -> None:
    world.join("m1", subscribed_topic_regex="a")
    first = world.group.expressions["a"]
    for _ in range(20):
        world.pass_ms(30_000)
        world.beat("m1", 1)
    again = world.group.expressions["a"]
    assert (again.topics, again.timestamp_ms > first.timestamp_ms) == (first.topics, True)
    assert world.group.epoch.epoch == 1


def test_an_expression_that_takes_too_long_by_now_is_nobody_elses_trouble(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.join("good", "a")
    world.join("slow", subscribed_topic_regex="b.*")
    with monkeypatch.context() as patched:
        patched.setattr(consumer_regex, "STEPS_MAX", 0)
        world.set_topic("b1", 1)
        world.pass_ms(1_000)
        settle(world, "good", "slow")
        assert world.reads("slow") == parts("b", 0, 1)
        # It is not tried with the same topics by whoever asks.
        world.pass_ms(1_000)
        written = len(world.log)
        settle(world, "good", "slow")
        assert len(world.log) == written
        # Who comes with one hears of it.
        late = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_regex": "b1?"}
        refused = world.refused("late", 0, [], **late)
        assert refused is ErrorCode.INVALID_REGULAR_EXPRESSION
    world.set_topic("b2", 1)
    world.pass_ms(1_000)
    settle(world, "good", "slow")
    assert world.reads("slow") == [*parts("b", 0, 1), *parts("b1", 0), *parts("b2", 0)]


def test_a_coordinator_whose_clock_is_behind_matches_expressions_all_the_same() -> None:
    before = World()
    before.set_topic("b", 1)
    before.pass_ms(1_000_000)
    before.join("m1", subscribed_topic_regex="[bc]")
    after = World(before.log, before.image)
    after.set_topic("c", 1)
    after.beat("m1", 1, [("b", 0)])
    assert after.reads("m1") == [*parts("b", 0), *parts("c", 0)]
