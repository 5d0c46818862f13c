# pyright: reportPrivateUsage=false

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from quorate.client import (
    BootstrapError,
    ClosedError,
    Consumer,
    Delivery,
    LogTruncationError,
    NoOffsetError,
    NotAssignedError,
    Producer,
    Record,
    TimestampOffset,
    TopicPartition,
)
from quorate.errors import CorruptRecordError, ErrorCode, KafkaError, UnknownTopicOrPartitionError
from quorate.protocol.apis import APIS
from quorate.protocol.messages.data import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    PartitionData,
)
from quorate.protocol.messages.metadata import MetadataRequest
from quorate.protocol.messages.session import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from quorate.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, seal_batch
from quorate.records.compression import Codec
from quorate.records.record import NO_PRODUCER, RecordBatchBuilder
from tests.shell.fake_cluster import DROP, HANG, ApiKey, FakeCluster, FakeLog

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def consumer(cluster: FakeCluster, reset: Any = "earliest", **settings: Any) -> Consumer:
    return Consumer(cluster.bootstrap, auto_offset_reset=reset, dial=cluster.dial, **settings)


def write(log: FakeLog, count: int, *, batch: int = 5, time_ms: int = 1_000) -> None:
    """Append records with their offset as value, one millisecond after the other."""
    while count > 0:
        builder = RecordBatchBuilder()
        for number in range(log.end_offset, log.end_offset + min(batch, count)):
            builder.append(time_ms + number, None, b"%d" % number, b"", 30)
        log.append(builder.build(Codec.NONE, NO_PRODUCER))
        count -= batch


def marker() -> bytearray:
    """Return the end of a transaction, which consumers do not see."""
    builder = RecordBatchBuilder()
    builder.append(1_000, b"\x00\x00\x00\x01", bytes(6), b"", 40)
    return seal_batch(
        builder.encode(),
        attributes=CONTROL_BIT | TRANSACTIONAL_BIT,
        record_count=1,
        base_timestamp_ms=1_000,
        max_timestamp_ms=1_000,
        producer=NO_PRODUCER,
    )


def cluster_of(
    nursery: trio.Nursery, *, records: int, partitions: int = 1, batch: int = 5
) -> FakeCluster:
    cluster = FakeCluster(nursery)
    for log in cluster.create("t", partitions).values():
        write(log, records, batch=batch)
    return cluster


def places(records: list[Record]) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in records]


async def read(c: Consumer, count: int) -> list[Record]:
    records: list[Record] = []
    while len(records) < count:
        found = await c.poll(max_records=count - len(records), timeout_ms=60_000)
        assert found, "nothing came in a minute"
        records += found
    return records


def refuse(code: ErrorCode) -> FetchResponse:
    data = PartitionData(partition_index=0, error_code=code)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])


async def test_from_the_beginning_every_record_comes_once_and_in_order(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=1_000, partitions=3)
    async with consumer(cluster, max_partition_fetch_bytes=500) as c:
        await c.assign_topics("t")
        records = await read(c, 3_000)
        assert await c.poll(timeout_ms=100) == []
    for partition in range(3):
        assert [r.offset for r in records if r.partition == partition] == list(range(1_000))
    assert all(record.value == b"%d" % record.offset for record in records)


@pytest.mark.parametrize("batch", [5, 7, 100])
async def test_a_poll_gives_out_as_many_records_as_asked_for_and_never_more(
    nursery: trio.Nursery, autojump_clock: MockClock, batch: int
) -> None:
    cluster = cluster_of(nursery, records=100, partitions=2, batch=batch)
    sizes: list[int] = []
    async with consumer(cluster, max_poll_records=7, fetch_max_bytes=900) as c:
        await c.assign_topics("t")
        while sum(sizes) < 200:
            sizes.append(len(await c.poll()))
    assert max(sizes) == 7
    fetches = cluster.requests_of(FetchRequest)
    assert {request.max_bytes for request in fetches} == {900}


async def test_no_more_is_fetched_ahead_than_is_configured(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=1_000, partitions=3)
    limit = 500
    async with consumer(cluster, max_partition_fetch_bytes=limit) as c:
        await c.assign_topics("t")
        await read(c, 1)
        await trio.sleep(60)
        asked = len(cluster.requests_of(FetchRequest))
        assert c._reading is not None
        buffered = [stream.buffered_bytes for stream in c._reading.streams.values()]
        assert all(limit <= size_bytes <= 2 * limit for size_bytes in buffered)
        await trio.sleep(60)
        assert len(cluster.requests_of(FetchRequest)) == asked, "nobody takes what there is"


