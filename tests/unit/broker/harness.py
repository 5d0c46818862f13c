"""A broker without an event loop, for tests: values in, values out.

Its logs are real, on a simulated disk; its image is made of records; the clock is in the test's
hands; its controller answers with values.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, TypeVar

from quorate.broker.handlers.context import Broker, Caller
from quorate.broker.handlers.producer_ids import ProducerIds
from quorate.broker.handlers.table import serve_own
from quorate.broker.replication.deadlines import Deadlines
from quorate.broker.replication.leader import LeaderReplica
from quorate.broker.replication.replicas import Replicas
from quorate.control.messages import Answer, ErrorAnswer, Request
from quorate.errors import ErrorCode
from quorate.model import Endpoint
from quorate.promise import Promise
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.image import EMPTY_IMAGE
from quorate.records.slices import FileSlice
from quorate.settings import node_config
from tests.simulation.disk import SimDisk
from tests.unit.broker.log.batches import bytes_of, make_batch, new_disk, open_data

NODE_ID = 1
NOW_MS = 1_700_000_000_000
NEWEST = 99
"""A version of any API with all that it ever had."""

A = TypeVar("A", bound=Answer)


class ScriptedController:
    """Keeps what it was asked; answers with what the test says, when the test says so."""

    def __init__(self) -> None:
        self.requests: list[Request[Any]] = []
        self.timeouts_ms: list[int] = []
        self._promises: list[Promise[Any]] = []

    def ask(self, request: Request[A], /, timeout_ms: int) -> Promise[A | ErrorAnswer]:
        promise: Promise[A | ErrorAnswer] = Promise()
        self.timeouts_ms.append(timeout_ms)
        self.requests.append(request)
        self._promises.append(promise)
        return promise

    def answer(self, answer: Answer) -> None:
        self._promises.pop(0).resolve(answer)

    def fail(self, code: ErrorCode, message: str) -> None:
        self.answer(ErrorAnswer(int(code), message))


class Node:
    """A broker and the world around it."""

    def __init__(self, texts: Mapping[str, str], disk: SimDisk, node_id: int = NODE_ID) -> None:
        self.disk = disk
        self.controller = ScriptedController()
        store = open_data(disk)
        self.broker = Broker(
            config=node_config(texts),
            node_texts=texts,
            cluster_id="cluster",
            replicas=Replicas(node_id, store, EMPTY_IMAGE, texts),
            deadlines=Deadlines(),
            producer_ids=ProducerIds(),
            random=Random(NODE_ID),
            ask_controller=self.controller.ask,
            now_ms=NOW_MS,
        )
        self.broker.serve_own = partial(serve_own, self.broker)

    @property
    def replicas(self) -> Replicas:
        return self.broker.replicas

    def apply(self, *records: r.MetadataRecord) -> None:
        """Let the image change, and the replicas follow."""
        image = self.replicas.image
        self.replicas.apply(apply_records(image, image.version + 1, records), self.broker.now_ms)
        self.replicas.settle()

    def join(self, broker_id: int = NODE_ID, *, port: int = 9092, rack: str | None = None) -> None:
        """Register a broker and take it into service."""
        epoch = self.replicas.image.version + 1
        incarnation, endpoints = bytes(16), {"PLAINTEXT": Endpoint("127.0.0.1", port)}
        self.apply(
            r.BrokerRegistered(
                "test", 0, broker_id, epoch, incarnation, b"", endpoints, rack, fenced=False
            )
        )

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        leader_id: int = NODE_ID,
        replicas: tuple[int, ...] = (NODE_ID,),
        configs: Mapping[str, str] | None = None,
        **more_configs: str,
    ) -> bytes:
        """Create a topic; its properties have underscores for dots. Return its id."""
        topic_id = name.encode().ljust(16, b"\1")[:16]
        isr = (leader_id,) if leader_id >= 0 else ()
        self.apply(
            r.TopicCreated("test", 0, name, topic_id),
            *(
                r.PartitionCreated("test", 0, topic_id, index, replicas, isr, leader_id)
                for index in range(partitions)
            ),
            *(
                r.ConfigSet("test", 0, "topic", name, key.replace("_", "."), value)
                for key, value in {**(configs or {}), **more_configs}.items()
            ),
        )
        return topic_id

    def lead(self, topic: str, partition: int, leader_epoch: int, leader_id: int = NODE_ID) -> None:
        """Let the controller elect a leader."""
        topic_id = self.replicas.image.topics[topic].topic_id
        isr = (leader_id,) if leader_id >= 0 else ()
        self.apply(r.PartitionChanged("test", 0, topic_id, partition, leader_id, leader_epoch, isr))

    def leader(self, topic: str = "appLogs", partition: int = 0) -> LeaderReplica:
        return self.replicas.leader(topic, partition)

    def append(self, *values: bytes, topic: str = "appLogs", partition: int = 0) -> int:
        """Append one batch as the partition's leader, and let readers know."""
        replica = self.replicas.leader(topic, partition)
        result = replica.append(make_batch(values), acks=1, now_ms=self.broker.now_ms)
        self.replicas.settle()
        return result.base_offset

    def sync(self) -> None:
        """Do what the syncing task does: one round over all logs that ask for it."""
        news = self.replicas.news
        synced = list(news.unsynced)
        news.unsynced.clear()
        flush = self.replicas.store.start_flush([replica.log for replica in synced])
        flush.run()
        self.replicas.store.finish_flush(flush)
        for replica in synced:
            replica.advance()
        self.replicas.settle()

    def wait(self, wait_ms: int) -> None:
        """Let time pass, and meet the deadlines that come with it."""
        self.broker.now_ms += wait_ms
        self.broker.deadlines.now_ms += wait_ms
        self.replicas.host.now_ms = self.broker.deadlines.now_ms
        self.broker.deadlines.fire()
        self.replicas.settle()


def new_node(
    texts: Mapping[str, str] | None = None, disk: SimDisk | None = None, node_id: int = NODE_ID
) -> Node:
    texts = {"node.id": str(node_id), "log.dir": "/data", **(texts or {})}
    return Node(texts, disk or new_disk(), node_id)


def new_cluster(texts: dict[str, str] | None = None) -> Node:
    """Return broker 1 of a cluster with brokers 1 and 2 in service, and broker 3 fenced."""
    node = new_node(texts)
    node.join(1, port=9092, rack="east")
    node.join(2, port=9093)
    node.join(3, port=9094)
    node.apply(r.BrokerFenced("test", 0, 3, node.replicas.image.brokers[3].broker_epoch))
    return node


def over(version: int = NEWEST, listener: str = "PLAINTEXT") -> Caller:
    """How a request of that version came."""
    return Caller(listener, version)


def now(answer: Any) -> Any:
    """Return an answer that must be there already."""
    if isinstance(answer, Promise):
        promise: Promise[Any] = answer  # pyright: ignore[reportUnknownVariableType]
        assert promise.resolved, "the answer is still open"
        return promise.value
    return answer


def waits(answer: Any) -> bool:
    """Whether an answer is promised, and not there yet."""
    return isinstance(answer, Promise) and not answer.resolved  # pyright: ignore[reportUnknownMemberType]


def stored(records: object) -> bytes:
    """Return the bytes of a Fetch answer's records."""
    return bytes_of(records) if isinstance(records, FileSlice) else b""


def codes(answers: Sequence[Any]) -> list[ErrorCode]:
    return [ErrorCode(answer.error_code) for answer in answers]
