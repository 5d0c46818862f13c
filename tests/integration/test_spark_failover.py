"""Tasks of Spark read and write on while leaders die, without Spark."""

import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from quorate.client.spark.cluster import Cluster
from quorate.client.spark.connection import Connection
from quorate.client.spark.options import parse_batch_read
from quorate.client.spark.plan import Task
from quorate.client.spark.sizing import batch_ranges
from quorate.client.spark.write_options import parse_write
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from tests.integration.brokers import Cluster as Brokers
from tests.integration.brokers import wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed"),
]
COUNT = 3_000


def test_every_record_is_written_and_read_once_though_leaders_are_killed(tmp_path: Path) -> None:
    from quorate.client.spark.producing import TaskProducer  # noqa: PLC0415 - needs Arrow
    from quorate.client.spark.reading import RangeReader  # noqa: PLC0415
    from quorate.client.spark.rows import Rows  # noqa: PLC0415

    brokers = Brokers(tmp_path)
    try:
        brokers.create("t", min_insync_replicas="2")
        servers = str(brokers.options["bootstrap.servers"])
        write = parse_write({"kafka.bootstrap.servers": servers, "topic": "t"})
        cluster = Cluster(write.connection)
        producer = TaskProducer(cluster, write)
        producer.partition_count("t")
        values = [b"%d" % i for i in range(COUNT)]
        rows = Rows(TopicPartition("t", 0), [None] * COUNT, values, [b""] * COUNT, [1] * COUNT)
        first = brokers.leader("t")
        killing = threading.Timer(0.1, brokers.brokers[first].kill)
        killing.start()
        producer.send([rows.part(at, at + 10) for at in range(0, COUNT, 10)])
        killing.join()
        cluster.close()
        brokers.start(first)
        wait_until(lambda: len(brokers.isr("t")) == 3, "the first one is in sync again")

        texts = {"kafka.bootstrap.servers": servers, "subscribe": "t"}
        wanted = parse_batch_read(
            {
                **texts,
                "kafka.max.partition.fetch.bytes": "500",
            },
            now_ms=0,
        )
        cluster = Cluster(wanted.connection)
        (only,) = batch_ranges(cluster, wanted)
        reader = RangeReader(cluster, wanted, Task(only, ""), ["value"])
        found: list[bytes] = []
        second = None
        for batch in reader.read():
            found += batch.column(0).to_pylist()
            if second is None and len(found) >= 100:
                second = cluster.view.leader_of(TopicPartition("t", 0))
                assert second is not None
                brokers.brokers[second.broker_id].kill()
        assert second is not None
        assert found == values
        cluster.close()
    finally:
        brokers.close()


def test_a_follower_in_the_readers_rack_is_read_and_the_leader_when_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers(tmp_path, broker_ids=(1, 2), racks={1: "a", 2: "b"})
    try:
        brokers.create("t")
        producer = brokers.producer(**{"batch.num.messages": 10})
        for i in range(COUNT):
            producer.produce("t", b"%d" % i, on_delivery=None)
        assert producer.flush(10) == 0
        leader = brokers.leader("t")
        (follower,) = {1, 2} - {leader}
        asked: list[int] = []
        send = Connection.send

        def sending(self: Connection, api_key: int, *args: Any, **words: Any) -> None:
            if api_key == ApiKey.FETCH:
                asked.extend(i for i, port in brokers.ports.items() if port == self.endpoint.port)
            send(self, api_key, *args, **words)

        monkeypatch.setattr(Connection, "send", sending)
        every = [b"%d" % i for i in range(COUNT)]

        assert read_from_rack(brokers, brokers.racks[follower], lambda: None) == every
        assert asked[0] == leader
        assert set(asked[1:]) == {follower}

        asked.clear()
        assert read_from_rack(brokers, brokers.racks[leader], lambda: None) == every
        assert set(asked) == {leader}

        asked.clear()
        kill = brokers.brokers[follower].kill
        assert read_from_rack(brokers, brokers.racks[follower], kill) == every
        assert asked[:2] == [leader, follower]
        assert asked[-1] == leader
    finally:
        brokers.close()


def read_from_rack(
    brokers: Brokers, rack: str, when_it_has_begun: Callable[[], None]
) -> list[bytes]:
    from quorate.client.spark.reading import RangeReader  # noqa: PLC0415 - needs Arrow

    wanted = parse_batch_read(
        {
            "kafka.bootstrap.servers": str(brokers.options["bootstrap.servers"]),
            "subscribe": "t",
            "kafka.client.rack": rack,
            "kafka.max.partition.fetch.bytes": "500",
            "kafkaConsumer.pollTimeoutMs": "10000",
        },
        now_ms=0,
    )
    cluster = Cluster(wanted.connection)
    (only,) = batch_ranges(cluster, wanted)
    found: list[bytes] = []
    for batch in RangeReader(cluster, wanted, Task(only, ""), ["value"]).read():
        if not found:
            when_it_has_begun()
        found += batch.column(0).to_pylist()
    cluster.close()
    return found
