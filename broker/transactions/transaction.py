"""Transaction: how a transactional id stands, and which states may follow each other."""

from collections.abc import Mapping
from enum import IntEnum, unique
from typing import Final

from quorate.dataclass import dataclass
from quorate.model import TopicPartition
from quorate.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, PRODUCER_EPOCH_MAX

NO_START: Final = -1
"""When no transaction began."""

NOTHING: Final[frozenset[TopicPartition]] = frozenset()

V0: Final = 0
"""Transactions as they were at first (KIP-98)."""
V2: Final = 2
"""Each transaction has an epoch of its own, and partitions join it by being written (KIP-890)."""


@unique
class TxnState(IntEnum):
    """How a transaction stands; the numbers are those of Kafka's records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


NAMES: Final[Mapping[TxnState, str]] = {
    TxnState.EMPTY: "Empty",
    TxnState.ONGOING: "Ongoing",
    TxnState.PREPARE_COMMIT: "PrepareCommit",
    TxnState.PREPARE_ABORT: "PrepareAbort",
    TxnState.COMPLETE_COMMIT: "CompleteCommit",
    TxnState.COMPLETE_ABORT: "CompleteAbort",
    TxnState.DEAD: "Dead",
    TxnState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
"""Kafka's names, as ListTransactions and DescribeTransactions say them.

The last two are never written: an id that is forgotten has no record any more, and one whose
producer is fenced goes to PrepareAbort in the same step, for here is nobody who could interfere.
"""

PREPARED: Final = frozenset({TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT})
"""It is decided how the transaction ends, and not yet written everywhere."""
IDLE: Final = frozenset({TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT})
"""There is no transaction; so the id may be forgotten when that is long enough ago."""

FOLLOWS: Final[Mapping[TxnState, frozenset[TxnState]]] = {
    TxnState.EMPTY: IDLE,
    TxnState.ONGOING: IDLE | {TxnState.ONGOING},
    TxnState.PREPARE_COMMIT: frozenset({TxnState.ONGOING}),
    TxnState.PREPARE_ABORT: IDLE | {TxnState.ONGOING},
    TxnState.COMPLETE_COMMIT: frozenset({TxnState.PREPARE_COMMIT}),
    TxnState.COMPLETE_ABORT: frozenset({TxnState.PREPARE_ABORT}),
    TxnState.DEAD: IDLE,
}
"""Which states each state may come after."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """All that is known of a transactional id: what its record says (``TransactionMetadata``).

    Attributes:
        previous_producer_id: the id before the last step; another one than ``producer_id`` only
            after the step that used up its epochs.
        next_producer_id: the id that the next transaction has, if the end of this one uses up the
            epochs; else -1.
        producer_epoch: -1 before there is a producer. In PREPARE_* the one that the markers have.
        last_producer_epoch: what the producer had before, if it may not have heard of the new one;
            else -1. Kafka does not write it down: in our records it has a tag of our own.
        timeout_ms: how long a transaction may take.
        partitions: what takes part; from the first to the last marker all of them.
        start_ms: when the transaction began, by the wall clock, or -1.
        update_ms: of the last step.
        version: the transaction version of who took the last step (0 or 2).
    """

    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    producer_epoch: int
    last_producer_epoch: int
    timeout_ms: int
    state: TxnState
    partitions: frozenset[TopicPartition]
    start_ms: int
    update_ms: int
    version: int

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epochs left for producers."""
        return self.producer_epoch >= PRODUCER_EPOCH_MAX - 1

    @property
    def commits(self) -> bool:
        """Whether it ends, or ended, with a commit."""
        return self.state in (TxnState.PREPARE_COMMIT, TxnState.COMPLETE_COMMIT)


def unborn(producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """Return how an id stands before its first producer has an epoch; this is never written."""
    return Transaction(
        producer_id=producer_id,
        previous_producer_id=NO_PRODUCER_ID,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        last_producer_epoch=NO_PRODUCER_EPOCH,
        timeout_ms=timeout_ms,
        state=TxnState.EMPTY,
        partitions=NOTHING,
        start_ms=NO_START,
        update_ms=now_ms,
        version=V0,
    )
