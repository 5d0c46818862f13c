"""Members of one consumer group, stock ones and ours, that write a history of all they do."""

# confluent-kafka's types say less than it does.
# pyright: basic

import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

import confluent_kafka
import trio

from quorate.client import Consumer, RebalanceListener
from quorate.errors import QuorateError
from quorate.jepsen.history import Event, HistoryWriter, Kind
from quorate.model import TopicPartition
from tests.robustness.replication_load import decode

GROUP: Final = "readers"
SESSION_MS: Final = 6_000
POLL_RECORDS: Final = 200
POLL_S: Final = 0.1
OBSERVE_S: Final = 0.2
LIFE_POLLS: Final = (20, 200)
"""After how many polls a member leaves, and another one joins in its place."""
COMMIT_ODDS: Final = 0.3
LEAVE_QUIETLY_ODDS: Final = 0.3
CLOSE_S_MAX: Final = 60.0
GENERATION: Final = struct.Struct("<i").unpack_from
GENERATION_AT: Final = len(b"CGMDv2:")


class Recorder:
    """The history in a file, for several threads."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)
        self._writer = HistoryWriter(self._file, {"group": GROUP})
        self._lock = threading.Lock()
        self._processes = 0
        self.commits = 0
        """How many were acknowledged."""

    def process(self) -> int:
        """Return a number that nobody else has."""
        with self._lock:
            self._processes += 1
            return self._processes

    def add(self, process: int, kind: Kind, name: str, value: Any) -> None:
        """Note an event, now."""
        with self._lock:
            self._writer.add(Event(time.monotonic_ns(), process, kind, name, value))
            self.commits += name == "commit" and kind is Kind.OK

    def close(self) -> None:
        """Note nothing more."""
        self._file.close()


class Scribe:
    """What one client does, one thing after the other; a new process after each unknown end."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._process = recorder.process()

    def begin(self, name: str, value: Any) -> None:
        """Note that something begins."""
        self._recorder.add(self._process, Kind.INVOKE, name, value)

    def end(self, kind: Kind, name: str, value: Any = None) -> None:
        """Note how it ended."""
        self._recorder.add(self._process, kind, name, value)
        if kind is Kind.INFO:
            self._process = self._recorder.process()

    def tell(self, name: str, value: Any) -> None:
        """Note something that happens at once."""
        self.begin(name, None)
        self.end(Kind.OK, name, value)


def named(topic: str, partition: int) -> str:
    """Return how a partition is called in the history."""
    return f"{topic}-{partition}"


class Member(Protocol):
    """A member of the group under way, from its making on."""

    errors: list[str]

    def stop(self) -> None:
        """Leave the group."""


