"""Controllers and a broker as processes of their own, for tests of what people type."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import trio

from quorate.model import Endpoint
from quorate.net.ports import free_ports
from quorate.tools.arguments import GlobalOptions, glancing
from quorate.tools.quorum.view import status_table
from quorate.tools.quorum_work import look

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60.0
STOP_S = 20.0
POLL_S = 0.05
COMMAND = (sys.executable, "-m", "quorate.tools.cli")


def environment(**more: str) -> dict[str, str]:
    """The environment of a command, without what a person may have set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("QUORATE_")}
    return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "100", **more}


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    def items(self) -> list[dict[str, Any]]:
        """Return the rows of what it printed as JSON."""
        items: list[dict[str, Any]] = json.loads(self.out)["items"]
        return items


def quorate(*words: str, stdin: str = "", timeout_s: float = TIMEOUT_S) -> Done:
    """Run a command to its end."""
    done = subprocess.run(
        [*COMMAND, *words], input=stdin, capture_output=True, text=True, timeout=timeout_s,
        env=environment(), check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def endpoint(address: str) -> Endpoint:
    """Return an address as our own code takes it."""
    host, _, port = address.rpartition(":")
    return Endpoint(host, int(port))


def free_addresses(count: int) -> list[str]:
    """Return addresses that nobody listens on."""
    return [f"127.0.0.1:{port}" for port in free_ports(count)]


class Node:
    """A node's process; its output is in a file, and says when it is ready."""

    def __init__(self, words: Sequence[str], log_path: Path) -> None:
        self._log_path = log_path
        with log_path.open("wb") as log:
            command = [*COMMAND, *words, "--format", "jsonl"]
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment()
            )

    @property
    def said(self) -> str:
        """All it printed."""
        return self._log_path.read_text(errors="replace")

    def wait_ready(self) -> dict[str, Any]:
        """Return what it says when it serves."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            for line in self.said.splitlines():
                if line.startswith("{"):
                    ready: dict[str, Any] = json.loads(line)
                    return ready
            assert self.process.poll() is None, f"the node ended: {self.said}"
            time.sleep(POLL_S)
        raise AssertionError(f"the node is not ready: {self.said}")

    def kill(self) -> None:
        """End it without asking."""
        self.process.kill()
        self.process.wait(TIMEOUT_S)

    def stop(self) -> None:
        """End it as a person would; it must go in peace."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(TIMEOUT_S) == 0, self.said
        assert "Traceback" not in self.said, self.said


class Quorum:
    """Controllers 1 to n, and those that are started later; all get the same further options."""

    def __init__(self, folder: Path, count: int, *options: str) -> None:
        self.folder = folder
        self._options = options
        self.addresses = dict(enumerate(free_addresses(count), 1))
        self.nodes: dict[int, Node] = {}

    def __enter__(self) -> Self:
        try:
            for node_id in self.addresses:
                self.start(node_id)
            for node in self.nodes.values():
                node.wait_ready()
        except BaseException:
            self._end(signal.SIGKILL)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del error, trace
        try:
            self._end(signal.SIGTERM if kind is None else signal.SIGKILL)
        except BaseException:
            self._end(signal.SIGKILL)
            raise
        for node_id, node in self.nodes.items():
            assert "Traceback" not in node.said, f"controller {node_id}: {node.said}"

    def _end(self, by: signal.Signals) -> None:
        """End all that run, at once."""
        for node in self.nodes.values():
            node.process.send_signal(by)
        for node_id, node in self.nodes.items():
            try:
                node.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"controller {node_id} does not end: {node.said}") from None

    @property
    def join(self) -> str:
        """What all of them are told."""
        return ",".join(self.addresses.values())

    def directory(self, node_id: int) -> Path:
        """Return where a controller keeps its data."""
        return self.folder / f"c{node_id}"

    def start(self, node_id: int) -> Node:
        """Start a controller, one of the first or one more."""
        if node_id not in self.addresses:
            (self.addresses[node_id],) = free_addresses(1)
        words = ["controller", "start", "--id", str(node_id), "--dir", str(self.directory(node_id))]
        words += ["--listen", self.addresses[node_id], "--join", self.join, *self._options]
        node = self.nodes[node_id] = Node(words, self.folder / f"c{node_id}.log")
        return node

    def run(self, *words: str, stdin: str = "") -> Done:
        """Run a command that asks the controllers."""
        return quorate(*words, "-C", self.join, stdin=stdin)

    def status(self) -> dict[str, Any]:
        """Return the state of the quorum, as ``quorate quorum status --json`` tells it."""
        view = trio.run(look, glancing(GlobalOptions(bootstrap="", controllers=self.join)))
        (status,) = json.loads(json.dumps(status_table(view).items()))
        told: dict[str, Any] = status
        return told

    def wait_for(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first state of the quorum for which something holds."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            status = self.status()
            if holds(status):
                return status
            assert time.monotonic() < deadline, status
            time.sleep(POLL_S)


@contextmanager
def broker_process_of(quorum: Quorum, *options: str) -> Generator[Node]:
    """Run a broker of a quorum until the block ends, or it ends by itself."""
    words = ["broker", "start", "--id", "100", "--port", "0", "--controllers", quorum.join]
    words += ["--dir", str(quorum.folder / "b100"), *options]
    node = Node(words, quorum.folder / "b100.log")
    try:
        node.wait_ready()
        yield node
        node.stop()
    finally:
        node.process.kill()
        node.process.wait(TIMEOUT_S)


@contextmanager
def broker_of(quorum: Quorum) -> Generator[str]:
    """Run a broker of a quorum until the block ends; say where it serves."""
    with broker_process_of(quorum) as node:
        yield str(node.wait_ready()["listeners"]["PLAINTEXT"])
