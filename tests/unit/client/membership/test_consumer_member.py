"""A member of a consumer group (KIP-848), heartbeat by heartbeat."""

import pytest

from quorate.client.errors import FencedInstanceError
from quorate.client.membership.consumer_member import (
    ConsumerMember,
    ConsumerMemberSettings,
    Interest,
    TopicIdPartition,
)
from quorate.client.membership.identity import GroupMetadata
from quorate.client.membership.member import Next
from quorate.errors import ErrorCode, KafkaError
from quorate.model import TopicPartition
from quorate.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)

T, U = b"t" * 16, b"u" * 16
T0, T1, U0 = TopicIdPartition(T, 0), TopicIdPartition(T, 1), TopicIdPartition(U, 0)
NAMES = {T: "t", U: "u"}


def a_member(instance: str | None = None) -> ConsumerMember:
    settings = ConsumerMemberSettings("g", instance, 300_000, "range", "rack")
    member = ConsumerMember(settings, "m")
    member.interest = Interest(frozenset({"t"}))
    return member


def owned_in(request: ConsumerGroupHeartbeatRequest) -> set[TopicIdPartition] | None:
    if request.topic_partitions is None:
        return None
    return {
        TopicIdPartition(each.topic_id, number)
        for each in request.topic_partitions
        for number in each.partitions
    }


def beat(
    member: ConsumerMember, epoch: int, assigned: set[TopicIdPartition] | None = None
) -> ConsumerGroupHeartbeatRequest:
    """Send a heartbeat, and have it answered."""
    request = member.heartbeat_request()
    response = ConsumerGroupHeartbeatResponse(
        member_id="m", member_epoch=epoch, heartbeat_interval_ms=700
    )
    if assigned is not None:
        response.assignment = ConsumerGroupHeartbeatAssignment(
            topic_partitions=[
                ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=[number])
                for topic_id, number in assigned
            ]
        )
    assert member.on_heartbeat(response) is Next.GO_ON
    return request


def settled(*places: TopicIdPartition, instance: str | None = None) -> ConsumerMember:
    """A member at epoch 3 that has these, and has said so."""
    member = a_member(instance)
    beat(member, 3, set(places))
    member.learn(NAMES)
    member.took_over(member.to_add)
    beat(member, 3)
    return member


def refuse(member: ConsumerMember, code: ErrorCode, message: str | None = None) -> Next:
    member.heartbeat_request()
    return member.on_heartbeat(
        ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)
    )


def test_who_joins_tells_everything_and_owns_nothing() -> None:
    member = a_member()
    assert member.identity == GroupMetadata("g", -1, "m")
    assert member.leave_request() is None
    request = beat(member, 1, set())
    assert (request.group_id, request.member_id, request.member_epoch) == ("g", "m", 0)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (["t"], "")
    assert (request.rebalance_timeout_ms, request.server_assignor) == (300_000, "range")
    assert (request.rack_id, request.instance_id) == ("rack", None)
    assert owned_in(request) == set()
    assert member.identity == GroupMetadata("g", 1, "m")
    assert member.interval_ms == 700


def test_later_it_says_what_has_changed() -> None:
    member = settled(T0)
    quiet = beat(member, 3)
    assert quiet.subscribed_topic_names is None
    assert (quiet.rebalance_timeout_ms, quiet.rack_id, quiet.server_assignor) == (-1, None, None)
    assert owned_in(quiet) is None
    member.interest = Interest(expression="t.*")
    changed = beat(member, 4)
    assert (changed.subscribed_topic_names, changed.subscribed_topic_regex) == ([], "t.*")
    assert owned_in(changed) is None


def test_it_says_so_when_it_has_what_it_was_given() -> None:
    member = a_member()
    beat(member, 1, {T0, T1})
    assert member.nameless == {T}
    assert member.to_add == set()
    member.learn(NAMES)
    assert member.named(member.to_add) == {TopicPartition("t", 0), TopicPartition("t", 1)}
    member.took_over(member.to_add)
    assert owned_in(beat(member, 1)) == {T0, T1}


