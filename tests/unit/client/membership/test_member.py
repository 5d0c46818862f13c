"""A member of a classic group, answer by answer."""

import re
from typing import Any

import pytest

from quorate.client.errors import FencedInstanceError
from quorate.client.membership.assignors import assignors_named
from quorate.client.membership.member import GivenUp, Member, MemberSettings, Next
from quorate.client.membership.progress import Progress
from quorate.client.membership.topics import view_of
from quorate.errors import ErrorCode, KafkaError
from quorate.model import TopicPartition
from quorate.protocol.consumer_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from quorate.protocol.messages.groups import (
    HeartbeatResponse,
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupResponse,
)
from quorate.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ONE_TOPIC = {"t": (frozenset[str](), frozenset[str]())}


def a_member(*strategy: str, instance: str | None = None) -> Member:
    settings = MemberSettings(
        "g", instance, 45_000, 300_000, assignors_named(strategy or ("range",)), "rack"
    )
    member = Member(settings)
    member.subscribe(frozenset({"t"}))
    return member


def joined(member: Member, generation: int = 1, **fields: Any) -> Next:
    member.join_request()
    response = JoinGroupResponse(
        generation_id=generation,
        protocol_name=member.settings.assignors[0].name,
        member_id="m",
        **fields,
    )
    return member.on_joined(response)


def stable(member: Member, *partitions: TopicPartition, generation: int = 1) -> Member:
    """A member that has these partitions."""
    assert joined(member, generation) is Next.GO_ON
    response = SyncGroupResponse(assignment=encode_assignment(partitions))
    assert member.on_synced(response) is Next.GO_ON
    member.took_over(member.to_add)
    return member


def refused(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def test_joining_takes_two_requests_the_first_only_gives_an_id() -> None:
    member = a_member()
    first = member.join_request()
    assert (first.member_id, first.reason) == ("", "it subscribes")
    assert (first.session_timeout_ms, first.rebalance_timeout_ms) == (45_000, 300_000)
    told = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m")
    assert member.on_joined(told) is Next.JOIN
    second = member.join_request()
    assert second.member_id == "m"
    assert decode_subscription(second.protocols[0].metadata) == Subscription(("t",), rack_id="rack")
    assert not member.is_member


def test_a_leader_assigns_to_all_and_a_follower_to_nobody() -> None:
    member = a_member()
    told = [
        JoinGroupResponseMember(member_id="m", metadata=encode_subscription(Subscription(("t",)))),
        JoinGroupResponseMember(member_id="n", metadata=encode_subscription(Subscription(("t",)))),
        JoinGroupResponseMember(member_id="alien", metadata=b"?"),
    ]
    assert joined(member, members=told) is Next.GO_ON
    assert member.topics_to_assign == {"t"}
    request = member.sync_request(ONE_TOPIC)
    given = {each.member_id: decode_assignment(each.assignment) for each in request.assignments}
    assert given == {"m": (T0,), "n": (T1,), "alien": ()}
    assert joined(member, 2) is Next.GO_ON
    assert member.topics_to_assign == frozenset()
    request = member.sync_request({})
    assert (request.generation_id, request.assignments) == (2, [])


def test_a_static_leader_that_came_back_need_not_assign() -> None:
    member = a_member(instance="i")
    told = [
        JoinGroupResponseMember(member_id="m", metadata=encode_subscription(Subscription(("t",))))
    ]
    joined(member, members=told, skip_assignment=True)
    assert member.topics_to_assign == frozenset()
    assert member.sync_request({}).assignments == []
    assert member.leave_request("closed") is None


def test_eager_members_give_everything_up_before_they_join() -> None:
    member = stable(a_member(), T0, T1)
    assert member.owned == {T0, T1}
    given = member.to_give_up()
    assert given == GivenUp(frozenset({T0, T1}), lost=False)
    member.gave_up(given.partitions)
    assert member.owned == frozenset()
    assert decode_subscription(member.join_request().protocols[0].metadata).owned == ()


def test_cooperative_members_give_up_what_they_do_not_want_and_later_what_they_are_told_to() -> (
    None
):
    member = stable(a_member("cooperative-sticky"), T0, T1, U0)
    member.subscribe(frozenset({"t"}))
    assert member.rejoin_reason is None
    assert member.to_give_up() == GivenUp(frozenset({U0}), lost=False)
    member.gave_up(frozenset({U0}))
    told = decode_subscription(member.join_request().protocols[0].metadata)
    assert (told.owned, told.generation_id) == ((T0, T1), 1)
    joined(member, 2)
    member.on_synced(SyncGroupResponse(assignment=encode_assignment((T1,))))
    assert member.to_revoke == {T0}
    assert member.to_add == frozenset()
    member.revoked(member.to_revoke)
    member.took_over(member.to_add)
    assert member.owned == {T1}
    assert member.rejoin_reason == "it gave up partitions, as it was told"


def test_another_subscription_is_a_reason_to_join() -> None:
    member = stable(a_member(), T0)
    member.subscribe(frozenset({"t"}))
    assert member.rejoin_reason is None
    member.subscribe(frozenset({"u"}))
    assert member.rejoin_reason == "the subscription changed"
    member.ask_to_join("something else")
    assert member.join_request().reason == "the subscription changed"


@pytest.mark.parametrize("code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_member_that_the_group_has_forgotten_has_lost_what_it_had(code: ErrorCode) -> None:
    member = stable(a_member("cooperative-sticky"), T0)
    was = member.identity
    assert (was.generation_id, was.member_id) == (1, "m")
    assert member.on_heartbeat(refused(code)) is Next.JOIN
    assert member.rejoin_reason == f"the coordinator said {code.name}"
    assert member.to_give_up() == GivenUp(frozenset({T0}), lost=True)
    assert not member.is_member
    assert member.member_id == ("m" if code == ErrorCode.ILLEGAL_GENERATION else "")
    assert member.identity == was, "what it read as that is to be refused"
    joined(member, generation=4)
    assert (member.identity.generation_id, member.identity.member_id) == (4, "m")


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.NONE, Next.GO_ON),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Next.RETRY),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Next.LOOK_UP),
        (ErrorCode.NOT_COORDINATOR, Next.LOOK_UP),
        (ErrorCode.REBALANCE_IN_PROGRESS, Next.JOIN),
        (ErrorCode.REQUEST_TIMED_OUT, Next.RETRY),
    ],
)
def test_what_helps_against_an_error_depends_on_it(code: ErrorCode, outcome: Next) -> None:
    member = stable(a_member(), T0)
    assert member.on_heartbeat(refused(code)) is outcome
    assert member.is_member
    assert member.on_synced(SyncGroupResponse(error_code=code, assignment=b"")) is outcome


