"""Streams whose partitions go to others: promptly, and without writing for them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import trio
from trio.testing import MockClock

from quorate.client import Producer
from quorate.errors import ErrorCode
from quorate.protocol.messages.data import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from quorate.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from quorate.protocol.messages.topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from quorate.streams import LongSerde, Running, TimeWindows, run, stream
from tests.shell.fake_cluster import FakeCluster
from tests.shell.fake_groups import FakeGroup

COMMIT_INTERVAL_MS = 60_000
LONG = LongSerde()


@asynccontextmanager
async def running() -> AsyncGenerator[tuple[FakeCluster, FakeGroup, Running]]:
    """Copy ``in`` to ``out``, at least once; one record was read, and is not yet committed."""
    async with trio.open_nursery() as nursery:
        cluster = FakeCluster(nursery)
        cluster.create("in", 2)
        cluster.create("out")
        group = FakeGroup(cluster, "copier")
        async with Producer(cluster.bootstrap, dial=cluster.dial) as producer:
            await producer.send("in", b"a", partition=0)
        copy = partial(
            run,
            "copier",
            stream("in").to("out"),
            cluster.bootstrap,
            processing_guarantee="at_least_once",
            commit_interval_ms=COMMIT_INTERVAL_MS,
            dial=cluster.dial,
        )
        yield cluster, group, await nursery.start(copy)
        nursery.cancel_scope.cancel()


async def test_what_was_given_up_is_not_written_and_what_came_back_does_not_wait_for_a_commit(
    autojump_clock: MockClock,
) -> None:
    async with running() as (cluster, group, instance):
        await trio.sleep(5)
        group.rebalancing = True
        with trio.fail_after(COMMIT_INTERVAL_MS / 2_000):
            while instance.statistics.aborts == 0:  # noqa: ASYNC110 - another task counts
                await trio.sleep(0.1)
        assert (group.generation, instance.statistics.tasks) == (2, (0, 1))
        assert cluster.topics["out"][0].values() == []
        with trio.fail_after(2 * COMMIT_INTERVAL_MS / 1_000):
            while instance.statistics.commits == 0:  # noqa: ASYNC110
                await trio.sleep(1)
        assert cluster.topics["out"][0].values() == [b"a"]
        assert group.committed["in", 0][0] == 1


async def test_what_could_not_be_committed_during_an_outage_is_committed_after_it(
    autojump_clock: MockClock,
) -> None:
    async with running() as (cluster, group, instance):
        cluster.script(OffsetCommitRequest, *[refuse_commit] * 150)
        while instance.statistics.aborts < 2:  # noqa: ASYNC110 - another task counts
            await trio.sleep(1)
        assert instance.statistics.commits == 0
        await until_committed(instance)
        assert group.committed["in", 0][0] == 1
        assert set(cluster.topics["out"][0].values()) == {b"a"}


async def test_what_could_not_be_written_during_an_outage_is_read_and_written_again(
    autojump_clock: MockClock,
) -> None:
    async with running() as (cluster, group, instance):
        cluster.handlers[ProduceRequest] = lambda _broker_id, request: refused(request)
        while instance.statistics.aborts < 2:  # noqa: ASYNC110 - another task counts
            await trio.sleep(1)
        assert instance.statistics.commits == 0
        del cluster.handlers[ProduceRequest]
        await until_committed(instance)
        assert group.committed["in", 0][0] == 1
        assert cluster.topics["out"][0].values() == [b"a"]


async def test_what_could_not_be_restored_during_an_outage_is_restored_after_it(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        cluster = FakeCluster(nursery)
        for topic in ("in", "out"):
            cluster.create(topic)
        changelog = cluster.create("sum-changelog")[0]
        FakeGroup(cluster, "sum")
        created = CreateTopicsResponse(topics=[CreatableTopicResult(name="sum-changelog")])
        cluster.handlers[CreateTopicsRequest] = lambda _broker_id, _request: created
        async with Producer(cluster.bootstrap, dial=cluster.dial) as producer:
            await producer.send("in", b"v", key=b"k")
        leader_id, changelog.leader_id = changelog.leader_id, -1
        windows = stream("in").group_by_key().windowed_by(TimeWindows(size_ms=60_000, grace_ms=0))
        count = partial(
            run,
            "sum",
            windows.count().map(lambda window, count: (window.key, count)).to("out", value=LONG),
            cluster.bootstrap,
            processing_guarantee="at_least_once",
            dial=cluster.dial,
        )
        instance = await nursery.start(count)
        await trio.sleep(20)
        assert instance.statistics.records == 0
        changelog.leader_id = leader_id
        await until_committed(instance)
        assert cluster.topics["out"][0].values() == [LONG.serialize("out", 1)]
        nursery.cancel_scope.cancel()


def refuse_commit(_broker_id: int, request: OffsetCommitRequest) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=told.partition_index,
                        error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                    )
                    for told in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def refused(request: ProduceRequest) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=data.index, error_code=ErrorCode.NOT_ENOUGH_REPLICAS
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


async def until_committed(instance: Running) -> None:
    with trio.fail_after(1_000):
        while instance.statistics.commits == 0:  # noqa: ASYNC110 - another task counts
            await trio.sleep(1)


async def test_a_backlog_of_several_topics_is_read_by_the_times_of_its_records(
    autojump_clock: MockClock,
) -> None:
    minutes, topics = 30, ("a", "b")
    async with trio.open_nursery() as nursery:
        cluster = FakeCluster(nursery)
        for topic in (*topics, "out", "sum-changelog"):
            cluster.create(topic)
        FakeGroup(cluster, "sum")
        created = CreateTopicsResponse(topics=[CreatableTopicResult(name="sum-changelog")])
        cluster.handlers[CreateTopicsRequest] = lambda _broker_id, _request: created
        async with Producer(cluster.bootstrap, dial=cluster.dial) as producer:
            for topic in topics:
                for second in range(60 * minutes):
                    await producer.enqueue(topic, b"v", key=b"k", timestamp_ms=second * 1_000)
        pipeline = (
            stream(*topics)
            .group_by_key()
            .windowed_by(TimeWindows(size_ms=60_000, grace_ms=0), emit="on_window_close")
            .count()
            .map(lambda window, count: (window.key, count))
            .to("out", value=LongSerde())
        )
        count = partial(
            run,
            "sum",
            pipeline,
            cluster.bootstrap,
            processing_guarantee="at_least_once",
            dial=cluster.dial,
        )
        with trio.fail_after(60):
            instance = await nursery.start(count)
            while instance.statistics.records < 2 * 60 * minutes:  # noqa: ASYNC110
                await trio.sleep(1)
        assert instance.statistics.late == 0
        counts = [LongSerde().deserialize("", v or b"") for v in cluster.topics["out"][0].values()]
        assert counts == [2 * 60] * (minutes - 1)
        nursery.cancel_scope.cancel()
