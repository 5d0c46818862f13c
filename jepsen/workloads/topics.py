"""Topics are created, deleted, and created again under their names while clients write and read.

Proves that creating is done once (whoever is told that it was, and not that the topic exists, made
it), that no id comes back, that a topic never shows a record that was in an earlier one of its
name, and that in the end every topic can be created, written to and read.
"""

import threading
import time
from collections.abc import Sequence
from random import Random
from typing import Final

from quorate.errors import ErrorCode
from quorate.jepsen.clients import choosing
from quorate.jepsen.clients.administering import create_topic, delete_topic, kind_of
from quorate.jepsen.clients.raw import NotNowError, Raw
from quorate.jepsen.clients.rereading import UnreadableError, read_all
from quorate.jepsen.clients.sending import SenderOptions
from quorate.jepsen.clients.wire import ClosedError
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Recorder, Scribe
from quorate.jepsen.workloads.producing import Producing, producers, stop_all
from quorate.jepsen.workloads.workload import Context, Topic, WorkloadKind
from quorate.model import TopicPartition

TOPICS: Final = ("topics-a", "topics-b", "topics-c")
PARTITIONS: Final = 2
LIFE_S: Final = (0.5, 4.0)
PAUSE_S: Final = (0.0, 0.5)
READ_S: Final = 0.5
SEND_S_MAX: Final = 5_000
ANSWERED_S_MAX: Final = 15.0
CREATED_S_MAX: Final = 30.0
READ_S_MAX: Final = 30.0
QUICK_S_MAX: Final = 0.5
AGAIN_S: Final = 0.1
CLOSE_S_MAX: Final = 10.0


class _Life:
    """What becomes of one name: a thread that creates and deletes, and one that reads."""

    def __init__(self, context: Context, topic: Topic, rng: Random) -> None:
        self.errors: list[str] = []
        self._context = context
        self._topic = topic
        self._rng = rng
        self._scribe = Scribe(context.recorder)
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, daemon=True),
            threading.Thread(target=self._read, daemon=True),
        ]

    @property
    def partitions(self) -> list[TopicPartition]:
        """Return its partitions, whenever it is there."""
        return [TopicPartition(self._topic.name, number) for number in range(PARTITIONS)]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def halt(self) -> None:
        """Begin nothing more."""
        self._stopping.set()

    def join(self) -> None:
        """Wait for the end."""
        for thread in self._threads:
            if thread.is_alive():
                thread.join(CLOSE_S_MAX)

    def _run(self) -> None:
        try:
            with Raw(self._context.bootstrap) as raw:
                while not self._stopping.is_set():
                    self.create(raw)
                    self._stopping.wait(self._rng.uniform(*LIFE_S))
                    if not self._stopping.is_set():
                        self._delete(raw)
                    self._stopping.wait(self._rng.uniform(*PAUSE_S))
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            self.errors.append(f"who creates {self._topic.name} failed: {error!r}")

    def create(self, raw: Raw) -> bool:
        """Create it; return whether it is there now."""
        topic = self._topic
        self._scribe.begin("create", [topic.name, topic.partitions])
        try:
            code, topic_id = create_topic(
                raw, topic.name, topic.partitions, topic.replication_factor, topic.configs
            )
        except NotNowError as error:
            self._scribe.end(Kind.FAIL, "create", str(error))
        except ClosedError as error:
            self._scribe.end(Kind.INFO, "create", str(error))
        else:
            if code == ErrorCode.NONE:
                self._scribe.end(Kind.OK, "create", topic_id)
                return True
            if code == ErrorCode.TOPIC_ALREADY_EXISTS:
                self._scribe.end(Kind.OK, "create", "exists")
                return True
            self._scribe.end(kind_of(code), "create", code.name)
        return False

    def _delete(self, raw: Raw) -> None:
        self._scribe.begin("delete", self._topic.name)
        try:
            code = delete_topic(raw, self._topic.name)
        except NotNowError as error:
            self._scribe.end(Kind.FAIL, "delete", str(error))
        except ClosedError as error:
            self._scribe.end(Kind.INFO, "delete", str(error))
        else:
            if code == ErrorCode.NONE:
                self._scribe.end(Kind.OK, "delete", None)
            elif code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._scribe.end(Kind.OK, "delete", "unknown")
            else:
                self._scribe.end(kind_of(code), "delete", code.name)

    def _read(self) -> None:
        """Read all of whatever topic has the name now, again and again."""
        recorder: Recorder = self._context.recorder
        try:
            while not self._stopping.wait(READ_S):
                try:
                    read_all(
                        recorder,
                        self._context.bootstrap,
                        self.partitions,
                        QUICK_S_MAX,
                        finally_=False,  # who has not heard of a deletion may show what was before
                    )
                except UnreadableError:  # it is not there now
                    continue
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            self.errors.append(f"who reads {self._topic.name} failed: {error!r}")


class Topics:
    """Lives of topics, and producers to them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        options = context.topic_options
        self._lives: list[_Life] = []
        self._names: list[str] = []
        for name in TOPICS:
            like = options.topic(name)
            topic = Topic(like.name, PARTITIONS, like.replication_factor, like.configs)
            self._names.append(topic.name)
            self._lives.append(_Life(context, topic, Random(context.rng.getrandbits(64))))
        self._producers: list[Producing] = []
        self._errors: list[str] = []

    def topics(self) -> Sequence[Topic]:
        """Return no topic: they come and go."""
        return []

    def start(self) -> None:
        """Begin to create and delete, to send and to read."""
        context = self._context
        for life in self._lives:
            life.start()
        for name in self._names:
            self._producers += producers(
                1,
                context.client,
                SenderOptions(context.bootstrap, context.acks, patience_ms=SEND_S_MAX),
                recorder=context.recorder,
                topic=name,
                partitions=lambda: PARTITIONS,
                rng=context.rng,
            )
        for producer in self._producers:
            producer.start(context.rate_per_s / len(self._names))

    def stop(self) -> None:
        """Begin nothing more; wait for the answers."""
        for life in self._lives:
            life.halt()
        stop_all(self._producers, ANSWERED_S_MAX)
        for life in self._lives:
            life.join()

    def final(self) -> None:
        """Create what is not there, and read everything."""
        scribe = Scribe(self._context.recorder)
        for life in self._lives:
            deadline_s = time.monotonic() + CREATED_S_MAX
            with Raw(self._context.bootstrap) as raw:
                while not life.create(raw):
                    if time.monotonic() > deadline_s:
                        told = f"{life.partitions[0].topic} cannot be created in the end"
                        scribe.tell("complaint", ["topic-stuck", told])
                        break
                    time.sleep(AGAIN_S)
            try:
                read_all(
                    self._context.recorder, self._context.bootstrap, life.partitions, READ_S_MAX
                )
            except UnreadableError as error:
                self._errors.append(str(error))

    def errors(self) -> Sequence[str]:
        """Return what went wrong with clients."""
        return [*self._errors, *(error for life in self._lives for error in life.errors)]

    def close(self) -> None:
        """End at once."""
        for life in self._lives:
            life.halt()
        stop_all(self._producers, 0)
        for life in self._lives:
            life.join()


TOPICS_KIND: Final = WorkloadKind(
    "topics",
    "topics are created, deleted and created again while they are written to and read",
    Topics,
    clients=(choosing.OWN, choosing.LIBRDKAFKA),
    quotas_per_s={"acks": 5},
)