def test_what_nothing_helps_against_is_raised_and_the_member_is_out() -> None:
    member = stable(a_member(instance="i"), T0)
    with pytest.raises(FencedInstanceError, match="group 'g': it is out of the group"):
        member.on_heartbeat(refused(ErrorCode.FENCED_INSTANCE_ID))
    assert (member.is_member, member.member_id) == (False, "")
    with pytest.raises(KafkaError, match="it cannot join"):
        member.on_joined(JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED))
    with pytest.raises(KafkaError, match="an assignor 'theirs'"):
        member.on_joined(JoinGroupResponse(generation_id=1, protocol_name="theirs"))
    joined(member)
    with pytest.raises(KafkaError, match="assigns in another language"):
        member.on_synced(SyncGroupResponse(assignment=b"\0\0\xff"))
    assert not member.is_member


def test_leaving_says_why_and_is_nothing_to_who_was_never_there() -> None:
    assert a_member().leave_request("closed") is None
    member = stable(a_member(), T0)
    request = member.leave_request("because " * 100)
    assert request is not None
    assert request.members[0].member_id == "m"
    assert len(request.members[0].reason or "") == 255
    assert member.heartbeat_request().generation_id == 1
    member.left()
    assert member.to_give_up().lost


def test_sticky_members_tell_what_they_had_last() -> None:
    member = stable(a_member("sticky"), T0, generation=7)
    data = decode_subscription(member.join_request().protocols[0].metadata).user_data
    assert data is not None
    assert data.endswith((7).to_bytes(4, "big"))


def test_who_moves_is_alive_and_who_does_not_is_late() -> None:
    progress = Progress(1_000, 0)
    assert progress.look(1, 500)
    assert progress.look(1, 1_499)
    assert not progress.look(1, 1_500)
    assert progress.look(2, 1_501)


def test_topics_are_what_exists_with_the_racks_of_their_replicas() -> None:
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=1, rack="a"),
            MetadataResponseBroker(node_id=2, rack=None),
        ],
        topics=[
            MetadataResponseTopic(
                name="t",
                partitions=[
                    MetadataResponsePartition(partition_index=1, replica_nodes=[2, 9]),
                    MetadataResponsePartition(partition_index=0, replica_nodes=[1, 2]),
                ],
            ),
            MetadataResponseTopic(
                name="__t", is_internal=True, partitions=[MetadataResponsePartition()]
            ),
            MetadataResponseTopic(name="no", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            MetadataResponseTopic(name="empty"),
            MetadataResponseTopic(name=None, partitions=[MetadataResponsePartition()]),
        ],
    )
    view = view_of(response)
    assert view.topics["t"] == (frozenset({"a"}), frozenset())
    assert view.topics.keys() == {"t", "__t"}
    assert view.counts(["t", "no"]) == {"t": 2}
    assert view.of(frozenset({"t", "no"})).keys() == {"t"}
    assert view.matching(re.compile(".*t")) == {"t"}
    assert view.matching(re.compile("")) == frozenset()
