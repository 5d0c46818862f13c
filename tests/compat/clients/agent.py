"""Clients of other languages: a small program of ours around each, asked in lines of JSON.

One process serves the whole test run, because a JVM takes longer to start than to do a test's work.
"""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.compat.clients.model import (
    DEADLINE_S,
    Client,
    Message,
    Op,
    PartitionInfo,
    PeerError,
    Place,
    Received,
    Sending,
    Server,
    Task,
    TopicSpec,
)
from tests.compat.peers import cache, java

HERE = Path(__file__).resolve().parent.parent
STOP_TIMEOUT_S = 10.0
BUILD_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a command line tool said."""

    status: int
    stdout: str
    stderr: str


class Agent(Client):
    """A process that answers one line for each line it reads."""

    def __init__(self, command: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._popen = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )

    def close(self) -> None:
        """End the process; it ends by itself when nobody can ask any more."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.close()
        try:
            self._popen.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._popen.stdout.close()
        self._errors.close()

    def ask(self, op: str, **arguments: Any) -> Any:
        """Have something done; raises PeerError as the program tells."""
        line = json.dumps({"op": op, "deadline_ms": int(DEADLINE_S * 1000), **arguments})
        with self._lock:
            assert self._popen.stdin is not None
            assert self._popen.stdout is not None
            with contextlib.suppress(BrokenPipeError):  # then it has said why
                self._popen.stdin.write(line.encode() + b"\n")
                self._popen.stdin.flush()
            answer = self._popen.stdout.readline()
        if not answer:
            self._errors.seek(0)
            raise AssertionError(f"{self.name} ended: {self._errors.read()[-2000:]!r}")
        told = json.loads(answer)
        if "error" in told:
            raise PeerError(told["error"], told.get("message") or "")
        return told["ok"]

    def version(self) -> str:
        return str(self.ask("version"))

    def produce(
        self, server: Server, topic: str, messages: Sequence[Message], how: Sending
    ) -> list[Place]:
        stored = self.ask(
            "produce",
            **_where(server),
            topic=topic,
            messages=[_message(message) for message in messages],
            codec=how.codec,
            acks=how.acks,
            idempotent=how.idempotent,
            request_bytes_max=how.request_bytes_max,
        )
        return [Place(partition, offset) for partition, offset in stored]

    def consume(self, server: Server, task: Task) -> list[Received]:
        records = self.ask(
            "consume",
            **_where(server),
            topic=task.topic,
            starts=[{"partition": p, "offset": _start(start)} for p, start in task.starts.items()],
            count=task.count,
            reset=task.reset,
            fetch_bytes_max=task.fetch_bytes_max,
        )
        return [_received(record) for record in records]

    def offset_for_time(
        self, server: Server, topic: str, partition: int, timestamp_ms: int
    ) -> int | None:
        asked = {"topic": topic, "partition": partition, "timestamp": timestamp_ms}
        offset: int = self.ask("time", **_where(server), **asked)
        return offset if offset >= 0 else None

    def ends(self, server: Server, topic: str, partition: int) -> tuple[int, int]:
        low, high = self.ask("ends", **_where(server), topic=topic, partition=partition)
        return low, high

    def topics(self, server: Server) -> set[str]:
        return set(self.ask("topics", **_where(server)))

    def describe(self, server: Server, topic: str) -> dict[int, PartitionInfo]:
        return {
            partition: PartitionInfo(leader, tuple(replicas), tuple(isr))
            for partition, leader, replicas, isr in self.ask(
                "describe", **_where(server), topic=topic
            )
        }

    def create(self, server: Server, topic: TopicSpec) -> None:
        self.ask(
            "create",
            **_where(server),
            topic=topic.name,
            partitions=topic.partitions,
            configs=dict(topic.configs),
        )

    def delete(self, server: Server, topic: str) -> None:
        self.ask("delete", **_where(server), topic=topic)

    def add_partitions(self, server: Server, topic: str, total: int) -> None:
        self.ask("partitions", **_where(server), topic=topic, total=total)

    def configs(self, server: Server, topic: str) -> dict[str, str | None]:
        told: dict[str, str | None] = self.ask("configs", **_where(server), topic=topic)
        return told

    def configure(self, server: Server, topic: str, name: str, value: str) -> None:
        self.ask("configure", **_where(server), topic=topic, name=name, value=value)

    def delete_records(self, server: Server, topic: str, partition: int, before: int) -> int:
        asked = {"topic": topic, "partition": partition, "before": before}
        low: int = self.ask("delete_records", **_where(server), **asked)
        return low


