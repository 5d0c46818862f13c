"""What becomes of a transaction: the step that a request or the clock makes, as values.

The rules are Kafka's (``TransactionCoordinator``, ``TransactionMetadata`` of 4.x; KIP-98, KIP-360,
KIP-890). They are shorter here, because a step is in the state as soon as it is in the log: there
is no pending one that others would have to be kept away from. Only the end of a transaction is one
until it is written everywhere. Who asks meanwhile is to ask again, whoever it is: it may be a
producer that has been told its next epoch, or id, already (KAFKA-18464, KAFKA-18660).
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias

from quorate.broker.transactions.errors import ConcurrentTransactionsError, ProducerFencedError
from quorate.broker.transactions.transaction import (
    FOLLOWS,
    IDLE,
    NO_START,
    NOTHING,
    PREPARED,
    V0,
    V2,
    Transaction,
    TxnState,
    unborn,
)
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, InvalidProducerIdMappingError, InvalidTxnStateError
from quorate.model import TopicPartition
from quorate.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, PRODUCER_EPOCH_MAX


class ProducerKey(NamedTuple):
    """A producer as it names itself."""

    producer_id: int
    producer_epoch: int


class Step(NamedTuple):
    """The transaction goes on like this: to be written."""

    after: Transaction


class Stay(NamedTuple):
    """What is asked for is so already."""

    now: Transaction


class Fence(NamedTuple):
    """The transaction under way is aborted like this: then it is to be asked again."""

    after: Transaction


class NeedProducerId(Enum):
    """To be asked again with a producer id that nobody has."""

    NEW = auto()


Outcome: TypeAlias = Step | Stay | Fence | NeedProducerId


# --- InitProducerId -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Init:
    """A producer begins, or wants another epoch.

    Attributes:
        expected: what the producer has (KIP-360); None for one that begins.
        fresh_id: a producer id that nobody has, if one was needed.
    """

    timeout_ms: int
    expected: ProducerKey | None
    now_ms: int
    fresh_id: int | None = None


def init_producer(before: Transaction | None, init: Init) -> Outcome:
    """Give the id's newest producer an epoch of its own, and fence those before.

    Raises:
        ProducerFencedError: it is not the newest.
        ConcurrentTransactionsError: the last transaction is not yet at its end.
    """
    if before is None:
        if init.fresh_id is None:
            return NeedProducerId.NEW
        before = unborn(init.fresh_id, init.timeout_ms, init.now_ms)
    _check_ended(before)
    if not _may_begin(before, init.expected):
        raise ProducerFencedError
    if before.state is TxnState.ONGOING:
        return Fence(fence(before, init.now_ms, by_itself=init.expected is not None))
    return _next_epoch(before, init)


def _may_begin(before: Transaction, expected: ProducerKey | None) -> bool:
    """Whether the producer may be the newest that has the id; its epoch is looked at later."""
    if expected is None or before.producer_epoch == NO_PRODUCER_EPOCH:
        return True
    if before.state is TxnState.ONGOING:
        # Unlike in Kafka, an older producer cannot abort what a newer one does.
        return expected == (before.producer_id, before.producer_epoch)
    return expected.producer_id == before.producer_id or (
        expected.producer_id == before.previous_producer_id
        and expected.producer_epoch >= PRODUCER_EPOCH_MAX - 1
    )


def _next_epoch(before: Transaction, init: Init) -> Outcome:
    expected = init.expected
    is_new = before.producer_epoch == NO_PRODUCER_EPOCH
    if expected is None or is_new:
        last_epoch = NO_PRODUCER_EPOCH
    elif expected.producer_epoch == before.producer_epoch:
        last_epoch = before.producer_epoch
    elif expected.producer_epoch == before.last_producer_epoch:
        return _begin_again(before, init)
    else:
        raise ProducerFencedError
    producer_id, epoch = before.producer_id, before.producer_epoch + 1
    if before.is_exhausted:
        if init.fresh_id is None:
            return NeedProducerId.NEW
        producer_id, epoch = init.fresh_id, 0
    return _step(
        before,
        replace(
            before,
            state=TxnState.EMPTY,
            producer_id=producer_id,
            previous_producer_id=before.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=init.timeout_ms,
            partitions=NOTHING,
            start_ms=NO_START,
            update_ms=init.now_ms,
        ),
    )


def _begin_again(before: Transaction, init: Init) -> Outcome:
    """Let a producer begin in the epoch that it was given before: it may not have heard of it."""
    after = replace(before, state=TxnState.EMPTY, timeout_ms=init.timeout_ms, start_ms=NO_START)
    if after == before:
        return Stay(before)
    return _step(before, replace(after, update_ms=init.now_ms))


def fence(before: Transaction, now_ms: int, *, by_itself: bool = False) -> Transaction:
    """Return the abort of a transaction whose producer must not end it any more.

    The epoch goes up by two, so that what the producer asks in its own epoch is not taken for a
    repetition of this. If so many are not left below the last one, it becomes that, in a step of
    version 0, after which nothing is taken for a repetition; it may be that one already, in records
    of coordinators that let somebody begin in it. It goes up by one if the producer itself asks for
    another epoch: when it asks again, it gets that one.
    """
    assert before.state is TxnState.ONGOING, "there is something to abort"
    epoch = before.producer_epoch
    if by_itself and not before.is_exhausted:
        after, last, version = epoch + 1, epoch, V2
    elif epoch + 2 < PRODUCER_EPOCH_MAX:
        after, last, version = epoch + 2, epoch + 1, V2
    else:
        after, last, version = PRODUCER_EPOCH_MAX, NO_PRODUCER_EPOCH, V0
    return replace(
        before,
        state=TxnState.PREPARE_ABORT,
        previous_producer_id=before.producer_id,
        producer_epoch=after,
        last_producer_epoch=last,
        update_ms=now_ms,
        version=version,
    )


# --- AddPartitionsToTxn, AddOffsetsToTxn --------------------------------------


@dataclass(frozen=True, slots=True)
class Add:
    """Partitions join a transaction, which they begin if need be."""

    producer: ProducerKey
    partitions: frozenset[TopicPartition]
    version: int
    now_ms: int


def add_partitions(before: Transaction | None, add: Add) -> Outcome:
    """Let partitions take part.

    Raises:
        InvalidProducerIdMappingError: the id has no producer, or another one.
        ProducerFencedError: it is in another epoch.
        ConcurrentTransactionsError: the last transaction is not yet at its end.
    """
    if before is not None:
        _check_ended(before)
    before = _checked(before, add.producer)
    ongoing = before.state is TxnState.ONGOING
    if ongoing and add.partitions <= before.partitions:
        return Stay(before)
    return _step(
        before,
        replace(
            before,
            state=TxnState.ONGOING,
            previous_producer_id=before.producer_id,
            partitions=before.partitions | add.partitions,
            start_ms=before.start_ms if ongoing else add.now_ms,
            update_ms=add.now_ms,
            version=add.version,
        ),
    )


def verify_partitions(
    before: Transaction | None, producer: ProducerKey, partitions: frozenset[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    """Tell of each partition whether it takes part; TRANSACTION_ABORTABLE if not.

    Raises:
        InvalidProducerIdMappingError: the id has no producer, or another one.
        ProducerFencedError: it is in another epoch.
        ConcurrentTransactionsError: it is decided how the transaction ends.
    """
    before = _checked(before, producer)
    _check_ended(before)
    return {
        partition: ErrorCode.NONE
        if partition in before.partitions
        else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def _checked(before: Transaction | None, producer: ProducerKey) -> Transaction:
    if before is None:
        raise InvalidProducerIdMappingError
    if before.producer_id != producer.producer_id:
        raise InvalidProducerIdMappingError
    if before.producer_epoch != producer.producer_epoch:
        raise ProducerFencedError
    _check_given(producer.producer_epoch)
    return before


def _check_given(epoch: int) -> None:
    """Refuse the last epoch, which is nobody's: it is left where the one before was fenced.

    Raises:
        ProducerFencedError: it is that one.
    """
    if epoch == PRODUCER_EPOCH_MAX:
        raise ProducerFencedError


def _check_ended(before: Transaction) -> None:
    """Have it asked again what cannot be answered before the last transaction is at its end.

    Raises:
        ConcurrentTransactionsError: that is to come.
    """
    if before.state in PREPARED:
        raise ConcurrentTransactionsError


# --- EndTxn -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class End:
    """A producer commits or aborts.

    Attributes:
        version: of transactions, as the producer knows them (0 or 2).
        fresh_id: a producer id that nobody has, if one was needed.
    """

    producer: ProducerKey
    commit: bool
    version: int
    now_ms: int
    fresh_id: int | None = None


class _Answer(Enum):
    END = auto()
    """It ends now."""
    DONE = auto()
    """It has ended like that."""


_COMMIT: Final = True
_ABORT: Final = False

_ENDS_V0: Final[Mapping[tuple[TxnState, bool], _Answer]] = {
    (TxnState.ONGOING, _COMMIT): _Answer.END,
    (TxnState.ONGOING, _ABORT): _Answer.END,
    (TxnState.COMPLETE_COMMIT, _COMMIT): _Answer.DONE,
    (TxnState.COMPLETE_ABORT, _ABORT): _Answer.DONE,
}
"""What becomes of EndTxn up to version 4; whatever is not here is INVALID_TXN_STATE."""

_ENDS_V2: Final[Mapping[tuple[TxnState, bool], _Answer]] = {
    (TxnState.ONGOING, _COMMIT): _Answer.END,
    (TxnState.ONGOING, _ABORT): _Answer.END,
    (TxnState.EMPTY, _ABORT): _Answer.END,
    (TxnState.COMPLETE_COMMIT, _ABORT): _Answer.END,
    (TxnState.COMPLETE_ABORT, _ABORT): _Answer.END,
}
"""The same from version 5 on, asked in the epoch of the transaction.

