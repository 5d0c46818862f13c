"""What is to begin a transaction waits for the transaction's coordinator to vouch for it (KIP-890).

Batches of one producer that come meanwhile wait for the same answer, and are taken up in their
order.
"""

from collections.abc import Callable
from typing import Final

from quorate.broker.handlers.context import Broker
from quorate.broker.log.verification import Guard
from quorate.broker.transactions.verifying import Verified
from quorate.errors import ErrorCode, KafkaError
from quorate.model import TopicPartition

ADDS_FROM: Final = 12
"""From this version of Produce on, the partition need not be in the transaction yet."""
ABORTABLE_FROM: Final = 11
"""From this version on, clients know TRANSACTION_ABORTABLE."""

RETRY_MS: Final = 20
RETRY_MAX_MS: Final = 100
"""The end of the transaction before is waited for so long, in such steps (Kafka:
``add.partitions.to.txn.retry.backoff.ms`` and ``...max.ms``): clients would wait longer."""

_ASK_AGAIN: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class TransactionVerification:
    """Asks the coordinator about partitions of one Produce request.

    State: what was not asked yet, and since when answers are waited for.
    """

    def __init__(
        self,
        broker: Broker,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        adds: bool,
    ) -> None:
        self._broker = broker
        self._producer_id = producer_id
        self._key = (transactional_id, producer_epoch, adds)
        self._to_ask: dict[TopicPartition, Guard] = {}
        self._begin_ms = broker.deadlines.now_ms

    def add(
        self, partition: TopicPartition, guard: Guard, then: Callable[[ErrorCode], None]
    ) -> None:
        """Have somebody wait for the answer about a partition."""
        waiting = guard.waiting.get(self._key)
        if waiting is None:
            guard.waiting[self._key] = [then]
            self._to_ask[partition] = guard
        else:
            waiting.append(then)

    def ask(self) -> None:
        """Ask, if nobody did; who waits is called back, perhaps before this returns."""
        asked, self._to_ask = self._to_ask, {}
        if not asked:
            return
        transactional_id, epoch, adds = self._key

        def answered(codes: Verified) -> None:
            self._answered(asked, codes)

        self._broker.verify_transaction(
            transactional_id, self._producer_id, epoch, list(asked), add=adds
        ).when_resolved(answered)

    def _answered(self, asked: dict[TopicPartition, Guard], codes: Verified) -> None:
        deadlines = self._broker.deadlines
        may_retry = deadlines.now_ms - self._begin_ms < RETRY_MAX_MS
        for partition, guard in asked.items():
            code = codes.get(partition, ErrorCode.NONE)
            if code == ErrorCode.CONCURRENT_TRANSACTIONS and may_retry:
                self._to_ask[partition] = guard
                continue
            for then in guard.waiting.pop(self._key):
                then(code)
        if self._to_ask:
            deadlines.after(RETRY_MS, self.ask)


def produce_error(code: ErrorCode, api_version: int) -> KafkaError | None:
    """Return what a producer is told of the coordinator's answer; None if it is no error.

    As Kafka's brokers tell it (``ReplicaManager.handleProduceAppend``): what is to be tried again
    is a code that clients of all versions try again with, without looking for another leader.
    """
    if code == ErrorCode.NONE:
        return None
    if code in _ASK_AGAIN or (
        code == ErrorCode.CONCURRENT_TRANSACTIONS and api_version < ADDS_FROM
    ):
        message = f"cannot find out whether the partition is part of the transaction: {code.name}"
        return KafkaError(message, code=ErrorCode.NOT_ENOUGH_REPLICAS)
    if code == ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and api_version < ABORTABLE_FROM:
        code = ErrorCode.INVALID_TXN_STATE
    return KafkaError("the partition is not part of the transaction", code=code)