class StockMember:
    """A thread with one consumer of librdkafka after the other."""

    def __init__(
        self, recorder: Recorder, bootstrap: str, topic: str, seed: int, protocol: str
    ) -> None:
        self.errors: list[str] = []
        self._properties: Final[dict[str, Any]] = {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
            "group.protocol": protocol,
        }
        if protocol == "classic":
            self._properties["session.timeout.ms"] = SESSION_MS
            self._properties["partition.assignment.strategy"] = "range"
        self._is_classic = protocol == "classic"
        self._topic = topic
        self._rng = Random(seed)
        self._scribe = Scribe(recorder)
        self._ear = Scribe(recorder)
        self._next: dict[int, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the group."""
        self._stopping.set()
        self._thread.join(CLOSE_S_MAX)
        if self._thread.is_alive():
            self.errors.append("a member did not leave its group in time")

    def _run(self) -> None:
        while not self._stopping.is_set():
            client = confluent_kafka.Consumer(self._properties)
            client.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked)
            try:
                for _ in range(self._rng.randint(*LIFE_POLLS)):
                    self._poll(client)
                    if self._rng.random() < COMMIT_ODDS:
                        self._commit(client)
                    if self._stopping.is_set():
                        break
            finally:
                client.close()

    def _poll(self, client: Any) -> None:
        self._scribe.begin("poll", 0)
        told: dict[int, tuple[list[int], list[int]]] = {}
        for message in client.consume(POLL_RECORDS, POLL_S):
            if message.error() is None:
                offsets, values = told.setdefault(message.partition(), ([], []))
                offsets.append(message.offset())
                values.append(decode(message.value()).number)
            elif not message.error().retriable():
                self.errors.append(str(message.error()))
        for partition, (offsets, _) in told.items():
            self._next[partition] = offsets[-1] + 1
        reads = [[named(self._topic, n), *read] for n, read in told.items()]
        self._scribe.end(Kind.OK, "poll", reads)

    def _commit(self, client: Any) -> None:
        offsets = dict(self._next)
        if not offsets:
            return
        asked = [[named(self._topic, n), offset] for n, offset in offsets.items()]
        self._scribe.begin("commit", [GROUP, asked])
        places = [confluent_kafka.TopicPartition(self._topic, n, o) for n, o in offsets.items()]
        try:
            answers = client.commit(offsets=places, asynchronous=False)
        except confluent_kafka.KafkaException:  # an attempt before may have been carried out
            self._scribe.end(Kind.INFO, "commit")
        else:
            done = all(answer.error is None for answer in answers)
            self._scribe.end(Kind.OK if done else Kind.INFO, "commit")

    def _assigned(self, client: Any, partitions: list[Any]) -> None:
        self._next = {}
        if self._is_classic:
            metadata: bytes = client.consumer_group_metadata()
            (generation,) = GENERATION(metadata, GENERATION_AT)
            names = [named(self._topic, each.partition) for each in partitions]
            self._ear.tell("assign", [GROUP, generation, client.memberid(), names])

    def _revoked(self, _client: Any, _partitions: list[Any]) -> None:
        self._next = {}


class OwnMember:
    """A thread with one consumer of ours after the other."""

    def __init__(
        self, recorder: Recorder, bootstrap: str, topic: str, seed: int, protocol: str
    ) -> None:
        assert protocol == "classic", "ours is no member of the other kind"
        self.errors: list[str] = []
        self._bootstrap = bootstrap
        self._topic = topic
        self._rng = Random(seed)
        self._scribe = Scribe(recorder)
        self._ear = Scribe(recorder)
        self._next: dict[TopicPartition, int] = {}
        self._stopping = False
        self._thread = threading.Thread(target=trio.run, args=(self._run,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the group."""
        self._stopping = True
        self._thread.join(CLOSE_S_MAX)
        if self._thread.is_alive():
            self.errors.append("a member of ours did not leave its group in time")

    async def _run(self) -> None:
        while not self._stopping:
            try:
                with trio.CancelScope() as scope:
                    await self._live(scope)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told
                self.errors.append(f"a member of ours: {error!r}")
                return

    async def _live(self, scope: trio.CancelScope) -> None:
        async with Consumer(
            self._bootstrap,
            group_id=GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            partition_assignment_strategy=("range",),
        ) as consumer:
            consumer.subscribe(self._topic, listener=_Ear(consumer, self._hear, self._forget))
            for _ in range(self._rng.randint(*LIFE_POLLS)):
                await self._poll(consumer)
                if self._rng.random() < COMMIT_ODDS:
                    await self._commit(consumer)
                if self._stopping:
                    return
            if self._rng.random() < LEAVE_QUIETLY_ODDS:
                scope.cancel()

    def _hear(self, consumer: Consumer, partitions: frozenset[TopicPartition]) -> None:
        self._next = {}
        metadata = consumer.group_metadata
        names = [named(p.topic, p.partition) for p in sorted(partitions)]
        told = [GROUP, metadata.generation_id, metadata.member_id, names]
        self._ear.tell("assign", told)

    def _forget(self) -> None:
        self._next = {}

    async def _poll(self, consumer: Consumer) -> None:
        self._scribe.begin("poll", 0)
        told: dict[TopicPartition, tuple[list[int], list[int]]] = {}
        try:
            records = await consumer.poll(max_records=POLL_RECORDS, timeout_ms=int(POLL_S * 1000))
        except QuorateError:
            self._scribe.end(Kind.FAIL, "poll")
            raise
        for record in records:
            offsets, values = told.setdefault(record.topic_partition, ([], []))
            offsets.append(record.offset)
            values.append(decode(record.value or b"").number)
        for partition, (offsets, _) in told.items():
            self._next[partition] = offsets[-1] + 1
        reads = [[named(p.topic, p.partition), *read] for p, read in told.items()]
        self._scribe.end(Kind.OK, "poll", reads)

    async def _commit(self, consumer: Consumer) -> None:
        offsets = dict(self._next)
        if not offsets:
            return
        asked = [[named(p.topic, p.partition), offset] for p, offset in offsets.items()]
        self._scribe.begin("commit", [GROUP, asked])
        try:
            await consumer.commit(offsets)
        except QuorateError:
            self._scribe.end(Kind.INFO, "commit")
        else:
            self._scribe.end(Kind.OK, "commit")


class _Ear(RebalanceListener):
    """Hears what a member of ours is assigned."""

    def __init__(
        self,
        consumer: Consumer,
        hear: Callable[[Consumer, frozenset[TopicPartition]], None],
        forget: Callable[[], None],
    ) -> None:
        self._consumer = consumer
        self._hear = hear
        self._forget = forget

    async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._hear(self._consumer, partitions)

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self._forget()


class Observer:
    """A thread that asks again and again what is committed, and is no member."""

    def __init__(self, recorder: Recorder, bootstrap: str, topic: str, partitions: int) -> None:
        self._client: Any = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0}
        )
        self._places = [confluent_kafka.TopicPartition(topic, n) for n in range(partitions)]
        self._scribe = Scribe(recorder)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask no more."""
        self._stopping.set()
        self._thread.join(CLOSE_S_MAX)
        self._client.close()

    def _run(self) -> None:
        names = [named(place.topic, place.partition) for place in self._places]
        while not self._stopping.wait(OBSERVE_S):
            self._scribe.begin("committed", [GROUP, names])
            try:
                told = self._client.committed(self._places, timeout=10)
            except confluent_kafka.KafkaException:
                self._scribe.end(Kind.FAIL, "committed")
                continue
            known = [[named(t.topic, t.partition), max(t.offset, -1)] for t in told if not t.error]
            self._scribe.end(Kind.OK, "committed", known)
