"""A coordinator of transactions in memory, for any number of transactional ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.protocol.messages.data import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from quorate.protocol.messages.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from quorate.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TransactionState,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from quorate.records.batch import parse_header
from quorate.records.record import read_records

if TYPE_CHECKING:
    from tests.shell.fake_cluster import FakeCluster


@dataclass
class FakeTransaction:
    """What the coordinator knows of one transactional id."""

    producer_id: int
    epoch: int = 0
    open: bool = False
    last_committed: bool | None = None
    partitions: set[TopicPartition] = field(default_factory=set[TopicPartition])
    groups: set[str] = field(default_factory=set[str])
    pending: dict[tuple[str, str, int], int] = field(
        default_factory=dict[tuple[str, str, int], int]
    )


@dataclass
class FakeTransactions:
    """Coordinates the transactions of a fake cluster, by one version or the other."""

    cluster: FakeCluster
    version: int = 2
    known: dict[str, FakeTransaction] = field(default_factory=dict[str, FakeTransaction])
    committed: dict[tuple[str, str, int], int] = field(
        default_factory=dict[tuple[str, str, int], int]
    )
    """Offsets of groups."""

    fates: dict[int, dict[int, bool]] = field(default_factory=dict[int, dict[int, bool]])
    """By the log's id and the place of a batch: whether it was committed."""

    def __post_init__(self) -> None:
        self.cluster.features = {"transaction.version": self.version}
        self.cluster.handlers |= {
            FindCoordinatorRequest: self.find,
            InitProducerIdRequest: self.initialize,
            AddPartitionsToTxnRequest: self.add_partitions,
            AddOffsetsToTxnRequest: self.add_offsets,
            TxnOffsetCommitRequest: self.commit_offsets,
            EndTxnRequest: self.end,
            DescribeTransactionsRequest: self.describe,
            ProduceRequest: self.produce,
        }

    # What tests look at

    def values(self, topic: str, *, committed: bool = True) -> list[bytes | None]:
        """The records of a topic whose transactions ended that way."""
        found: list[bytes | None] = []
        for log in self.cluster.topics[topic].values():
            for place, batch in enumerate(log.batches):
                if self.fates.get(id(log), {}).get(place) is committed:
                    header = parse_header(batch, 0)
                    records = read_records(batch, header, TopicPartition("", 0), bytes_max=1 << 26)
                    found += [record.value for record in records]
        return found

    @property
    def open(self) -> list[str]:
        """The transactional ids with an open transaction."""
        return [name for name, each in self.known.items() if each.open]

    # What it answers

    def find(self, _: int, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=1, host="broker", port=1)
                for key in request.coordinator_keys
            ]
        )

    def initialize(self, _: int, request: InitProducerIdRequest) -> InitProducerIdResponse:
        name = request.transactional_id
        assert name is not None
        known = self.known.get(name)
        if known is None:
            self.cluster.next_producer_id += 1
            known = self.known[name] = FakeTransaction(self.cluster.next_producer_id)
        else:
            told = (request.producer_id, request.producer_epoch)
            if request.producer_id >= 0 and told != (known.producer_id, known.epoch):
                return InitProducerIdResponse(error_code=ErrorCode.PRODUCER_FENCED)
            known.epoch += 1
            if known.open:
                self._decide(known, committed=False)
                return InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
        return InitProducerIdResponse(producer_id=known.producer_id, producer_epoch=known.epoch)

    def _refusal(self, name: str, producer_id: int, epoch: int) -> ErrorCode:
        known = self.known.get(name)
        if known is None or known.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.NONE if known.epoch == epoch else ErrorCode.PRODUCER_FENCED

    def add_partitions(
        self, _: int, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse:
        name = request.v3_and_below_transactional_id
        code = self._refusal(
            name, request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
        )
        response = AddPartitionsToTxnResponse()
        for topic in request.v3_and_below_topics:
            told = AddPartitionsToTxnTopicResult(name=topic.name)
            for partition in topic.partitions:
                if code == ErrorCode.NONE:
                    self.known[name].open = True
                    self.known[name].partitions.add(TopicPartition(topic.name, partition))
                told.results_by_partition.append(
                    AddPartitionsToTxnPartitionResult(
                        partition_index=partition, partition_error_code=code
                    )
                )
            response.results_by_topic_v3_and_below.append(told)
        return response

    def add_offsets(self, _: int, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
        name = request.transactional_id
        code = self._refusal(name, request.producer_id, request.producer_epoch)
        if code == ErrorCode.NONE:
            self.known[name].open = True
            self.known[name].groups.add(request.group_id)
        return AddOffsetsToTxnResponse(error_code=code)

    def commit_offsets(self, _: int, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        name, group = request.transactional_id, request.group_id
        code = self._refusal(name, request.producer_id, request.producer_epoch)
        response = TxnOffsetCommitResponse()
        for topic in request.topics:
            told = TxnOffsetCommitResponseTopic(name=topic.name)
            for each in topic.partitions:
                if code == ErrorCode.NONE:
                    known = self.known[name]
                    assert self.version == 2 or group in known.groups
                    known.open = True
                    place = (group, topic.name, each.partition_index)
                    known.pending[place] = each.committed_offset
                told.partitions.append(
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=code
                    )
                )
            response.topics.append(told)
        return response

    def end(self, _: int, request: EndTxnRequest) -> EndTxnResponse:
        known = self.known.get(request.transactional_id)
        if known is None or known.producer_id != request.producer_id:
            return EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        repeated = not known.open and known.last_committed is request.committed
        bump = self.version >= 2
        if repeated and request.producer_epoch == known.epoch - bump:
            return self._ended(known, bump=False)
        if request.producer_epoch != known.epoch:
            return EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)
        if not known.open and (request.committed or not bump):
            return EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)
        self._decide(known, committed=request.committed)
        return self._ended(known, bump=bump)

    def _ended(self, known: FakeTransaction, *, bump: bool) -> EndTxnResponse:
        known.epoch += bump
        if self.version < 2:
            return EndTxnResponse()
        return EndTxnResponse(producer_id=known.producer_id, producer_epoch=known.epoch)

    def _decide(self, known: FakeTransaction, *, committed: bool) -> None:
        for topic in self.cluster.topics.values():
            for log in topic.values():
                fates = self.fates.setdefault(id(log), {})
                for place, batch in enumerate(log.batches):
                    if parse_header(batch, 0).producer_id == known.producer_id:
                        fates.setdefault(place, committed)
        if committed:
            self.committed |= known.pending
        known.open, known.last_committed = False, committed
        known.pending.clear()
        known.partitions.clear()
        known.groups.clear()

    def describe(
        self, _: int, request: DescribeTransactionsRequest
    ) -> DescribeTransactionsResponse:
        (name,) = request.transactional_ids
        known = self.known[name]
        return DescribeTransactionsResponse(
            transaction_states=[
                TransactionState(
                    transactional_id=name,
                    transaction_state="Ongoing" if known.open else "Empty",
                    producer_id=known.producer_id,
                    producer_epoch=known.epoch,
                )
            ]
        )

    def produce(self, broker_id: int, request: ProduceRequest) -> Any:
        name = request.transactional_id
        if name is not None:
            known = self.known[name]
            for topic in request.topic_data:
                for data in topic.partition_data:
                    assert data.records is not None
                    header = parse_header(bytes(data.records), 0)
                    assert header.is_transactional
                    partition = TopicPartition(topic.name, data.index)
                    code = ErrorCode.NONE
                    if header.producer_epoch < known.epoch:
                        code = ErrorCode.INVALID_PRODUCER_EPOCH
                    elif self.version == 1 and partition not in known.partitions:
                        code = ErrorCode.INVALID_TXN_STATE
                    if code != ErrorCode.NONE:
                        return refused(code, topic.name, topic.topic_id, data.index)
                    known.open = True
        return self.cluster.produce(broker_id, request)


def refused(code: ErrorCode, topic: str, topic_id: bytes, partition: int) -> Any:
    """An answer to Produce with one error."""
    told = PartitionProduceResponse(index=partition, error_code=code, base_offset=-1)
    return ProduceResponse(
        responses=[TopicProduceResponse(name=topic, topic_id=topic_id, partition_responses=[told])]
    )
