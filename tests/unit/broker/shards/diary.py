"""A coordinator whose state is what was written, and the brokers that it is on."""

from typing import Any

from quorate.broker.shards.effects import Effects, Entry, Writer
from quorate.broker.shards.shard import ShardHost
from quorate.broker.shards.shards import Shards
from quorate.errors import ErrorCode
from tests.unit.broker.harness import Node
from tests.unit.broker.replication.cluster import TOPIC, Cluster

COMMIT_TIMEOUT_MS = 5_000


class Diary:
    """A machine that remembers everything."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.entries: list[tuple[bytes, bytes | None]] = []
        self.pending: list[tuple[int, bytes]] = []
        self.ended: list[tuple[int, bool]] = []
        self.life: list[str] = []

    def replay(self, key: bytes, value: bytes | None) -> None:
        self.entries.append((key, value))

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        assert value is not None
        self.pending.append((producer_id, key))

    def end_transaction(self, producer_id: int, *, committed: bool) -> list[str]:
        self.ended.append((producer_id, committed))
        return ["s"]

    def loaded(self) -> None:
        self.life.append("loaded")

    def unload(self) -> None:
        self.life.append("unloaded")

    @property
    def keys(self) -> list[bytes]:
        return [key for key, _ in self.entries]

    def write(self, *keys: bytes, subject: str = "s", done: Any = None) -> "Answers":
        answers = Answers()
        entries = tuple(Entry(key, b"v") for key in keys)
        answers.taken = self.writer.write(Effects(subject, entries, done or answers.append))
        return answers


class Answers(list[ErrorCode]):
    """What somebody was told, and whether the write was taken."""

    taken = False


def shards_of(node: Node) -> Shards[Diary]:
    host = ShardHost(
        leads=node.replicas.hosts,
        aside=node.broker.aside,
        deadlines=node.broker.deadlines,
        now_ms=lambda: node.broker.now_ms,
        commit_timeout_ms=COMMIT_TIMEOUT_MS,
    )
    return Shards(TOPIC, Diary, node.replicas, host)


class World:
    """Brokers of which each has the diaries of the partitions that it leads."""

    def __init__(self, cluster: Cluster | None = None, aside: Any = None) -> None:
        self.cluster = cluster or Cluster()
        for node in self.cluster.nodes.values():
            node.broker.aside = aside or node.broker.aside
        self.shards = {i: shards_of(node) for i, node in self.cluster.nodes.items()}
        leader = self.cluster.leader()
        self.cluster.change(1, 1, leader.state.isr)  # so that they hear of the topic

    def diary(self, node_id: int = 1) -> Diary:
        return self.shards[node_id].of("any")