def test_it_keeps_its_epoch_until_it_has_given_up_what_it_is_to_give_up() -> None:
    member = settled(T0, T1)
    beat(member, 3, {T0})
    assert member.to_give_up == {T1}
    assert owned_in(beat(member, 3)) is None
    member.gave_up(member.to_give_up)
    assert owned_in(beat(member, 4)) == {T0}
    assert member.identity.generation_id == 4


def test_a_topic_that_was_made_anew_is_another_one() -> None:
    member = settled(T0)
    again = TopicIdPartition(b"n" * 16, 0)
    beat(member, 3, {again})
    member.learn({again.topic_id: "t"})
    assert member.named(member.to_give_up) == member.named(member.to_add)
    member.gave_up(member.to_give_up)
    member.took_over(member.to_add)
    assert owned_in(beat(member, 4)) == {again}


def test_an_answer_without_an_assignment_changes_nothing_of_it() -> None:
    member = settled(T0, U0)
    beat(member, 5)
    assert member.assigned == member.owned == {T0, U0}


def test_when_an_answer_was_lost_it_says_everything_again() -> None:
    member = settled(T0)
    member.heartbeat_request()
    member.not_heard()
    request = beat(member, 3)
    assert request.member_epoch == 3
    assert (request.subscribed_topic_names, request.rebalance_timeout_ms) == (["t"], 300_000)
    assert owned_in(request) == {T0}


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_who_was_put_out_loses_everything_and_joins_anew(code: ErrorCode) -> None:
    member = settled(T0, T1)
    was = member.identity
    assert was.generation_id > 0
    assert refuse(member, code) is Next.JOIN
    assert member.is_out
    assert not member.is_member
    assert member.identity == was, "what it read as that is to be refused"
    assert member.to_give_up == {T0, T1}
    member.gave_up(member.to_give_up)
    member.come_back()
    request = beat(member, 7, {T0})
    assert (request.member_epoch, request.member_id) == (0, "m")
    assert owned_in(request) == set()
    assert request.subscribed_topic_names == ["t"]
    assert member.to_add == {T0}
    assert member.identity == GroupMetadata("g", 7, "m")


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Next.RETRY),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Next.LOOK_UP),
        (ErrorCode.NOT_COORDINATOR, Next.LOOK_UP),
    ],
)
def test_what_passes_is_tried_again_with_everything(code: ErrorCode, outcome: Next) -> None:
    member = settled(T0)
    assert refuse(member, code) is outcome
    assert member.is_member
    assert beat(member, 3).subscribed_topic_names == ["t"]


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (ErrorCode.FENCED_INSTANCE_ID, FencedInstanceError, "why"),
        (ErrorCode.UNRELEASED_INSTANCE_ID, KafkaError, "why .*session has ended"),
        (ErrorCode.INVALID_REGULAR_EXPRESSION, KafkaError, "group 'g': it is refused: why"),
    ],
)
def test_what_does_not_pass_is_an_error(code: ErrorCode, kind: type[KafkaError], text: str) -> None:
    member = settled(T0)
    with pytest.raises(kind, match=text) as raised:
        refuse(member, code, "why")
    assert raised.value.code == code
    assert member.to_give_up == {T0}


def test_a_refusal_without_words_gets_some() -> None:
    with pytest.raises(KafkaError, match=r"group 'g': it is refused: [A-Z]"):
        refuse(a_member(), ErrorCode.GROUP_AUTHORIZATION_FAILED)


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_static_members_leave_for_a_while(instance: str | None, epoch: int) -> None:
    member = settled(T0, instance=instance)
    request = member.leave_request()
    assert request is not None
    assert (request.member_epoch, request.instance_id, request.member_id) == (epoch, instance, "m")
    member.left()
    assert member.leave_request() is None
    assert member.to_give_up == {T0}


def test_who_may_have_joined_says_that_it_leaves() -> None:
    member = a_member()
    member.heartbeat_request()  # and is never answered
    assert member.leave_request() is not None


def test_who_left_and_comes_back_says_everything_again() -> None:
    member = settled(T0)
    member.left()
    member.gave_up(member.to_give_up)
    member.come_back()
    request = beat(member, 9, {T0})
    assert request.rebalance_timeout_ms > 0
    assert request.subscribed_topic_names == ["t"]
