"""Random requests, right and wrong ones: Apache Kafka and Quorate tell the same.

What differs on purpose is in ``expected``; whatever else does fails the test with its seed, the
request and both answers.
"""

import time
from collections.abc import Callable, Generator
from random import Random
from typing import Any, Final

import pytest

from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.cluster import (
    DescribeProducersRequest,
    DescribeProducersTopicRequest,
)
from quorate.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from quorate.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from quorate.records.batch import SEQUENCE_MAX
from quorate.records.record import NO_PRODUCER, ProducerStamp
from tests.compat.clients.model import DEADLINE_S, TopicSpec
from tests.compat.clients.ours import Ours
from tests.compat.serving import Broker
from tests.compat.telling import Difference, Pair, differences
from tests.compat.wire import Wire, connected
from tests.unit.broker.log.batches import make_batch

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.client("Quorate")]

STEPS: Final = 250
PARTITIONS: Final = 2
PRODUCERS: Final = range(1 << 40, (1 << 40) + 3)
"""Ids of their own, which no broker gives away."""
HOUR_MS: Final = 3_600_000
NEWEST: Final = -3
ALL_BYTES: Final = 1 << 24

KINDS: Final[dict[str, dict[str, str]]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact", "min.compaction.lag.ms": str(HOUR_MS)},
    "uncompressed": {"compression.type": "uncompressed"},
    "small": {"max.message.bytes": "300"},
}


def expected(difference: Difference, asked: Any) -> bool:
    """Whether Quorate differs there on purpose, or in what nobody can rely on."""
    field = difference.path.rpartition(".")[2]
    kafka, ours = difference.kafka, difference.ours
    if field == "log_append_time_ms":
        # Of a repeated batch Kafka tells its largest time, though the broker did not set it.
        return bool(ours == -1)
    if field == "leader_epoch" and isinstance(asked, ListOffsetsRequest):
        # A leader that has written nothing begins its epoch with its first record.
        return (kafka, ours) == (0, -1)
    if isinstance(asked, ListOffsetsRequest) and field in {"offset", "timestamp"}:
        # Kafka tells the newest record of a segment also when that is deleted already.
        times = {p.timestamp for topic in asked.topics for p in topic.partitions}
        return NEWEST in times and (ours == -1 or kafka < ours)
    return False


