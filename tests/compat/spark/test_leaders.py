"""A batch read with a real Spark while workers and brokers are killed, and leaders move."""

import threading
import time
from collections.abc import Generator
from contextlib import suppress
from typing import Any, Final

import psutil
import pytest

from quorate.client.sync import Producer
from tests.integration.brokers import Cluster as Brokers
from tests.integration.brokers import wait_until

PARTITIONS: Final = 3
COUNT: Final = 18_000
TASKS: Final = 60


@pytest.fixture
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Generator[Brokers]:
    """Three brokers, each with all partitions of the topic ``t``."""
    brokers = Brokers(tmp_path_factory.mktemp("brokers"))
    try:
        brokers.create("t", partitions=PARTITIONS, min_insync_replicas="2")
        yield brokers
    finally:
        brokers.close()


class Reading(threading.Thread):
    """A query that runs beside the test."""

    def __init__(self, spark: Any, frame: Any) -> None:
        super().__init__()
        self.tracker = spark.sparkContext.statusTracker()
        self.frame = frame
        self.rows: list[Any] = []
        self.error: Exception | None = None
        self.failed = 0
        self.start()

    def run(self) -> None:
        try:
            self.rows = self.frame.collect()
        except Exception as error:  # noqa: BLE001 - the test tells it
            self.error = error

    def done(self) -> int:
        """Return how many tasks are done, and note how many have failed."""
        stages = [self.tracker.getStageInfo(i) for i in self.tracker.getActiveStageIds()]
        self.failed = max([self.failed, *(stage.numFailedTasks for stage in stages if stage)])
        return max((stage.numCompletedTasks for stage in stages if stage), default=0)

    def wait_for(self, tasks: int) -> None:
        wait_until(lambda: self.done() >= tasks or not self.is_alive(), f"{tasks} tasks are done")
        assert self.is_alive(), self.error or "too fast for this test: read more"


def kill_worker(ports: set[int]) -> bool:
    """Kill one of Spark's workers that has a connection to a broker; return whether there was."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            is_worker = "pyspark.daemon" in process.cmdline()
            connections = process.net_connections("tcp") if is_worker else []
            if any(each.raddr and each.raddr.port in ports for each in connections):
                process.kill()
                return True
    return False


def test_the_rows_are_those_written_though_workers_and_brokers_die_and_leaders_move(
    spark: Any, brokers: Brokers
) -> None:
    servers = str(brokers.options["bootstrap.servers"])
    with Producer(servers, batch_size_bytes=2_000) as producer:
        for i in range(COUNT):
            producer.enqueue("t", b"%d" % i, partition=i % PARTITIONS)
    reader = spark.read.format("quorate").option("kafka.bootstrap.servers", servers)
    reader = reader.option("kafka.max.partition.fetch.bytes", 1_000).option("minPartitions", TASKS)
    frame = reader.option("subscribe", "t").load().selectExpr("partition", "offset", "value")
    reading = Reading(spark, frame)

    reading.wait_for(2)  # of partition 0, as all those that run
    first = brokers.leader("t")
    brokers.brokers[first].kill()
    reading.wait_for(TASKS // 4)
    assert reading.failed == 0
    killed = 0
    while not reading.failed:  # this one may have had no task just then
        if kill_worker(set(brokers.ports.values())):
            killed += 1
            time.sleep(0.3)
        reading.wait_for(0)
    brokers.start(first)
    wait_until(lambda: len(brokers.isr("t")) == 3, "the first one is in sync again")
    second = brokers.leader("t")
    assert brokers.brokers[second].stop() == 0  # which gives its partitions to others
    wait_until(lambda: reading.done() < 0 or not reading.is_alive(), "all is read")

    assert reading.error is None
    assert reading.failed <= killed  # those of the workers, which Spark has tried again
    wanted = [(i % PARTITIONS, i // PARTITIONS, b"%d" % i) for i in range(COUNT)]
    found = sorted((row.partition, row.offset, bytes(row.value)) for row in reading.rows)
    assert found == sorted(wanted)
