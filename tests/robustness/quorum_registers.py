"""Registers kept in a quorum's metadata: configurations that clients compare and set, and read.

A read asks the leader which version is the newest, and then any controller for the facts up to it:
what it returns was the newest at some time between the two.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from quorate.control import messages as m
from quorate.errors import ErrorCode
from quorate.jepsen.clients.controllers import (
    MaybeDoneError,
    NotDoneError,
    QuorumClient,
    new_request_id,
)
from quorate.jepsen.clients.following import Follower
from quorate.jepsen.linearizability import NEVER, Cas, Get, Operation
from quorate.quorum.metadata.image import BROKER, ConfigResource
from quorate.quorum.metadata.records import ConfigSet, MetadataRecord
from tests.robustness.quorum_history import Change, Feed, History

PROPERTY: Final = "log.retention.ms"
"""Takes any number."""
REGISTERS: Final = 8
CLIENTS: Final = 6
READS: Final = 0.3
"""How often a client is content with having read."""
STALE: Final = 0.1
"""How often it expects a value that it saw long ago, instead of what it has just read."""
PERSISTENT: Final = 0.5
"""How often a client tries again what may have been done, under the same id."""
PAUSE_S_MAX: Final = 0.01
QUICK_S: Final = 1.5
PATIENT_S: Final = 6.0
CATCH_UP_S_MAX: Final = 30.0
POLL_MS: Final = 1000
VIEW_INTERVAL_S: Final = 0.05
GIVE_UP_S: Final = 0.1


class Reader(Follower):
    """Follows the metadata of one controller, and keeps what it was told of configurations."""

    def __init__(self, port: int, node_id: int) -> None:
        super().__init__(port)
        self.feed = Feed(node_id, {}, [], 0)

    def poll(self, wait_ms: int, timeout_s: float) -> None:
        """Take what is new, if anything is within that time."""
        super().poll(wait_ms, timeout_s)
        self.feed = replace(self.feed, end=self.image.version)

    def took_snapshot(self, before: int) -> None:
        """Note what is not known because of it."""
        if before:
            self.feed.gaps.append((before, self.image.version))
        else:
            self.feed = replace(self.feed, start=self.image.version)

    def took(self, version: int, records: Sequence[MetadataRecord]) -> None:
        """Note the configurations among them."""
        self.feed.changes[version] = tuple(
            Change(record.resource_name, record.value)
            for record in records
            if isinstance(record, ConfigSet)
        )

    def value(self, key: str) -> str | None:
        """Return what a register has in the image."""
        return self.image.config(ConfigResource(BROKER, key)).get(PROPERTY)


class RegisterClient:
    """One client: reads and writes registers and notes what became of it; for one thread."""

    def __init__(self, number: int, ports: Sequence[int], history: History, rng: Random) -> None:
        self._number = self._name = number
        self._first = history.first_key
        self._rng = rng
        self._history = history
        self._client = QuorumClient(ports, rng.randrange(len(ports)))
        self._readers = [Reader(port, place) for place, port in enumerate(ports)]
        self._seen: dict[str, list[str | None]] = {}
        self._writes = 0

    def act(self) -> None:
        """Do one thing with one register."""
        key = str(self._first + self._rng.randrange(REGISTERS))
        stale = key in self._seen and self._rng.random() < STALE
        if (stale or self.read(key, QUICK_S)) and self._rng.random() >= READS:
            self._write(key, stale=stale)

    def read(self, key: str, timeout_s: float) -> bool:
        """Read a register; return whether that came to an end."""
        called = time.monotonic()
        try:
            newest = self._client.ask(
                m.DescribeQuorum(), m.DescribeQuorumAnswer, request_id=b"", timeout_s=timeout_s
            )
        except (NotDoneError, MaybeDoneError):
            return False
        self._history.saw(called, newest, linearizable=True)
        reader = self._rng.choice(self._readers)
        if not reader.reach(newest.metadata_version, called + timeout_s):
            return False
        value = reader.value(key)
        self._note(key, Get(value), called, time.monotonic())
        self._seen.setdefault(key, []).append(value)
        return True

    def _write(self, key: str, *, stale: bool) -> None:
        rng, seen = self._rng, self._seen[key]
        expected = rng.choice(seen) if stale else seen[-1]
        self._writes += 1
        value = str(self._number * 10**9 + self._writes)
        patient = rng.random() < PERSISTENT
        change = m.ConfigChange(PROPERTY, m.ConfigOperation.SET, value, m.Expected(expected))
        request = m.AlterConfigs((m.ResourceChanges(BROKER, key, (change,)),))
        called, returned, done = time.monotonic(), NEVER, None
        try:
            answer = self._client.ask(
                request,
                m.AlterConfigsAnswer,
                request_id=new_request_id() if patient else b"",
                timeout_s=PATIENT_S if patient else QUICK_S,
            )
            done = self._is_done(answer)
        except NotDoneError:
            self._history.refused.add(Change(key, value))
            return
        except MaybeDoneError as error:
            self._history.unknown[str(error)[:60]] += 1
        if done is not None:
            returned = time.monotonic()
        if done is False:
            self._history.refused.add(Change(key, value))
        self._note(key, Cas(expected, value, done), called, returned)
        if done:
            seen.append(value)

    def _is_done(self, answer: m.AlterConfigsAnswer) -> bool | None:
        failure = answer.resources[0].failure
        if failure.code not in (ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION):
            self._history.problems.append(f"a strange answer: {failure}")
        return bool(failure.code == ErrorCode.NONE)

    def _note(self, key: str, action: Get | Cas, called: float, returned: float) -> None:
        self._history.operations.append(Operation(self._name, key, action, called, returned))
        if returned == NEVER:
            self._name += 1000  # as a history wants it: one thing at a time for each client

    def close(self) -> None:
        """Hang up."""
        self._client.close()
        for reader in self._readers:
            reader.close()


class RegisterLoad:
    """Threads: clients, a reader of every controller's feed, one that asks each who leads.

    Owns them from :meth:`start` to :meth:`stop`.
    """

    def __init__(self, ports: Sequence[int], history: History, rng: Random) -> None:
        self._ports = tuple(ports)
        self._history = history
        self._stop = threading.Event()
        self._clients = [
            RegisterClient(number + 1, ports, history, Random(rng.getrandbits(64)))
            for number in range(CLIENTS)
        ]
        self._followers = [Reader(port, place + 1) for place, port in enumerate(ports)]
        self._pauses = Random(rng.getrandbits(64))
        self._threads = [
            *(threading.Thread(target=self._act, args=(each,)) for each in self._clients),
            *(threading.Thread(target=self._follow, args=(each,)) for each in self._followers),
            *(threading.Thread(target=self._view, args=(port,)) for port in ports),
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    @property
    def feeds(self) -> list[Feed]:
        """What was read of every controller."""
        return [each.feed for each in self._followers]

    def read_all(self, timeout_s: float) -> bool:
        """Read every register a few times more; return whether that was possible."""
        client = RegisterClient(0, self._ports, self._history, self._pauses)
        try:
            return all(
                client.read(str(self._history.first_key + number), timeout_s)
                for number in range(REGISTERS)
                for _ in self._ports
            )
        finally:
            client.close()

    def catch_up(self) -> bool:
        """Read every controller's feed to the same end; return whether that was possible.

        Only after :meth:`stop`.
        """
        deadline_s = time.monotonic() + CATCH_UP_S_MAX
        while time.monotonic() < deadline_s:
            for follower in self._followers:
                try:
                    follower.poll(0, QUICK_S)
                except (NotDoneError, MaybeDoneError):
                    time.sleep(GIVE_UP_S)
            if len({each.feed.end for each in self._followers}) == 1:
                return True
        return False

    def stop(self) -> None:
        """End, and wait for the end."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def close(self) -> None:
        """Hang up; after :meth:`stop`."""
        for client in self._clients:
            client.close()
        for follower in self._followers:
            follower.close()

    def _act(self, client: RegisterClient) -> None:
        try:
            while not self._stop.is_set():
                client.act()
                time.sleep(self._pauses.uniform(0, PAUSE_S_MAX))
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            self._history.problems.append(f"a client ended: {error!r}")

    def _follow(self, follower: Reader) -> None:
        try:
            while not self._stop.is_set():
                try:
                    follower.poll(POLL_MS, POLL_MS / 1000 + QUICK_S)
                except (NotDoneError, MaybeDoneError):
                    self._stop.wait(GIVE_UP_S)
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            self._history.problems.append(
                f"a reader of controller {follower.feed.node_id} ended: {error!r}"
            )

    def _view(self, port: int) -> None:
        client = QuorumClient((port,), 0)
        while not self._stop.wait(VIEW_INTERVAL_S):
            called = time.monotonic()
            request = m.DescribeQuorum(local=True)
            try:
                answer = client.ask(
                    request, m.DescribeQuorumAnswer, request_id=b"", timeout_s=QUICK_S
                )
            except (NotDoneError, MaybeDoneError):
                continue
            self._history.saw(called, answer, linearizable=False)
        client.close()
