"""The Admin client asks for elections and moves, and reads replicas where they are."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from quorate.client import (
    Admin,
    FeatureChange,
    FeatureUpgrade,
    PartitionDescription,
    Reassignment,
    TopicPartition,
)
from quorate.errors import ErrorCode, KafkaError
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.messages.data import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from quorate.protocol.messages.features import UpdateFeaturesRequest, UpdateFeaturesResponse
from quorate.protocol.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from quorate.protocol.messages.placement import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    PartitionResult,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tests.shell.fake_cluster import FakeCluster

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def admin(cluster: FakeCluster) -> Admin:
    return Admin(cluster.bootstrap, dial=cluster.dial)


@pytest.fixture
def cluster(nursery: trio.Nursery, autojump_clock: MockClock) -> FakeCluster:
    made = FakeCluster(nursery, brokers=1)
    made.create("t", 2)
    return made


async def test_an_election_answers_for_each_partition(cluster: FakeCluster) -> None:
    not_needed = PartitionResult(
        partition_id=1, error_code=ErrorCode.ELECTION_NOT_NEEDED, error_message=None
    )
    results = [PartitionResult(partition_id=0, error_message=None), not_needed]
    topic = ReplicaElectionResult(topic="t", partition_result=results)
    response = ElectLeadersResponse(replica_election_results=[topic])
    cluster.script(ElectLeadersRequest, response, response)
    async with admin(cluster) as a:
        told = await a.elect_leaders([T0, T1], unclean=True)
        await a.elect_leaders(None)
    assert told[T0] is None
    assert isinstance(told[T1], KafkaError)
    first, second = cluster.requests_of(ElectLeadersRequest)
    assert (first.election_type, first.topic_partitions[0].partitions) == (1, [0, 1])
    assert (second.election_type, second.topic_partitions) == (0, None)


async def test_an_election_that_is_refused_as_a_whole_is_raised(cluster: FakeCluster) -> None:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    cluster.script(ElectLeadersRequest, ElectLeadersResponse(error_code=code))
    async with admin(cluster) as a:
        with pytest.raises(KafkaError, match="elections"):
            await a.elect_leaders([T0])


async def test_moves_are_begun_and_called_off(cluster: FakeCluster) -> None:
    told = ReassignablePartitionResponse(
        partition_index=0, error_code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, error_message="none"
    )
    topic = ReassignableTopicResponse(name="u", partitions=[told])
    response = AlterPartitionReassignmentsResponse(error_message=None, responses=[topic])
    cluster.script(AlterPartitionReassignmentsRequest, response)
    async with admin(cluster) as a:
        results = await a.alter_partition_reassignments({T0: (1, 2), T1: (2,), U0: None})
    assert "none" in str(results[U0])
    (asked,) = cluster.requests_of(AlterPartitionReassignmentsRequest)
    moves = {t.name: [(p.partition_index, p.replicas) for p in t.partitions] for t in asked.topics}
    assert moves == {"t": [(0, [1, 2]), (1, [2])], "u": [(0, None)]}


async def test_moves_under_way_are_listed(cluster: FakeCluster) -> None:
    move = OngoingPartitionReassignment(
        partition_index=1, replicas=[3, 1, 2], adding_replicas=[3], removing_replicas=[2]
    )
    topic = OngoingTopicReassignment(name="t", partitions=[move])
    response = ListPartitionReassignmentsResponse(error_message=None, topics=[topic])
    cluster.script(ListPartitionReassignmentsRequest, response, response)
    async with admin(cluster) as a:
        assert await a.list_partition_reassignments() == {T1: Reassignment((3, 1, 2), (3,), (2,))}
        await a.list_partition_reassignments([T1])
    everything, one = cluster.requests_of(ListPartitionReassignmentsRequest)
    assert everything.topics is None
    assert [(t.name, t.partition_indexes) for t in one.topics] == [("t", [1])]


def described(number: int) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=number, leader_id=1, leader_epoch=4, replica_nodes=[1, 2], isr_nodes=[1],
        eligible_leader_replicas=[2], last_known_elr=None, offline_replicas=[],
    )  # fmt: skip


async def test_topics_are_described_page_by_page(cluster: FakeCluster) -> None:
    def page(_broker: int, request: Any) -> DescribeTopicPartitionsResponse:
        number = 0 if request.cursor is None else request.cursor.partition_index
        topic = DescribeTopicPartitionsResponseTopic(name="t", partitions=[described(number)])
        following = None if number else Cursor(topic_name="t", partition_index=1)
        return DescribeTopicPartitionsResponse(topics=[topic], next_cursor=following)

    cluster.script(DescribeTopicPartitionsRequest, page, page)
    async with admin(cluster) as a:
        topic = (await a.describe_topic_partitions(["t"]))["t"]
    assert not isinstance(topic, Exception)
    assert topic.partitions == tuple(
        PartitionDescription(number, 1, 4, (1, 2), (1,), (), elr=(2,)) for number in (0, 1)
    )


async def test_a_replica_is_read_from_the_broker_that_has_it(cluster: FakeCluster) -> None:
    found = PartitionData(
        partition_index=0, high_watermark=9, log_start_offset=2, aborted_transactions=None,
        records=b"batches",
    )  # fmt: skip
    gone = PartitionData(
        partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, aborted_transactions=None
    )
    for data in (found, gone):
        topic = FetchableTopicResponse(topic="t", partitions=[data])
        cluster.script(FetchRequest, FetchResponse(responses=[topic]))
    cluster.script(FetchRequest, FetchResponse())
    async with admin(cluster) as a:
        part = await a.read_replica(1, T0, 5, bytes_max=100)
        refused = await a.read_replica(1, T0, 5, bytes_max=100)
        silent = await a.read_replica(1, T0, 5, bytes_max=100)
    assert not isinstance(part, Exception)
    assert (part.high_watermark, part.log_start_offset, part.batches) == (9, 2, b"batches")
    assert isinstance(refused, KafkaError)
    assert refused.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert "t-0 on broker 1" in str(silent)


async def test_brokers_say_what_they_speak_and_what_is_finalized(cluster: FakeCluster) -> None:
    cluster.features = {"transaction.version": 2}
    async with admin(cluster) as a:
        told = await a.describe_versions(1)
        assert told.apis[ApiKey.METADATA].last == APIS[ApiKey.METADATA].max_version
        assert (told.finalized_features, told.features_epoch) == ({"transaction.version": 2}, 1)
        assert await a.describe_versions() == told


async def test_levels_are_changed_or_the_refusal_says_why(cluster: FakeCluster) -> None:
    code = ErrorCode.INVALID_UPDATE_VERSION
    refused = UpdateFeaturesResponse(error_code=code, error_message="too high")
    cluster.script(UpdateFeaturesRequest, UpdateFeaturesResponse(error_message=None), refused)
    changes = [FeatureChange("f", 1, FeatureUpgrade.SAFE_DOWNGRADE), FeatureChange("g", 2)]
    async with admin(cluster) as a:
        await a.update_features(changes, validate_only=True)
        with pytest.raises(KafkaError, match="too high"):
            await a.update_features(changes)
    asked = cluster.requests_of(UpdateFeaturesRequest)[0]
    found = [(u.feature, u.max_version_level, u.upgrade_type) for u in asked.feature_updates]
    assert (found, asked.validate_only) == ([("f", 1, 2), ("g", 2, 1)], True)


async def test_a_broker_is_taken_out_or_not(cluster: FakeCluster) -> None:
    code = ErrorCode.BROKER_ID_NOT_REGISTERED
    cluster.script(
        UnregisterBrokerRequest,
        UnregisterBrokerResponse(error_message=None),
        UnregisterBrokerResponse(error_code=code, error_message="who?"),
    )
    async with admin(cluster) as a:
        await a.unregister_broker(3)
        with pytest.raises(KafkaError, match=r"broker 3: who\?"):
            await a.unregister_broker(3)
