"""Three brokers, of which one's disk is full: the others go on, and do not wait for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.client import Admin
from quorate.jepsen.lab.disks import UNLIMITED, Shim
from quorate.jepsen.lab.native import compiler
from quorate.tools.clusters.picture import IN_SERVICE, READ_ONLY, broker_state
from tests.integration.brokers import Cluster, send, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="needs a C compiler, for shim.c"),
]

FULL = 3
TOPIC = "full"
PARTITIONS = 3
VERY_LONG_S = 600.0
PATIENCE_S = 30.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Shim]:
    data = tmp_path / f"broker-{FULL}"
    data.mkdir()
    made = Shim(data, tmp_path, journal=False)
    yield made
    made.close()


@pytest.fixture
def cluster(tmp_path: Path, disk: Shim) -> Iterator[Cluster]:
    """A cluster whose patience with those who lag would not end within a test."""
    variables = {FULL: disk.environment()}
    running = Cluster(tmp_path, lag_s=VERY_LONG_S, variables=variables)
    yield running
    running.close()


def leaders(cluster: Cluster) -> list[int]:
    return [cluster.partition(TOPIC, number).leader for number in range(PARTITIONS)]


def isrs(cluster: Cluster) -> list[set[int]]:
    return [cluster.isr(TOPIC, number) for number in range(PARTITIONS)]


async def states(cluster: Cluster) -> dict[int, str]:
    """Return how each broker is, as its cluster sees it."""
    async with Admin(f"127.0.0.1:{cluster.ports[1]}") as admin:
        brokers = (await admin.describe_cluster()).brokers
        return {broker.broker_id: broker_state(broker) for broker in brokers}


async def test_a_broker_whose_disk_is_full_leads_nothing_and_holds_nobody_up(
    cluster: Cluster, disk: Shim
) -> None:
    cluster.create(TOPIC, partitions=PARTITIONS, min_insync_replicas="2")
    options = {"message.timeout.ms": int(PATIENCE_S * 1000), "enable.idempotence": True}
    producer = cluster.producer(**options)
    numbers = iter(range(1000))

    def send_to_all() -> None:
        for partition in range(PARTITIONS):
            assert send(producer, TOPIC, b"%d" % next(numbers), partition) is None

    send_to_all()
    assert FULL in leaders(cluster)
    disk.set("space_bytes", 0)
    for _ in range(10):
        send_to_all()
    assert isrs(cluster) == [{1, 2}] * PARTITIONS
    assert FULL not in leaders(cluster)
    assert await states(cluster) == {1: IN_SERVICE, 2: IN_SERVICE, FULL: READ_ONLY}

    disk.set("space_bytes", UNLIMITED)
    assert cluster.brokers[FULL].stop() == 0
    cluster.start(FULL)
    cluster.brokers[FULL].wait_until_ready()
    wait_until(lambda: {len(each) for each in isrs(cluster)} == {3}, "it is in sync again")
    send_to_all()
    assert (await states(cluster))[FULL] == IN_SERVICE
    for number in range(PARTITIONS):
        assert len(set(cluster.logs(TOPIC, number))) == 1
