"""Brokers that replicate to each other by values: no sockets, no clock, metadata by hand.

Fetches go through the leader's handler and the follower's fetcher; the test says when.
"""

from collections.abc import Iterable
from typing import Any

from quorate.broker.handlers.fetch import fetch
from quorate.broker.replication.fetching import LeaderFetcher
from quorate.broker.replication.follower import FollowerReplica
from quorate.broker.replication.leader import LeaderReplica
from quorate.control.messages import DONE, Failure
from quorate.control.partition_messages import AlteredPartition, PartitionAlteration
from quorate.errors import ErrorCode
from quorate.protocol.messages.data import FetchRequest, FetchResponse
from quorate.quorum.metadata import records as r
from quorate.records.slices import FileSlice
from tests.unit.broker.harness import new_node, now, over, stored
from tests.unit.broker.log.batches import make_batch, new_disk

LAG_MS = 30_000
TOPIC = "appLogs"


class Cluster:
    """Nodes with one topic, and the metadata they share."""

    def __init__(
        self,
        node_ids: Iterable[int] = (1, 2, 3),
        *,
        leader_id: int = 1,
        isr: tuple[int, ...] | None = None,
        partitions: int = 1,
        racks: dict[int, str] | None = None,
        **configs: str,
    ) -> None:
        self.ids = tuple(node_ids)
        self.nodes = {i: new_node({"node.id": str(i)}, new_disk(), i) for i in self.ids}
        self.epochs: dict[int, int] = {}
        for node_id in self.ids:
            self.register(node_id, (racks or {}).get(node_id))
        self.topic_id = TOPIC.encode().ljust(16, b"\1")
        self.apply(
            r.TopicCreated("test", 0, TOPIC, self.topic_id),
            *(
                r.PartitionCreated(
                    "test", 0, self.topic_id, index, self.ids, isr or self.ids, leader_id
                )
                for index in range(partitions)
            ),
            *(
                r.ConfigSet("test", 0, "topic", TOPIC, name.replace("_", "."), value)
                for name, value in configs.items()
            ),
        )

    def apply(self, *records: r.MetadataRecord) -> None:
        for node in self.nodes.values():
            node.apply(*records)

    def register(self, node_id: int, rack: str | None = None) -> None:
        """Register a broker, again perhaps, in service at once."""
        node = self.nodes[node_id]
        for each in self.nodes.values():
            each.join(node_id, port=9092 + node_id, rack=rack)
        epoch = node.replicas.image.brokers[node_id].broker_epoch
        self.epochs[node_id] = node.replicas.host.broker_epoch = epoch

    def leader(self, node_id: int = 1, partition: int = 0) -> LeaderReplica:
        return self.nodes[node_id].replicas.leader(TOPIC, partition)

    def follower(self, node_id: int, partition: int = 0) -> FollowerReplica:
        follower = self.nodes[node_id].replicas.follower(TOPIC, partition)
        assert follower is not None
        return follower

    def append(self, *values: bytes, node_id: int = 1, partition: int = 0, acks: int = 1) -> None:
        """Append one batch as the leader."""
        node = self.nodes[node_id]
        replica = node.replicas.leader(TOPIC, partition)
        replica.append(make_batch(values), acks=acks, now_ms=node.broker.now_ms)
        node.replicas.settle()

    def wait(self, wait_ms: int) -> None:
        for node in self.nodes.values():
            node.wait(wait_ms)

    # --- fetching -------------------------------------------------------------

    def fetcher(self, follower_id: int, leader_id: int = 1) -> LeaderFetcher:
        return self.nodes[follower_id].replicas.fetchers[leader_id]

    def ask(self, request: FetchRequest, leader_id: int = 1) -> Any:
        """Have a leader handle a fetch; return its answer, or a promise of it."""
        return fetch(self.nodes[leader_id].broker, request, over())

    def fetch(self, follower_id: int, leader_id: int = 1, times: int = 1) -> FetchResponse:
        """Let a follower fetch, and take what comes, without waiting for more."""
        response = FetchResponse()
        for _ in range(times):
            request = self.fetcher(follower_id, leader_id).build()
            request.max_wait_ms = 0
            response = self.ask(request, leader_id)
            self.take(follower_id, response, leader_id)
            self.nodes[leader_id].replicas.settle()
        return response

    def take(self, follower_id: int, answer: Any, leader_id: int = 1) -> list[FollowerReplica]:
        """Give a follower an answer, as it comes over the wire; return what has grown."""
        response: FetchResponse = now(answer)
        for topic in response.responses:
            for data in topic.partitions:
                if isinstance(data.records, FileSlice):
                    data.records = memoryview(bytearray(stored(data.records)))
        node = self.nodes[follower_id]
        grown = self.fetcher(follower_id, leader_id).take(response, node.broker.now_ms)
        node.replicas.settle()
        return grown

    def replicate(self, times: int = 3) -> None:
        """Let every follower of leader 1 fetch in turn, until all is everywhere and told."""
        for _ in range(times):
            for node_id in self.ids[1:]:
                self.fetch(node_id)

    # --- metadata -------------------------------------------------------------

    def change(
        self, leader_id: int, leader_epoch: int, isr: tuple[int, ...], partition: int = 0
    ) -> None:
        self.apply(
            r.PartitionChanged("test", 0, self.topic_id, partition, leader_id, leader_epoch, isr)
        )

    def proposed(self, node_id: int = 1) -> PartitionAlteration | None:
        return self.leader(node_id).alteration()

    def answer_alteration(self, code: ErrorCode = ErrorCode.NONE, node_id: int = 1) -> None:
        """Answer as the controller does, before the metadata say so."""
        leader = self.leader(node_id)
        sent = leader.alteration()
        assert sent is not None
        failure = DONE if code == ErrorCode.NONE else Failure(int(code), "test")
        isr = tuple(replica.broker_id for replica in sent.isr)
        leader.altered(
            sent,
            AlteredPartition(
                sent.topic_id,
                sent.partition,
                failure,
                node_id,
                sent.leader_epoch,
                sent.partition_epoch + 1,
                isr,
            ),
        )
