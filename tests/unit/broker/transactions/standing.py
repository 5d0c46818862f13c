"""Transactions as they stand, and what producers ask of them."""

from dataclasses import replace
from typing import Any

from quorate.broker.transactions.deciding import (
    Add,
    End,
    Init,
    Outcome,
    ProducerKey,
    add_partitions,
    end_transaction,
    init_producer,
)
from quorate.broker.transactions.transaction import NOTHING, V0, V2, Transaction, TxnState
from quorate.model import TopicPartition

NOW_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
PID = 4000
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def standing(state: TxnState = TxnState.EMPTY, epoch: int = 5, **more: Any) -> Transaction:
    """Return how an id stands whose producer PID has the epoch."""
    ongoing = state in (TxnState.ONGOING, TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT)
    transaction = Transaction(
        producer_id=PID,
        previous_producer_id=PID,
        next_producer_id=-1,
        producer_epoch=epoch,
        last_producer_epoch=-1,
        timeout_ms=TIMEOUT_MS,
        state=state,
        partitions=frozenset({T0}) if ongoing else NOTHING,
        start_ms=-1 if state is TxnState.EMPTY else NOW_MS - 100,
        update_ms=NOW_MS - 50,
        version=V2,
    )
    return replace(transaction, **more)


def init(
    before: Transaction | None,
    expected: tuple[int, int] | None = None,
    *,
    fresh_id: int | None = None,
    timeout_ms: int = TIMEOUT_MS,
) -> Outcome:
    key = None if expected is None else ProducerKey(*expected)
    return init_producer(before, Init(timeout_ms, key, NOW_MS, fresh_id))


def add(
    before: Transaction | None,
    *partitions: TopicPartition,
    epoch: int = 5,
    producer_id: int = PID,
    version: int = V2,
) -> Outcome:
    asked = Add(ProducerKey(producer_id, epoch), frozenset(partitions or (T0,)), version, NOW_MS)
    return add_partitions(before, asked)


def end(
    before: Transaction | None,
    *,
    commit: bool = True,
    epoch: int = 5,
    producer_id: int = PID,
    version: int = V2,
    fresh_id: int | None = None,
) -> Outcome:
    asked = End(ProducerKey(producer_id, epoch), commit, version, NOW_MS, fresh_id)
    return end_transaction(before, asked)


def v0(transaction: Transaction) -> Transaction:
    return replace(transaction, version=V0)
