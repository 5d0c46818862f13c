"""Kafka Connect, with sources that are exactly once."""

from __future__ import annotations

import json
import signal
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from quorate.client import sync
from tests.compat.clients.model import TopicSpec
from tests.compat.peers import cache, java
from tests.compat.peers.nodes import free_port

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Generator
    from pathlib import Path

    from tests.compat.clients.model import Server
    from tests.compat.clients.ours import Ours

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.client("Java connect-runtime")]

DEADLINE_S = 120.0
LINES = [f"line {number}" for number in range(60)]

WORKER = """\
bootstrap.servers={bootstrap}
group.id={group}
listeners=http://127.0.0.1:{port}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.topic={group}-offsets
offset.storage.replication.factor=1
offset.storage.partitions=2
config.storage.topic={group}-configs
config.storage.replication.factor=1
status.storage.topic={group}-status
status.storage.replication.factor=1
status.storage.partitions=1
plugin.discovery=service_load
exactly.once.source.support=enabled
consumer.isolation.level=read_committed
offset.flush.interval.ms=500
session.timeout.ms=2000
heartbeat.interval.ms=500
consumer.session.timeout.ms=2000
consumer.heartbeat.interval.ms=500
worker.unsync.backoff.ms=500
scheduled.rebalance.max.delay.ms=0
"""


class Worker:
    """A worker of a distributed Connect, asked over its REST interface."""

    def __init__(self, port: int, log: Path, program: subprocess.Popen[bytes]) -> None:
        self._port = port
        self._log = log
        self._program = program

    def kill(self) -> None:
        """End it without asking."""
        self._program.send_signal(signal.SIGKILL)
        self._program.wait()

    def runs(self, name: str) -> bool:
        """Whether it runs the one task of a connector, as it knows."""
        url = f"http://127.0.0.1:{self._port}/connectors/{name}/status"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                tasks = json.load(answer)["tasks"]
        except (urllib.error.URLError, OSError):
            return False
        where = f"127.0.0.1:{self._port}"
        return [(task["state"], task["worker_id"]) for task in tasks] == [("RUNNING", where)]

    def put(self, name: str, **config: str) -> None:
        """Create a connector, as soon as the worker takes it."""
        body = json.dumps({key.replace("_", "."): value for key, value in config.items()})
        url = f"http://127.0.0.1:{self._port}/connectors/{name}/config"

        def created() -> bool:
            request = urllib.request.Request(url, body.encode(), method="PUT")
            request.add_header("Content-Type", "application/json")
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return int(answer.status) in {200, 201}
            except (urllib.error.URLError, OSError):
                return False

        self.eventually(created)

    def eventually(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, self._log.read_text(errors="replace")[-4000:]
            time.sleep(0.1)


CONNECT = "org.apache.kafka.connect.cli.ConnectDistributed"


@contextmanager
def worker(server: Server, group: str, folder: Path) -> Generator[Worker]:
    """Run a worker until the end of the block, and kill it then."""
    port, log, settings = free_port(), folder / "log", folder / "worker.properties"
    settings.write_text(WORKER.format(bootstrap=server.bootstrap, group=group, port=port))
    with java.connect_program(CONNECT, settings, log) as program:
        yield Worker(port, log, program)


@pytest.mark.feature("distributed, file source and sink, exactly.once.source.support, killed")
def test_a_file_becomes_a_topic_and_a_file_again(
    server: Server, topic: str, ours: Ours, tmp_path: Path
) -> None:
    try:
        java.connect_folder()
    except cache.PeerUnavailableError as error:
        pytest.skip(error.reason)
    ours.create(server, TopicSpec(topic))
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    half = len(LINES) // 2
    source.write_text("".join(f"{line}\n" for line in LINES[:half]))

    def copied(count: int) -> bool:
        return sink.exists() and set(LINES[:count]) <= set(sink.read_text().splitlines())

    files = "org.apache.kafka.connect.file.FileStream"
    with worker(server, topic, tmp_path) as first:
        first.put(
            "source", connector_class=f"{files}SourceConnector", file=str(source), topic=topic,
            tasks_max="1", exactly_once_support="required",
        )  # fmt: skip
        first.put(
            "sink", connector_class=f"{files}SinkConnector", file=str(sink), topics=topic,
            tasks_max="1",
        )  # fmt: skip
        first.eventually(lambda: copied(half))
    with source.open("a") as more:
        more.writelines(f"{line}\n" for line in LINES[half:])
    with worker(server, topic, tmp_path) as second:
        second.eventually(lambda: copied(len(LINES)))
    assert committed(server, topic) == LINES


@pytest.mark.feature("two workers, one killed: the other one takes over; dead letters")
def test_who_is_left_takes_over_and_what_cannot_be_read_is_put_aside(
    server: Server, topic: str, ours: Ours, tmp_path: Path
) -> None:
    try:
        java.connect_folder()
    except cache.PeerUnavailableError as error:
        pytest.skip(error.reason)
    ours.create(server, TopicSpec(topic))
    source, sink, dead = tmp_path / "in.txt", tmp_path / "out.txt", f"{topic}-dead"
    values = [json.dumps(line) for line in LINES]
    half = len(values) // 2
    values[half - 1] = "this is no JSON"
    source.write_text("".join(f"{value}\n" for value in values[:half]))
    files = "org.apache.kafka.connect.file.FileStream"
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    with worker(server, topic, folders[0]) as one, worker(server, topic, folders[1]) as two:
        one.put(
            "source", connector_class=f"{files}SourceConnector", file=str(source), topic=topic,
            tasks_max="1", exactly_once_support="required",
        )  # fmt: skip
        two.put(
            "sink", connector_class=f"{files}SinkConnector", file=str(sink), topics=topic,
            tasks_max="1", value_converter="org.apache.kafka.connect.json.JsonConverter",
            value_converter_schemas_enable="false", errors_tolerance="all",
            errors_deadletterqueue_topic_name=dead,
            errors_deadletterqueue_topic_replication_factor="1",
        )  # fmt: skip
        one.eventually(lambda: one.runs("source") or two.runs("source"))
        one.eventually(lambda: committed(server, topic) == values[:half])
        first, second = (one, two) if one.runs("source") else (two, one)
        first.kill()
        with source.open("a") as more:
            more.writelines(f"{value}\n" for value in values[half:])
        second.eventually(lambda: second.runs("source") and second.runs("sink"))
        second.eventually(lambda: set(sink.read_text().splitlines()) >= {LINES[0], LINES[-1]})
    assert committed(server, topic) == values
    assert set(sink.read_text().splitlines()) == {*LINES} - {LINES[half - 1]}
    assert set(committed(server, dead)) == {"this is no JSON"}


def committed(server: Server, topic: str) -> list[str]:
    """Read what is committed to a topic."""
    read: list[str] = []
    with sync.Consumer(
        server.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([(topic, 0)])
        (end,) = consumer.end_offsets([(topic, 0)]).values()
        while consumer.position((topic, 0)) < end:
            read += [(record.value or b"").decode() for record in consumer.poll(timeout_ms=100)]
    return read
