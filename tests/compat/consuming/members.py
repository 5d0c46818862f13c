"""Members of librdkafka, of Java's client and of ours behind one interface."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import confluent_kafka as ck
import trio

from quorate.client import Consumer, SubscriptionPattern
from tests.compat.clients.agent import Agent
from tests.compat.clients.model import DEADLINE_S, Server
from tests.compat.peers import java

HERE = Path(__file__).parent


class Member(Protocol):
    """A consumer in a group."""

    def assigned(self) -> set[str]:
        """Return what it is to read: ``topic-partition`` each."""
        ...

    def read(self) -> list[str]:
        """Return what it has read: ``topic-partition@offset`` each."""
        ...

    def end(self) -> None:
        """Have it leave, and commit what it has read."""
        ...


class Librdkafka:
    """A member of librdkafka in a thread of its own."""

    def __init__(
        self,
        server: Server,
        topics: Sequence[str],
        settings: Mapping[str, str],
        pattern: str | None,
    ) -> None:
        self._consumer = ck.Consumer(
            {
                "bootstrap.servers": server.bootstrap,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                **settings,
            }
        )
        self._consumer.subscribe([f"^{pattern}$"] if pattern else list(topics))
        self._lock = threading.Lock()
        self._assigned: set[str] = set()
        self._read: list[str] = []
        self._goes_on = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._goes_on:
            message = self._consumer.poll(0.05)
            with self._lock:
                if message is not None and message.error() is None:
                    where = f"{message.topic()}-{message.partition()}@{message.offset()}"
                    self._read.append(where)
                self._assigned = {f"{p.topic}-{p.partition}" for p in self._consumer.assignment()}
        self._consumer.close()

    def assigned(self) -> set[str]:
        with self._lock:
            return set(self._assigned)

    def read(self) -> list[str]:
        with self._lock:
            return list(self._read)

    def end(self) -> None:
        self._goes_on = False
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()


class OurMember:
    """A member of ours in a thread of its own."""

    def __init__(
        self,
        server: Server,
        topics: Sequence[str],
        settings: Mapping[str, str],
        pattern: str | None,
    ) -> None:
        self._server = server
        names = {name.replace(".", "_"): value for name, value in settings.items()}
        self._settings: dict[str, Any] = {
            name: int(value) if name.endswith("_ms") else value for name, value in names.items()
        }
        self._wish = SubscriptionPattern(pattern) if pattern else topics
        self._assigned: set[str] = set()
        self._read: list[str] = []
        self._error: Exception | None = None
        self._goes_on = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            trio.run(self._consume)
        except Exception as error:  # noqa: BLE001 - told to whom looks
            self._error = error

    async def _consume(self) -> None:
        async with Consumer(
            self._server.bootstrap, auto_offset_reset="earliest", **self._settings
        ) as consumer:
            consumer.subscribe(self._wish)
            while self._goes_on:
                for record in await consumer.poll(timeout_ms=50):
                    self._read.append(f"{record.topic}-{record.partition}@{record.offset}")
                self._assigned = {f"{p.topic}-{p.partition}" for p in consumer.assignment}

    def assigned(self) -> set[str]:
        assert self._error is None, self._error
        return set(self._assigned)

    def read(self) -> list[str]:
        assert self._error is None, self._error
        return list(self._read)

    def end(self) -> None:
        self._goes_on = False
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        assert self._error is None, self._error


class JavaMembers(Agent):
    """A JVM that has members in it."""

    name: ClassVar[str] = "Java kafka-clients"

    def __init__(self) -> None:
        classes = java.compile_java(HERE)
        super().__init__(
            java.java_command("Members", [], options=java.TOOL_OPTIONS, classes=[classes])
        )


class JavaMember:
    """One of them."""

    def __init__(
        self,
        jvm: JavaMembers,
        name: str,
        server: Server,
        topics: Sequence[str],
        settings: Mapping[str, str],
        pattern: str | None,
    ) -> None:
        self._jvm, self._name = jvm, name
        settings = {"bootstrap.servers": server.bootstrap, **settings}
        jvm.ask("start", name=name, topics=list(topics), settings=settings, pattern=pattern)

    def _look(self) -> Any:
        told = self._jvm.ask("look", name=self._name)
        assert not told["error"], told["error"]
        return told

    def assigned(self) -> set[str]:
        return set(self._look()["assigned"])

    def read(self) -> list[str]:
        return list(self._look()["read"])

    def end(self) -> None:
        told = self._jvm.ask("end", name=self._name)
        assert not told["error"], told["error"]


def eventually(what: Callable[[], bool], describe: Callable[[], object]) -> None:
    """Wait until something is so, far longer than it should take."""
    deadline = time.monotonic() + 2 * DEADLINE_S
    while not what():
        assert time.monotonic() < deadline, describe()
        time.sleep(0.05)
