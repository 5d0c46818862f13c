"""The Admin client and groups: coordinators are found, and found again when groups move."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from quorate.client import Admin, GroupDescription, KafkaError, OffsetAndMetadata, TopicPartition
from quorate.errors import ErrorCode, RequestTimedOutError
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from quorate.protocol.messages.groups import (
    Coordinator,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    MemberResponse,
)
from quorate.protocol.messages.metadata import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from quorate.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from quorate.protocol.messages.session import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from tests.shell.fake_cluster import DROP, HANG, FakeCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def admin(cluster: FakeCluster) -> Admin:
    return Admin(cluster.bootstrap, dial=cluster.dial)


@pytest.fixture
def cluster(nursery: trio.Nursery) -> FakeCluster:
    made = FakeCluster(nursery, brokers=2)
    made.create("t", 2)
    return made


def at(node_id: int, *group_ids: str) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_message=None,
        coordinators=[
            Coordinator(key=group_id, node_id=node_id, error_message=None) for group_id in group_ids
        ],
    )


def refused(code: ErrorCode, group_id: str = "g") -> FindCoordinatorResponse:
    coordinator = Coordinator(key=group_id, node_id=-1, error_code=code, error_message=None)
    return FindCoordinatorResponse(error_message=None, coordinators=[coordinator])


def committed(code: ErrorCode = ErrorCode.NONE) -> OffsetCommitResponse:
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return OffsetCommitResponse(
        topics=[OffsetCommitResponseTopic(name="t", partitions=[partition])]
    )


def fetched(offset: int, code: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponse:
    partition = OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=offset, metadata="", error_code=code
    )
    topic = OffsetFetchResponseTopics(name="t", partitions=[partition])
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=[topic])])


def asked(cluster: FakeCluster, kind: type[Any]) -> list[int]:
    return [broker_id for broker_id, request in cluster.requests if isinstance(request, kind)]


async def test_offsets_are_committed_at_the_coordinator_which_is_looked_up_once(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.script(FindCoordinatorRequest, at(2, "g"))
    cluster.script(OffsetCommitRequest, committed(), committed())
    async with admin(cluster) as a:
        assert await a.alter_group_offsets("g", {T0: 5}) == {T0: None}
        assert await a.alter_group_offsets("g", {T0: OffsetAndMetadata(6, 1, "m")}) == {T0: None}
        assert await a.alter_group_offsets("g", {}) == {}
    assert asked(cluster, OffsetCommitRequest) == [2, 2]
    assert len(cluster.requests_of(FindCoordinatorRequest)) == 1


@pytest.mark.parametrize(
    "trouble",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ],
)
async def test_a_group_that_moved_is_looked_up_anew(
    cluster: FakeCluster, autojump_clock: MockClock, trouble: ErrorCode
) -> None:
    cluster.script(FindCoordinatorRequest, at(1, "g"), at(2, "g"))
    cluster.script(OffsetCommitRequest, committed(trouble), committed())
    async with admin(cluster) as a:
        assert await a.alter_group_offsets("g", {T0: 5}) == {T0: None}
    assert asked(cluster, OffsetCommitRequest) == [1, 2]


async def test_a_coordinator_that_hangs_up_is_looked_up_anew(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.script(FindCoordinatorRequest, at(1, "g"), at(2, "g"))
    cluster.script(OffsetFetchRequest, DROP, fetched(7))
    async with admin(cluster) as a:
        assert await a.list_group_offsets("g") == {T0: OffsetAndMetadata(7)}
    assert asked(cluster, OffsetFetchRequest) == [1, 2]


async def test_a_coordinator_that_is_not_there_yet_is_waited_for(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    none_yet = refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    cluster.script(FindCoordinatorRequest, none_yet, none_yet, at(2, "g"))
    async with admin(cluster) as a:
        assert await a.coordinators().find("g") == 2
        assert a.coordinators().known("g") == 2
        a.coordinators().forget("g")
        assert a.coordinators().known("g") is None


async def test_what_kept_a_coordinator_from_being_found_is_told(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.script(FindCoordinatorRequest, *[refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)] * 99)
    async with admin(cluster) as a:
        with pytest.raises(KafkaError) as error:
            await a.coordinators().find("g")
    assert error.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_group_that_may_not_be_seen_is_not_asked_for_again(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.script(FindCoordinatorRequest, refused(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    async with admin(cluster) as a:
        with pytest.raises(KafkaError, match="no coordinator of group 'g'"):
            await a.list_group_offsets("g")


async def test_a_coordinator_that_never_answers_is_given_up(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.script(FindCoordinatorRequest, *[at(1, "g")] * 9)
    cluster.script(OffsetFetchRequest, *[HANG] * 9)
    async with admin(cluster) as a:
        with pytest.raises((KafkaError, RequestTimedOutError)) as error:
            await a.list_group_offsets("g")
    assert error.value.code in {ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT}


async def test_old_brokers_are_asked_for_one_coordinator_at_a_time(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    def versions(_broker_id: int, _request: ApiVersionsRequest) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(
                    api_key=api.key,
                    min_version=api.min_version,
                    max_version=3 if api.key == ApiKey.FIND_COORDINATOR else api.max_version,
                )
                for api in APIS.values()
            ]
        )

    def alone(_broker_id: int, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(node_id=1 if request.key == "a" else 2, error_message=None)

    cluster.script(ApiVersionsRequest, *[versions] * 4)
    cluster.script(FindCoordinatorRequest, alone, alone)
    results = [
        DeleteGroupsResponse(results=[DeletableGroupResult(group_id="a")]),
        DeleteGroupsResponse(results=[DeletableGroupResult(group_id="b", error_code=68)]),
    ]
    cluster.script(DeleteGroupsRequest, *results)
    async with admin(cluster) as a:
        told = await a.delete_groups(["a", "b", "a"])
    assert told["a"] is None
    assert isinstance(told["b"], KafkaError)
    assert told["b"].code == ErrorCode.NON_EMPTY_GROUP
    assert [r.groups_names for r in cluster.requests_of(DeleteGroupsRequest)] == [["a"], ["b"]]
    assert asked(cluster, DeleteGroupsRequest) == [1, 2]


async def test_offsets_that_are_pending_or_unreadable_are_raised(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.script(FindCoordinatorRequest, at(1, "g"))
    cluster.script(OffsetFetchRequest, fetched(-1, ErrorCode.UNSTABLE_OFFSET_COMMIT))
    async with admin(cluster) as a:
        with pytest.raises(KafkaError, match="offsets of group 'g'"):
            await a.list_group_offsets("g", [T0], require_stable=True)


async def test_groups_of_all_brokers_are_listed(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    brokers = [DescribeClusterBroker(broker_id=n, host="broker", port=n) for n in (1, 2)]
    described = DescribeClusterResponse(cluster_id="c", brokers=brokers, error_message=None)
    cluster.script(DescribeClusterRequest, described, described)
    lists = [ListGroupsResponse(groups=[ListedGroup(group_id=name)]) for name in ("z", "a")]
    cluster.script(ListGroupsRequest, *lists, ListGroupsResponse(error_code=29))
    async with admin(cluster) as a:
        assert [g.group_id for g in await a.list_groups(states=["Empty"])] == ["a", "z"]
        with pytest.raises(KafkaError, match="groups of broker 1"):
            await a.list_groups()
    assert cluster.requests_of(ListGroupsRequest)[0].states_filter == ["Empty"]


async def test_groups_are_described_whichever_protocol_their_members_speak(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.script(FindCoordinatorRequest, at(1, "new", "old", "none"))
    not_found = ErrorCode.GROUP_ID_NOT_FOUND
    new = [
        ConsumerGroupDescribeGroup(group_id="new", error_message=None),
        ConsumerGroupDescribeGroup(group_id="old", error_code=not_found, error_message=None),
        ConsumerGroupDescribeGroup(group_id="none", error_code=not_found, error_message=None),
    ]
    cluster.script(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse(groups=new))
    old = [
        DescribedGroup(group_id="old", group_state="Empty", error_message=None),
        DescribedGroup(group_id="none", error_code=not_found, error_message=None),
    ]
    cluster.script(DescribeGroupsRequest, DescribeGroupsResponse(groups=old))
    async with admin(cluster) as a:
        told = await a.describe_groups(["new", "old", "none"])
    assert isinstance(told["new"], GroupDescription)
    assert isinstance(told["old"], GroupDescription)
    assert (told["new"].type, told["old"].type) == ("Consumer", "Classic")
    assert (told["new"].coordinator_id, told["old"].coordinator_id) == (1, 1)
    assert isinstance(told["none"], KafkaError)
    assert cluster.requests_of(DescribeGroupsRequest)[0].groups == ["old", "none"]


async def test_members_are_taken_out_of_a_group(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.script(FindCoordinatorRequest, at(1, "g"))
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    members = [
        MemberResponse(member_id="m", group_instance_id=None),
        MemberResponse(member_id="", group_instance_id="i", error_code=unknown),
    ]
    cluster.script(
        LeaveGroupRequest,
        LeaveGroupResponse(members=members),
        LeaveGroupResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND),
    )
    async with admin(cluster) as a:
        told = await a.remove_members("g", [])
        assert told["m"] is None
        assert isinstance(told["i"], KafkaError)
        with pytest.raises(KafkaError, match="group 'g'"):
            await a.remove_members("g", [])


async def test_a_group_without_name_has_no_offsets_to_forget(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.script(FindCoordinatorRequest, at(1, "g"))
    not_found = OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    cluster.script(OffsetDeleteRequest, OffsetDeleteResponse(), not_found)
    async with admin(cluster) as a:
        assert await a.delete_group_offsets("g", [T0]) == {}
        with pytest.raises(KafkaError, match="group 'g'"):
            await a.delete_group_offsets("g", [T0])


async def test_a_group_is_reset_to_a_time_or_else_to_the_end(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.topics["t"][0].end_offset = 9
    cluster.script(FindCoordinatorRequest, at(1, "g"))
    cluster.script(OffsetCommitRequest, committed(ErrorCode.UNKNOWN_MEMBER_ID))
    async with admin(cluster) as a:
        told = await a.reset_group_offsets("g", {T0: 1_000_000_000_000, T1: -2})
    assert isinstance(told[T0], KafkaError)
    assert told[T1] == OffsetAndMetadata(0)
    (request,) = cluster.requests_of(OffsetCommitRequest)
    offsets = [p.committed_offset for topic in request.topics for p in topic.partitions]
    assert offsets == [9, 0]
