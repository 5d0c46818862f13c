"""Committed offsets as registers: set forth and back, and read, by clients that are no members.

Proves that what a group has committed is linearizable: whoever asks is told what was committed
last, with the metadata that belongs to it, through failovers of coordinators, and in the end all of
it is still there. Each request is sent once, so that its outcome is known or is not. Offsets go
back as often as forth, as those do that ``quorate groups reset`` sets.
"""

import threading
import time
from collections.abc import Sequence
from random import Random
from typing import Final

from quorate.errors import ErrorCode, KafkaError
from quorate.jepsen.clients import committed
from quorate.jepsen.clients.committed import Committed
from quorate.jepsen.clients.outcomes import of_commit
from quorate.jepsen.clients.raw import NotNowError, Raw
from quorate.jepsen.clients.wire import ClosedError
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Recorder, Scribe
from quorate.jepsen.workloads.producing import Pace
from quorate.jepsen.workloads.registers import Registers
from quorate.jepsen.workloads.workload import Context, Topic, WorkloadKind
from quorate.model import TopicPartition

TOPIC: Final = "offsets"
GROUPS: Final = 6
CLIENTS: Final = 5
WRITES: Final = 0.5
OFFSET_MAX: Final = 1_000_000
TIMEOUT_S: Final = 3.0
FINAL_S: Final = 20.0
TICK_S: Final = 0.01
AGAIN_S: Final = 0.1
CLOSE_S_MAX: Final = 15.0
PER_S_MAX: Final = 100
"""More for each client would leave the failing ones in a hurry."""


class _Client:
    """Commits and asks, one after the other; for one thread."""

    def __init__(
        self, recorder: Recorder, bootstrap: str, where: TopicPartition, rng: Random
    ) -> None:
        self._scribe = Scribe(recorder)
        self._raw = Raw(bootstrap, TIMEOUT_S)
        self._where = where
        self._rng = rng
        self._number = recorder.process()  # and never given back
        self._writes = 0

    def act(self, group: str) -> None:
        """Set an offset, or ask for it."""
        if self._rng.random() < WRITES:
            self._commit(group)
        else:
            self.read(group)

    def _commit(self, group: str) -> None:
        self._writes += 1
        value = Committed(self._rng.randrange(OFFSET_MAX), f"{self._number}-{self._writes}")
        self._scribe.begin("put", [self._key(group), _shown(value)])
        try:
            code = committed.commit(self._raw, group, {self._where: value})
        except NotNowError as error:
            self._scribe.end(Kind.FAIL, "put", str(error))
            time.sleep(AGAIN_S)
        except ClosedError as error:
            self._scribe.end(Kind.INFO, "put", str(error))
        else:
            kind = of_commit(code)
            self._scribe.end(kind, "put", None if kind is Kind.OK else code.name)
            if code != ErrorCode.NONE:
                time.sleep(AGAIN_S)

    def read(self, group: str) -> bool:
        """Ask what is committed; return whether that was told."""
        self._scribe.begin("get", self._key(group))
        try:
            found = committed.fetch(self._raw, group, [self._where])[self._where]
        except (NotNowError, ClosedError, KafkaError) as error:
            self._scribe.end(Kind.FAIL, "get", str(error))
            time.sleep(AGAIN_S)
            return False
        self._scribe.end(Kind.OK, "get", None if found.offset < 0 else _shown(found))
        return True

    def _key(self, group: str) -> str:
        return f"offset {group} {self._where}"

    def close(self) -> None:
        """Hang up."""
        self._raw.close()


def _shown(value: Committed) -> str:
    return f"{value.offset} {value.metadata}"


class Offsets:
    """Clients in threads, and in the end one that asks for everything."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._topic = context.topic_options.topic(TOPIC)
        self._groups = Registers(GROUPS, lambda number: f"{self._topic.name}-{number}")
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._errors: list[str] = []

    def topics(self) -> Sequence[Topic]:
        """Return the topic whose offsets they are; nobody writes to it."""
        return [self._topic]

    def start(self) -> None:
        """Begin."""
        for _ in range(CLIENTS):
            rng = Random(self._context.rng.getrandbits(64))
            thread = threading.Thread(target=self._run, args=(self._client(), rng), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _client(self) -> _Client:
        rng = Random(self._context.rng.getrandbits(64))
        where = TopicPartition(self._topic.name, 0)
        return _Client(self._context.recorder, self._context.bootstrap, where, rng)

    def _run(self, client: _Client, rng: Random) -> None:
        pace = Pace(min(PER_S_MAX, self._context.rate_per_s / CLIENTS), time.monotonic())
        try:
            while not self._stopping.wait(TICK_S):
                for _ in range(pace.due(time.monotonic())):
                    if self._stopping.is_set():
                        break
                    client.act(self._groups.some(rng))
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            self._errors.append(f"a client that commits failed: {error!r}")
        finally:
            client.close()

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(CLOSE_S_MAX)

    def final(self) -> None:
        """Ask for everything that was ever committed."""
        client = self._client()
        deadline_s = time.monotonic() + FINAL_S
        for group in self._groups.all():
            while not client.read(group):
                if time.monotonic() > deadline_s:
                    self._errors.append(f"nobody says in the end what {group} has committed")
                    break
        client.close()

    def errors(self) -> Sequence[str]:
        """Return what went wrong with clients."""
        return self._errors

    def close(self) -> None:
        """End at once."""
        self.stop()


OFFSETS: Final = WorkloadKind(
    "offsets",
    "offsets of groups are set forth and back, and asked for",
    Offsets,
    quotas_per_s={"changes": 0.5},
)
