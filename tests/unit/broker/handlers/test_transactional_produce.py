"""Batches of transactions: vouched for by the coordinator, ended by markers, read when decided."""

from collections.abc import Sequence
from typing import Any

import pytest

from quorate.broker.handlers.cluster import describe_producers
from quorate.broker.handlers.context import CloseConnectionError
from quorate.broker.handlers.fetch import fetch
from quorate.broker.handlers.markers import TIMEOUT_MS, write_txn_markers
from quorate.broker.handlers.offsets import list_offsets
from quorate.broker.handlers.produce import produce, single_produce
from quorate.broker.handlers.verification import RETRY_MAX_MS, RETRY_MS
from quorate.broker.shards.topics import GROUPS_TOPIC
from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.promise import Promise
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import encode_request
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
    PartitionData,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from quorate.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from quorate.quorum.metadata import records as r
from quorate.records.batch import TRANSACTIONAL_BIT
from quorate.records.record import ProducerStamp
from tests.unit.broker.harness import Node, codes, new_node, now, over, stored, waits
from tests.unit.broker.log.batches import headers_of, make_batch, read_all

ADDING, VERIFYING, OLD = over(12), over(11), over(9)
READ_COMMITTED = 1


class Coordinator:
    """Is asked whether partitions take part in transactions; answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int, tuple[TopicPartition, ...], bool]] = []
        self.promises: list[Promise[Any]] = []

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> Promise[Any]:
        self.asked.append((transactional_id, producer_id, producer_epoch, tuple(partitions), add))
        self.promises.append(Promise())
        return self.promises[-1]

    def answer(self, code: ErrorCode = ErrorCode.NONE, place: int = 0) -> None:
        partitions = self.asked[-len(self.promises) + place][3]
        self.promises.pop(place).resolve(dict.fromkeys(partitions, code))


class World:
    """A node with a topic, whose coordinator is in the test's hands."""

    def __init__(self, partitions: int = 1, **texts: str) -> None:
        self.node: Node = new_node({n.replace("_", "."): v for n, v in texts.items()})
        self.node.create_topic("appLogs", partitions)
        self.coordinator = Coordinator()
        self.node.broker._verifier = self.coordinator  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]

    def produce(
        self,
        *sequences: int,
        caller: Any = ADDING,
        producer: tuple[int, int] = (7, 0),
        acks: int = -1,
        transactional_id: str | None = "t",
        attributes: int = TRANSACTIONAL_BIT,
        timeout_ms: int = 1000,
    ) -> Any:
        """Send one record to each of partitions 0, 1, ..."""
        partitions = [
            PartitionProduceData(
                index=index,
                records=make_batch(
                    [b"v"], producer=ProducerStamp(*producer, sequence), attributes=attributes
                ),
            )
            for index, sequence in enumerate(sequences)
        ]
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[TopicProduceData(name="appLogs", partition_data=partitions)],
        )
        answer = produce(self.node.broker, request, caller)
        self.node.replicas.settle()
        return answer

    def end(
        self,
        *,
        committed: bool,
        epoch: int = 0,
        version: int = 1,
        coordinator_epoch: int = 0,
        partitions: Sequence[int] = (0,),
        producer_id: int = 7,
    ) -> Any:
        topics = [WritableTxnMarkerTopic(name="appLogs", partition_indexes=list(partitions))]
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=committed,
            topics=topics,
            coordinator_epoch=coordinator_epoch,
            transaction_version=version,
        )
        answer = write_txn_markers(
            self.node.broker, WriteTxnMarkersRequest(markers=[marker]), over(2)
        )
        self.node.replicas.settle()
        return answer

    def fetch(self, offset: int = 0, isolation: int = READ_COMMITTED, wait_ms: int = 0) -> Any:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            isolation_level=isolation,
            topics=[FetchTopic(topic="appLogs", partitions=[partition])],
        )
        return fetch(self.node.broker, request, over(12))

    def latest(self, isolation: int) -> int:
        request = ListOffsetsRequest(
            isolation_level=isolation,
            topics=[
                ListOffsetsTopic(
                    name="appLogs",
                    partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)],
                )
            ],
        )
        answer = now(list_offsets(self.node.broker, request, over(7)))
        offset: int = answer.topics[0].partitions[0].offset
        return offset

    @property
    def written(self) -> int:
        return len(read_all(self.node.leader().log))


def partitions_of(answer: Any) -> list[Any]:
    return [p for topic in now(answer).responses for p in topic.partition_responses]


