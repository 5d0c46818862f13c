"""What Spark does with a sink, in its order, and what may happen to it: kills at every request."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from quorate.client.spark import cluster as clusters
from quorate.client.spark.connection import Connection
from quorate.client.spark.two_phase import LostTransactionError, Place
from quorate.client.spark.write_options import WriteOptions, parse_write
from quorate.protocol.apis import ApiKey

SLOTS = 2
ROWS = 5
BATCHES = 3
PATIENCE_MS = 60_000
FAULTY = 1
"""The micro-batch in which something happens."""


class KilledError(BaseException):
    """The process is dead."""


@dataclass(frozen=True)
class Fault:
    """Something happens at the nth request of an API: before it is sent, or while it is under way.

    ``after`` its answer is nearly the same as before the next one.
    """

    api: ApiKey
    nth: int
    mode: str
    error: type[BaseException] = KilledError

    def __str__(self) -> str:
        return f"{self.error.__name__} {self.mode} {self.api.name} {self.nth}"


@dataclass
class Wire:
    """Counts requests while it is armed, and strikes once."""

    fault: Fault | None = None
    armed: bool = False
    struck: bool = False
    seen: Counter[ApiKey] = field(default_factory=Counter[ApiKey])
    answered: Counter[ApiKey] = field(default_factory=Counter[ApiKey])

    def install(self, monkeypatch: Any) -> None:
        send, receive = Connection.send, Connection.receive

        def sending(connection: Any, api_key: int, request: Any, **words: Any) -> None:
            api = ApiKey(api_key)
            if self.armed:
                self.seen[api] += 1
                self.strike(api, self.seen[api], "before")
            send(connection, api_key, request, **words)
            if self.armed:
                self.strike(api, self.seen[api], "under way")

        def receiving(connection: Any) -> Any:
            api = ApiKey(connection._waiting[0].api.key)
            answer = receive(connection)
            if self.armed:
                self.answered[api] += 1
                self.strike(api, self.answered[api], "after")
            return answer

        monkeypatch.setattr(Connection, "send", sending)
        monkeypatch.setattr(Connection, "receive", receiving)

    def strike(self, api: ApiKey, nth: int, mode: str) -> None:
        fault = self.fault
        if fault is None or self.struck:
            return
        if (api, nth, mode) == (fault.api, fault.nth, fault.mode):
            self.struck = True
            self.seen.clear()
            self.answered.clear()
            raise fault.error(str(fault))


@dataclass
class Query:
    """A streaming query with a checkpoint; :meth:`run` goes on where it was.

    Attributes:
        servers: Where the brokers are.
        topic: Where to write.
        name: Of the run, of its query and its transactional id.
        wire: What happens.
        task_attempts: How often a task is tried in one run of the query.
        timeout_ms: How long a transaction may stay open, until something happens.
        pause_s: How long it takes to start the query again.
        transactional_id: Empty: the name.
        turns: Whether tasks get each other's rows when the query is started again.
    """

    servers: str
    topic: str
    name: str
    wire: Wire
    task_attempts: int = 1
    timeout_ms: int = PATIENCE_MS
    pause_s: float = 0
    transactional_id: str = ""
    turns: bool = False
    turn: int = 0
    commits: int = 0

    @property
    def options(self) -> WriteOptions:
        is_short = self.wire.armed and not self.wire.struck
        timeout_ms = self.timeout_ms if is_short else PATIENCE_MS
        return parse_write(
            {
                "kafka.bootstrap.servers": self.servers,
                "topic": self.topic,
                "transactional": "true",
                "kafka.transactional.id": self.transactional_id or self.name,
                "kafka.transaction.timeout.ms": str(timeout_ms),
                "kafka.delivery.timeout.ms": "20000",
            }
        )

    def rows(self, place: Place) -> Iterator[Any]:
        from quorate.client.spark.arrow import pa  # noqa: PLC0415 - it may not be there

        for numbers in (range(2), range(2, ROWS)):  # whose partitions are the same in each run
            keys = [f"{(place.slot + self.turn) % SLOTS}/{i}" for i in numbers]
            values = [f"{self.name}/{place.batch}/{key}" for key in keys]
            yield pa.RecordBatch.from_pydict({"key": keys, "value": values})

    def until_done(self, runs: int = 10) -> int:
        """Start the query until it ends well, and return how often that took."""
        for run in range(1, runs + 1):
            try:
                self.run()
            except (KilledError, LookupError, LostTransactionError):
                die()
                time.sleep(self.pause_s)
                self.turn += self.turns
            else:
                return run
        raise AssertionError(f"{self.name} does not end")

    def run(self) -> None:
        while self.commits < BATCHES:
            self.wire.armed = self.commits == FAULTY
            self.micro_batch(self.commits)
            self.wire.armed = False
            self.commits += 1

    def micro_batch(self, batch: int) -> None:
        from quorate.client.spark.sink import ExactlyOnceWriter  # noqa: PLC0415 - needs PySpark

        writer = ExactlyOnceWriter(self.options)
        messages: list[Any] = []
        try:
            for slot in range(SLOTS):
                messages += [self.task(writer, Place(self.name, batch, slot))]
            ExactlyOnceWriter(self.options).commit(messages, batch)
        except Exception:
            messages += [None] * (SLOTS - len(messages))
            ExactlyOnceWriter(self.options).abort(messages, batch)
            raise

    def task(self, writer: Any, place: Place) -> Any:
        for _ in range(self.task_attempts - 1):
            try:
                return writer.write_at(place, self.rows(place))
            except KilledError:
                die()
        return writer.write_at(place, self.rows(place))

    @property
    def wanted(self) -> list[str]:
        return sorted(
            f"{self.name}/{batch}/{slot}/{i}"
            for batch in range(BATCHES)
            for slot in range(SLOTS)
            for i in range(ROWS)
        )


def die() -> None:
    """End all connections, as the end of a process does."""
    clusters.forget()
