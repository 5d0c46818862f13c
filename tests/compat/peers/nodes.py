"""Brokers as processes on loopback: Apache Kafka, Quorate, or any other of that protocol."""

import base64
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from quorate.net.ports import free_ports
from tests.compat.peers import cache, java, process

HOST = "127.0.0.1"
POLL_INTERVAL_S = 0.002
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 30.0
KILL_TIMEOUT_S = 1.0
LOG_TAIL_LINES = 15
KAFKA_CONFIGURATION = "server.properties"

QUORATE_ENV: Mapping[str, str] = {"PYTHONPATH": str(cache.ROOT), "PYTHONDONTWRITEBYTECODE": ""}
"""Its modules are compiled once, as those of an installed program are, not at every start."""

# What Kafka's own start script passes when nobody says otherwise.
KAFKA_OPTIONS = (
    *("-server", "-Xmx1G", "-Xms1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    *("-XX:MaxInlineLevel=15", "-Djava.awt.headless=true", "-Dquorate.log.level=INFO"),
)

# Compiled once and not twice, on one core: quicker for a node that lives for seconds or minutes.
SHORT_LIVED_KAFKA_OPTIONS = (
    *("-Xmx1G", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *("-Djava.awt.headless=true", "-Dquorate.log.level=INFO"),
)


class NodeFailedError(Exception):
    """A broker did not start, or ended by itself; carries the end of its log."""


@dataclass(frozen=True, slots=True)
class Node:
    """A running broker: where it listens, what it costs.  `name` is for people."""

    name: str
    port: int
    directory: Path
    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{HOST}:{self.port}"

    def cpu_seconds(self) -> float:
        """Return the CPU time used so far."""
        return process.cpu_seconds_of(self.popen.pid)

    def memory(self) -> process.Memory:
        """Return the resident memory."""
        return process.memory_of(self.popen.pid)

    def log_tail(self) -> str:
        """Return the last lines that the node printed."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])

    def wait_until_it_listens(self, timeout_s: float) -> None:
        """Return when the port takes connections; raises NodeFailedError."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.popen.poll() is not None:
                raise NodeFailedError(
                    f"{self.name} ended with {self.popen.returncode}:\n{self.log_tail()}"
                )
            try:
                socket.create_connection((HOST, self.port)).close()
            except OSError:
                time.sleep(POLL_INTERVAL_S)
            else:
                return
        raise NodeFailedError(
            f"{self.name} does not listen after {timeout_s} s:\n{self.log_tail()}"
        )

    def stop(self, *, by: signal.Signals = signal.SIGTERM) -> None:
        """End the node and all that it started; kills what does not go in time."""
        if self.popen.poll() is None:
            self.popen.send_signal(by)
        try:
            self.popen.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _kill_session(self.popen.pid)
            self.popen.wait()


def free_port() -> int:
    """Return a port that nobody listens on.  A stranger may, a moment later."""
    return free_ports(1)[0]


def launch(
    name: str,
    command: Sequence[str],
    *,
    port: int,
    directory: Path,
    cores: str,
    env: Mapping[str, str] | None = None,
) -> Node:
    """Start a broker without waiting for it.  `cores` is a list for taskset, or empty."""
    pinned = [cache.program("taskset"), "-c", cores, *command] if cores else list(command)
    log = directory / f"{name}.log"
    directory.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        started = subprocess.Popen(
            pinned,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,  # so that its children can be found and ended with it
        )
    return Node(name, port, directory, started, log)


@contextmanager
def running(node: Node) -> Generator[Node]:
    """Wait until a launched node listens; end it at the end."""
    try:
        node.wait_until_it_listens(START_TIMEOUT_S)
        yield node
    finally:
        node.stop()


@contextmanager
def temporary_folder() -> Generator[Path]:
    """Give a folder for a broker's data and remove it with all that it holds."""
    folder = Path(tempfile.mkdtemp(prefix="quorate-peer-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def kafka_properties(
    *, directory: Path, port: int, controller_port: int, properties: Mapping[str, str]
) -> str:
    """Return server.properties of a single node that is broker and controller."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(directory / "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        **properties,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def new_cluster_id() -> str:
    """Return an id that Kafka's tools do not take for an option."""
    return "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:].rstrip("=")


def format_kafka(
    directory: Path,
    *,
    port: int,
    properties: Mapping[str, str],
    controller_port: int = 0,
    cluster_id: str = "",
) -> Path:
    """Write the configuration and format the storage of a Kafka node; returns the configuration.

    Without a port of its own the controller gets a free one, without a cluster a new one.
    """
    directory.mkdir(parents=True, exist_ok=True)
    configuration = directory / KAFKA_CONFIGURATION
    configuration.write_text(
        kafka_properties(
            directory=directory,
            port=port,
            controller_port=controller_port or free_port(),
            properties=properties,
        )
    )
    cluster_id = cluster_id or new_cluster_id()
    done = java.java_tool(
        "kafka.tools.StorageTool", ["format", "-t", cluster_id, "-c", configuration]
    )
    if done.returncode != 0:
        raise NodeFailedError(f"Kafka's storage cannot be formatted:\n{done.stdout}{done.stderr}")
    return configuration


def launch_kafka(
    configuration: Path,
    *,
    port: int,
    directory: Path,
    cores: str,
    options: Sequence[str] = KAFKA_OPTIONS,
    env: Mapping[str, str] | None = None,
) -> Node:
    """Start Kafka on formatted storage without waiting for it."""
    command = java.java_command("kafka.Kafka", [configuration], options=options, classes=())
    return launch("kafka", command, port=port, directory=directory, cores=cores, env=env)


@contextmanager
def kafka(*, properties: Mapping[str, str] | None = None) -> Generator[Node]:
    """Run Apache Kafka in KRaft mode: one node, fresh data, a JVM that starts quickly.

    Raises PeerUnavailableError without Java or the jars, NodeFailedError if it does not start.
    """
    with temporary_folder() as directory:
        port = free_port()
        configuration = format_kafka(directory, port=port, properties=properties or {})
        node = launch_kafka(
            configuration,
            port=port,
            directory=directory,
            cores="",
            options=SHORT_LIVED_KAFKA_OPTIONS,
        )
        with running(node):
            yield node


def quorate_command(
    *, port: int, directory: Path, properties: Mapping[str, str] | None = None
) -> list[str]:
    """Return the command that starts this repository's broker, with controller, on that port."""
    arguments = ["up", "--port", str(port), "--dir", str(directory / "data")]
    for name, value in (properties or {}).items():
        arguments += ["-X", f"{name}={value}"]
    return [sys.executable, "-m", "quorate.tools.cli", *arguments]


def launch_quorate(
    *, port: int, directory: Path, cores: str, properties: Mapping[str, str] | None = None
) -> Node:
    """Start Quorate without waiting for it."""
    return launch(
        "quorate",
        quorate_command(port=port, directory=directory, properties=properties),
        port=port,
        directory=directory,
        cores=cores,
        env=QUORATE_ENV,
    )


@contextmanager
def quorate(*, cores: str = "", properties: Mapping[str, str] | None = None) -> Generator[Node]:
    """Run Quorate: one node, fresh data, defaults but for these.  Raises NodeFailedError."""
    with temporary_folder() as directory:
        node = launch_quorate(
            port=free_port(), directory=directory, cores=cores, properties=properties
        )
        with running(node):
            yield node


def _kill_session(leader_pid: int) -> None:
    """End what is left of the session that `launch` opened, and see it go."""
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            os.killpg(leader_pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        time.sleep(POLL_INTERVAL_S)