def marker_codes(answer: Any) -> list[ErrorCode]:
    return codes([p for m in now(answer).markers for topic in m.topics for p in topic.partitions])


def fetched(answer: Any) -> PartitionData:
    ((partition,),) = [topic.partitions for topic in now(answer).responses]
    assert isinstance(partition, PartitionData)
    return partition


def bases(partition: PartitionData) -> list[int]:
    return [header.base_offset for header in headers_of(stored(partition.records))]


def test_a_transaction_begins_once_its_coordinator_has_added_the_partition() -> None:
    world = World(2)
    answer = world.produce(0, 0)
    assert waits(answer)
    assert world.written == 0
    both = (TopicPartition("appLogs", 0), TopicPartition("appLogs", 1))
    assert world.coordinator.asked == [("t", 7, 0, both, True)]
    world.coordinator.answer()
    assert [(p.base_offset, p.log_start_offset) for p in partitions_of(answer)] == [(0, 0)] * 2
    assert codes(partitions_of(world.produce(1, 1))) == [ErrorCode.NONE] * 2
    assert len(world.coordinator.asked) == 1, "the transaction is open: nobody is asked"
    assert world.written == 2


def test_older_clients_have_added_the_partition_themselves() -> None:
    world = World()
    answer = world.produce(0, caller=VERIFYING)
    assert [add for *_, add in world.coordinator.asked] == [False]
    world.coordinator.answer()
    assert codes(partitions_of(answer)) == [ErrorCode.NONE]


def test_verification_can_be_left_out_for_older_clients() -> None:
    world = World(transaction_partition_verification_enable="false")
    assert codes(partitions_of(world.produce(0, caller=VERIFYING))) == [ErrorCode.NONE]
    world.end(committed=True)
    assert waits(world.produce(0, producer=(8, 0), caller=ADDING))


def test_what_comes_meanwhile_waits_for_the_same_answer_in_its_order() -> None:
    world = World()
    first, second = world.produce(0), world.produce(1)
    assert len(world.coordinator.asked) == 1
    world.coordinator.answer()
    assert [p.base_offset for p in [*partitions_of(first), *partitions_of(second)]] == [0, 1]


@pytest.mark.parametrize(
    ("code", "caller", "told"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, ADDING, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, VERIFYING, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, OLD, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, ADDING, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NOT_COORDINATOR, ADDING, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, VERIFYING, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ADDING, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, ADDING, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.INVALID_TXN_STATE, ADDING, ErrorCode.INVALID_TXN_STATE),
        (
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ADDING,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ),
    ],
)
def test_refusals_of_the_coordinator_are_told_as_kafka_tells_them(
    code: ErrorCode, caller: Any, told: ErrorCode
) -> None:
    world = World()
    answer = world.produce(0, caller=caller)
    world.coordinator.answer(code)
    assert codes(partitions_of(answer)) == [told]
    assert world.written == 0
    assert waits(world.produce(0, caller=caller)), "the next one is asked about again"


