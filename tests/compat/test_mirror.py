"""MirrorMaker 2 between Apache Kafka and Quorate, both ways, exactly once."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

from quorate.client import sync
from quorate.client.admin import raise_first
from quorate.client.admin_results import ConfigChange, ConfigOperation, ConfigResource
from quorate.model import TopicPartition
from tests.compat.clients.model import Message, Sending, Server, TopicSpec
from tests.compat.clients.ours import Ours
from tests.compat.peers import cache, java
from tests.compat.peers.nodes import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from tests.compat.serving import Broker

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.client("Java connect-mirror")]

DEADLINE_S = 300.0
GROUP = "mirrored-readers"
FIRST, LATER = [f"first {n}" for n in range(60)], [f"later {n}" for n in range(20)]

SETTINGS = """\
clusters = quorate, kafka
quorate.bootstrap.servers = {quorate}
kafka.bootstrap.servers = {kafka}
kafka->quorate.enabled = true
quorate->kafka.enabled = true
topics = {topics}
groups = {group}
dedicated.mode.enable.internal.rest = true
listeners = http://127.0.0.1:{port}
quorate.exactly.once.source.support = enabled
kafka.exactly.once.source.support = enabled
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
refresh.topics.interval.seconds = 1
refresh.groups.interval.seconds = 1
sync.topic.configs.interval.seconds = 1
sync.topic.acls.interval.seconds = 1
offset.lag.max = 0
offset.flush.interval.ms = 500
scheduled.rebalance.max.delay.ms = 0
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
offset.storage.partitions = 1
status.storage.replication.factor = 1
status.storage.partitions = 1
config.storage.replication.factor = 1
"""


@contextmanager
def mirror_maker(settings: str, folder: Path) -> Generator[Path]:
    """Run MirrorMaker 2 until the end of the block; give its log."""
    log, file = folder / "log", folder / "mm2.properties"
    file.write_text(settings)
    with java.connect_program("org.apache.kafka.connect.mirror.MirrorMaker", file, log):
        yield log


def eventually(condition: Callable[[], bool], log: Path) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-4000:]
        time.sleep(0.1)


def lines(server: Server, topic: str, start: int = 0) -> list[str]:
    """Read to the end what is committed."""
    place = (topic, 0)
    with sync.Consumer(server.bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([place])
        consumer.seek(place, start)
        (end,) = consumer.end_offsets([place]).values()
        read: list[str] = []
        while consumer.position(place) < end:
            read += [(record.value or b"").decode() for record in consumer.poll(timeout_ms=100)]
        return read


@dataclass(frozen=True)
class Way:
    """A topic on one side, and its copy on the other."""

    source: Server
    topic: str
    target: Server
    copy: str

    def produce(self, ours: Ours, values: list[str]) -> None:
        ours.produce(
            self.source, self.topic, [Message(value.encode(), b"k") for value in values], Sending()
        )


def has(way: Way, values: list[str]) -> bool:
    """Whether the copy is there, and has these and no others."""
    return way.copy in Ours().topics(way.target) and lines(way.target, way.copy) == values


def group_is_at_the_end(way: Way) -> bool:
    """Whether the group would read nothing of the copy that is there now."""
    place = TopicPartition(way.copy, 0)
    with sync.Admin(way.target.bootstrap) as admin:
        found = admin.list_group_offsets(GROUP, [place]).get(place)
    return found is not None and not lines(way.target, way.copy, found.offset)


def is_configured(way: Way) -> bool:
    """Whether the copy has the settings that the topic was given."""
    told = Ours().configs(way.target, way.copy)
    return (told["segment.bytes"], told["retention.ms"]) == ("2097152", "604800000")


def reconfigure(way: Way) -> None:
    """Set one of the topic's settings, take another one back, and have the group read it all."""
    changes = [
        ConfigChange("segment.bytes", "2097152"),
        ConfigChange("retention.ms", None, ConfigOperation.DELETE),
    ]
    with sync.Admin(way.source.bootstrap) as admin:
        raise_first(admin.alter_configs({ConfigResource.topic(way.topic): changes}))
        admin.alter_group_offsets(GROUP, {TopicPartition(way.topic, 0): len(FIRST)})


@pytest.mark.feature("topics, their settings, records and groups' offsets, both ways, exactly once")
def test_each_side_has_what_the_other_one_has(
    apache_kafka: Broker, broker: Broker, topic: str, ours: Ours, tmp_path: Path
) -> None:
    try:
        java.connect_folder()
    except cache.PeerUnavailableError as error:
        pytest.skip(error.reason)
    kafka, quorate = apache_kafka.server, broker.server
    ways = (
        Way(kafka, f"{topic}-k", quorate, f"kafka.{topic}-k"),
        Way(quorate, f"{topic}-q", kafka, f"quorate.{topic}-q"),
    )
    for way in ways:
        ours.create(way.source, TopicSpec(way.topic, 1, {"retention.ms": "1111111111"}))
        way.produce(ours, FIRST)
    settings = SETTINGS.format(
        quorate=quorate.bootstrap, kafka=kafka.bootstrap, port=free_port(), group=GROUP,
        topics=f"{topic}-[kq]",
    )  # fmt: skip
    with mirror_maker(settings, tmp_path) as log:
        for way in ways:
            eventually(partial(has, way, FIRST), log)
            reconfigure(way)
        for way in ways:
            eventually(partial(group_is_at_the_end, way), log)
            eventually(partial(is_configured, way), log)
            way.produce(ours, LATER)
            eventually(partial(has, way, FIRST + LATER), log)
    said = log.read_text(errors="replace")
    assert re.findall(r"\] ERROR .*|Could not alter configuration.*", said) == []
