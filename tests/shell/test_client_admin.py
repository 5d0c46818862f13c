from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from quorate.client import (
    Admin,
    BootstrapError,
    ClosedError,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    Consumer,
    DeletedRecords,
    NewTopic,
    OffsetSpec,
    QuorumDescription,
    QuorumReplica,
    TimestampOffset,
    TopicPartition,
    raise_first,
)
from quorate.errors import (
    ErrorCode,
    InvalidConfigError,
    InvalidPartitionsError,
    KafkaError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from quorate.model import Endpoint
from quorate.protocol.messages.cluster import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from quorate.protocol.messages.configs import (
    AlterConfigsResourceResponse,
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorate.protocol.messages.metadata import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
)
from quorate.protocol.messages.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    DescribeQuorumListener,
    DescribeQuorumNode,
    DescribeQuorumPartitionData,
    DescribeQuorumReplicaState,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicData,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from quorate.protocol.messages.topics import (
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from tests.shell.fake_cluster import DROP, HANG, ApiKey, FakeCluster

T0, T1, X0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("x", 0)


def admin(cluster: FakeCluster, **settings: Any) -> Admin:
    return Admin(cluster.bootstrap, dial=cluster.dial, **settings)


def cluster_of(nursery: trio.Nursery, brokers: int = 1) -> FakeCluster:
    cluster = FakeCluster(nursery, brokers=brokers)
    cluster.create("t", 2)
    return cluster


def created(code: ErrorCode, message: str | None = None) -> CreateTopicsResponse:
    told = CreatableTopicResult(name="new", error_code=code, error_message=message, configs=None)
    return CreateTopicsResponse(topics=[told])


async def test_a_topic_is_created_and_waited_for(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)

    def create(_broker: int, _request: Any) -> CreateTopicsResponse:
        nursery.start_soon(appear)
        return created(ErrorCode.NONE)

    async def appear() -> None:
        await trio.sleep(0.5)
        cluster.create("new")

    cluster.script(CreateTopicsRequest, create)
    async with admin(cluster) as a:
        await a.create_topic("new", partitions=3, configs={"retention.ms": "5"})
        assert [topic.name for topic in await a.list_topics()] == ["new", "t"]
    (asked,) = cluster.requests_of(CreateTopicsRequest)[0].topics
    assert (asked.name, asked.num_partitions, asked.replication_factor) == ("new", 3, -1)
    assert [(c.name, c.value) for c in asked.configs] == [("retention.ms", "5")]


async def test_a_topic_that_exists_is_an_error_with_the_brokers_words(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    cluster.script(CreateTopicsRequest, created(ErrorCode.TOPIC_ALREADY_EXISTS, "it is there"))
    async with admin(cluster) as a:
        with pytest.raises(TopicAlreadyExistsError, match="topic 'new': it is there"):
            await a.create_topic("new")


async def test_a_cluster_without_a_controller_is_asked_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    topic = NewTopic("new", assignments={1: (2, 1), 0: (1, 2)})
    cluster.script(
        CreateTopicsRequest, created(ErrorCode.NOT_CONTROLLER), DROP, created(ErrorCode.NONE)
    )
    async with admin(cluster) as a:
        assert await a.create_topics([topic], validate_only=True) == {"new": None}
    request = cluster.requests_of(CreateTopicsRequest)[-1]
    assert request.validate_only
    assert [a.broker_ids for a in request.topics[0].assignments] == [[1, 2], [2, 1]]
    cluster.script(CreateTopicsRequest, *[created(ErrorCode.NOT_CONTROLLER)] * 9)
    async with admin(cluster) as a:
        with pytest.raises(KafkaError) as caught:
            await a.create_topic("new")
        assert caught.value.code == ErrorCode.NOT_CONTROLLER


async def test_each_topic_to_delete_has_its_own_result(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name="t", error_message=None),
            DeletableTopicResult(name="x", error_code=unknown, error_message=None),
        ]
    )
    cluster.script(DeleteTopicsRequest, answer)
    async with admin(cluster) as a:
        with pytest.raises(TypeError, match=r"delete_topics takes several.*: \['t'\], not 't'"):
            await a.delete_topics("t")  # its letters would be topics
        results = await a.delete_topics(["t", "x"])
    assert results["t"] is None
    assert isinstance(results["x"], UnknownTopicOrPartitionError)
    with pytest.raises(UnknownTopicOrPartitionError, match="topic 'x'"):
        raise_first(results)


async def test_partitions_are_added(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    cluster = cluster_of(nursery)
    fewer = CreatePartitionsTopicResult(
        name="t", error_code=ErrorCode.INVALID_PARTITIONS, error_message="there are 2"
    )
    cluster.script(CreatePartitionsRequest, CreatePartitionsResponse(results=[fewer]))
    async with admin(cluster) as a:
        results = await a.create_partitions({"t": 1})
    assert isinstance(results["t"], InvalidPartitionsError)
    assert cluster.requests_of(CreatePartitionsRequest)[0].topics[0].count == 1


async def test_topics_are_described_or_known_not_to_exist(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    async with admin(cluster) as a:
        described = await a.describe_topics(["t", "x"])
        listed = await a.list_topics(include_internal=True)
    topic = described["t"]
    assert not isinstance(topic, Exception)
    assert [(p.partition, p.leader_id, p.replicas) for p in topic.partitions] == [
        (0, 1, (1,)),
        (1, 1, (1,)),
    ]
    assert isinstance(described["x"], UnknownTopicOrPartitionError)
    assert [(topic.name, topic.partition_count) for topic in listed] == [("t", 2)]


async def test_records_are_deleted_by_the_leaders_of_their_partitions(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, brokers=2)

    def delete(_broker: int, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        (topic,) = request.topics
        (asked,) = topic.partitions
        code = ErrorCode.OFFSET_OUT_OF_RANGE if asked.partition_index else ErrorCode.NONE
        told = DeleteRecordsPartitionResult(
            partition_index=asked.partition_index, low_watermark=asked.offset, error_code=code
        )
        return DeleteRecordsResponse(
            topics=[DeleteRecordsTopicResult(name=topic.name, partitions=[told])]
        )

    cluster.script(DeleteRecordsRequest, delete, delete)
    async with admin(cluster) as a:
        results = await a.delete_records({T0: 5, T1: 9, X0: 1})
    assert results[T0] == DeletedRecords(5)
    assert isinstance(results[T1], OffsetOutOfRangeError)
    assert isinstance(results[X0], UnknownTopicOrPartitionError)
    asked = {broker for broker, r in cluster.requests if isinstance(r, DeleteRecordsRequest)}
    assert asked == {1, 2}


def delete_records(_broker: int, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """What a leader says who has deleted all that was asked."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=each.partition_index, low_watermark=each.offset
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def test_records_are_deleted_by_whoever_leads_when_the_leader_is_gone(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, brokers=2)
    cluster.handlers[DeleteRecordsRequest] = delete_records
    async with admin(cluster) as a:
        await a.delete_records({T0: 1, T1: 1})
        await cluster.stop(1)
        log = cluster.topics["t"][0]
        log.leader_id, log.leader_epoch = 2, 1
        with trio.fail_after(5):
            results = await a.delete_records({T0: 5, T1: 9})
    assert results == {T0: DeletedRecords(5), T1: DeletedRecords(9)}


@pytest.mark.parametrize("silent", [1, 2, 3])
async def test_what_is_quick_is_asked_of_another_broker_when_one_hangs(
    nursery: trio.Nursery, autojump_clock: MockClock, silent: int
) -> None:
    cluster = FakeCluster(nursery, brokers=3)
    cluster.create("t", 3)

    def hang(broker: int, _request: object) -> object:
        return HANG if broker == silent else None

    async with admin(cluster) as a:
        cluster.script(MetadataRequest, *[hang] * 100)
        with trio.fail_after(4):  # one that hangs is asked once
            for _ in range(10):
                assert [topic.name for topic in await a.list_topics()] == ["t"]


async def test_a_topic_is_found_though_the_broker_that_is_asked_first_hangs(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = FakeCluster(nursery, brokers=3)
    cluster.create("t", 3)
    async with Consumer(cluster.bootstrap, dial=cluster.dial) as c:
        cluster.script(MetadataRequest, HANG)
        with trio.fail_after(4):
            assert await c.partitions_of("t") == [0, 1, 2]


async def test_leaders_that_answer_are_not_held_up_by_one_that_does_not(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, brokers=2)

    def delete(broker: int, request: DeleteRecordsRequest) -> Any:
        return HANG if broker == 1 else delete_records(broker, request)

    cluster.script(DeleteRecordsRequest, delete, delete)
    async with admin(cluster, request_timeout_ms=2_000) as a:
        with trio.fail_after(3):
            results = await a.delete_records({T0: 5, T1: 9})
    assert results[T1] == DeletedRecords(9)
    assert isinstance(results[T0], RequestTimedOutError)
    assert str(results[T0]).startswith("records of t-0: no answer within 2000 ms")


async def test_an_answer_that_leaves_a_partition_out_is_asked_for_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    cluster.script(DeleteRecordsRequest, DeleteRecordsResponse())
    cluster.handlers[DeleteRecordsRequest] = delete_records
    async with admin(cluster) as a:
        assert await a.delete_records({T0: 5}) == {T0: DeletedRecords(5)}


async def test_offsets_are_listed_with_an_error_for_what_does_not_exist(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    async with admin(cluster) as a:
        results = await a.list_offsets({T0: OffsetSpec.LATEST, T1: 77, X0: OffsetSpec.EARLIEST})
    assert results[T0] == TimestampOffset(0, -1, 0)
    assert results[T1] == TimestampOffset(-1, -1, 0)
    assert isinstance(results[X0], UnknownTopicOrPartitionError)


async def test_settings_are_asked_of_whom_they_belong_to(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, brokers=2)

    def describe(broker: int, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        entry = DescribeConfigsResourceResult(
            name="x", value=str(broker), config_source=5, documentation=None
        )
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    resource_type=r.resource_type,
                    resource_name=r.resource_name,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    if r.resource_name == "?"
                    else 0,
                    error_message=None,
                    configs=[entry],
                )
                for r in request.resources
            ]
        )

    cluster.script(DescribeConfigsRequest, describe, describe)
    mine, theirs, missing = (
        ConfigResource.topic("t"),
        ConfigResource.broker(2),
        ConfigResource.topic("?"),
    )
    async with admin(cluster) as a:
        results = await a.describe_configs([mine, theirs, missing])
    of_broker = results[theirs]
    assert not isinstance(of_broker, Exception)
    assert of_broker["x"].value == "2"
    assert of_broker["x"].is_default
    assert isinstance(results[mine], dict)
    assert isinstance(results[missing], UnknownTopicOrPartitionError)


async def test_settings_are_changed_one_by_one(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    told = AlterConfigsResourceResponse(
        error_code=ErrorCode.INVALID_CONFIG,
        error_message="retention.ms is no number",
        resource_type=2,
        resource_name="t",
    )
    cluster.script(
        IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse(responses=[told])
    )
    topic = ConfigResource.topic("t")
    changes = [
        ConfigChange("retention.ms", "x"),
        ConfigChange("cleanup.policy", None, ConfigOperation.DELETE),
    ]
    async with admin(cluster) as a:
        results = await a.alter_configs({topic: changes})
    assert isinstance(results[topic], InvalidConfigError)
    (asked,) = cluster.requests_of(IncrementalAlterConfigsRequest)[0].resources
    assert [(c.name, c.config_operation, c.value) for c in asked.configs] == [
        ("retention.ms", 0, "x"),
        ("cleanup.policy", 1, None),
    ]


async def test_the_cluster_and_its_disks_are_described(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    brokers = [DescribeClusterBroker(broker_id=n, host="h", port=n, rack=None) for n in (7, 1)]
    cluster.script(
        DescribeClusterRequest,
        *[DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=brokers)] * 2,
    )
    topic = DescribeLogDirsTopic(
        name="t", partitions=[DescribeLogDirsPartition(partition_index=0, partition_size=500)]
    )
    disk = DescribeLogDirsResult(log_dir="/data", topics=[topic])
    broken = DescribeLogDirsResult(log_dir="/bad", error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    cluster.script(DescribeLogDirsRequest, DescribeLogDirsResponse(results=[disk, broken]))
    async with admin(cluster, request_timeout_ms=1_000) as a:
        described = await a.describe_cluster()
        disks = await a.describe_log_dirs()
    assert described.cluster_id == "c"
    assert [(b.broker_id, str(b.endpoint)) for b in described.brokers] == [(1, "h:1"), (7, "h:7")]
    ours = disks[1]
    assert not isinstance(ours, Exception)
    assert ours.log_dirs[0].replicas[T0].size_bytes == 500
    assert isinstance(ours.log_dirs[1].error, KafkaError)
    assert "no broker 7" in str(disks[7])


async def test_a_refused_description_of_the_cluster_is_raised(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    refused = DescribeClusterResponse(error_code=code, error_message=None)
    cluster.script(DescribeClusterRequest, refused)
    async with admin(cluster) as a:
        with pytest.raises(KafkaError, match="the cluster"):
            await a.describe_cluster()


async def test_the_quorum_is_described_as_a_broker_hears_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    disk, where = b"d" * 16, Endpoint("c9", 9199)
    state = DescribeQuorumReplicaState(
        replica_id=9, log_end_offset=12, replica_directory_id=disk, last_fetch_timestamp=7
    )
    observer = DescribeQuorumReplicaState(replica_id=8, log_end_offset=1)
    partition = DescribeQuorumPartitionData(
        leader_id=9, leader_epoch=3, high_watermark=11, current_voters=[state], observers=[observer]
    )
    topic = DescribeQuorumTopicData(topic_name="__cluster_metadata", partitions=[partition])
    listener = DescribeQuorumListener(name="CONTROLLER", host=where.host, port=where.port)
    nodes = [DescribeQuorumNode(node_id=9, listeners=[listener])]
    cluster.script(DescribeQuorumRequest, DescribeQuorumResponse(topics=[topic], nodes=nodes))
    async with admin(cluster) as a:
        assert await a.describe_quorum() == QuorumDescription(
            9, 3, 11, (QuorumReplica(9, 12, disk, where, 7),), (QuorumReplica(8, 1),)
        )
    (asked,) = cluster.requests_of(DescribeQuorumRequest)[0].topics
    assert (asked.topic_name, [p.partition_index for p in asked.partitions]) == (
        "__cluster_metadata",
        [0],
    )


async def test_voters_are_added_and_removed_by_id_and_directory(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    cluster.script(AddRaftVoterRequest, AddRaftVoterResponse())
    cluster.script(RemoveRaftVoterRequest, RemoveRaftVoterResponse())
    disk = b"d" * 16
    async with admin(cluster) as a:
        await a.add_raft_voter(4, disk, Endpoint("c4", 9194), timeout_ms=1234)
        await a.remove_raft_voter(4, disk)
    (added,) = cluster.requests_of(AddRaftVoterRequest)
    listeners = [(where.name, where.host, where.port) for where in added.listeners]
    assert listeners == [("CONTROLLER", "c4", 9194)]
    assert (added.voter_id, added.voter_directory_id, added.timeout_ms) == (4, disk, 1234)
    (removed,) = cluster.requests_of(RemoveRaftVoterRequest)
    assert (removed.voter_id, removed.voter_directory_id) == (4, disk)


async def test_a_voter_that_is_not_added_or_removed_is_an_error(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    votes = ErrorCode.DUPLICATE_VOTER
    cluster.script(
        AddRaftVoterRequest, AddRaftVoterResponse(error_code=votes, error_message="votes already")
    )
    missing = ErrorCode.VOTER_NOT_FOUND
    cluster.script(RemoveRaftVoterRequest, RemoveRaftVoterResponse(error_code=missing))
    async with admin(cluster) as a:
        with pytest.raises(KafkaError, match="voter 4: votes already"):
            await a.add_raft_voter(4, b"d" * 16, Endpoint("c4", 9194))
        with pytest.raises(KafkaError, match=r"voter 4: .* not in the set"):
            await a.remove_raft_voter(4, b"d" * 16)


async def test_a_quorum_without_a_leader_is_asked_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    electing = AddRaftVoterResponse(error_code=ErrorCode.NOT_CONTROLLER)
    cluster.script(AddRaftVoterRequest, electing, electing, AddRaftVoterResponse())
    async with admin(cluster) as a:
        await a.add_raft_voter(4, b"d" * 16, Endpoint("c4", 9194))
    assert len(cluster.requests_of(AddRaftVoterRequest)) == 3


async def test_a_quorum_that_is_not_described_is_an_error(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    refused = DescribeQuorumPartitionData(error_code=code)
    for response, told in (
        (DescribeQuorumResponse(error_code=code, error_message="no"), "the quorum: no"),
        (DescribeQuorumResponse(topics=[DescribeQuorumTopicData(partitions=[refused])]), "quorum"),
        (DescribeQuorumResponse(), "says nothing"),
    ):
        cluster = cluster_of(nursery)
        cluster.script(DescribeQuorumRequest, response)
        async with admin(cluster) as a:
            with pytest.raises(KafkaError, match=told):
                await a.describe_quorum()


async def test_an_admin_client_is_of_no_use_outside_its_block(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    with pytest.raises(ClosedError):
        await admin(cluster).list_topics()
    cluster.down.add(1)
    with pytest.raises(BootstrapError):
        async with admin(cluster, connect_timeout_ms=100):
            pass


async def test_one_name_instead_of_several_is_refused_and_never_taken_for_its_letters(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    partition: Any = TopicPartition("t", 0)
    async with admin(cluster) as a:
        many: Any = (
            (a.create_topics, "t"),
            (a.describe_topics, "t"),
            (a.describe_topic_partitions, "t"),
            (a.describe_groups, "g"),
            (a.delete_groups, "g"),
            (a.elect_leaders, partition),
            (a.list_partition_reassignments, partition),
        )
        for method, given in many:
            with pytest.raises(TypeError, match="takes several"):
                await method(given)
        for method in (a.list_group_offsets, a.delete_group_offsets):
            with pytest.raises(TypeError, match="takes several"):
                await method("g", partition)
        with pytest.raises(TypeError, match="states takes several"):
            await a.list_groups(states="Stable")
    async with Consumer(cluster.bootstrap, dial=cluster.dial) as c:
        with pytest.raises(TypeError, match=r"assign takes several.*: \[TopicPartition"):
            c.assign(partition)
        for ask in (c.end_offsets, c.beginning_offsets):
            with pytest.raises(TypeError, match="takes several"):
                await ask(partition)


async def test_a_broker_that_takes_connections_and_says_nothing_keeps_nobody_from_the_others(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, brokers=3)
    kept: list[trio.abc.Stream] = []

    async def dial(endpoint: Endpoint) -> trio.abc.Stream:
        if endpoint.port == 3:
            return await cluster.dial(endpoint)
        ours, theirs = trio.testing.memory_stream_pair()
        kept.append(theirs)
        return ours

    for _ in range(3):  # in whatever order they are asked
        began_s = trio.current_time()
        async with Admin(cluster.bootstrap, dial=dial) as a:
            assert [topic.name for topic in await a.list_topics()] == ["t"]
        assert trio.current_time() - began_s < 10, "the time to connect in"


async def test_a_task_that_waits_hears_that_the_client_was_closed(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = FakeCluster(nursery)

    async def wait(admin: Admin) -> None:
        with pytest.raises(ClosedError, match="this admin client was closed"):
            await admin.list_topics()

    async with trio.open_nursery() as others, Admin(cluster.bootstrap, dial=cluster.dial) as admin:
        cluster.script(MetadataRequest, HANG)
        others.start_soon(wait, admin)
        await wait_all_tasks_blocked()


async def test_a_broker_that_hangs_is_not_asked_more_while_others_answer(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = FakeCluster(nursery, brokers=2)

    def hang(broker: int, _request: Any) -> Any:
        return HANG if broker == 1 else None

    async with Admin(cluster.bootstrap, dial=cluster.dial) as admin:
        hanging = await admin.connected().reach(1)
        await admin.connected().reach(2)
        cluster.script(MetadataRequest, *[hang] * 30)
        hanging.submit(ApiKey.METADATA, MetadataRequest(), timeout_ms=30_000)
        with trio.fail_after(1):
            for _ in range(20):
                await admin.list_topics()


async def test_partitions_that_nobody_leads_do_not_hold_up_the_others(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = FakeCluster(nursery, brokers=2)
    logs = cluster.create("t", 20)
    cluster.down.add(2)
    asked = {TopicPartition("t", n): OffsetSpec.LATEST for n in logs}
    async with Admin(cluster.bootstrap, dial=cluster.dial) as admin:
        found = await admin.list_offsets(asked)
    led = {n for n, log in logs.items() if log.leader_id == 1}
    assert {p.partition for p, told in found.items() if isinstance(told, TimestampOffset)} == led
    for partition in asked:
        if partition.partition not in led:
            error = found[partition]
            assert isinstance(error, KafkaError)
            assert error.code is ErrorCode.LEADER_NOT_AVAILABLE
