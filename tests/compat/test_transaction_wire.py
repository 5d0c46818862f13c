"""Producers and coordinators that do wrong: the errors that Apache Kafka gives.

Every test runs against Apache Kafka too, so that what it asks for is what Kafka does.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import pytest

from quorate.errors import ErrorCode
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import encode_request
from quorate.protocol.messages.groups import FindCoordinatorRequest
from quorate.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from quorate.records.batch import TRANSACTIONAL_BIT
from quorate.records.record import ProducerStamp
from tests.compat.clients.model import DEADLINE_S, Server, TopicSpec
from tests.compat.clients.ours import Ours
from tests.compat.wire import CLIENT_ID, CORRELATION_ID, Wire, connected
from tests.unit.broker.log.batches import make_batch

pytestmark = [pytest.mark.compat, pytest.mark.slow]

RETRIED = (
    "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR",
    "NOT_LEADER_OR_FOLLOWER", "CONCURRENT_TRANSACTIONS",
)  # fmt: skip
"""Kafka's coordinators and leaders take their time, and ends do, too."""
PAUSE_S = 0.02
TIMEOUT_MS = 60_000
MAX_TIMEOUT_MS = 900_000
BATCHED = 5
ID_BYTES_MAX = 32_767


def error_of(answer: Any) -> str:
    return ErrorCode(answer.error_code).name


def init(wire: Wire, name: str | None, timeout_ms: int = TIMEOUT_MS, **has: Any) -> Any:
    """Ask for a producer id, as often as that takes."""
    asked = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms, **has)
    deadline = time.monotonic() + DEADLINE_S
    while error_of(answer := wire.ask(ApiKey.INIT_PRODUCER_ID, 4, asked)) in RETRIED:
        assert time.monotonic() < deadline, "there is no coordinator"
        wire.ask(
            ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
        )
        time.sleep(PAUSE_S)
    return answer


@dataclass(frozen=True)
class Asker:
    """A producer as it names itself, rightly or wrongly."""

    wire: Wire
    topic: str
    name: str
    producer_id: int
    epoch: int

    def ask(self, api_key: ApiKey, version: int, request: Any) -> Any:
        """Ask again while the last transaction is ending, or a group has no coordinator."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = self.wire.ask(api_key, version, request)
            if told(answer) not in RETRIED:
                return answer
            assert time.monotonic() < deadline, "it does not end"
            time.sleep(PAUSE_S)

    def add(self, version: int = 3) -> str:
        topics = [AddPartitionsToTxnTopic(name=self.topic, partitions=[0])]
        if version < 4:
            asked = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=topics,
            )
        else:
            asked = AddPartitionsToTxnRequest(
                transactions=[
                    AddPartitionsToTxnTransaction(
                        transactional_id=self.name,
                        producer_id=self.producer_id,
                        producer_epoch=self.epoch,
                        verify_only=True,
                        topics=topics,
                    )
                ]
            )
        return told(self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, asked))

    def add_offsets(self, version: int = 3, group_id: str = "g") -> str:
        asked = AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group_id,
        )
        return told(self.ask(ApiKey.ADD_OFFSETS_TO_TXN, version, asked))

    def commit_offsets(self, version: int = 4) -> str:
        offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        asked = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id="g",
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self.topic, partitions=[offset])],
        )
        return told(self.ask(ApiKey.TXN_OFFSET_COMMIT, version, asked))

    def end(self, version: int = 4, *, committed: bool = True) -> str:
        asked = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        return told(self.ask(ApiKey.END_TXN, version, asked))

    def produce(self, version: int = 11) -> str:
        batch = make_batch(
            [b"v"],
            timestamps_ms=[time.time_ns() // 1_000_000],
            producer=ProducerStamp(self.producer_id, self.epoch, 0),
            attributes=TRANSACTIONAL_BIT,
        )
        asked = self.wire.produce_request(self.topic, batch, partition=0, acks=-1, version=version)
        asked.transactional_id = self.name
        return told(self.ask(ApiKey.PRODUCE, version, asked))

    def mark(self, coordinator_epoch: int, *, partition: int = 0) -> str:
        topic = WritableTxnMarkerTopic(name=self.topic, partition_indexes=[partition])
        marker = WritableTxnMarker(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            transaction_result=False,
            topics=[topic],
            coordinator_epoch=coordinator_epoch,
        )
        asked = WriteTxnMarkersRequest(markers=[marker])
        return told(self.ask(ApiKey.WRITE_TXN_MARKERS, 1, asked))


def told(answer: Any) -> str:
    """Return the error that an answer has, wherever it has it."""
    for step in (
        "responses", "partition_responses", "results_by_transaction", "topic_results",
        "results_by_topic_v3_and_below", "results_by_partition", "markers", "topics", "partitions",
    ):  # fmt: skip
        if inner := getattr(answer, step, None):
            (answer,) = inner
    code = getattr(answer, "partition_error_code", None)
    return ErrorCode(answer.error_code if code is None else code).name


@pytest.fixture
def producer(wire: Wire, target: Server, topic: str, ours: Ours) -> Asker:
    """A producer with a topic of the test's own, and no transaction."""
    ours.create(target, TopicSpec(topic, 1, {}))
    made = init(wire, topic)
    assert error_of(made) == "NONE"
    wire.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["g"]))
    return Asker(wire, topic, topic, made.producer_id, made.producer_epoch)


CALLS = {
    "add": (3, 1), "verify": (BATCHED,), "add_offsets": (3, 1), "commit_offsets": (4, 2),
    "end": (5, 1), "produce": (11, 9),
}  # fmt: skip
"""What producers ask: in a new version, and in one before the errors of today (KIP-588)."""


