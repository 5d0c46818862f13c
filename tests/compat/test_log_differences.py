"""Logs of transactions that cross each other, cut at random: both brokers tell the same of them.

What differs on purpose is left out or in ``differences``; whatever else does fails the test with
its seed, the request and both answers.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

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
from quorate.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from quorate.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from quorate.records.record import NO_PRODUCER, ProducerStamp
from tests.compat.asking import Session, new_topics
from tests.compat.clients.ours import Ours
from tests.compat.serving import Broker
from tests.compat.telling import Difference
from tests.compat.twins import PAUSE_S, Asked, Side, Told, Twins, alike
from tests.unit.broker.log.batches import make_batch

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.client("Quorate")]

STEPS: Final = 200
MANY_BYTES: Final = 1 << 20
TIMEOUT_MS: Final = 900_000
AGE_MS: Final = 3_600_000
NEWEST: Final = -3
TOPIC_IDS_FROM: Final = 13
VERIFIED_FROM: Final = 12
PARTITIONS: Final = 2
LENIENT: Final = (ApiKey.LIST_OFFSETS,)
OF_NOW: Final = ("timestamp", "last_timestamp")
MARKED_NOW: Final = ("crc", "base_timestamp_ms", "max_timestamp_ms")


class Producer(NamedTuple):
    """A producer as both have named it."""

    producer_id: Any
    epoch: int


class Logs(Session):
    """Producers that write to two partitions, in transactions and without, on one connection."""

    def __init__(self, twins: Twins, topics: Sequence[str], seed: int) -> None:
        super().__init__(twins, topics, seed)
        self.names = [f"t{number}-{self.stamp}" for number in range(4)]
        self.producers: dict[str, Producer] = {}
        self.sequences: dict[tuple[Producer, int], int] = {}
        self.starts = [0] * PARTITIONS
        self.ends = [0] * PARTITIONS
        self.old_ms = self.stamp // 1_000_000 - AGE_MS
        self.at_ms = self.old_ms

    @property
    def topic(self) -> str:
        return self.topics[0]

    def differences(self, asked: Asked, told: Told) -> list[Difference]:
        """Return what differs but for the times at which markers were written."""
        found = super().differences(asked, told) if asked.api_key in LENIENT else told.differences()
        return [d for d in found if not self.of_now(d)]

    def of_now(self, difference: Difference) -> bool:
        field, kafka, ours = difference.path.rpartition(".")[2], difference.kafka, difference.ours
        return field in OF_NOW and min(kafka, ours) > self.at_ms

    # --- what producers ask ----------------------------------------------------

    def begin(self, name: str) -> None:
        body = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
        told = self.ask(ApiKey.INIT_PRODUCER_ID, 4, alike(body), "producer_id")
        self.producers[name] = Producer(told["producer_id"], told["producer_epoch"])

    def begin_anew(self, name: str) -> None:
        """Have another producer in the place of one that was fenced by a marker of nobody's."""
        new = f"{name}-"
        self.names[self.names.index(name)] = new
        self.begin(new)

    def produce(self) -> None:
        """Write, mostly in a transaction."""
        rng, name, partition = self.rng, self.rng.choice(self.names), self.rng.randrange(PARTITIONS)
        producer, count = self.producers[name], rng.choice([1, 1, 2, 5])
        where = producer, partition
        sequence = self.sequences.get(where, 0)
        plainly = rng.random() < 0.2
        keys = [rng.choice([b"a", b"b", b"c", b"d"]) for _ in range(count)]
        values = [rng.choice([None, b"v" * rng.randrange(200)]) for _ in range(count)]
        self.at_ms += rng.choice([-1500, 0, 1000, 2000])
        times = [self.at_ms + rng.randrange(1000) for _ in range(count)]
        codec = rng.choice([0, 0, 0, 1, 2, 3, 4])

        def make(side: Side) -> ProduceRequest:
            stamp = ProducerStamp(side.of(producer.producer_id), producer.epoch, sequence)
            batch = make_batch(
                values,
                keys=keys,
                timestamps_ms=times,
                producer=NO_PRODUCER if plainly else stamp,
                codec=codec,
                attributes=0 if plainly else TRANSACTIONAL_BIT,
            )
            data = PartitionProduceData(index=partition, records=batch)
            return ProduceRequest(
                transactional_id=None if plainly else name,
                acks=-1,
                timeout_ms=10_000,
                topic_data=[TopicProduceData(name=self.topic, partition_data=[data])],
            )

        told = self.ask(ApiKey.PRODUCE, VERIFIED_FROM, make)
        answer = told["responses"][0]["partition_responses"][0]
        if answer["error_code"] != "NONE":
            self.begin_anew(name)
            return
        self.ends[partition] = answer["base_offset"] + count
        if not plainly:
            self.sequences[where] = sequence + count

    def end(self) -> None:
        rng, name = self.rng, self.rng.choice(self.names)
        producer, committed = self.producers[name], rng.random() < 0.5

        def make(side: Side) -> EndTxnRequest:
            return EndTxnRequest(
                transactional_id=name,
                producer_id=side.of(producer.producer_id),
                producer_epoch=producer.epoch,
                committed=committed,
            )

        told = self.ask(ApiKey.END_TXN, 5, make, "producer_id")
        if told["error_code"] == "NONE":
            self.producers[name] = Producer(told["producer_id"], told["producer_epoch"])
        self.wait_for_end(name)

    def wait_for_end(self, name: str) -> None:
        asked = DescribeTransactionsRequest(transactional_ids=[name])
        for side in self.twins.sides:
            while (
                "Prepare"
                in side.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, alike(asked))
                .transaction_states[0]
                .transaction_state
            ):
                time.sleep(PAUSE_S)

    def mark(self) -> None:
        """End what a producer has open in a partition, over its coordinator's head."""
        rng = self.rng
        name = rng.choice(self.names)
        producer, version = self.producers[name], rng.randrange(1, 3)
        topics = [WritableTxnMarkerTopic(name=self.topic, partition_indexes=[rng.randrange(3)])]
        epoch = max(producer.epoch + rng.choice([0, 0, 0, 1, 1, -1]), 0)
        committed, coordinator = rng.random() < 0.5, rng.choice([0, 0, 0, 1, -1])
        level = rng.choice([0, 1, 2]) if version > 1 else 0

        def make(side: Side) -> WriteTxnMarkersRequest:
            marker = WritableTxnMarker(
                producer_id=side.of(producer.producer_id),
                producer_epoch=epoch,
                transaction_result=committed,
                topics=topics,
                coordinator_epoch=coordinator,
                transaction_version=level,
            )
            return WriteTxnMarkersRequest(markers=[marker])

        self.ask(ApiKey.WRITE_TXN_MARKERS, version, make)
        if epoch > producer.epoch or coordinator > 0:
            self.begin_anew(name)  # the coordinator's own marker would be refused

    def delete_records(self) -> None:
        rng, partition = self.rng, self.rng.randrange(PARTITIONS)
        offset = rng.choice([-1, rng.randrange(self.ends[partition] + 3)])
        asked = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
        body = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=self.topic, partitions=asked)], timeout_ms=10_000
        )
        told = self.ask(ApiKey.DELETE_RECORDS, rng.randrange(3), alike(body))
        (answer,) = told["topics"][0]["partitions"]
        self.starts[partition] = max(self.starts[partition], answer["low_watermark"])

    # --- what readers ask ------------------------------------------------------

    def fetch(self) -> None:
        """Read; Kafka also tells of aborted transactions that begin behind what it returns."""
        rng, version = self.rng, self.rng.randrange(4, 19)
        few = rng.choice([MANY_BYTES, MANY_BYTES, 1, 100, 400])
        partitions = [
            FetchPartition(
                partition=number,
                fetch_offset=rng.choice([0, rng.randrange(self.ends[number] + 3), -1]),
                partition_max_bytes=few,
                current_leader_epoch=rng.choice([-1, -1, -1, 0, 1]) if version >= 9 else -1,
                last_fetched_epoch=rng.choice([-1, -1, -1, 0, 1]) if version >= 12 else -1,
            )
            for number in rng.sample(range(PARTITIONS), rng.choice([1, 2]))
        ]
        level, total = rng.choice([0, 1, 1]), MANY_BYTES
        if len(partitions) == 1:  # else Kafka's beginnings of batches leave others less
            total = rng.choice([MANY_BYTES, MANY_BYTES, 1, 300])

        def make(side: Side) -> FetchRequest:
            wanted = FetchTopic(partitions=partitions)
            if version >= TOPIC_IDS_FROM:
                wanted.topic_id = self.topic_id(side, self.topic)
            else:
                wanted.topic = self.topic
            return FetchRequest(
                max_wait_ms=0, min_bytes=0, max_bytes=total, isolation_level=level, topics=[wanted]
            )

        told = self.twins.ask(ApiKey.FETCH, version, make)
        for one in told:
            for partition in [p for topic in one["responses"] for p in topic["partitions"]]:
                self.forget_markers_times(partition["records"])
        for partition in [p for topic in told.kafka["responses"] for p in topic["partitions"]]:
            self.leave_needed(partition)
            if "last_stable_offset" in partition:
                start = self.starts[int(partition["partition_index"])]
                # Kafka's may lie before the log's start.
                partition["last_stable_offset"] = max(partition["last_stable_offset"], start)
        self.compare(Asked(ApiKey.FETCH, version, make), told)

    @staticmethod
    def forget_markers_times(batches: list[dict[str, Any]]) -> None:
        for batch in batches:
            batch.pop("crc")  # also of the producer's id, which is another one
            if batch["attributes"] & CONTROL_BIT:
                for name in MARKED_NOW[1:]:
                    batch.pop(name)

    @staticmethod
    def leave_needed(partition: dict[str, Any]) -> None:
        last = partition["records"][-1] if partition["records"] else None
        end = last["base_offset"] + last["last_offset_delta"] if last else -1
        partition["aborted_transactions"] = [
            aborted
            for aborted in partition["aborted_transactions"]
            if aborted["first_offset"] <= end
        ]

    def list_offsets(self) -> None:
        rng = self.rng
        times = [-1, -1, -2, NEWEST, 0, self.at_ms + rng.randrange(-5000, 2000), self.old_ms + 500]
        asked = [
            ListOffsetsPartition(
                partition_index=number,
                timestamp=rng.choice(times),
                current_leader_epoch=rng.choice([-1, -1, -1, 0, 1]),
            )
            for number in range(PARTITIONS)
        ]
        body = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=rng.choice([0, 1, 1]),
            topics=[ListOffsetsTopic(name=self.topic, partitions=asked)],
        )
        version = rng.randrange(7, 12)
        told = self.twins.ask(ApiKey.LIST_OFFSETS, version, alike(body))
        for kafka, own in zip(*(one["topics"][0]["partitions"] for one in told), strict=True):
            number = int(kafka["partition_index"])
            if 0 <= kafka["offset"] < self.starts[number]:
                # Of a record, or of the beginning of a transaction, that was deleted.
                newest = asked[number].timestamp == NEWEST
                kafka["offset"] = own["offset"] if newest else self.starts[number]
                kafka["timestamp"], kafka["leader_epoch"] = own["timestamp"], own["leader_epoch"]
        self.compare(Asked(ApiKey.LIST_OFFSETS, version, alike(body)), told)

    def ends_of_epochs(self) -> None:
        rng = self.rng
        asked = [
            OffsetForLeaderPartition(
                partition=number,
                current_leader_epoch=rng.choice([-1, -1, 0, 1]),
                leader_epoch=rng.choice([-1, 0, 0, 1, 5]),
            )
            for number in range(PARTITIONS + 1)
        ]
        body = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic=self.topic, partitions=asked)]
        )
        self.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, rng.randrange(2, 5), alike(body))

    def describe_producers(self) -> None:
        asked = DescribeProducersTopicRequest(name=self.topic, partition_indexes=[0, 1])
        body = DescribeProducersRequest(topics=[asked])
        self.ask(ApiKey.DESCRIBE_PRODUCERS, 0, alike(body))

    def steps(self) -> list[Callable[[], None]]:
        return [
            *[self.produce] * 8, *[self.end] * 3, self.mark, self.delete_records,
            *[self.fetch] * 6, *[self.list_offsets] * 3, self.ends_of_epochs,
            self.describe_producers,
        ]  # fmt: skip


@pytest.mark.feature("logs of transactions that cross each other: read as from Kafka")
@pytest.mark.parametrize("seed", range(4))
def test_both_tell_the_same_of_logs_with_transactions(
    twins: Twins, apache_kafka: Broker, broker: Broker, ours: Ours, seed: int
) -> None:
    servers = apache_kafka.server, broker.server
    session = Logs(twins, new_topics(twins, servers, ours, "logs"), seed)
    for name in session.names:
        session.begin(name)
    for _ in range(STEPS):
        session.rng.choice(session.steps())()