class Session:
    """What one seed asks of both, and what its producers have to write next."""

    def __init__(self, pair: Pair, topic: str, seed: int) -> None:
        self.pair = pair
        self.topic = topic
        self.seed = seed
        self.rng = Random(seed)
        self.at_ms = time.time_ns() // 1_000_000
        self.next: dict[tuple[int, int], tuple[int, int]] = {}
        """Epoch and sequence, by partition and producer."""

    def ask(self, api_key: ApiKey, version: int, body: Any) -> Any:
        """Ask both, compare, and return what Kafka said."""
        kafka, ours = self.pair.ask(api_key, version, body)
        found = [d for d in differences(kafka, ours) if not expected(d, body)]
        assert not found, (f"seed {self.seed}", api_key.name, version, body, found)
        return kafka

    def partition(self) -> int:
        return self.rng.choice([0, 0, 0, 1, 1, PARTITIONS, -1])

    def offset(self) -> int:
        return self.rng.choice([-1, 0, 1, 2, 3, 5, self.rng.randrange(200), 10**6])

    def time(self) -> int:
        ahead_ms = self.rng.choice([0, 0, 1, 5, 50, -3, -1000, -HOUR_MS])
        return self.at_ms + (2 * HOUR_MS if self.rng.random() < 0.03 else ahead_ms)

    # What is asked

    def produce(self) -> None:
        rng, partition = self.rng, self.partition()
        count = rng.choice([1, 1, 2, 5])
        times = [self.time() for _ in range(count)]
        # One fault at a time: of two, each may tell another one.
        keys = [b"", b"k", b"k", b"key", *([None] if max(times) < self.at_ms + HOUR_MS else [])]
        stamp = self.stamp(partition) if rng.random() < 0.6 else NO_PRODUCER
        batch = bytearray(
            make_batch(
                [rng.choice([None, b"", b"v", rng.randbytes(200)]) for _ in range(count)],
                keys=[rng.choice(keys) for _ in range(count)],
                timestamps_ms=times,
                producer=stamp,
                codec=rng.choice([0, 0, 0, 1, 2, 3, 4]),
            )
        )
        if rng.random() < 0.03:
            batch[rng.randrange(17, len(batch))] ^= 1
        data = PartitionProduceData(index=partition, records=memoryview(batch))
        body = ProduceRequest(
            acks=rng.choice([1, -1]),
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=self.topic, partition_data=[data])],
        )
        told = self.ask(ApiKey.PRODUCE, rng.randrange(3, 13), body)
        answer = told["responses"][0]["partition_responses"][0]
        if answer["error_code"] == "NONE" and stamp != NO_PRODUCER:
            following = (stamp.base_sequence + count) & SEQUENCE_MAX
            self.next[partition, stamp.producer_id] = (stamp.producer_epoch, following)

    def stamp(self, partition: int) -> ProducerStamp:
        """Return what a producer writes next, or something else."""
        rng, producer_id = self.rng, self.rng.choice(PRODUCERS)
        epoch, sequence = self.next.get((partition, producer_id), (0, 0))
        wrong = rng.random()
        if wrong < 0.1:
            sequence = max(sequence - rng.choice([1, 2, 5]), 0)
        elif wrong < 0.15:
            sequence += rng.choice([1, 2])
        elif wrong < 0.25:
            epoch, sequence = epoch + 1, rng.choice([0, 0, sequence])
        elif wrong < 0.3:
            epoch = max(epoch - 1, 0)
        elif wrong < 0.35:
            sequence = SEQUENCE_MAX - rng.randrange(3)
        return ProducerStamp(producer_id, epoch, sequence)

    def list_offsets(self) -> None:
        rng = self.rng
        asked = ListOffsetsPartition(
            partition_index=self.partition(),
            current_leader_epoch=rng.choice([-1, -1, 0, 5]),
            timestamp=rng.choice([-1, -2, NEWEST, -4, -5, -100, 0, self.time(), self.time()]),
        )
        topics = [ListOffsetsTopic(name=self.topic, partitions=[asked])]
        body = ListOffsetsRequest(
            replica_id=-1, isolation_level=rng.choice([0, 1]), topics=topics, timeout_ms=10_000
        )
        self.ask(ApiKey.LIST_OFFSETS, rng.randrange(1, 12), body)

    def fetch(self) -> None:
        rng = self.rng
        asked = [
            FetchPartition(
                partition=partition,
                current_leader_epoch=rng.choice([-1, -1, 0, 3]),
                fetch_offset=self.offset(),
                partition_max_bytes=rng.choice([0, 1, 100, 400, ALL_BYTES]),
            )
            for partition in {self.partition(), self.partition()}
        ]
        body = FetchRequest(
            max_wait_ms=0,
            min_bytes=rng.choice([0, 1, 1000]),
            max_bytes=rng.choice([0, 1, 500, ALL_BYTES]),
            isolation_level=rng.choice([0, 1]),
            topics=[FetchTopic(topic=self.topic, partitions=asked)],
        )
        self.ask(ApiKey.FETCH, rng.randrange(4, 13), body)

    def find_epoch_end(self) -> None:
        rng = self.rng
        asked = OffsetForLeaderPartition(
            partition=self.partition(),
            current_leader_epoch=rng.choice([-1, 0, 4]),
            leader_epoch=rng.choice([-1, 0, 5]),
        )
        topics = [OffsetForLeaderTopic(topic=self.topic, partitions=[asked])]
        body = OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
        self.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, rng.randrange(2, 5), body)

    def delete_records(self) -> None:
        asked = DeleteRecordsPartition(partition_index=self.partition(), offset=self.offset())
        topics = [DeleteRecordsTopic(name=self.topic, partitions=[asked])]
        body = DeleteRecordsRequest(topics=topics, timeout_ms=10_000)
        self.ask(ApiKey.DELETE_RECORDS, self.rng.randrange(3), body)

    def describe_producers(self) -> None:
        topic = DescribeProducersTopicRequest(name=self.topic, partition_indexes=[0, 1, 9])
        self.ask(ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(topics=[topic]))

    def read_all(self) -> None:
        """Read what is there in the end."""
        for partition in range(PARTITIONS):
            first = ListOffsetsPartition(partition_index=partition, timestamp=-2)
            topics = [ListOffsetsTopic(name=self.topic, partitions=[first])]
            asked = ListOffsetsRequest(replica_id=-1, topics=topics)
            told = self.ask(ApiKey.LIST_OFFSETS, 5, asked)["topics"][0]["partitions"][0]
            wanted = FetchPartition(
                partition=partition,
                fetch_offset=told["offset"],
                partition_max_bytes=ALL_BYTES,
            )
            topic = FetchTopic(topic=self.topic, partitions=[wanted])
            self.ask(ApiKey.FETCH, 12, FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]))


def wait_for_leaders(wire: Wire, topic: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    for partition in range(PARTITIONS):
        while wire.fetch(topic, 0, partition=partition).error_code:
            assert time.monotonic() < deadline, "the topic has no leader"
            time.sleep(0.01)


@pytest.fixture
def pair(apache_kafka: Broker, broker: Broker) -> Generator[Pair]:
    with connected(apache_kafka.server) as kafka, connected(broker.server) as ours:
        yield Pair(kafka, ours)


@pytest.fixture(params=KINDS)
def stored(
    pair: Pair, apache_kafka: Broker, broker: Broker, ours: Ours, request: pytest.FixtureRequest
) -> str:
    """A topic of the test's own on both, each time with other settings."""
    topic = f"{request.param}-{time.time_ns()}"
    settings = {"retention.ms": "-1", **KINDS[request.param]}
    for wire, of in ((pair.kafka, apache_kafka), (pair.ours, broker)):
        ours.create(of.server, TopicSpec(topic, PARTITIONS, settings))
        wait_for_leaders(wire, topic)
    return topic


@pytest.mark.feature("random requests, right and wrong ones: told what Kafka tells")
@pytest.mark.parametrize("seed", range(3))
def test_both_tell_the_same(pair: Pair, stored: str, seed: int) -> None:
    session = Session(pair, stored, seed)
    steps: list[Callable[[], None]] = [
        *[session.produce] * 8, *[session.list_offsets] * 3, *[session.fetch] * 4,
        session.find_epoch_end, session.delete_records, session.describe_producers,
    ]  # fmt: skip
    for _ in range(STEPS):
        session.rng.choice(steps)()
    session.read_all()