async def test_more_is_fetched_when_nobody_is_to_see_what_there_was(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = FakeCluster(nursery)
    log = cluster.create("t")[0]
    unseen = marker()
    log.append(unseen)
    write(log, 5, batch=1)
    async with consumer(cluster, max_partition_fetch_bytes=len(unseen)) as c:
        c.assign([T0])
        began = trio.current_time()
        assert [r.offset for r in await read(c, 5)] == [1, 2, 3, 4, 5]
        assert trio.current_time() - began < 0.1


async def test_iteration_goes_on_when_more_is_written(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10)
    offsets: list[int] = []
    async with consumer(cluster) as c:
        c.assign([T0])
        async for record in c:
            offsets.append(record.offset)
            assert await c.position(T0) == record.offset + 1
            if record.offset == 9:
                write(cluster.topics["t"][0], 10)
                cluster.appended.unpark_all()
            if record.offset == 19:
                break
    assert offsets == list(range(20))


async def test_from_the_end_only_what_is_written_later_comes(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10)
    async with consumer(cluster, "latest") as c:
        c.assign([T0])
        assert await c.position(T0) == 10
        write(cluster.topics["t"][0], 3)
        assert places(await read(c, 3)) == [(0, 10), (0, 11), (0, 12)]


async def test_without_a_position_and_a_policy_there_is_an_error(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10)
    async with consumer(cluster, "none") as c:
        c.assign([T0])
        with pytest.raises(NoOffsetError, match="has no position"):
            await c.poll()
        with pytest.raises(NoOffsetError):
            await c.position(T0)
        c.seek(T0, 4)
        assert places(await read(c, 2)) == [(0, 4), (0, 5)]


async def test_reading_may_begin_anywhere_and_jump(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=1_000)
    async with consumer(cluster) as c:
        c.assign([("t", 0)])
        c.seek(T0, 503)
        assert places(await c.poll(max_records=2)) == [(0, 503), (0, 504)]
        async for record in c:
            assert record.offset == 505
            break
        c.seek(("t", 0), 7)
        assert places(await c.poll(max_records=1)) == [(0, 7)]
        c.seek_to_end()
        assert await c.poll(timeout_ms=50) == []
        c.seek_to_beginning(T0)
        assert places(await read(c, 1)) == [(0, 0)]
        with pytest.raises(ValueError, match="offset is -1"):
            c.seek(T0, -1)


async def test_reading_may_begin_at_a_time(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=100, partitions=2)
    async with consumer(cluster) as c:
        c.assign([T0, T1])
        await c.seek_to_time(1_042)
        found = sorted(places(await read(c, 116)))
        assert (found[0], found[58]) == ((0, 42), (1, 42))
        await c.seek_to_time(9_999, T0)
        assert await c.position(T0) == 100
        found_times = await c.offsets_for_times({T0: 1_050, T1: 9_999})
        assert found_times == {T0: TimestampOffset(50, 1_050, 0), T1: None}
        assert await c.beginning_offsets([T0, T1]) == {T0: 0, T1: 0}
        assert await c.end_offsets([("t", 1)]) == {T1: 100}


@pytest.mark.parametrize(("reset", "offset"), [("earliest", 40), ("latest", 100)])
async def test_positions_out_of_range_follow_the_policy(
    nursery: trio.Nursery, autojump_clock: MockClock, reset: str, offset: int
) -> None:
    cluster = cluster_of(nursery, records=100)
    log = cluster.topics["t"][0]
    async with consumer(cluster, reset) as c:
        c.assign([T0])
        c.seek(T0, 5)
        log.start_offset = 40
        log.batches = log.batches[8:]
        await c.poll(timeout_ms=50)
        write(log, 1)
        await c.poll(timeout_ms=50)
        c.seek(T0, 3)
        await c.poll(max_records=1, timeout_ms=1_000)
        assert await c.position(T0) in {offset, offset + 1}


async def test_a_position_of_a_partition_that_is_taken_away_is_not_waited_for(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10)
    cluster.script(ListOffsetsRequest, HANG)
    async with consumer(cluster) as c, trio.open_nursery() as asking:
        c.assign([T0])

        async def ask() -> None:
            with trio.fail_after(1), pytest.raises(NotAssignedError, match="t-0"):
                await c.position(T0)

        asking.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        c.assign([])


async def test_a_position_that_nobody_tells_is_not_waited_for_without_an_end(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10)
    cluster.script(ListOffsetsRequest, *[HANG] * 100)
    async with consumer(cluster, request_timeout_ms=3_000) as c:
        c.assign([T0])
        with trio.fail_after(4), pytest.raises(KafkaError, match="leader has not answered within"):
            await c.position(T0)
        cluster.scripts[ListOffsetsRequest].clear()
        assert await c.wait_for_position(T0) == 0


async def test_a_position_out_of_range_is_an_error_without_a_policy(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10)
    async with consumer(cluster, "none") as c:
        c.assign([T0])
        c.seek(T0, 50)
        with pytest.raises(NoOffsetError, match="t-0 has no offset 50"):
            await c.poll()


async def test_a_new_leader_is_followed_without_skipping_or_repeating(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = FakeCluster(nursery, brokers=2)
    log = cluster.create("t")[0]
    write(log, 100)
    async with consumer(cluster, max_partition_fetch_bytes=200) as c:
        c.assign([T0])
        first = await read(c, 20)
        log.leader_id, log.leader_epoch = 2, 1
        rest = await read(c, 80)
    assert [r.offset for r in first + rest] == list(range(100))


async def test_broken_connections_cost_nothing_but_time(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=200)
    cluster.script(FetchRequest, *[None, DROP] * 20)
    cluster.script(ListOffsetsRequest, DROP)
    async with consumer(cluster, max_partition_fetch_bytes=200) as c:
        c.assign([T0])
        assert [r.offset for r in await read(c, 200)] == list(range(200))


async def test_a_broker_that_restarts_is_read_on(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=20)
    async with consumer(cluster) as c:
        c.assign([T0])
        await read(c, 20)
        await cluster.stop(1)
        assert await c.poll(timeout_ms=5_000) == []
        cluster.down.clear()
        write(cluster.topics["t"][0], 5)
        assert [r.offset for r in await read(c, 5)] == [20, 21, 22, 23, 24]


async def test_a_fetch_that_is_never_answered_is_repeated(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=5)
    cluster.script(FetchRequest, HANG)
    async with consumer(cluster, request_timeout_ms=1_000) as c:
        c.assign([T0])
        assert len(await read(c, 5)) == 5


async def test_paused_partitions_keep_quiet_and_go_on_later(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10, partitions=2)
    async with consumer(cluster) as c:
        c.assign([T0, T1])
        c.pause(T0)
        assert {r.partition for r in await read(c, 10)} == {1}
        assert await c.poll(timeout_ms=50) == []
        c.resume(("t", 0))
        assert places(await read(c, 10)) == [(0, n) for n in range(10)]


async def test_an_iteration_gives_out_nothing_of_a_partition_that_is_paused_in_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10)
    found: list[Record] = []
    async with consumer(cluster) as c:
        c.assign([T0])
        with trio.move_on_after(60):
            async for record in c:
                found.append(record)
                c.pause(T0)
        assert places(found) == [(0, 0)]
        assert await c.position(T0) == 1
        c.resume(T0)
        found += await read(c, 9)
    assert places(found) == [(0, n) for n in range(10)]


async def test_partitions_that_stay_assigned_go_on_where_they_are(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10, partitions=2)
    async with consumer(cluster) as c:
        c.assign([T0])
        await read(c, 4)
        c.assign([T0, T1])
        assert c.assignment == {T0, T1}
        rest = places(await read(c, 16))
        assert sorted(rest) == [(0, n) for n in range(4, 10)] + [(1, n) for n in range(10)]
        c.assign([])
        assert await c.poll(timeout_ms=10) == []
        with pytest.raises(NotAssignedError, match="t-0 is not assigned"):
            c.seek(T0, 1)


async def test_a_partition_that_metadata_tells_of_later_is_waited_for(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10)
    async with consumer(cluster) as c:
        assert await c.end_offsets([T0]) == {T0: 10}
        c.assign([("t", 1)])
        await trio.sleep(1)
        cluster.topics["t"][1] = cluster.topics["t"][0]
        assert len(await read(c, 10)) == 10


async def test_a_topic_or_partition_that_does_not_exist_is_named(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10)
    async with consumer(cluster) as c:
        c.assign([T0, ("t", 7)])
        await trio.sleep(1)
        with pytest.raises(UnknownTopicOrPartitionError, match="no partition 7"):
            await read(c, 100)
        c.assign([("nope", 0)])
        with pytest.raises(UnknownTopicOrPartitionError, match="no topic 'nope'"):
            await read(c, 1)
        with pytest.raises(UnknownTopicOrPartitionError, match="no topic 'nope'"):
            await c.assign_topics("nope")
        with pytest.raises(ValueError, match="t--1 is not a partition"):
            c.assign([("t", -1)])
    assert not any(r.allow_auto_topic_creation for r in cluster.requests_of(MetadataRequest))


async def test_a_topic_that_appears_after_it_was_missed_can_be_read(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = FakeCluster(nursery)
    async with consumer(cluster) as c:
        c.assign([T0])
        with pytest.raises(UnknownTopicOrPartitionError):
            await c.poll(timeout_ms=60_000)
        write(cluster.create("t")[0], 5)
        c.seek(T0, 0)
        assert places(await read(c, 5)) == [(0, n) for n in range(5)]


async def test_a_partition_that_is_assigned_in_an_outage_is_read_after_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10)
    async with consumer(cluster) as c:
        await cluster.stop(1)
        c.assign([T0])
        assert await c.poll(timeout_ms=10_000) == []
        cluster.down.clear()
        assert places(await read(c, 10)) == [(0, n) for n in range(10)]


async def test_a_partition_that_is_assigned_anew_while_it_is_looked_for_is_missed_as_well(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = FakeCluster(nursery)
    async with consumer(cluster) as c:
        for partitions in ([T0], [], [T0]):
            c.assign(partitions)
            await trio.sleep(1)
        with pytest.raises(UnknownTopicOrPartitionError):
            await c.poll(timeout_ms=60_000)


async def test_a_partition_that_cannot_be_read_does_not_stop_the_others(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10, partitions=2)
    damaged = bytearray(cluster.topics["t"][0].batches[1])
    damaged[-1] ^= 1
    cluster.topics["t"][0].batches[1] = bytes(damaged)
    found: list[Record] = []
    errors = 0
    async with consumer(cluster) as c:
        c.assign([T0, T1])
        while len(found) < 15 or not errors:
            try:
                found += await c.poll(max_records=1)
            except CorruptRecordError:
                errors += 1
        c.seek(T0, 10)
        assert await c.poll(timeout_ms=50) == []
    assert sorted(places(found)) == [(0, n) for n in range(5)] + [(1, n) for n in range(10)]


async def test_a_damaged_batch_does_not_take_records_of_others_along(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10, partitions=2)
    damaged = bytearray(cluster.topics["t"][1].batches[0])
    damaged[-1] ^= 1
    cluster.topics["t"][1].batches[0] = bytes(damaged)
    async with consumer(cluster) as c:
        c.assign([T0, T1])
        await trio.sleep(1)  # both are fetched, and one poll takes from both
        found = await c.poll()
        with pytest.raises(CorruptRecordError, match="checksum"):
            await c.poll()
    assert places(found) == [(0, n) for n in range(10)]


async def test_nobody_waits_for_a_partition_with_few_records_and_one_with_many(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=100, partitions=3)
    async with consumer(cluster) as c:
        c.assign([T0, T1, TopicPartition("t", 2)])
        await read(c, 100)
        found: list[Record] = []
        for _ in range(12):
            write(cluster.topics["t"][0], 1)
            await trio.sleep(1)
            found += await c.poll(max_records=10)
    assert {record.partition for record in found[-40:]} == {0, 1, 2}


async def test_what_a_broker_refuses_to_show_is_an_error(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10)
    cluster.script(FetchRequest, refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    async with consumer(cluster) as c:
        c.assign([T0])
        with pytest.raises(KafkaError, match="cannot read t-0"):
            await read(c, 1)


async def test_a_leader_that_is_not_ready_is_asked_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10)
    cluster.script(FetchRequest, *[refuse(ErrorCode.OFFSET_NOT_AVAILABLE)] * 5)
    not_yet = ListOffsetsPartitionResponse(error_code=ErrorCode.LEADER_NOT_AVAILABLE)
    answer = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[not_yet])])
    cluster.script(ListOffsetsRequest, answer, ListOffsetsResponse())
    async with consumer(cluster) as c:
        c.assign([T0])
        assert len(await read(c, 10)) == 10
        cluster.script(ListOffsetsRequest, answer, ListOffsetsResponse())
        assert await c.end_offsets([T0]) == {T0: 10}


