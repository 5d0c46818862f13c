"""A disk that is full, or fails, below a real node."""

import errno
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from quorate.jepsen.clients.wire import (
    PRODUCE_VERSION,
    Client,
    ClosedError,
    create_topic,
    plain_batch,
    produce_request,
)
from quorate.jepsen.lab.disks import UNLIMITED, Shim
from quorate.jepsen.lab.native import compiler
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from tests.robustness.ledger import Ledger
from tests.robustness.node import Node, start_node
from tests.robustness.writing import Load, make_load

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="needs a C compiler, for shim.c"),
]

TOPIC = "faults"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(4)]
PROPERTIES = {
    "log.segment.bytes": "65536",
    "log.flush.offset.checkpoint.interval.ms": "100",
}
STORAGE_ERROR = "KAFKA_STORAGE_ERROR"
WAIT_S_MAX = 20.0


class FaultyNode:
    """A node over a shim, with a topic, a ledger and producers that expect storage errors."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.data = work / "data"
        self.data.mkdir()
        self.shim = Shim(self.data, work, journal=False)
        self.ledger = Ledger(PARTITIONS)
        self.load: Load = make_load(self.ledger, Random(1), expected={STORAGE_ERROR})

    def start(self) -> Node:
        return start_node(
            self.data,
            self.work / "node.log",
            properties=PROPERTIES,
            variables=self.shim.environment(),
        )

    def create(self, node: Node, configs: dict[str, str]) -> None:
        with Client(node.port) as client:
            assert create_topic(client, TOPIC, len(PARTITIONS), configs) == 0

    def refused(self) -> int:
        return sum(producer.refusals[STORAGE_ERROR] for producer in self.load.producers)


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[FaultyNode]:
    made = FaultyNode(tmp_path)
    yield made
    made.shim.close()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < deadline_s, "it never happened"
        time.sleep(0.01)


def lines_about(log: str, text: str) -> list[str]:
    return [line for line in log.splitlines() if text in line]


@pytest.mark.parametrize("configs", [{}, {"flush.messages": "1"}], ids=["default", "synced"])
def test_a_full_disk_refuses_records_loses_none_and_takes_them_again_when_it_has_space(
    faulty: FaultyNode, configs: dict[str, str]
) -> None:
    with faulty.start() as node:
        faulty.create(node, configs)
        faulty.load.start(node.port)
        wait_until(lambda: faulty.load.acknowledged > 200)
        faulty.shim.set("space_bytes", 200_000)
        faulty.load.join()  # a producer ends with the first answer that is an error
        assert faulty.refused() == len(faulty.load.producers)
        time.sleep(0.5)  # checkpoints go on, on a full disk
        assert node.is_alive, node.log_tail()
        faulty.ledger.check(node.port)

        acknowledged = faulty.load.acknowledged
        faulty.shim.set("space_bytes", UNLIMITED)
        wait_until(lambda: accepts(node))
        faulty.load.start(node.port)
        wait_until(lambda: faulty.load.acknowledged > acknowledged + 200)
        node.kill()
        faulty.load.join()
        log = node.log()
        assert "Traceback" not in log
        refused = [lines_about(log, f"{where} takes no records:") for where in PARTITIONS]
        assert {len(lines) for lines in refused} <= {0, 1}, log
        told = [line for lines in refused for line in lines]
        assert told
        assert all("No space left" in line for line in told)
        assert lines_about(log, "takes records again")
    with faulty.start() as node:
        faulty.ledger.check(node.port)
        assert node.stop() == 0


def accepts(node: Node) -> bool:
    """Whether every partition takes records (nobody else's ledger hears of these)."""
    with Client(node.port) as client:
        create_topic(client, "probe", 1, {})
        request = produce_request(TopicPartition("probe", 0), plain_batch(b"probe"), acks=-1)
        answer = client.ask(ApiKey.PRODUCE, PRODUCE_VERSION, request)
        return int(answer.responses[0].partition_responses[0].error_code) == 0


def test_a_node_starts_on_a_full_disk_and_serves_what_it_has(faulty: FaultyNode) -> None:
    with faulty.start() as node:
        faulty.create(node, {})
        faulty.load.start(node.port)
        wait_until(lambda: faulty.load.acknowledged > 500)
        node.kill()
        faulty.load.join()
    faulty.shim.set("space_bytes", 0)
    log_before = (faulty.work / "node.log").read_text()
    try:
        with faulty.start() as node:
            faulty.ledger.check(node.port)
    except Exception:  # noqa: BLE001 - either is fine, as long as it is told in one line
        told = (faulty.work / "node.log").read_text().removeprefix(log_before)
        assert "Traceback" not in told
        assert lines_about(told, "No space left")
    faulty.shim.set("space_bytes", UNLIMITED)
    with faulty.start() as node:
        faulty.ledger.check(node.port)


def test_a_failed_sync_ends_the_node_with_a_line_that_says_why_and_loses_nothing(
    faulty: FaultyNode,
) -> None:
    with faulty.start() as node:
        faulty.create(node, {"flush.messages": "1"})
        faulty.load.start(node.port)
        wait_until(lambda: faulty.load.acknowledged > 200)
        faulty.shim.set("sync_errno", errno.EIO)
        assert node.wait(WAIT_S_MAX) == 1, node.log_tail()
        faulty.load.join()
        log = node.log()
        assert "Traceback" not in log
        (line,) = [x for x in log.splitlines() if x.startswith("error:")]
        assert "Input/output error" in line
        assert str(faulty.data) in line
    faulty.shim.set("sync_errno", 0)
    with faulty.start() as node:
        faulty.ledger.check(node.port)


def test_a_failed_write_is_told_and_loses_nothing(
    faulty: FaultyNode,
) -> None:
    with faulty.start() as node:
        faulty.create(node, {})
        faulty.load.start(node.port)
        wait_until(lambda: faulty.load.acknowledged > 200)
        faulty.shim.set("write_errno", errno.EIO)
        faulty.load.join()
        assert "Traceback" not in node.log()
        (line, *_) = lines_about(node.log(), "takes no records: ")
        assert "Input/output error" in line
        node.kill()
    faulty.shim.set("write_errno", 0)
    with faulty.start() as node:
        faulty.ledger.check(node.port)


def test_a_disk_without_space_refuses_new_topics_and_keeps_the_old(faulty: FaultyNode) -> None:
    with faulty.start() as node:
        faulty.create(node, {})
        faulty.shim.set("space_bytes", 0)
        with Client(node.port) as client:
            client.sock.settimeout(5.0)
            try:
                code = create_topic(client, "too-late", 1, {})
            except ClosedError:
                code = -1  # no answer: the controller waits for space
        assert code != 0
        assert node.is_alive, node.log_tail()
        faulty.shim.set("space_bytes", UNLIMITED)
        wait_until(lambda: accepts(node))
        assert "Traceback" not in node.log()
