"""Producers and consumers of values, on a cluster in memory."""

from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from quorate.client import Consumer, Producer
from quorate.client.serde import AvroSerde, JsonSerde, SerdeError, StrSerde
from quorate.client.typed import TypedConsumer, TypedProducer, TypedRecord
from tests.shell.fake_cluster import FakeCluster, open_cluster

SCHEMA = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "int"}]}


def producer(cluster: FakeCluster) -> Producer:
    return Producer(cluster.bootstrap, dial=cluster.dial)


def consumer(cluster: FakeCluster) -> Consumer:
    return Consumer(cluster.bootstrap, auto_offset_reset="earliest", dial=cluster.dial)


async def test_values_go_through_a_topic(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    cluster = await open_cluster(nursery, {"t": 1})
    async with producer(cluster) as p:
        typed = TypedProducer(p, key=StrSerde(), value=JsonSerde())
        place = await typed.send("t", {"n": 1}, key="é", headers=[("h", b"x")], timestamp_ms=5)
        assert (place.partition, place.offset) == (0, 0)
        await typed.enqueue("t", None, key="é")
        typed.send_nowait("t", [2])
        await p.send("t", b"not JSON")
    async with consumer(cluster) as c:
        await c.assign_topics("t")
        records = TypedConsumer(c, key=StrSerde(), value=JsonSerde())
        first = await anext(records)
        assert (first.key, first.value, first.headers) == ("é", {"n": 1}, (("h", b"x"),))
        assert (first.topic, first.partition, first.offset) == ("t", 0, 0)
        assert (first.topic_partition, first.timestamp_ms) == (("t", 0), 5)
        assert first.value is first.value, "read once"
        assert "offset=0" in repr(first)
        second, third, fourth = [await anext(records) for _ in range(3)]
        assert (second.key, second.value) == ("é", None)
        assert (third.key, third.value) == (None, [2])
        with pytest.raises(SerdeError, match=r"value of t-0 at offset 3: .* no JSON"):
            _ = fourth.value


async def test_records_are_polled_with_values(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = await open_cluster(nursery, {"t": 1})
    async with producer(cluster) as p:
        await p.send("t", b"x", key=b"k")
    async with consumer(cluster) as c:
        await c.assign_topics("t")
        (record,) = await TypedConsumer(c, key=StrSerde(), value=StrSerde()).poll()
        assert (record.key, record.value) == ("k", "x")


async def test_what_a_schema_does_not_allow_is_not_sent(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = await open_cluster(nursery, {"t": 1})
    async with producer(cluster) as p:
        typed = TypedProducer(p, key=StrSerde(), value=AvroSerde(SCHEMA))
        with pytest.raises(SerdeError, match=r"N\.n"):
            await typed.send("t", {"n": "one"})
        with pytest.raises(SerdeError, match=r"N\.n"):
            typed.send_nowait("t", {"n": None})
        await typed.send("t", {"n": 1})
    assert cluster.topics["t"][0].values() == [b"\2"]


def digits(number: int) -> bytes:
    return b"%d" % number


async def test_a_producer_and_a_consumer_have_serializers_of_their_own(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = await open_cluster(nursery, {"t": 1})
    async with Producer(
        cluster.bootstrap,
        dial=cluster.dial,
        key_serializer=StrSerde(),
        value_serializer=digits,
    ) as p:
        await p.send("t", 1, key="é")
        await p.enqueue("t", 2)
        await p.enqueue("t", 3)
        p.send_nowait("t", None, key="é")
        with pytest.raises(SerdeError, match="bytes, not str"):
            await p.send("t", 4, key=cast("Any", b"bytes"))
    assert cluster.topics["t"][0].values() == [b"1", b"2", b"3", None]
    async with Consumer(
        cluster.bootstrap,
        auto_offset_reset="earliest",
        dial=cluster.dial,
        key_deserializer=StrSerde(),
        value_deserializer=int,
    ) as c:
        await c.assign_topics("t")
        first = await anext(c)
        assert (first.key, first.value, first.offset) == ("é", 1, 0)
        rest = await c.poll()
        assert [record.value for record in rest] == [2, 3, None]
        assert [record.key for record in rest] == [None, None, "é"]


async def test_one_side_may_stay_bytes_and_what_cannot_be_read_stops_nobody(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = await open_cluster(nursery, {"t": 1})
    async with producer(cluster) as p:
        await p.send("t", b"not a number", key=b"k")
        await p.send("t", b"7")
    async with Consumer(
        cluster.bootstrap, auto_offset_reset="earliest", dial=cluster.dial, value_deserializer=float
    ) as c:
        await c.assign_topics("t")
        bad, good = await anext(c), await anext(c)
        assert bad.key == b"k"
        with pytest.raises(SerdeError, match=r"value of t-0 at offset 0: ValueError.*'t'"):
            _ = bad.value
        assert good.value == 7.0
        assert isinstance(bad, TypedRecord)
        assert bad.record == (("t", 0), 0, bad.timestamp_ms, b"k", b"not a number", ())


def test_what_cannot_serialize_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"value_serializer is a class: try JsonSerde\(\)"):
        Producer("127.0.0.1:9092", value_serializer=cast("Any", JsonSerde))
    with pytest.raises(TypeError, match="key_deserializer takes a serde or a function, not 'utf8'"):
        Consumer("127.0.0.1:9092", key_deserializer=cast("Any", "utf8"))


async def test_what_a_function_makes_must_be_bytes(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    cluster = await open_cluster(nursery, {"t": 1})
    async with Producer(
        cluster.bootstrap, dial=cluster.dial, value_serializer=cast("Any", str)
    ) as p:
        with pytest.raises(TypeError, match=r"value must be bytes .* not str"):
            await p.send("t", 1)
