"""Producers and consumers of values, on a cluster in memory."""

import pytest
import trio
from trio.testing import MockClock

from quorate.client import Consumer, Producer
from quorate.client.serde import AvroSerde, JsonSerde, SerdeError, StrSerde
from quorate.client.typed import TypedConsumer, TypedProducer
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
