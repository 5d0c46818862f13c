"""Transactional producers ask at random, rightly and wrongly: both brokers tell the same.

What differs on purpose is left out or in ``expected``; whatever else does fails the test with its
seed, the request and both answers. Left out are wrong epochs where Kafka takes a producer of before
for one that asks again: over an open transaction, and in EndTxn from version 5 on.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import pytest

from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from quorate.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from quorate.records.batch import TRANSACTIONAL_BIT
from quorate.records.record import ProducerStamp
from tests.compat.asking import TIMEOUT_MS, Session, new_topics
from tests.compat.clients.ours import Ours
from tests.compat.serving import Broker
from tests.compat.twins import PAUSE_S, Asked, Side, Twins, alike
from tests.unit.broker.log.batches import make_batch

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.client("Quorate")]

STEPS: Final = 120
MANY_BYTES: Final = 1 << 20
STRANGER: Final = 1 << 40
"""The id of a producer that nobody knows."""
BATCHED_FROM: Final = 4
BUMPS_FROM: Final = 5


class Producer(NamedTuple):
    """A producer as both have named it."""

    producer_id: Any
    epoch: int


class Transactions(Session):
    """Producers with transactional ids, which all ask on one connection."""

    def __init__(self, twins: Twins, topics: Sequence[str], seed: int) -> None:
        super().__init__(twins, topics, seed)
        self.names = [f"t{number}-{self.stamp}" for number in range(3)]
        self.producers: dict[str, Producer] = {}
        self.sequences: dict[tuple[Producer, str, int], int] = {}
        self.repeatable: dict[tuple[Producer, str, int], int] = {}
        """Who has written where in a transaction that is under way, from which sequence on."""
        self.at_ms = self.stamp // 1_000_000 - 60_000

    # --- who asks --------------------------------------------------------------

    def name(self) -> str:
        return self.rng.choice([*self.names * 8, f"none-{self.stamp}"])

    def producer(self, name: str, *, epochs: bool = True) -> Producer:
        """Return who has the transactional id, or somebody else."""
        newest = self.producers.get(name, Producer(STRANGER, 0))
        wrong = self.rng.random()
        if wrong < 0.04:
            return Producer(STRANGER, newest.epoch)
        if epochs and wrong < 0.1:
            return Producer(newest.producer_id, self.rng.choice([newest.epoch + 1, -1]))
        if epochs and wrong < 0.14:
            return Producer(newest.producer_id, max(newest.epoch - 1, 0))
        return newest

    def wait_for_end(self, name: str) -> None:
        """Wait until the markers of a transaction are written: both answer before that."""
        asked = DescribeTransactionsRequest(transactional_ids=[name])
        for side in self.twins.sides:
            while (
                "Prepare"
                in side.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, alike(asked))
                .transaction_states[0]
                .transaction_state
            ):
                time.sleep(PAUSE_S)

    def is_open(self, name: str) -> bool:
        asked = DescribeTransactionsRequest(transactional_ids=[name])
        told = self.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, alike(asked))
        return bool(told["transaction_states"][0]["transaction_state"] == "Ongoing")

    def now_is(self, name: str, answer: Any) -> None:
        if answer["error_code"] == "NONE" and name in self.names:
            self.producers[name] = Producer(answer["producer_id"], answer["producer_epoch"])

    # --- what producers ask ----------------------------------------------------

    def begin(self, name: str) -> None:
        body = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
        self.now_is(name, self.ask(ApiKey.INIT_PRODUCER_ID, 4, alike(body), "producer_id"))

    def init(self) -> None:
        rng, name, version = self.rng, self.rng.choice(self.names), self.rng.randrange(6)
        has = Producer(-1, -1)
        if self.is_open(name):
            # The epoch of a transaction that is aborted for a new producer is another one.
            has, version = self.producers[name], max(version, 3)
        elif version >= 3 and rng.random() < 0.7:
            has = self.producer(name)
        timeout_ms = rng.choice([TIMEOUT_MS] * 5 + [50_000, 0, -1, 900_001])

        def make(side: Side) -> InitProducerIdRequest:
            return InitProducerIdRequest(
                transactional_id=name,
                transaction_timeout_ms=timeout_ms,
                producer_id=side.of(has.producer_id),
                producer_epoch=has.epoch,
            )

        answer = self.ask(ApiKey.INIT_PRODUCER_ID, version, make, "producer_id")
        self.now_is(name, answer)

    def added(self) -> list[AddPartitionsToTxnTopic]:
        partitions = [[0], [1], [0, 1], [7]] if self.rng.random() < 0.1 else [[0], [1], [0, 1]]
        return [
            AddPartitionsToTxnTopic(name=topic, partitions=self.rng.choice(partitions))
            for topic in (self.some_topics() if self.rng.random() < 0.2 else self.topics[:1])
        ]

    def add(self) -> None:
        name, version = self.name(), self.rng.randrange(BATCHED_FROM)
        producer, topics = self.producer(name), self.added()

        def make(side: Side) -> AddPartitionsToTxnRequest:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=side.of(producer.producer_id),
                v3_and_below_producer_epoch=producer.epoch,
                v3_and_below_topics=topics,
            )

        self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, make)

    def add_many(self) -> None:
        names = self.rng.sample(self.names, self.rng.choice([1, 2]))
        topics, verify_only = self.added(), self.rng.random() < 0.6
        askers = [(name, self.producer(name)) for name in names]

        def make(side: Side) -> AddPartitionsToTxnRequest:
            transactions = [
                AddPartitionsToTxnTransaction(
                    transactional_id=name,
                    producer_id=side.of(producer.producer_id),
                    producer_epoch=producer.epoch,
                    verify_only=verify_only,
                    topics=topics,
                )
                for name, producer in askers
            ]
            return AddPartitionsToTxnRequest(transactions=transactions)

        self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, self.rng.randrange(BATCHED_FROM, 6), make)

    def add_offsets(self) -> None:
        name, group = self.name(), self.group()
        producer = self.producer(name)

        def make(side: Side) -> AddOffsetsToTxnRequest:
            return AddOffsetsToTxnRequest(
                transactional_id=name,
                producer_id=side.of(producer.producer_id),
                producer_epoch=producer.epoch,
                group_id=group,
            )

        self.ask(ApiKey.ADD_OFFSETS_TO_TXN, self.rng.randrange(5), make)

    def commit_offsets(self) -> None:
        rng, name, version = self.rng, self.name(), self.rng.randrange(6)
        producer, group = self.producer(name), rng.choice([*self.groups * 4, ""])
        alone = rng.random() < 0.7
        member = "" if alone else self.member(group)
        generation = -1 if alone else self.generation(group)
        topics = [
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=rng.randrange(2),
                        committed_offset=rng.choice([1, 5, 9]),
                        committed_metadata=self.metadata(),
                    )
                ],
            )
            for topic in self.some_topics()
        ]

        def make(side: Side) -> TxnOffsetCommitRequest:
            return TxnOffsetCommitRequest(
                transactional_id=name,
                group_id=group,
                producer_id=side.of(producer.producer_id),
                producer_epoch=producer.epoch,
                generation_id=generation,
                member_id=side.of(member),
                topics=topics,
            )

        self.ask(ApiKey.TXN_OFFSET_COMMIT, version, make)

    def end(self) -> None:
        rng, name, version = self.rng, self.name(), self.rng.choice([0, 1, 2, 3, 4, 5, 5, 5])
        producer, committed = self.producer(name, epochs=version < BUMPS_FROM), rng.random() < 0.6

        def make(side: Side) -> EndTxnRequest:
            return EndTxnRequest(
                transactional_id=name,
                producer_id=side.of(producer.producer_id),
                producer_epoch=producer.epoch,
                committed=committed,
            )

        again = rng.choice([1, 1, 2])  # the answer may have been lost
        for _ in range(again):
            answer = self.ask(ApiKey.END_TXN, version, make, "producer_id")
            self.wait_for_end(name)
            self.repeatable.clear()
            if version >= BUMPS_FROM:
                self.now_is(name, answer)

    def produce(self) -> None:
        rng, name, version = self.rng, self.name(), self.rng.choice([3, 7, 9, 11, 12, 12, 12])
        producer, topic, partition = (
            self.producer(name, epochs=False),
            self.topics[0],
            rng.choice([0, 0, 1]),
        )
        where, count = (producer, topic, partition), rng.choice([1, 2])
        sequence = self.sequences.get(where, 0)
        if rng.random() < 0.1:
            # What was used in a transaction of before is refused on purpose.
            back = max(sequence - rng.choice([1, count]), self.repeatable.get(where, 0))
            sequence = (
                rng.choice([sequence + 1, back]) if where in self.repeatable else sequence + 1
            )
        values = [rng.randbytes(5) for _ in range(count)]

        def make(side: Side) -> ProduceRequest:
            batch = make_batch(
                values,
                timestamps_ms=[self.at_ms] * count,
                producer=ProducerStamp(side.of(producer.producer_id), producer.epoch, sequence),
                attributes=TRANSACTIONAL_BIT,
            )
            data = TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)]
            )
            return ProduceRequest(
                transactional_id=name, acks=-1, timeout_ms=10_000, topic_data=[data]
            )

        told = self.ask(ApiKey.PRODUCE, version, make)
        if told["responses"][0]["partition_responses"][0]["error_code"] == "NONE":
            self.sequences[where] = sequence + count
            self.repeatable.setdefault(where, sequence)

    # --- what others ask -------------------------------------------------------

    def fetch(self) -> None:
        """Read; Kafka also tells of aborted transactions that begin behind what it returns."""
        rng, version = self.rng, self.rng.randrange(4, 13)
        partitions = [
            FetchPartition(
                partition=0, fetch_offset=rng.choice([0, 0, 3]), partition_max_bytes=MANY_BYTES
            )
        ]
        body = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=MANY_BYTES,
            isolation_level=rng.choice([0, 1, 1]),
            topics=[FetchTopic(topic=self.topics[0], partitions=partitions)],
        )
        told = self.twins.ask(ApiKey.FETCH, version, alike(body))
        (partition,) = told.kafka["responses"][0]["partitions"]
        last = partition["records"][-1] if partition["records"] else None
        end = last["base_offset"] + last["last_offset_delta"] if last else -1
        partition["aborted_transactions"] = [
            aborted
            for aborted in partition["aborted_transactions"]
            if aborted["first_offset"] <= end
        ]
        self.compare(Asked(ApiKey.FETCH, version, alike(body)), told)

    def list_offsets(self) -> None:
        asked = [
            ListOffsetsPartition(partition_index=number, timestamp=self.rng.choice([-1, -1, -2]))
            for number in range(2)
        ]
        body = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self.rng.choice([0, 1, 1]),
            topics=[ListOffsetsTopic(name=self.topics[0], partitions=asked)],
        )
        self.ask(ApiKey.LIST_OFFSETS, self.rng.randrange(2, 10), alike(body))

    def describe(self) -> None:
        body = DescribeTransactionsRequest(transactional_ids=sorted({self.name(), self.name()}))
        self.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, alike(body))

    def list_transactions(self) -> None:
        rng, version = self.rng, self.rng.randrange(3)
        states = [
            [],
            [],
            ["Ongoing"],
            ["CompleteCommit", "CompleteAbort"],
            ["Empty", "x"],
            ["empty"],
        ]
        state_filters = rng.choice(states)
        producer = self.producer(self.names[0], epochs=False)
        of_one, duration_ms = rng.random() < 0.3, rng.choice([-1, 0, 1_000_000])
        pattern = rng.choice([None, "", "t0.*", "t[12]-.*", "t0"])

        def make(side: Side) -> ListTransactionsRequest:
            return ListTransactionsRequest(
                state_filters=state_filters,
                producer_id_filters=[side.of(producer.producer_id)] if of_one else [],
                duration_filter=duration_ms,
                transactional_id_pattern=pattern,
            )

        told = self.twins.ask(ApiKey.LIST_TRANSACTIONS, version, make)
        for one in told:
            states = one["transaction_states"]
            one["transaction_states"] = [s for s in states if s["transactional_id"] in self.names]
        self.compare(Asked(ApiKey.LIST_TRANSACTIONS, version, make), told)

    def steps(self) -> list[Callable[[], None]]:
        return [
            *[self.init] * 2, *[self.add] * 4, *[self.add_many] * 2, self.add_offsets,
            *[self.commit_offsets] * 4, *[self.end] * 5, *[self.produce] * 8, *[self.fetch] * 3,
            *[self.list_offsets] * 2, *[self.describe] * 2, self.list_transactions,
            *[self.fetch_offsets] * 3, self.commit, self.delete_offsets, self.describe_groups,
        ]  # fmt: skip


def play(twins: Twins, topics: Sequence[str], seed: int) -> None:
    session = Transactions(twins, topics, seed)
    for group in session.groups:
        session.found(group)
    for name in session.names:
        session.begin(name)
    for _ in range(STEPS):
        session.rng.choice(session.steps())()


@pytest.mark.feature("random requests of transactional producers: told what Kafka tells")
@pytest.mark.parametrize("seed", range(3))
def test_both_tell_producers_the_same(
    twins: Twins, apache_kafka: Broker, broker: Broker, ours: Ours, seed: int
) -> None:
    servers = apache_kafka.server, broker.server
    play(twins, new_topics(twins, servers, ours, "transactions"), seed)
