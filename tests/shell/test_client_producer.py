import itertools
from collections import deque
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from quorate.client import (
    BootstrapError,
    BufferFullError,
    ClosedError,
    Delivery,
    DeliveryTimeoutError,
    NetworkError,
    Producer,
    sender,  # its clock
)
from quorate.errors import (
    ErrorCode,
    KafkaError,
    MessageTooLargeError,
    UnknownTopicOrPartitionError,
)
from quorate.protocol.messages.data import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from quorate.protocol.messages.metadata import MetadataRequest
from quorate.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from quorate.records.batch import parse_header
from tests.shell.fake_cluster import DROP, HANG, LOSE, FakeCluster, topic_id_of


def producer(cluster: FakeCluster, **settings: Any) -> Producer:
    return Producer(cluster.bootstrap, dial=cluster.dial, **settings)


def cluster_of(nursery: trio.Nursery, topic: str = "t", partitions: int = 1) -> FakeCluster:
    cluster = FakeCluster(nursery)
    cluster.create(topic, partitions)
    return cluster


async def enqueue(p: Producer, count: int) -> None:
    for _ in range(count):
        await p.enqueue("t", bytes(100))


def refuse(code: ErrorCode) -> ProduceResponse:
    refused = PartitionProduceResponse(index=0, error_code=code, base_offset=-1)
    return ProduceResponse(
        responses=[
            TopicProduceResponse(name="t", topic_id=topic_id_of("t"), partition_responses=[refused])
        ]
    )