The end of none is an abort, too: the producer does not know whether what it wrote arrived.
"""

_ENDS_AGAIN_V2: Final[Mapping[tuple[TxnState, bool], _Answer]] = {
    (TxnState.COMPLETE_COMMIT, _COMMIT): _Answer.DONE,
    (TxnState.COMPLETE_ABORT, _ABORT): _Answer.DONE,
}
"""The same, asked in the epoch before: once more, for the answer did not arrive."""


def end_transaction(before: Transaction | None, end: End) -> Outcome:
    """Decide how a transaction ends; with version 2, the producer's next epoch begins with that.

    Raises:
        InvalidProducerIdMappingError: the id has no producer, or another one.
        ProducerFencedError: it is in another epoch.
        ConcurrentTransactionsError: it is just ending, or the one before is.
        InvalidTxnStateError: there is none to end, or it has ended otherwise.
    """
    if before is None:
        raise InvalidProducerIdMappingError
    if end.version == V2:
        _check_ended(before)
    table = _table(before, end)
    _check_ended(before)
    match table.get((before.state, end.commit)):
        case _Answer.DONE:
            return Stay(before)
        case _Answer.END:
            return _prepare(before, end)
        case _:
            raise InvalidTxnStateError


def _table(before: Transaction, end: End) -> Mapping[tuple[TxnState, bool], _Answer]:
    """Return what EndTxn may find.

    Raises:
        InvalidProducerIdMappingError: the producer is another one.
        ProducerFencedError: it is in another epoch.
    """
    producer_id, epoch = end.producer
    overflowed = (
        end.version == V2
        and before.state in (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)
        and producer_id == before.previous_producer_id != before.producer_id
        and epoch == PRODUCER_EPOCH_MAX - 1
        and before.producer_epoch == 0
    )
    if overflowed:
        return _ENDS_AGAIN_V2
    if producer_id != before.producer_id:
        raise InvalidProducerIdMappingError
    _check_given(epoch)
    if epoch == before.producer_epoch:
        return _ENDS_V2 if end.version == V2 else _ENDS_V0
    again = end.version == before.version == V2 and epoch + 1 == before.producer_epoch
    if again and before.state in (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT):
        return _ENDS_AGAIN_V2
    raise ProducerFencedError


def _prepare(before: Transaction, end: End) -> Outcome:
    epoch, last_epoch = before.producer_epoch, before.last_producer_epoch
    next_id = NO_PRODUCER_ID
    if end.version == V2:
        if before.is_exhausted:
            if end.fresh_id is None:
                return NeedProducerId.NEW
            next_id = end.fresh_id
        epoch, last_epoch = epoch + 1, epoch
    return _step(
        before,
        replace(
            before,
            state=TxnState.PREPARE_COMMIT if end.commit else TxnState.PREPARE_ABORT,
            previous_producer_id=before.producer_id,
            next_producer_id=next_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            start_ms=before.start_ms if before.state is TxnState.ONGOING else end.now_ms,
            update_ms=end.now_ms,
            version=end.version,
        ),
    )


def complete(before: Transaction, now_ms: int) -> Transaction:
    """Return how a transaction stands once its end is written everywhere."""
    assert before.state in PREPARED, "what was decided is carried out"
    committed = before.state is TxnState.PREPARE_COMMIT
    rotates = before.version == V2 and before.next_producer_id != NO_PRODUCER_ID
    return _step(
        before,
        replace(
            before,
            state=TxnState.COMPLETE_COMMIT if committed else TxnState.COMPLETE_ABORT,
            producer_id=before.next_producer_id if rotates else before.producer_id,
            previous_producer_id=before.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=0 if rotates else before.producer_epoch,
            partitions=NOTHING,
            update_ms=now_ms,
        ),
    ).after


# --- the clock ----------------------------------------------------------------


def is_overdue(transaction: Transaction, now_ms: int) -> bool:
    """Whether a transaction takes longer than its producer said."""
    return (
        transaction.state is TxnState.ONGOING
        and transaction.start_ms + transaction.timeout_ms < now_ms
    )


def is_forgotten(transaction: Transaction, now_ms: int, expiration_ms: int) -> bool:
    """Whether an id was not used for so long that nobody will miss it."""
    return transaction.state in IDLE and transaction.update_ms <= now_ms - expiration_ms


def _step(before: Transaction, after: Transaction) -> Step:
    assert before.state in FOLLOWS[after.state], f"{after.state.name} after {before.state.name}"
    assert 0 <= after.producer_epoch <= PRODUCER_EPOCH_MAX, "epochs are int16, and never negative"
    return Step(after)
