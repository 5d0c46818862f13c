"""A broker that coordinates transactions, and what producers ask it."""

from typing import Any

from quorate.broker.handlers.coordinators import find_coordinator
from quorate.broker.handlers.session import init_producer_id
from quorate.broker.handlers.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
)
from quorate.broker.handlers.txn_offsets import txn_offset_commit
from quorate.broker.shards.topics import TRANSACTIONS_TOPIC
from quorate.protocol.messages.groups import FindCoordinatorRequest
from quorate.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.broker.handlers.grouping import new_coordinator
from tests.unit.broker.harness import Node, over

ID = "my-id"
PID = 4000
TIMEOUT_MS = 60_000


def new_transactions(**texts: str) -> Node:
    """Return a broker that leads all internal topics, and ``t`` with three partitions."""
    node = new_coordinator(1, **texts)
    node.create_topic(TRANSACTIONS_TOPIC, 2, replicas=(1, 2))
    node.broker.producer_ids.add_block(PID, 1000)
    return node


def init(node: Node, *, version: int = 5, transactional_id: str | None = ID, **more: Any) -> Any:
    given: dict[str, Any] = {"transaction_timeout_ms": TIMEOUT_MS, **more}
    request = InitProducerIdRequest(transactional_id=transactional_id, **given)
    return init_producer_id(node.broker, request, over(version))


def topics(*partitions: int, topic: str = "t") -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))]


def transaction(*partitions: int, epoch: int = 0, **more: Any) -> AddPartitionsToTxnTransaction:
    """Return what a broker asks about a transaction."""
    given: dict[str, Any] = {
        "topics": topics(*partitions),
        "producer_id": PID,
        "transactional_id": ID,
        **more,
    }
    return AddPartitionsToTxnTransaction(producer_epoch=epoch, **given)


def add(node: Node, *partitions: int, epoch: int = 0, version: int = 3, **more: Any) -> Any:
    """Add as clients do, up to version 3."""
    given: dict[str, Any] = {
        "v3_and_below_topics": topics(*partitions),
        "v3_and_below_producer_id": PID,
        "v3_and_below_transactional_id": ID,
        **more,
    }
    request = AddPartitionsToTxnRequest(v3_and_below_producer_epoch=epoch, **given)
    return add_partitions_to_txn(node.broker, request, over(version))


def ask(node: Node, *transactions: AddPartitionsToTxnTransaction, version: int = 5) -> Any:
    """Ask as brokers do, from version 4 on."""
    request = AddPartitionsToTxnRequest(transactions=list(transactions))
    return add_partitions_to_txn(node.broker, request, over(version))


def add_offsets(node: Node, *, epoch: int = 0, version: int = 3, group_id: str = "g") -> Any:
    request = AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=PID, producer_epoch=epoch, group_id=group_id
    )
    return add_offsets_to_txn(node.broker, request, over(version))


def end(node: Node, *, commit: bool = True, epoch: int = 0, version: int = 4, **more: Any) -> Any:
    given: dict[str, Any] = {"transactional_id": ID, "producer_id": PID, **more}
    request = EndTxnRequest(producer_epoch=epoch, committed=commit, **given)
    return end_txn(node.broker, request, over(version))


def commit_offsets(
    node: Node, *offsets: int, epoch: int = 0, version: int = 4, topic: str = "t", **more: Any
) -> Any:
    """Commit an offset for each partition, from the first on, in a transaction."""
    partitions = [
        TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=None
        )
        for index, offset in enumerate(offsets)
    ]
    given: dict[str, Any] = {"transactional_id": ID, "group_id": "g", "producer_id": PID, **more}
    request = TxnOffsetCommitRequest(
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)],
        **given,
    )
    return txn_offset_commit(node.broker, request, over(version))


def find(node: Node, *keys: str) -> Any:
    request = FindCoordinatorRequest(coordinator_keys=list(keys), key_type=1)
    return find_coordinator(node.broker, request, over(4))