@pytest.mark.parametrize(
    ("caller", "told"),
    [
        (ADDING, ErrorCode.CONCURRENT_TRANSACTIONS),
        (VERIFYING, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_the_end_of_the_transaction_before_is_waited_for_a_little(
    caller: Any, told: ErrorCode
) -> None:
    world = World()
    answer = world.produce(0, caller=caller)
    waited_ms = 0
    while waited_ms < RETRY_MAX_MS:
        world.coordinator.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        assert waits(answer)
        world.node.wait(RETRY_MS)
        waited_ms += RETRY_MS
    world.coordinator.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert codes(partitions_of(answer)) == [told]
    again = world.produce(0, caller=caller)
    world.coordinator.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    world.node.wait(RETRY_MS)
    world.coordinator.answer()
    assert codes(partitions_of(again)) == [ErrorCode.NONE]


def test_an_answer_about_a_transaction_that_ended_meanwhile_is_void() -> None:
    world = World()
    answer = world.produce(0)
    assert marker_codes(world.end(committed=False, epoch=1, version=2)) == [ErrorCode.NONE]
    world.coordinator.answer()
    assert codes(partitions_of(answer)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    world = World()
    answer = world.produce(0, caller=VERIFYING)
    world.end(committed=False)
    world.coordinator.answer()
    assert codes(partitions_of(answer)) == [ErrorCode.INVALID_TXN_STATE]
    assert world.written == 1


def test_an_answer_that_comes_when_another_broker_leads_appends_nothing() -> None:
    world = World()
    answer = world.produce(0)
    world.node.lead("appLogs", 0, leader_epoch=1)
    world.coordinator.answer()
    assert codes(partitions_of(answer)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_who_waits_too_long_is_told_and_what_it_sent_may_be_written_yet() -> None:
    world = World()
    answer = world.produce(0, timeout_ms=50)
    world.node.wait(60)
    assert codes(partitions_of(answer)) == [ErrorCode.REQUEST_TIMED_OUT]
    world.coordinator.answer()
    assert world.written == 1
    again = world.produce(0)
    assert [p.base_offset for p in partitions_of(again)] == [0]


def synced_world() -> World:
    """A world whose records count once they are synced."""
    world = World()
    world.node.apply(r.ConfigSet("test", 0, "topic", "appLogs", "flush.messages", "1"))
    return world


@pytest.mark.parametrize("acks", [1, -1])
def test_what_its_coordinator_vouched_for_is_answered_when_it_is_synced(acks: int) -> None:
    world = synced_world()
    answer = world.produce(0, acks=acks)
    world.coordinator.answer()
    assert waits(answer)
    world.node.sync()
    assert [p.base_offset for p in partitions_of(answer)] == [0]


def test_what_is_vouched_for_too_late_is_answered_once_though_it_is_synced_later() -> None:
    world = synced_world()
    answer = world.produce(0, timeout_ms=50)
    world.node.wait(60)
    world.coordinator.answer()
    world.node.sync()
    assert world.node.leader().high_watermark == 1
    assert codes(partitions_of(answer)) == [ErrorCode.REQUEST_TIMED_OUT]


def test_transactional_records_belong_to_one_producer_with_a_transactional_id() -> None:
    world = World()
    refused = world.produce(0, transactional_id=None)
    assert codes(partitions_of(refused)) == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    plain = world.produce(0, attributes=0, producer=(9, 0))
    assert codes(partitions_of(plain)) == [ErrorCode.NONE]
    records = [
        make_batch([b"v"], producer=ProducerStamp(p, 0, 0), attributes=TRANSACTIONAL_BIT)
        for p in (1, 2)
    ]
    partitions = [PartitionProduceData(index=n, records=each) for n, each in enumerate(records)]
    request = ProduceRequest(
        transactional_id="t",
        acks=-1,
        topic_data=[TopicProduceData(name="appLogs", partition_data=partitions)],
    )
    told = codes(partitions_of(produce(world.node.broker, request, ADDING)))
    assert told == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


def test_odd_partitions_and_records_of_a_transaction_are_told() -> None:
    world = World()
    request = ProduceRequest(
        transactional_id="t",
        acks=-1,
        topic_data=[
            TopicProduceData(
                name=name, partition_data=[PartitionProduceData(index=0, records=records)]
            )
            for name, records in (("nowhere", None), ("appLogs", None))
        ],
    )
    told = codes(partitions_of(produce(world.node.broker, request, ADDING)))
    assert told == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_RECORD]
    told = codes(partitions_of(produce(world.node.broker, request, over(13))))
    assert told == [ErrorCode.UNKNOWN_TOPIC_ID] * 2


def test_acks_0_gets_no_answer_and_is_written_all_the_same() -> None:
    world = World()
    assert world.produce(0, acks=0) is None
    world.coordinator.answer()
    assert world.written == 1
    with pytest.raises(CloseConnectionError):
        world.produce(5, acks=0)
    with pytest.raises(CloseConnectionError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        world.produce(1, acks=0, transactional_id=None)


def test_the_coordinator_of_a_group_hears_of_markers_in_its_partition() -> None:
    world = World()
    world.node.create_topic(GROUPS_TOPIC)
    heard: list[tuple[int, int, bool]] = []

    def hear(partition: int, producer_id: int, *, committed: bool) -> None:
        heard.append((partition, producer_id, committed))

    world.node.broker.coordinators.marker_appended = hear  # type: ignore[method-assign]
    topics = [WritableTxnMarkerTopic(name=GROUPS_TOPIC, partition_indexes=[0])]
    marker = WritableTxnMarker(producer_id=7, transaction_result=True, topics=topics)
    request = WriteTxnMarkersRequest(markers=[marker])
    assert marker_codes(write_txn_markers(world.node.broker, request, over(2))) == [ErrorCode.NONE]
    assert heard == [(0, 7, True)]


def test_the_short_way_leaves_transactional_batches_alone() -> None:
    world = World()
    first = world.produce(0)
    world.coordinator.answer()
    assert codes(partitions_of(first)) == [ErrorCode.NONE]
    serve = single_produce(world.node.broker, "PLAINTEXT")

    def served(producer_id: int, sequence: int, attributes: int) -> bool:
        stamp = ProducerStamp(producer_id, 0, sequence)
        records = make_batch([b"v"], producer=stamp, attributes=attributes)
        partitions = [PartitionProduceData(index=0, records=records)]
        topics = [TopicProduceData(name="appLogs", partition_data=partitions)]
        request = ProduceRequest(acks=-1, topic_data=topics)
        frame = bytearray(encode_request(APIS[ApiKey.PRODUCE], 12, 5, "c", request))
        return serve(frame, 4, len(frame)) is not None

    assert not served(7, 1, TRANSACTIONAL_BIT), "even if it continued the transaction"
    assert world.written == 1
    assert served(8, 0, 0)


def test_consumers_of_what_is_committed_see_no_further_than_what_is_decided() -> None:
    world = World()
    world.produce(0)
    world.coordinator.answer()
    world.node.append(b"plain")
    data = fetched(world.fetch())
    assert (data.high_watermark, data.last_stable_offset, data.records) == (2, 0, b"")
    assert data.aborted_transactions == []
    everything = fetched(world.fetch(isolation=0))
    assert bases(everything) == [0, 1]
    assert (everything.last_stable_offset, everything.aborted_transactions) == (0, None)
    assert (world.latest(READ_COMMITTED), world.latest(0)) == (0, 2)
    parked = world.fetch(wait_ms=60_000)
    assert waits(parked)
    world.node.append(b"plain")
    assert waits(parked)
    assert marker_codes(world.end(committed=False)) == [ErrorCode.NONE]
    data = fetched(parked)
    assert bases(data) == [0, 1, 2, 3]
    assert data.last_stable_offset == world.latest(READ_COMMITTED) == 4
    assert data.aborted_transactions is not None
    assert [(a.producer_id, a.first_offset) for a in data.aborted_transactions] == [(7, 0)]
    assert fetched(world.fetch(4)).aborted_transactions == []


def test_markers_are_answered_by_partition() -> None:
    world = World()
    answer = world.end(committed=True, partitions=[0, 1], epoch=3, coordinator_epoch=2)
    assert marker_codes(answer) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert marker_codes(world.end(committed=True, epoch=2)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    late = world.end(committed=True, epoch=3, coordinator_epoch=1)
    assert marker_codes(late) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    world.node.lead("appLogs", 0, leader_epoch=1, leader_id=-1)
    assert marker_codes(world.end(committed=True)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_markers_are_answered_when_they_are_replicated() -> None:
    world = World()
    world.node.join(1)
    world.node.join(2, port=9093)
    world.node.create_topic("two", replicas=(1, 2))
    world.node.apply()
    replica = world.node.leader("two")
    topics = [WritableTxnMarkerTopic(name="two", partition_indexes=[0])]
    marker = WritableTxnMarker(producer_id=7, transaction_result=True, topics=topics)
    request = WriteTxnMarkersRequest(markers=[marker])
    replica.isr.commit((1, 2), replica.isr.partition_epoch + 1)
    answer = write_txn_markers(world.node.broker, request, over(2))
    assert waits(answer)
    world.node.wait(TIMEOUT_MS)
    assert marker_codes(answer) == [ErrorCode.REQUEST_TIMED_OUT]


def test_producers_and_their_transactions_are_described() -> None:
    world = World()
    world.node.append(b"plain")
    world.produce(0)
    world.coordinator.answer()
    request = DescribeProducersRequest(
        topics=[DescribeProducersTopicRequest(name="appLogs", partition_indexes=[0])]
    )

    def described() -> tuple[int, int]:
        answer = now(describe_producers(world.node.broker, request, over(0)))
        (producer,) = answer.topics[0].partitions[0].active_producers
        return producer.current_txn_start_offset, producer.coordinator_epoch

    assert described() == (1, -1)
    world.end(committed=True, coordinator_epoch=4)
    assert described() == (-1, 4)


def test_with_sequences_of_an_ended_transaction_it_is_told_where_the_log_starts() -> None:
    world = World()
    for sequence in (0, 1):
        answer = world.produce(sequence)
        world.coordinator.answer()
        assert codes(partitions_of(answer)) == [ErrorCode.NONE]
        if sequence == 0:
            world.end(committed=False)
    (refused,) = partitions_of(world.produce(0))
    assert refused.error_code == ErrorCode.UNKNOWN_PRODUCER_ID
    assert refused.log_start_offset == 0, "Java's producer would try for ever, or until it is told"
