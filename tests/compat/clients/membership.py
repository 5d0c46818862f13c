"""Members of groups as processes of their own, so that one can die as consumers do."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.compat.clients.agent import HERE
from tests.compat.clients.model import DEADLINE_S, Server
from tests.compat.peers import cache, java

SESSION_MS: Final = 6_000
STOP_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.01
CLIENTS: Final = (
    "librdkafka",
    "kafka-python",
    "aiokafka",
    "Java kafka-clients",
    "quorate.client",
)

Read = tuple[int, int, str]
"""Partition, offset and value of a record."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Which group and topic, and how: with an instance id, committing each record, ..."""

    server: Server
    group: str
    topic: str
    instance_id: str = ""
    commit: bool = False
    session_ms: int = SESSION_MS
    strategy: str = "range"


class GroupMember:
    """A process with one consumer in a group, and what it has said."""

    def __init__(self, client: str, wish: Wish) -> None:
        self.client = client
        self.reads: list[Read] = []
        self.assigned: list[int] | None = None
        """The partitions it has; None as long as it has not joined."""
        settings = {
            "bootstrap": wish.server.bootstrap,
            "group": wish.group,
            "topic": wish.topic,
            "instance_id": wish.instance_id,
            "commit": wish.commit,
            "session_ms": wish.session_ms,
            "strategy": wish.strategy,
        }
        self._popen = subprocess.Popen(
            _command(client, json.dumps(settings)),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=cache.ROOT,
        )
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            with contextlib.suppress(json.JSONDecodeError):  # it may die within a line
                self._hear(json.loads(line))

    def _hear(self, told: dict[str, Any]) -> None:
        if "assigned" in told:
            self.assigned = told["assigned"]
        else:
            partition, offset, value = told["read"]
            self.reads.append((partition, offset, value))

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._popen.poll() is None

    def kill(self) -> None:
        """Let it die without a word."""
        self._popen.kill()
        self._end()

    def stop(self) -> None:
        """Let it leave."""
        self._popen.send_signal(signal.SIGTERM)
        try:
            self._popen.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
        self._end()

    def _end(self) -> None:
        self._popen.wait()
        self._thread.join()
        assert self._popen.stdout is not None
        self._popen.stdout.close()
        self.assigned = []


def _command(client: str, settings: str) -> list[str]:
    if client.startswith("Java"):
        classes = java.compile_java(HERE / "java")
        return java.java_command(
            "GroupMember", [settings], options=java.TOOL_OPTIONS, classes=[classes]
        )
    program = Path(__file__).with_name("group_member.py")
    return [sys.executable, str(program), client, settings]


@contextmanager
def crew() -> Generator[Callable[[str, Wish], GroupMember]]:
    """Start members; whoever is left in the end is killed."""
    started: list[GroupMember] = []

    def start(client: str, wish: Wish) -> GroupMember:
        started.append(GroupMember(client, wish))
        return started[-1]

    try:
        yield start
    finally:
        for member in started:
            if member.alive:
                member.kill()


def wait_for_shares(members: Iterable[GroupMember], shares: Iterable[int], topic_size: int) -> None:
    """Wait until the members have so many partitions each, in any order, and none twice."""
    crew_now, wanted = list(members), sorted(shares)

    def shared() -> bool:
        have = [member.assigned for member in crew_now]
        flat = sorted(p for each in have for p in each or ())
        counts = sorted(len(each) for each in have if each is not None)
        return counts == wanted and flat == list(range(topic_size))

    wait_until(shared, lambda: str([(m.client, m.assigned, m.alive) for m in crew_now]))


def wait_until(condition: Callable[[], bool], why: Callable[[], str]) -> None:
    """Wait for a condition, and say how things stand if it does not come."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, why()
        time.sleep(POLL_S)
