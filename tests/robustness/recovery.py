"""How long a node takes to start, and how much it reads, with much data on its disk.

``python -m tests.robustness.recovery --gigabytes 10``
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.jepsen.clients.wire import (
    PRODUCE_VERSION,
    Client,
    create_topic,
    plain_batch,
    produce_request,
)
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from tests.robustness.node import Node, start_node

TOPIC: Final = "recovery"
PARTITIONS: Final = 4
IN_FLIGHT: Final = 8
BATCH_BYTES: Final = 900_000


@dataclass(frozen=True, slots=True)
class Start:
    """How a start went."""

    ready_s: float
    """From the process's beginning until it served."""
    acked_s: float
    """From the process's beginning until the first record was acknowledged."""
    read_bytes: int
    """What it had read by then, from the page cache or not."""
    rss_bytes: int


class Recovery:
    """A data directory that is filled, stopped in one way or the other, and started again."""

    def __init__(self, work: Path, properties: dict[str, str]) -> None:
        self._work = work
        self._properties = properties

    def start(self) -> tuple[Node, Start]:
        """Start a node and time it."""
        begun_s = time.monotonic()
        node = start_node(
            self._work / "data",
            self._work / "node.log",
            properties=self._properties,
            variables={},
        )
        ready_s = time.monotonic() - begun_s
        with Client(node.port) as client:
            create_topic(client, TOPIC, PARTITIONS, {"retention.ms": "-1"})
            where = TopicPartition(TOPIC, 0)
            request = produce_request(where, plain_batch(b"first"), acks=-1)
            answer = client.ask(ApiKey.PRODUCE, PRODUCE_VERSION, request)
            assert answer.responses[0].partition_responses[0].error_code == 0
        acked_s = time.monotonic() - begun_s
        return node, Start(ready_s, acked_s, node.read_bytes(), node.rss_bytes())

    def fill(self, node: Node, size_bytes: int) -> None:
        """Write so much."""
        batch = plain_batch(os.urandom(BATCH_BYTES))
        with Client(node.port) as client:
            for number in range(size_bytes // len(batch) + IN_FLIGHT):
                if number >= IN_FLIGHT:
                    answer = client.receive()
                    assert answer.responses[0].partition_responses[0].error_code == 0
                if number < size_bytes // len(batch):
                    where = TopicPartition(TOPIC, number % PARTITIONS)
                    request = produce_request(where, batch, acks=1)
                    client.send(ApiKey.PRODUCE, PRODUCE_VERSION, request)

    def wait_for_checkpoint(self) -> None:
        """Return when everything that is written now is checkpointed."""
        checkpoints = self._work / "data" / "checkpoints"
        for _ in range(2):  # the first one may have begun before
            seen_ns = checkpoints.stat().st_mtime_ns if checkpoints.exists() else 0
            deadline_s = time.monotonic() + 60
            while not checkpoints.exists() or checkpoints.stat().st_mtime_ns == seen_ns:
                assert time.monotonic() < deadline_s, "there is no checkpoint"
                time.sleep(0.02)


def describe(what: str, start: Start) -> str:
    """Return a line for a person."""
    return (
        f"{what}: ready after {start.ready_s:.2f} s, first record acknowledged after"
        f" {start.acked_s:.2f} s, {start.read_bytes / 1e6:.1f} MB read,"
        f" RSS {start.rss_bytes >> 20} MiB"
    )


def run(size_bytes: int, work: Path) -> None:
    """Measure starts with nothing, with much that was closed cleanly, and after kill -9."""
    recovery = Recovery(work, {"log.flush.offset.checkpoint.interval.ms": "1000"})
    node, start = recovery.start()
    print(describe("empty", start), flush=True)  # noqa: T201
    try:
        recovery.fill(node, size_bytes)
        assert node.stop() == 0, node.log_tail()
        node, start = recovery.start()
        print(describe(f"{size_bytes / 1e9:.1f} GB closed cleanly", start), flush=True)  # noqa: T201
        recovery.fill(node, size_bytes // 10)
        recovery.wait_for_checkpoint()
        node.kill()
        node, start = recovery.start()
        print(describe("killed right after a checkpoint", start), flush=True)  # noqa: T201
        recovery.fill(node, size_bytes // 50)
        node.kill()
        node, start = recovery.start()
        since = f"{size_bytes / 50e6:.0f} MB since a checkpoint or less"
        print(describe(f"killed with {since}", start), flush=True)  # noqa: T201
    finally:
        node.kill()


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="tests.robustness.recovery", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=10)
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="quorate-recovery-"))
    try:
        run(int(arguments.gigabytes * 1e9), work)
    finally:
        shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
