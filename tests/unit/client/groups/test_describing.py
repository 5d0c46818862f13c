"""What brokers say of groups, as values."""

from quorate.client.groups.describing import (
    classic_groups_of,
    consumer_groups_of,
    leave_request,
    listings_of,
)
from quorate.client.groups.results import GroupDescription, GroupListing, MemberDescription
from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.protocol.consumer_protocol import (
    Subscription,
    encode_assignment,
    encode_subscription,
)
from quorate.protocol.messages.consumer_groups import (
    Assignment,
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeTopicPartitions,
)
from quorate.protocol.messages.groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsResponse,
    MemberIdentity,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_listings_have_the_type_as_kafkas_tools_write_it() -> None:
    told = [
        ListedGroup(group_id="a", protocol_type="consumer", group_state="Stable", group_type=name)
        for name in ("classic", "Consumer", "")
    ]
    listings = listings_of(ListGroupsResponse(groups=told))
    assert [each.type for each in listings] == ["Classic", "Consumer", ""]
    assert listings[0] == GroupListing("a", "Classic", "consumer", "Stable")


def classic(member: DescribedGroupMember, protocol_type: str = "consumer") -> GroupDescription:
    group = DescribedGroup(
        group_id="g", error_message=None, members=[member], group_state="Stable",
        protocol_type=protocol_type, protocol_data="range",
    )  # fmt: skip
    found = classic_groups_of(DescribeGroupsResponse(groups=[group]), {"g": 3})["g"]
    assert isinstance(found, GroupDescription)
    return found


def test_a_classic_member_is_described_with_what_it_tells_other_members() -> None:
    member = DescribedGroupMember(
        member_id="m-1", group_instance_id="i-1", client_id="c", client_host="/127.0.0.1",
        member_metadata=encode_subscription(Subscription(("t", "u"), rack_id="r")),
        member_assignment=encode_assignment((T0, T1)),
    )  # fmt: skip
    group = classic(member)
    (told,) = group.members
    assert told == MemberDescription(
        "m-1", "i-1", "c", "/127.0.0.1", (T0, T1), rack_id="r", topics=("t", "u")
    )
    assert group.owners == {T0: told, T1: told}
    assert (group.type, group.assignor, group.coordinator_id) == ("Classic", "range", 3)
    assert (group.generation_id, group.state_since_ms) == (None, None)


def test_our_brokers_tell_more_of_a_classic_group() -> None:
    group = DescribedGroup(
        group_id="g", error_message=None, generation_id=4, leader="m-1", rebalance_reason="why",
        state_since_ms=99,
    )  # fmt: skip
    told = classic_groups_of(DescribeGroupsResponse(groups=[group]), {"g": 3})["g"]
    assert isinstance(told, GroupDescription)
    assert (told.generation_id, told.leader) == (4, "m-1")
    assert (told.rebalance_reason, told.state_since_ms) == ("why", 99)


def test_before_the_group_agrees_members_have_neither_topics_nor_partitions() -> None:
    (told,) = classic(DescribedGroupMember(member_id="m", group_instance_id=None)).members
    assert (told.assignment, told.topics, told.rack_id) == ((), (), None)


def test_members_that_are_no_consumers_are_not_read() -> None:
    member = DescribedGroupMember(
        member_id="m", group_instance_id=None, member_assignment=encode_assignment((T0,))
    )
    assert classic(member, protocol_type="connect").members[0].assignment == ()


def test_members_that_tell_each_other_something_else_do_no_harm() -> None:
    member = DescribedGroupMember(
        member_id="m", group_instance_id=None, member_metadata=b"?", member_assignment=b"\0\1what"
    )
    assert classic(member).members[0].assignment == ()


def test_dead_groups_and_refused_ones_are_no_groups() -> None:
    groups = [
        DescribedGroup(group_id="dead", group_state="Dead", error_message=None),
        DescribedGroup(
            group_id="secret",
            error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
            error_message="no",
        ),
    ]
    assert classic_groups_of(DescribeGroupsResponse(groups=groups), {}) == {
        "dead": (ErrorCode.GROUP_ID_NOT_FOUND, None),
        "secret": (ErrorCode.GROUP_AUTHORIZATION_FAILED, "no"),
    }


def test_a_group_of_kip_848_is_described_with_targets_and_epochs() -> None:
    def assigned(*partitions: int) -> Assignment:
        topic = ConsumerGroupDescribeTopicPartitions(topic_name="t", partitions=list(partitions))
        return Assignment(topic_partitions=[topic])

    member = ConsumerGroupDescribeMember(
        member_id="m", instance_id=None, rack_id=None, member_epoch=4, client_id="c",
        client_host="/h", subscribed_topic_names=["t"], subscribed_topic_regex="",
        assignment=assigned(0), target_assignment=assigned(0, 1),
    )  # fmt: skip
    group = ConsumerGroupDescribeGroup(
        group_id="g", error_message=None, group_state="Reconciling", group_epoch=5,
        assignment_epoch=5, assignor_name="uniform", members=[member],
    )  # fmt: skip
    gone = ConsumerGroupDescribeGroup(
        group_id="x", error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message="classic"
    )
    response = ConsumerGroupDescribeResponse(groups=[group, gone])
    found = consumer_groups_of(response, {"g": 2})
    assert found["x"] == (ErrorCode.GROUP_ID_NOT_FOUND, "classic")
    assert found["g"] == GroupDescription(
        "g", "Consumer", "consumer", "Reconciling", "uniform",
        (MemberDescription("m", None, "c", "/h", (T0,), (T0, T1), 4, None, ("t",), None),),
        coordinator_id=2, epoch=5, assignment_epoch=5,
    )  # fmt: skip


def test_static_members_leave_by_instance_id_and_others_by_member_id() -> None:
    members = [MemberDescription(m, i, "", "", ()) for m, i in (("m-1", "i-1"), ("m-2", None))]
    request = leave_request("g", members, "why")
    assert request.members == [
        MemberIdentity(member_id="", group_instance_id="i-1", reason="why"),
        MemberIdentity(member_id="m-2", group_instance_id=None, reason="why"),
    ]