async def test_a_record_that_was_sent_has_a_place_and_a_time(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    async with producer(cluster) as p:
        first = await p.send("t", b"a", key=b"k", headers=[("h", b"x")], timestamp_ms=123)
        second = await p.send("t", None)
    assert (first.topic, first.partition, first.offset) == ("t", 0, 0)
    assert (first.timestamp_ms, second.offset) == (123, 1)
    records = cluster.topics["t"][0].records()
    assert [(r.key, r.value, r.headers) for r in records] == [
        (b"k", b"a", (("h", b"x"),)),
        (None, None, ()),
    ]


async def test_records_without_a_key_spread_evenly(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, partitions=4)
    async with producer(cluster) as p:
        for number in range(100_000):
            await p.enqueue("t", b"%020d" % number)
    counts = [log.end_offset for log in cluster.topics["t"].values()]
    assert sum(counts) == 100_000
    assert all(23_750 <= count <= 26_250 for count in counts), counts


async def test_the_same_key_goes_to_the_same_partition(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, partitions=3)
    async with producer(cluster) as p:
        for number in range(300):
            await p.enqueue("t", b"%d" % number, key=b"key-%d" % (number % 7))
    places = {
        (record.key, partition)
        for partition, log in cluster.topics["t"].items()
        for record in log.records()
    }
    assert len(places) == 7
    for log in cluster.topics["t"].values():
        values = [int(value or b"") for value in log.values()]
        assert values == sorted(values)


async def test_a_partition_that_was_named_is_used(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, partitions=4)
    async with producer(cluster) as p:
        for _ in range(50):
            await p.enqueue("t", b"x", key=b"k", partition=2)
        assert await p.partitions_of("t") == [0, 1, 2, 3]
    assert [log.end_offset for log in cluster.topics["t"].values()] == [0, 0, 50, 0]


async def test_a_partition_that_does_not_exist_is_refused_and_nothing_is_written(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    async with producer(cluster) as p:
        for _ in range(2):
            with pytest.raises(UnknownTopicOrPartitionError, match="no partition 99; it has 1"):
                await p.send("t", b"x", partition=99)
    assert cluster.requests_of(ProduceRequest) == []


async def test_a_custom_partitioner_is_asked_and_obeyed(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, partitions=3)
    asked: list[Any] = []

    def choose(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        asked.append((topic, key, value, count))
        return 1

    async with producer(cluster, partitioner=choose) as p:
        await p.send("t", b"v", key=b"k")
        await p.send("t", b"w")
    assert asked == [("t", b"k", b"v", 3), ("t", None, b"w", 3)]
    assert cluster.topics["t"][1].values() == [b"v", b"w"]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_batches_are_compressed_as_asked(nursery: trio.Nursery, compression: str) -> None:
    cluster = cluster_of(nursery)
    async with producer(cluster, compression=compression) as p:
        for number in range(2_000):
            await p.enqueue("t", b"line %06d of a log" % number)
    log = cluster.topics["t"][0]
    assert log.values() == [b"line %06d of a log" % number for number in range(2_000)]
    names = ["none", "gzip", "snappy", "lz4", "zstd"]
    assert names[parse_header(log.batches[0], 0).compression] == compression


@pytest.mark.parametrize("between_looks_ms", [4, 6])
async def test_a_linger_that_ends_while_the_sender_looks_is_seen(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    between_looks_ms: int,
) -> None:
    cluster = cluster_of(nursery)
    late_ms = itertools.count(step=between_looks_ms)  # on a busy machine
    async with producer(cluster, linger_ms=5) as p:
        await p.send("t", b"first")
        monkeypatch.setattr(
            sender, "now_ms", lambda: int(trio.current_time() * 1000) + next(late_ms)
        )
        with trio.fail_after(60):
            await p.send("t", b"second")


async def test_records_that_linger_share_a_batch(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    async with producer(cluster, linger_ms=20) as p:
        await p.partitions_of("t")
        for number in range(10):
            await p.enqueue("t", b"%d" % number)
            await trio.sleep(0.001)
    assert len(cluster.topics["t"][0].batches) == 1


async def test_without_acks_nobody_knows_the_offset(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    async with producer(cluster, acks=0) as p:
        assert (await p.send("t", b"x")).offset == -1
        while not cluster.requests_of(ProduceRequest):
            await trio.lowlevel.checkpoint()
    await wait_all_tasks_blocked()
    assert cluster.topics["t"][0].values() == [b"x"]
    assert cluster.requests_of(ProduceRequest)[0].acks == 0


async def test_with_one_ack_batches_carry_no_producer_id(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    async with producer(cluster, acks=1) as p:
        await p.send("t", b"x")
    assert not parse_header(cluster.topics["t"][0].batches[0], 0).has_producer_id
    assert cluster.requests_of(InitProducerIdRequest) == []


async def test_lost_answers_do_not_repeat_records(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    cluster.script(ProduceRequest, *[LOSE, None, DROP, LOSE] * 30)
    async with producer(cluster, linger_ms=0, batch_size_bytes=200) as p:
        deliveries = [await p.enqueue("t", b"%d" % number) for number in range(300)]
    values = cluster.topics["t"][0].values()
    assert values == [b"%d" % number for number in range(300)]
    assert all(delivery.error is None for delivery in deliveries)


async def test_without_retries_a_lost_answer_is_an_error(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    cluster.script(ProduceRequest, LOSE)
    async with producer(cluster, retries=0) as p:
        with pytest.raises(NetworkError):
            await p.send("t", b"x")
        assert (await p.send("t", b"y")).offset in {1, -1}
    assert cluster.topics["t"][0].values() == [b"x", b"y"]


async def test_a_new_leader_is_found(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    cluster = FakeCluster(nursery, brokers=2)
    log = cluster.create("t")[0]
    async with producer(cluster) as p:
        await p.send("t", b"a")
        log.leader_id, log.leader_epoch = 2, 1
        assert (await p.send("t", b"b")).offset == 1
    asked = [broker for broker, r in cluster.requests if isinstance(r, ProduceRequest)]
    assert (asked[:2], asked[-1]) == ([1, 1], 2)


async def test_records_wait_for_a_broker_that_comes_back(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    async with producer(cluster) as p:
        await p.send("t", b"0")
        await cluster.stop(1)
        deliveries = [await p.enqueue("t", b"%d" % number) for number in range(1, 50)]
        await trio.sleep(20)
        assert not any(delivery.done for delivery in deliveries)
        cluster.down.clear()
        await p.flush()
        assert [(await d.result()).offset for d in deliveries] == list(range(1, 50))
    assert cluster.topics["t"][0].values() == [b"%d" % number for number in range(50)]


async def test_a_broker_that_stays_away_makes_records_fail_in_time(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    async with producer(cluster, delivery_timeout_ms=3_000) as p:
        await p.send("t", b"a")
        await cluster.stop(1)
        began = trio.current_time()
        with pytest.raises(DeliveryTimeoutError, match="Connection refused"):
            await p.send("t", b"b")
        assert 2.9 <= trio.current_time() - began <= 3.2


async def test_a_request_that_is_never_answered_is_sent_again_elsewhere(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    cluster.script(ProduceRequest, HANG)
    async with producer(cluster, request_timeout_ms=1_000) as p:
        began = trio.current_time()
        await p.send("t", b"a")
        assert trio.current_time() - began < 4
    assert cluster.topics["t"][0].values() == [b"a"]


async def test_batches_that_are_too_large_are_sent_in_parts(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)

    def limit(broker_id: int, request: ProduceRequest) -> Any:
        (data,) = request.topic_data[0].partition_data
        assert data.records is not None
        return refuse(ErrorCode.MESSAGE_TOO_LARGE) if len(data.records) > 300 else None

    cluster.script(ProduceRequest, *[limit] * 1_000)
    async with producer(cluster) as p:
        deliveries = [await p.enqueue("t", b"%0100d" % number) for number in range(50)]
        with pytest.raises(MessageTooLargeError, match="t-0 refused 1 records"):
            await p.send("t", bytes(400))
    assert [delivery.metadata.offset for delivery in deliveries] == list(range(50))
    assert cluster.topics["t"][0].values() == [b"%0100d" % number for number in range(50)]


async def test_a_record_that_brokers_refuse_fails_and_the_next_one_does_not(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    cluster.script(ProduceRequest, refuse(ErrorCode.INVALID_RECORD))
    async with producer(cluster) as p:
        with pytest.raises(KafkaError) as caught:
            await p.send("t", b"bad")
        assert caught.value.code == ErrorCode.INVALID_RECORD
        await p.send("t", b"good")
    assert cluster.topics["t"][0].values() == [b"good"]


async def test_without_authorization_the_producer_is_of_no_use_any_more(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    cluster.script(ProduceRequest, refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    async with producer(cluster) as p:
        for _ in range(2):
            with pytest.raises(KafkaError) as caught:
                await p.send("t", b"x")
            assert caught.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_an_answer_that_leaves_the_partition_out_is_not_an_ack(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    cluster.script(ProduceRequest, ProduceResponse())
    async with producer(cluster) as p:
        await p.send("t", b"x")
    assert cluster.topics["t"][0].values() == [b"x"]
    assert len(cluster.requests_of(ProduceRequest)) == 2


async def test_the_producer_id_is_asked_for_until_there_is_one(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    busy = InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.script(InitProducerIdRequest, busy, DROP, busy)
    async with producer(cluster) as p:
        assert (await p.send("t", b"x")).offset == 0
    assert parse_header(cluster.topics["t"][0].batches[0], 0).producer_id == 101


async def test_a_refused_producer_id_is_fatal(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    refused = InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    cluster.script(InitProducerIdRequest, refused)
    async with producer(cluster) as p:
        with pytest.raises(KafkaError, match="no producer id"):
            await p.send("t", b"x")


async def test_who_waits_in_vain_for_a_producer_id_hears_of_the_controllers(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    none_left = InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.script(InitProducerIdRequest, *[none_left] * 50)
    async with producer(cluster, delivery_timeout_ms=3_000) as p:
        with pytest.raises(KafkaError, match=r"no producer id: the controllers .* lead\?"):
            await p.send("t", b"x")


async def test_a_topic_that_does_not_exist_is_named_and_never_created(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    async with producer(cluster) as p:
        with pytest.raises(UnknownTopicOrPartitionError, match=r"no topic 'nope'.*quorate topics"):
            await p.send("nope", b"x")
        delivery = p.send_nowait("nope", b"x")
        await p.flush()
        assert isinstance(delivery.error, UnknownTopicOrPartitionError)
    assert not any(r.allow_auto_topic_creation for r in cluster.requests_of(MetadataRequest))


async def test_a_topic_may_appear_a_little_later(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    async with producer(cluster) as p:
        deliveries = [p.send_nowait("late", b"%d" % n, partition=0) for n in range(3)]
        bad = p.send_nowait("late", b"x", partition=5)
        told: list[Delivery] = []
        deliveries[0].add_callback(told.append)
        await trio.sleep(2)
        cluster.create("late")
        assert [(await d.result()).offset for d in deliveries] == [0, 1, 2]
        assert isinstance(bad.error, UnknownTopicOrPartitionError)
        assert told == [deliveries[0]]


async def test_partitions_that_were_added_are_used(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    async with producer(cluster, metadata_max_age_ms=1_000) as p:
        await p.send("t", b"x")
        cluster.create("t", 2)
        await trio.sleep(2)
        assert (await p.send("t", b"y", partition=1)).partition == 1


async def test_a_full_buffer_refuses_or_makes_wait(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    settings: Any = {"buffer_memory_bytes": 5_000, "batch_size_bytes": 1_000, "max_block_ms": 2_000}
    async with producer(cluster, **settings) as p:
        await p.partitions_of("t")
        with pytest.raises(BufferFullError, match="enqueue"):
            deque(p.send_nowait("t", bytes(100)) for _ in range(1_000))
        await enqueue(p, 1_000)
        await p.flush()
        await cluster.stop(1)
        with pytest.raises(BufferFullError, match="waited max_block_ms=2000"):
            await enqueue(p, 1_000)
        with pytest.raises(MessageTooLargeError, match="never fits"):
            p.send_nowait("t", bytes(6_000))
        cluster.down.clear()
    assert cluster.topics["t"][0].end_offset > 1_000


@pytest.mark.parametrize(("topic", "name_sent"), [("t", ""), ("_without_id", "_without_id")])
async def test_topics_are_named_by_their_id_if_brokers_tell_it(
    nursery: trio.Nursery, autojump_clock: MockClock, topic: str, name_sent: str
) -> None:
    cluster = cluster_of(nursery, topic)
    async with producer(cluster) as p:
        assert (await p.send(topic, b"a")).offset == 0
    (request,) = [request for _, request in cluster.requests if isinstance(request, ProduceRequest)]
    assert request.topic_data[0].name == name_sent


async def test_a_topic_that_was_made_again_is_looked_up_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    def unknown_id(*_: object) -> ProduceResponse:
        return refuse(ErrorCode.UNKNOWN_TOPIC_ID)

    cluster = cluster_of(nursery)
    cluster.script(ProduceRequest, unknown_id)
    async with producer(cluster) as p:
        assert (await p.send("t", b"a")).offset == 0
    asked = [request for _, request in cluster.requests if isinstance(request, MetadataRequest)]
    assert len(asked) >= 2


async def test_a_batch_whose_header_fills_the_buffer_is_not_sent_empty(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, partitions=2)
    async with producer(cluster, buffer_memory_bytes=220) as p:
        await p.partitions_of("t")
        await p.send("t", b"a", partition=0)
        await p.enqueue("t", bytes(100), partition=0, timestamp_ms=1)
        await p.enqueue("t", b"b", partition=0, timestamp_ms=2)  # counts the one before
        await p.enqueue("t", b"c", partition=1, timestamp_ms=2)
    logs = cluster.topics["t"]
    assert logs[0].values() + logs[1].values() == [b"a", bytes(100), b"b", b"c"]


async def test_what_was_taken_before_its_topic_was_known_fits_when_it_is(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, partitions=4)
    async with producer(cluster, buffer_memory_bytes=1_000, batch_size_bytes=200) as p:
        deliveries = [await p.enqueue("t", b"x", partition=number % 4) for number in range(100)]
        await p.flush()
    assert [delivery.error for delivery in deliveries] == [None] * 100


async def test_a_partitioner_that_fails_costs_its_record_and_no_other(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    def choose(_topic: str, _key: bytes | None, value: bytes | None, _count: int) -> int:
        if value == b"odd":
            raise ValueError("where to?")
        return 0

    cluster = cluster_of(nursery)
    async with producer(cluster, partitioner=choose) as p:
        odd = await p.enqueue("t", b"odd")  # the topic is not known yet
        assert (await p.send("t", b"even")).offset == 0
        with pytest.raises(KafkaError, match="where to"):
            await odd.result()
        with pytest.raises(ValueError, match="where to"):
            await p.enqueue("t", b"odd")
    assert cluster.topics["t"][0].values() == [b"even"]


async def test_asking_for_a_topic_in_vain_does_not_keep_records_from_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    async with producer(cluster) as p:
        await p.send("t", b"a")
        logs = cluster.topics.pop("t")
        delivery = await p.enqueue("t", b"b")
        await trio.sleep(1)
        with pytest.raises(UnknownTopicOrPartitionError):
            await p.partitions_of("t")
        cluster.topics["t"] = logs
        with trio.fail_after(5):
            assert (await delivery.result()).offset == 1


async def test_who_waits_for_room_waits_for_no_linger(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery, partitions=3)
    async with producer(cluster, buffer_memory_bytes=1_000, linger_ms=50_000) as p:

        def fill(partition: int) -> Delivery:
            first = p.send_nowait("t", bytes(600), partition=partition, timestamp_ms=1)
            p.send_nowait("t", b"", partition=partition, timestamp_ms=2)  # counts the one before
            return first

        def refill(_delivery: Delivery) -> None:
            fill(1)

        p.send_nowait("t", b"")
        await p.flush()
        for _ in range(20):  # the sender may look before or after who waits
            fill(0).add_callback(refill)
            await p.enqueue("t", bytes(600), partition=2)
            await p.flush()
        assert trio.current_time() < 40


async def test_a_record_that_waits_for_room_keeps_its_headers(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    settings: Any = {"buffer_memory_bytes": 5_000, "batch_size_bytes": 1_000}
    async with producer(cluster, **settings) as p:
        await p.partitions_of("t")
        with pytest.raises(BufferFullError, match="enqueue"):
            deque(p.send_nowait("t", bytes(100)) for _ in range(1_000))
        headers = iter([("h", b"x")])  # it can be looked through only once
        await p.enqueue("t", b"waits", key=b"k", headers=headers, partition=0)
    last = cluster.topics["t"][0].records()[-1]
    assert (last.value, last.headers) == (b"waits", (("h", b"x"),))


async def test_callbacks_are_called_once_and_may_fail(
    nursery: trio.Nursery, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = cluster_of(nursery)
    offsets: list[int] = []

    def fail(_: Delivery) -> None:
        raise ZeroDivisionError

    async with producer(cluster) as p:
        delivery = await p.enqueue("t", b"x")
        delivery.add_callback(fail)
        delivery.add_callback(lambda d: offsets.append(d.metadata.offset))
        await p.flush()
        delivery.add_callback(lambda d: offsets.append(d.metadata.offset))
        assert (await delivery.result()).offset == 0
    assert offsets == [0, 0]
    assert "delivery callback failed" in caplog.text


async def test_leaving_the_block_delivers_what_is_buffered(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    async with producer(cluster, linger_ms=60_000) as p:
        delivery = await p.enqueue("t", b"x")
    assert delivery.metadata.offset == 0
    with pytest.raises(ClosedError, match="was closed"):
        await p.send("t", b"y")


async def test_an_error_leaves_the_block_at_once_and_unchanged(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    deliveries: list[Delivery] = []

    async def use_it() -> None:
        async with producer(cluster, linger_ms=60_000) as p:
            await p.partitions_of("t")
            deliveries.extend([p.send_nowait("t", b"x"), p.send_nowait("other", b"y")])
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await use_it()
    assert all(isinstance(delivery.error, ClosedError) for delivery in deliveries)


async def test_a_cancelled_block_ends_at_once(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    with trio.move_on_after(1) as scope:
        async with producer(cluster) as p:
            await p.send("t", b"x")
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert trio.current_time() < 1.1


async def test_a_producer_must_be_opened_and_only_once(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    p = producer(cluster)
    with pytest.raises(ClosedError, match="use it in 'async with'"):
        p.send_nowait("t", b"x")
    async with p:
        with pytest.raises(ClosedError, match="opened once"):
            await p.__aenter__()


async def test_an_unreachable_bootstrap_says_what_why_and_what_to_try(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = cluster_of(nursery)
    cluster.down.add(1)
    with pytest.raises(BootstrapError, match=r"no broker at broker:1: .*refused.*quorate up"):
        async with producer(cluster, connect_timeout_ms=500):
            pass


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"acks": 2}, "acks is 2"),
        ({"acks": 1, "idempotent": True}, "needs acks='all'"),
        ({"max_in_flight": 6}, "allows max_in_flight=5"),
        ({"linger_ms": -1}, "linger_ms is -1"),
        ({"batch_size_bytes": 0}, "batch_size_bytes is 0"),
        ({"request_timeout_ms": 0}, "request_timeout_ms is 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Producer("127.0.0.1:9092", **settings)


def test_options_that_do_not_exist_are_refused() -> None:
    settings: Any = {"lingerms": 5}
    with pytest.raises(TypeError, match="lingerms"):
        Producer("127.0.0.1:9092", **settings)


async def test_values_and_keys_are_bytes(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    cluster = cluster_of(nursery)
    text: Any = "text"
    number: Any = 5
    view: Any = memoryview(b"view")
    buffer: Any = bytearray(b"k")
    async with producer(cluster) as p:
        with pytest.raises(
            TypeError, match=r"value must be bytes or None, not str; try value\.enc"
        ):
            p.send_nowait("t", text)
        with pytest.raises(TypeError, match="key must be bytes"):
            p.send_nowait("t", b"x", key=number)
        await p.send("t", view)
        p.send_nowait("t", text.encode(), key=buffer)
    assert cluster.topics["t"][0].values() == [b"view", b"text"]


async def test_order_holds_per_partition_whatever_becomes_of_requests(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = FakeCluster(nursery, brokers=3)
    cluster.create("t", 3)
    cluster.script(ProduceRequest, *[None, DROP, LOSE, None, HANG] * 5)
    async with producer(cluster, request_timeout_ms=500, linger_ms=1) as p:
        for number in range(600):
            await p.enqueue("t", b"%04d" % number, partition=number % 3)
            if number % 20 == 0:
                await trio.sleep(0.01)
    for partition, log in cluster.topics["t"].items():
        assert log.values() == [b"%04d" % n for n in range(600) if n % 3 == partition]


@pytest.mark.parametrize(
    ("topic", "options"),
    [
        (b"t", {}),
        (None, {}),
        ("half a \ud800", {}),
        ("t" * 40_000, {}),
        ("t", {"partition": 0.0}),
        ("t", {"partition": "0"}),
        ("t", {"timestamp_ms": 2**63}),
        ("t", {"timestamp_ms": -1}),
        ("t", {"timestamp_ms": 1.5}),
    ],
)
async def test_what_cannot_be_sent_is_refused_where_it_is_handed_over(
    nursery: trio.Nursery, autojump_clock: MockClock, topic: Any, options: Any
) -> None:
    cluster = cluster_of(nursery)
    async with producer(cluster) as p:
        for _ in range(2):  # before the topic is known, and after
            with pytest.raises((TypeError, ValueError)):
                p.send_nowait(topic, b"x", **options)
            await p.send("t", b"of somebody else")
    assert cluster.topics["t"][0].values() == [b"of somebody else"] * 2


@pytest.mark.parametrize("setting", ["client_id", "transactional_id"])
@pytest.mark.parametrize("name", [b"x", "half a \ud800", "x" * 40_000])
async def test_names_that_cannot_be_sent_are_refused(setting: str, name: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=setting):
        Producer("broker:1", **{setting: name})