class Java(Agent):
    """Apache Kafka's own client, and its command line tools in the same JVM."""

    name: ClassVar[str] = "Java kafka-clients"

    def __init__(self) -> None:
        classes = java.compile_java(HERE / "java")
        super().__init__(
            java.java_command("Agent", [], options=java.TOOL_OPTIONS, classes=[classes])
        )

    def tool(self, main_class: str, *args: str, stdin: str = "") -> ToolResult:
        """Run the main method of a tool, such as `org.apache.kafka.tools.TopicCommand`."""
        told = self.ask("tool", main=main_class, args=list(args), stdin=stdin)
        return ToolResult(told["status"], told["stdout"], told["stderr"])


class FranzGo(Agent):
    """The client of most programs in Go."""

    name: ClassVar[str] = "franz-go"

    def __init__(self) -> None:
        super().__init__([str(_build_go(HERE / "go"))])


class OtherGo(Agent):
    """A client in Go that is asked for little: to produce, to consume, to be in a group."""

    def __init__(self) -> None:
        super().__init__([str(_build_go(HERE / "go_more")), self.name])


class Sarama(OtherGo):
    """The client of many older programs in Go; speaks the protocol of a release that it is told."""

    name: ClassVar[str] = "sarama"


class KafkaGo(OtherGo):
    """A client in Go that knows few versions, and old ones, of what it asks."""

    name: ClassVar[str] = "kafka-go"


class KafkaJs(Agent):
    """The client of most programs in JavaScript; it is old, and so are the versions it speaks."""

    name: ClassVar[str] = "KafkaJS"
    lacks = frozenset({Op.ZSTD, Op.HEADERS_IN_ORDER, Op.NULL_HEADERS, Op.RESET_NONE})

    def __init__(self) -> None:
        node = cache.program("node")
        super().__init__([node, str(_install_javascript(HERE / "javascript") / "agent.js")])


def _install_javascript(sources: Path) -> Path:
    files = sorted(sources.iterdir())
    npm = cache.program("npm")

    def install(folder: Path) -> None:
        for file in files:
            shutil.copy(file, folder)
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")
        command = [npm, "install", "--prefix", str(folder), *options]
        cache.run(command, timeout_s=BUILD_TIMEOUT_S)

    digest = cache.digest_of([file.read_bytes() for file in files])
    return cache.made(f"native/javascript-{digest}", install)


def _build_go(sources: Path) -> Path:
    files = sorted(path for path in sources.iterdir() if path.suffix in {".go", ".mod", ".sum"})
    digest = cache.digest_of([file.read_bytes() for file in files])
    go = cache.program("go")

    def build(folder: Path) -> None:
        source = folder / "source"
        source.mkdir()
        for file in files:
            shutil.copy(file, source)
        command = [go, "build", "-C", str(source), "-o", str(folder / "agent"), "."]
        cache.run(command, timeout_s=BUILD_TIMEOUT_S, env=_go_environment())
        shutil.rmtree(source)

    return cache.made(f"native/go-{digest}", build) / "agent"


def _go_environment() -> Mapping[str, str]:
    """Return settings that take the toolchain that is there, not another one from the net."""
    return {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": os.environ.get("GOFLAGS", "")}


def _where(server: Server) -> dict[str, str]:
    return {"bootstrap": server.bootstrap, "ca": server.ca}


def _start(start: int | str) -> int:
    return {"earliest": -2, "latest": -1}[start] if isinstance(start, str) else start


def _message(message: Message) -> dict[str, Any]:
    return {
        "key": _encoded(message.key),
        "value": _encoded(message.value),
        "headers": [[name, _encoded(value)] for name, value in message.headers],
        "timestamp": message.timestamp_ms,
        "partition": message.partition,
    }


def _received(record: Mapping[str, Any]) -> Received:
    return Received(
        record["partition"],
        record["offset"],
        record["timestamp"],
        _decoded(record["key"]),
        _decoded(record["value"]),
        tuple((name, _decoded(value)) for name, value in record["headers"] or ()),
    )


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
