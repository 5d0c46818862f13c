"""The broker under test as a process of its own, started and ended as a user would."""

import dataclasses
import json
import signal
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from quorate.records.batch import BatchHeader, parse_header
from tests.compat.clients.model import Server
from tests.compat.peers import cache, java, nodes

POLL_S = 0.01
START_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker; `tls` is None where it has no such listener."""

    name: str
    node: nodes.Node
    data: Path
    server: Server
    tls: Server | None

    def partition_folder(self, topic: str, partition: int = 0) -> Path:
        """Return where the files of a partition are."""
        return self.data / f"{topic}-{partition}"

    def stored(self, topic: str, partition: int = 0) -> list[BatchHeader]:
        """Return the headers of all batches on disk, in their order."""
        headers: list[BatchHeader] = []
        for segment in sorted(self.partition_folder(topic, partition).glob("*.log")):
            content = segment.read_bytes()
            position = 0
            while position < len(content):
                headers.append(parse_header(content, position))
                position += headers[-1].size_bytes
        return headers


@contextmanager
def quorate(properties: Mapping[str, str], directory: Path) -> Generator[Broker]:
    """Run a node on ports that the system chooses; at its end see that it goes in peace."""
    properties = {"listeners": "PLAINTEXT://127.0.0.1:0", **properties}
    words = [word for name, value in properties.items() for word in ("-X", f"{name}={value}")]
    data = directory / "data"
    node = nodes.launch(
        "quorate",
        [sys.executable, "-m", "quorate.tools.cli", "--json", *words, "up", "--dir", str(data)],
        port=0,
        directory=directory,
        cores="",
        env=nodes.QUORATE_ENV,
    )
    try:
        listeners = _ready(node)["listeners"]
        node = dataclasses.replace(node, port=int(listeners["PLAINTEXT"].rpartition(":")[2]))
        tls = Server(listeners["SSL"], str(directory / "ca.pem")) if "SSL" in listeners else None
        yield Broker("quorate", node, _logs(data), Server(listeners["PLAINTEXT"]), tls)
        assert node.popen.poll() is None, f"the node ended by itself:\n{node.log_tail()}"
    finally:
        node.stop(by=signal.SIGTERM)
    said = node.log.read_text(errors="replace")
    assert "Traceback" not in said, said
    assert node.popen.returncode == 0, said


def _logs(data: Path) -> Path:
    """Return the folder that has a folder for each partition."""
    return data / "logs" if (data / "logs").is_dir() else data


@contextmanager
def kafka(properties: Mapping[str, str]) -> Generator[Broker]:
    """Run Apache Kafka instead, to learn whether a test asks what Kafka does."""
    with nodes.kafka(properties={"log.initial.task.delay.ms": "100", **properties}) as node:
        yield Broker("kafka", node, node.directory / "data", Server(node.bootstrap), None)


@contextmanager
def kafka_if_it_can_be_had(properties: Mapping[str, str]) -> Generator[Broker]:
    """Run Apache Kafka, or skip the test that asks for it, with the reason."""
    try:
        java.kafka_folder()
        cache.program("java")
    except cache.PeerUnavailableError as error:
        pytest.skip(error.reason)
    with kafka(properties) as broker:
        yield broker


def certify(directory: Path) -> dict[str, str]:
    """Write a certificate for the node and its authority's; return listeners that use it."""
    directory.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(directory / "ca.pem"))
    own = authority.issue_cert("127.0.0.1", "localhost")
    own.private_key_and_cert_chain_pem.write_to_path(str(directory / "node.pem"))
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.location": str(directory / "node.pem"),
    }


def _ready(node: nodes.Node) -> dict[str, Any]:
    """Return what the node prints when it serves."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        for line in node.log.read_text(errors="replace").splitlines():
            if line.startswith("{") and line.endswith("}"):
                event: dict[str, Any] = json.loads(line)
                return event
        if node.popen.poll() is not None:
            raise nodes.NodeFailedError(f"the node did not start:\n{node.log_tail()}")
        time.sleep(POLL_S)
    raise nodes.NodeFailedError(f"not ready in {START_TIMEOUT_S} s:\n{node.log_tail()}")