async def test_offsets_are_asked_of_who_leads_when_the_leader_is_gone(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = FakeCluster(nursery, brokers=2)
    log = cluster.create("t")[0]
    write(log, 5)
    async with consumer(cluster) as c:
        assert await c.end_offsets([T0]) == {T0: 5}
        await cluster.stop(1)
        log.leader_id, log.leader_epoch = 2, 1
        with trio.fail_after(5):
            assert await c.end_offsets([T0]) == {T0: 5}


async def test_offsets_of_a_partition_without_a_leader_are_an_error(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10)
    cluster.topics["t"][0].leader_id = -1
    async with consumer(cluster) as c:
        with pytest.raises(KafkaError, match="nobody leads t-0"):
            await c.end_offsets([T0])
        with pytest.raises(UnknownTopicOrPartitionError, match="no partition 4"):
            await c.end_offsets([("t", 4)])


async def test_long_polls_do_not_hold_up_other_questions(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=1)
    async with consumer(cluster, fetch_max_wait_ms=30_000) as c:
        c.assign([T0])
        await read(c, 1)
        await c.poll(timeout_ms=10)
        began = trio.current_time()
        assert await c.end_offsets([T0]) == {T0: 1}
        assert trio.current_time() - began < 0.1


async def test_polling_needs_room_for_a_record(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=1)
    async with consumer(cluster) as c:
        with pytest.raises(ValueError, match="max_records is 0"):
            await c.poll(max_records=0)
        assert await c.poll(timeout_ms=0) == []


async def test_a_consumer_is_of_no_use_outside_its_block(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=1)
    c = consumer(cluster)
    with pytest.raises(ClosedError):
        c.assign([T0])
    async with c:
        pass
    with pytest.raises(ClosedError):
        await c.poll()
    cluster.down.add(1)
    with pytest.raises(BootstrapError):
        async with consumer(cluster, connect_timeout_ms=100):
            pass


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"isolation_level": "serializable"}, "no isolation_level 'serializable'"),
        ({"auto_offset_reset": "middle"}, "middle"),
        ({"fetch_max_bytes": 0}, "fetch_max_bytes is 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Consumer("127.0.0.1:9092", **settings)


async def test_what_a_producer_sends_a_consumer_reads(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=0, partitions=4)
    deliveries: dict[bytes, Delivery] = {}
    async with Producer(cluster.bootstrap, dial=cluster.dial) as p, consumer(cluster) as c:
        await c.assign_topics("t")
        for number in range(2_000):
            value = b"%d" % number
            deliveries[value] = await p.enqueue("t", value, key=value[:2], headers=[("n", value)])
        records = await read(c, 2_000)
    assert {(r.partition, r.offset, r.value) for r in records} == {
        (d.metadata.partition, d.metadata.offset, value) for value, d in deliveries.items()
    }
    assert all(r.headers == (("n", r.value),) for r in records)


@pytest.mark.parametrize("reset", ["earliest", "none"])
async def test_records_that_an_unclean_election_took_are_missed(
    nursery: trio.Nursery, autojump_clock: MockClock, reset: str
) -> None:
    cluster = FakeCluster(nursery, brokers=2)
    log = cluster.create("t")[0]
    write(log, 20)
    async with consumer(cluster, reset) as c:
        c.assign([T0])
        if reset == "none":
            c.seek(T0, 0)
        assert len(await read(c, 20)) == 20
        log.truncate(15)
        log.leader_id, log.leader_epoch = 2, 1
        write(log, 10)
        if reset == "none":
            with pytest.raises(LogTruncationError, match="t-0 was truncated") as caught:
                await read(c, 1)
            assert (caught.value.offset, caught.value.diverging_offset) == (20, 15)
            c.seek(T0, 15)
        assert [r.offset for r in await read(c, 10)] == list(range(15, 25))


async def test_a_committed_offset_tells_of_a_log_that_was_truncated_meanwhile(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = FakeCluster(nursery)
    log = cluster.create("t")[0]
    write(log, 15)
    log.leader_epoch = 2
    write(log, 20)
    async with consumer(cluster, "earliest") as c:
        c.assign([T0])
        c.seek(T0, 20, leader_epoch=1)
        assert (await read(c, 1))[0].offset == 15


async def test_brokers_that_cannot_tell_ends_of_epochs_are_read_all_the_same(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=10)
    old = [
        ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
        for api in APIS.values()
        if api.key != ApiKey.OFFSET_FOR_LEADER_EPOCH
    ]
    cluster.script(ApiVersionsRequest, *[ApiVersionsResponse(api_keys=old)] * 5)
    async with consumer(cluster) as c:
        c.assign([T0])
        c.seek(T0, 4, leader_epoch=-1)
        c.seek(T0, 4, leader_epoch=0)
        cluster.topics["t"][0].leader_epoch = 1
        assert (await read(c, 1))[0].offset == 4


async def position(c: Consumer) -> int:
    return await c.position(T0)


async def next_record(c: Consumer) -> Record:
    return await anext(c)


async def poll(c: Consumer) -> list[Record]:
    return await c.poll(timeout_ms=60_000)


async def ends(c: Consumer) -> dict[TopicPartition, int]:
    return await c.end_offsets([T0])


async def partitions(c: Consumer) -> list[int]:
    return await c.partitions_of("nothing")


@pytest.mark.parametrize("work", [position, next_record, poll, ends, partitions])
async def test_a_task_that_waits_hears_that_the_consumer_was_closed(
    nursery: trio.Nursery, autojump_clock: MockClock, work: Callable[[Consumer], Awaitable[object]]
) -> None:
    cluster = cluster_of(nursery, records=0)
    cluster.script(ListOffsetsRequest, HANG, HANG)
    heard: list[float] = []

    async def wait(c: Consumer) -> None:
        with pytest.raises(ClosedError, match="this consumer was closed"):
            await work(c)
        heard.append(trio.current_time())

    with trio.fail_after(1_000):
        async with trio.open_nursery() as others:
            async with consumer(cluster) as c:
                c.assign([T0])
                others.start_soon(wait, c)
                await wait_all_tasks_blocked()
            closed = trio.current_time()
    assert heard[0] - closed < 0.5


@pytest.mark.parametrize(
    "partition", [("t", 0.0), ("t", 2**31), ("t", "0"), (b"t", 0), ("half a \ud800", 0)]
)
async def test_partitions_that_cannot_be_asked_for_are_refused(
    nursery: trio.Nursery, autojump_clock: MockClock, partition: Any
) -> None:
    async with consumer(cluster_of(nursery, records=1)) as c:
        with pytest.raises((TypeError, ValueError)):
            c.assign([partition])
        c.assign([T0])
        assert len(await c.poll()) == 1


@pytest.mark.parametrize(
    ("offset", "epoch"), [(2**63, -1), (0.0, -1), ("0", -1), (0, 2**31), (0, -2)]
)
async def test_offsets_that_cannot_be_asked_for_are_refused(
    nursery: trio.Nursery, autojump_clock: MockClock, offset: Any, epoch: Any
) -> None:
    async with consumer(cluster_of(nursery, records=1)) as c:
        c.assign([T0])
        with pytest.raises(ValueError, match=r"^offset is|^leader_epoch is"):
            c.seek(T0, offset, leader_epoch=epoch)
        assert len(await c.poll()) == 1


@pytest.mark.parametrize("topic", [b"t", None, "half a \ud800"])
async def test_topics_that_cannot_be_asked_for_are_refused(
    nursery: trio.Nursery, autojump_clock: MockClock, topic: Any
) -> None:
    async with consumer(cluster_of(nursery, records=1), group_id="g") as c:
        with pytest.raises((TypeError, ValueError), match="topic is"):
            c.subscribe([topic])
        with pytest.raises((TypeError, ValueError), match="topic is"):
            await c.partitions_of(topic)
        with pytest.raises((TypeError, ValueError), match="topic is"):
            await c.commit({TopicPartition(topic, 0): 1})
        c.assign([(T0)])
        assert c.assignment == {T0}


@pytest.mark.parametrize("setting", ["group_id", "group_instance_id", "client_rack"])
async def test_names_that_cannot_be_sent_are_refused(setting: str) -> None:
    with pytest.raises(TypeError, match=setting):
        Consumer("broker:1", **{"group_id": "g", setting: b"x"})  # type: ignore[arg-type]


async def test_a_leader_that_is_missing_is_looked_for_less_often_the_longer_that_takes(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, records=3)
    log = cluster.topics["t"][0]
    async with consumer(cluster) as c:
        c.assign([T0])
        assert len(await c.poll()) == 3
        await trio.sleep(200)
        log.leader_id, log.leader_epoch = -1, 1
        await cluster.stop(1)
        cluster.down.clear()
        counts: list[int] = []
        for seconds in (1, 59, 60):
            before = len(cluster.requests_of(MetadataRequest))
            await trio.sleep(seconds)
            counts.append(len(cluster.requests_of(MetadataRequest)) - before)
        assert counts[0] > 5
        assert counts[2] < 70
        write(log, 1)
        log.leader_id, log.leader_epoch = 1, 2
        assert [r.offset for r in await c.poll(timeout_ms=1_500)] == [3]