def ask(producer: Asker, call: str, version: int) -> str:
    if call == "verify":
        return producer.add(version)
    answer: str = getattr(producer, call)(version)
    return answer


@pytest.mark.feature("producers in the wrong epoch: PRODUCER_FENCED, INVALID_PRODUCER_EPOCH")
def test_a_producer_in_a_wrong_epoch_is_fenced(producer: Asker) -> None:
    assert producer.add() == "NONE"
    for epoch in (producer.epoch - 1, producer.epoch + 1):
        asker = replace(producer, epoch=epoch)
        answers = {
            call: [ask(asker, call, v) for v in versions] for call, versions in CALLS.items()
        }
        new_and_old = ["PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"]
        assert answers == {
            "add": new_and_old, "verify": ["PRODUCER_FENCED"], "add_offsets": new_and_old,
            "commit_offsets": ["INVALID_PRODUCER_EPOCH"] * 2, "end": new_and_old,
            "produce": ["INVALID_PRODUCER_EPOCH"] * 2,
        }  # fmt: skip
    assert producer.end() == "NONE"
    wrong = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch + 7}
    assert error_of(init(producer.wire, producer.name, **wrong)) == "PRODUCER_FENCED"


@pytest.mark.feature("unknown producer ids and transactional ids: INVALID_PRODUCER_ID_MAPPING")
def test_a_producer_that_nobody_knows_has_no_transactions(producer: Asker) -> None:
    assert producer.add() == "NONE"
    unknown = replace(producer, producer_id=producer.producer_id + 77)
    for asker in (unknown, replace(producer, name="nobody")):
        for call, versions in CALLS.items():
            for version in versions:
                assert ask(asker, call, version) == "INVALID_PRODUCER_ID_MAPPING", call
    asked = {"producer_id": unknown.producer_id, "producer_epoch": 0}
    assert producer.end() == "NONE"
    assert error_of(init(producer.wire, producer.name, **asked)) == "PRODUCER_FENCED"
    del asked["producer_epoch"]
    assert error_of(init(producer.wire, producer.name, **asked)) == "INVALID_REQUEST"
    assert described(producer.wire, "nobody") == "TRANSACTIONAL_ID_NOT_FOUND"


@pytest.mark.feature("partitions that were not added: TRANSACTION_ABORTABLE, INVALID_TXN_STATE")
def test_what_was_not_added_to_a_transaction_is_refused(producer: Asker) -> None:
    for call in ("produce", "commit_offsets"):
        answers = [ask(producer, call, version) for version in CALLS[call]]
        assert answers == ["TRANSACTION_ABORTABLE", "INVALID_TXN_STATE"]
    assert producer.add(BATCHED) == "TRANSACTION_ABORTABLE"
    for version, committed in ((4, True), (4, False), (5, True)):
        assert producer.end(version, committed=committed) == "INVALID_TXN_STATE"
    elsewhere = replace(producer, topic=producer.topic[:-1] + "!")
    assert elsewhere.add() == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.feature("transaction timeouts that cannot be: INVALID_TRANSACTION_TIMEOUT")
def test_transactions_may_not_take_too_long(wire: Wire, topic: str) -> None:
    assert error_of(init(wire, topic, MAX_TIMEOUT_MS)) == "NONE"
    for timeout_ms in (-1, 0, MAX_TIMEOUT_MS + 1, (1 << 31) - 1):
        assert error_of(init(wire, topic, timeout_ms)) == "INVALID_TRANSACTION_TIMEOUT"


@pytest.mark.feature("transactional ids that are too long close the connection")
def test_a_transactional_id_has_bounds(wire: Wire, target: Server, topic: str) -> None:
    assert error_of(init(wire, "")) == described(wire, "") == "INVALID_REQUEST"
    longest = topic.ljust(ID_BYTES_MAX, "x")
    assert error_of(init(wire, longest)) == "NONE"
    assert described(wire, longest) == "NONE"
    for name in (longest + "x", "\N{PILE OF POO}" * (ID_BYTES_MAX // 4 + 1)):
        with connected(target) as other:
            asked = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
            other.send(
                encode_request(APIS[ApiKey.INIT_PRODUCER_ID], 4, CORRELATION_ID, CLIENT_ID, asked)
            )
            assert other.is_closed()


@pytest.mark.feature("markers of a stale coordinator: TRANSACTION_COORDINATOR_FENCED")
def test_markers_of_a_stale_coordinator_are_refused(producer: Asker) -> None:
    made = init(producer.wire, producer.name)
    newer = replace(producer, epoch=made.producer_epoch)
    assert [newer.add(), newer.produce()] == ["NONE", "NONE"]
    assert newer.mark(5) == "NONE"
    assert newer.mark(4) == "TRANSACTION_COORDINATOR_FENCED"
    assert newer.mark(5) == "NONE"
    assert producer.mark(5) == "INVALID_PRODUCER_EPOCH"
    assert newer.mark(5, partition=7) == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.feature("a group belongs to the partition that its hash says, also a negative one")
@pytest.mark.parametrize(("group_id", "partition"), [("payments", 1), ("orders", 3)])
def test_groups_are_where_kafka_has_them(producer: Asker, group_id: str, partition: int) -> None:
    assert producer.add_offsets(group_id=group_id) == "NONE"
    (topic,) = description(producer.wire, producer.name).topics
    assert (topic.topic, topic.partitions) == ("__consumer_offsets", [partition])
    assert producer.end(committed=False) == "NONE"


def described(wire: Wire, name: str) -> str:
    return error_of(description(wire, name))


def description(wire: Wire, name: str) -> Any:
    asked = DescribeTransactionsRequest(transactional_ids=[name])
    (state,) = wire.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, asked).transaction_states
    return state
