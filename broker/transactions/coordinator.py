"""TransactionCoordinator: the transactional ids of one partition of ``__transaction_state``."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from quorate.broker.replication.deadlines import Deadlines
from quorate.broker.shards.batching import batches
from quorate.broker.shards.effects import Effects, Entry, Writer, ignore
from quorate.broker.transactions.deciding import (
    Add,
    End,
    Init,
    NeedProducerId,
    Outcome,
    ProducerKey,
    Stay,
    Step,
    add_partitions,
    complete,
    end_transaction,
    fence,
    init_producer,
    is_forgotten,
    is_overdue,
    verify_partitions,
)
from quorate.broker.transactions.errors import (
    ConcurrentTransactionsError,
    InvalidTransactionTimeoutError,
)
from quorate.broker.transactions.markers import Ending, Markers
from quorate.broker.transactions.records import (
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_value,
)
from quorate.broker.transactions.telling import tell
from quorate.broker.transactions.transaction import PREPARED, Transaction
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, InvalidRequestError, KafkaError
from quorate.model import TopicPartition
from quorate.settings import NodeConfig

if TYPE_CHECKING:
    from quorate.broker.replication.deadlines import Deadline

logger = logging.getLogger(__name__)

T = TypeVar("T")

ID_BYTES_MAX: Final = 32_767
"""What the key of a record has room for."""
PATIENCE_MS: Final = 200
"""How long a request waits for the end of the last transaction, before it is sent away."""
BATCH_PATIENCE_MS: Final = 50
"""How long after its end was decided a transaction may hold up a request about many others."""
WRITE_AGAIN_MS: Final = 200
"""After what time the last step of a transaction is tried again that its partition refused."""

Answer = Callable[[ErrorCode, Transaction | None], None]
"""Takes NONE and how the transaction stands then, or why it cannot be."""


@dataclass(frozen=True, slots=True)
class TxnSurroundings:
    """What coordinators of transactions stand in.

    Attributes:
        deadlines: by the monotonic clock.
        now_ms: the wall clock as of this turn of the loop, for what is stored.
        take_producer_id: gives its argument a producer id that nobody has, now or later; None if
            none can be had.
    """

    config: NodeConfig
    deadlines: Deadlines
    now_ms: Callable[[], int]
    take_producer_id: Callable[[Callable[[int | None], None]], None]
    markers: Markers


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A request; ``decide`` takes a producer id that nobody has, if it said that it needs one.

    With ``is_batched``, others that have nothing to do with it wait for the answer, too.
    """

    transactional_id: str
    decide: Callable[[int | None], Outcome]
    answer: Answer
    is_batched: bool = False


class TransactionCoordinator:
    """The transactional ids that hash to one partition, as its records say.

    State: how each id stands, which only :meth:`replay` changes; of those whose end is decided, the
    markers that are on their way; and who waits for that. Invariant, while it serves: each id in a
    prepared state has its markers under way, or will as soon as that state is committed.
    """

    def __init__(self, writer: Writer, surroundings: TxnSurroundings) -> None:
        self._writer = writer
        self._surroundings = surroundings
        self._transactions: dict[str, Transaction] = {}
        self._endings: dict[str, Ending] = {}
        self._patient: dict[str, list[_Asked]] = {}
        self._timers: list[Deadline] = []
        self._serves = False

    # --- the fold of the records ----------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Fold one record into the state; one of a type that is not known is left out.

        Raises:
            CorruptRecordError: it is of a type that is known, and no such record.
        """
        transactional_id = read_transaction_key(key)
        if transactional_id is None:
            logger.warning("a record of unknown type among those of transactions is ignored")
        elif value is None:
            self._transactions.pop(transactional_id, None)
        else:
            self._transactions[transactional_id] = read_transaction_value(value)

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Leave out a record of a transaction: there are none here."""

    def end_transaction(self, producer_id: int, *, committed: bool) -> Iterable[str]:  # noqa: ARG002 - as all machines
        """Leave out the end of a transaction: there are none here."""
        return ()

    def loaded(self) -> None:
        """Begin to serve, and go on with what was decided and not carried out."""
        self._serves = True
        prepared = [(i, t) for i, t in self._transactions.items() if t.state in PREPARED]
        if prepared:
            tell("txn-ends-taken-over", count=len(prepared), first=prepared[0][0])
        for transactional_id, transaction in prepared:
            self._carry_out(transactional_id, transaction)
        config = self._surroundings.config
        overdue_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._every(overdue_ms, self._abort_overdue)
        expired_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._every(expired_ms, self._forget_expired)

    def unload(self) -> None:
        """Serve no more; who waits hears NOT_COORDINATOR."""
        self._serves = False
        for timer in self._timers:
            self._surroundings.deadlines.cancel(timer)
        self._timers.clear()
        for ending in self._endings.values():
            ending.is_over = True
        self._endings.clear()
        patient, self._patient = self._patient, {}
        for waiting in patient.values():
            for asked in waiting:
                asked.answer(ErrorCode.NOT_COORDINATOR, None)

    def _every(self, interval_ms: int, work: Callable[[], None]) -> None:
        """Do some work now and then, as long as this serves."""

        def due() -> None:
            self._timers.remove(timer)
            work()
            self._every(interval_ms, work)

        timer = self._surroundings.deadlines.after(interval_ms, due)
        self._timers.append(timer)

    # --- looking --------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._transactions)

    def find(self, transactional_id: str) -> Transaction | None:
        """Return how an id stands, as far as is known."""
        return self._transactions.get(transactional_id)

    def items(self) -> Iterator[tuple[str, Transaction]]:
        """Yield all ids and how they stand."""
        yield from self._transactions.items()

    def standings(self) -> Iterator[Transaction]:
        """Yield how each id stands."""
        yield from self._transactions.values()

    def when_committed(self, transactional_id: str, done: Callable[[ErrorCode], None]) -> None:
        """Call back when all that was written of an id is committed: at once, usually."""
        self._writer.when_committed(transactional_id, done)

    # --- requests -------------------------------------------------------------

    def init(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerKey | None,
        answer: Answer,
    ) -> None:
        """Give a producer its id and epoch (InitProducerId).

        Raises:
            InvalidRequestError: the transactional id is empty, or too long.
            InvalidTransactionTimeoutError: its transactions might take too long.
        """
        _check_id(transactional_id)
        if not 0 < timeout_ms <= self._surroundings.config.transaction_max_timeout_ms:
            raise InvalidTransactionTimeoutError
        init = Init(timeout_ms, expected, self._surroundings.now_ms())

        def decide(fresh_id: int | None) -> Outcome:
            asked = replace(init, fresh_id=fresh_id, now_ms=self._surroundings.now_ms())
            return init_producer(self._transactions.get(transactional_id), asked)

        self._decide(_Asked(transactional_id, decide, answer))

    def add(
        self,
        transactional_id: str,
        producer: ProducerKey,
        partitions: Iterable[TopicPartition],
        version: int,
        answer: Answer,
        *,
        is_batched: bool = False,
    ) -> None:
        """Let partitions take part in the producer's transaction (AddPartitionsToTxn and others).

        Args:
            transactional_id: whose transaction.
            producer: who asks, or whom somebody asks for.
            partitions: what joins the transaction, and begins it if need be.
            version: of transactions, as the producer knows them (0 or 2).
            answer: called when that is committed, or refused.
            is_batched: whether the answer is part of one about other transactions.

        Raises:
            InvalidRequestError: the transactional id is empty, or too long.
        """
        _check_id(transactional_id)
        added = frozenset(partitions)

        def decide(_fresh_id: int | None) -> Outcome:
            add = Add(producer, added, version, self._surroundings.now_ms())
            return add_partitions(self._transactions.get(transactional_id), add)

        self._decide(_Asked(transactional_id, decide, answer, is_batched))

    def end(
        self,
        transactional_id: str,
        producer: ProducerKey,
        *,
        commit: bool,
        version: int,
        answer: Answer,
    ) -> None:
        """Commit or abort (EndTxn); what is answered is who the producer is from then on.

        Raises:
            InvalidRequestError: the transactional id is empty, or too long.
        """
        _check_id(transactional_id)

        def decide(fresh_id: int | None) -> Outcome:
            end = End(producer, commit, version, self._surroundings.now_ms(), fresh_id)
            return end_transaction(self._transactions.get(transactional_id), end)

        def ended(code: ErrorCode, transaction: Transaction | None) -> None:
            if transaction is not None and transaction.state in PREPARED:
                transaction = complete(transaction, transaction.update_ms)
            answer(code, transaction)

        # To wait here would be to end the next transaction, if that begins meanwhile.
        self._decide(_Asked(transactional_id, decide, ended), may_wait=False)

    def verify(
        self,
        transactional_id: str,
        producer: ProducerKey,
        partitions: Sequence[TopicPartition],
        answer: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Tell which partitions take part in the producer's transaction."""

        def all_with(code: ErrorCode) -> Mapping[TopicPartition, ErrorCode]:
            return dict.fromkeys(partitions, code)

        try:
            _check_id(transactional_id)
            before = self._transactions.get(transactional_id)
            verified = verify_partitions(before, producer, frozenset(partitions))
        except KafkaError as error:
            verified = all_with(error.code)

        def committed(code: ErrorCode) -> None:
            answer(verified if code == ErrorCode.NONE else all_with(code))

        self._writer.when_committed(transactional_id, committed)

    # --- deciding -------------------------------------------------------------

    def _decide(self, asked: _Asked, *, fresh_id: int | None = None, may_wait: bool = True) -> None:
        """Decide on what is, write what that gives, and answer when it is committed."""
        if not self._serves:
            asked.answer(ErrorCode.NOT_COORDINATOR, None)
            return
        try:
            outcome = asked.decide(fresh_id)
        except KafkaError as error:
            if may_wait and isinstance(error, ConcurrentTransactionsError):
                self._wait(asked)
            else:
                self._answer(asked, error.code, None)
            return
        match outcome:
            case NeedProducerId():
                self._need_producer_id(asked, may_wait=may_wait)
            case Stay(now):
                self._answer(asked, ErrorCode.NONE, now)
            case Step(after):
                self._write(asked.transactional_id, after, partial(_told, asked.answer, after))
            case fenced:
                self._fence(asked, fenced.after, may_wait=may_wait)

    def _need_producer_id(self, asked: _Asked, *, may_wait: bool) -> None:
        def given(producer_id: int | None) -> None:
            if producer_id is None:
                asked.answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)  # all clients try again
            else:
                self._decide(asked, fresh_id=producer_id, may_wait=may_wait)

        self._surroundings.take_producer_id(given)

    def _answer(self, asked: _Asked, code: ErrorCode, now: Transaction | None) -> None:
        """Answer when what the decision rests on is committed: it might be lost yet."""

        def committed(lost: ErrorCode) -> None:
            if lost == ErrorCode.NONE:
                asked.answer(code, now)
            else:
                asked.answer(lost, None)

        self._writer.when_committed(asked.transactional_id, committed)

    def _fence(self, asked: _Asked, after: Transaction, *, may_wait: bool) -> None:
        """Abort what a producer has under way that somebody takes the place of."""

        def written(code: ErrorCode) -> None:
            if code != ErrorCode.NONE:
                asked.answer(code, None)
            elif may_wait and self._serves:
                self._wait(asked)
            else:
                asked.answer(ErrorCode.CONCURRENT_TRANSACTIONS, None)

        tell(
            "txn-fenced",
            transactional_id=asked.transactional_id,
            producer=after.producer_id,
            epoch=after.producer_epoch,
        )
        self._write(asked.transactional_id, after, written)

    def _write(
        self, transactional_id: str, after: Transaction, done: Callable[[ErrorCode], None]
    ) -> bool:
        entry = Entry(transaction_key(transactional_id), transaction_value(after))
        if not self._writer.write(Effects(transactional_id, (entry,), done)):
            return False
        if after.state in PREPARED:
            self._carry_out(transactional_id, after)
        return True

    # --- patience -------------------------------------------------------------

    def _wait(self, asked: _Asked) -> None:
        """Decide when the transaction has come to its end, or that takes too long."""
        transaction = self._transactions[asked.transactional_id]
        assert transaction.state in PREPARED, "markers are sent behind the answer about the state"
        patience_ms = PATIENCE_MS
        if asked.is_batched:
            # What takes longer than usual is nothing that others should wait for.
            open_ms = max(0, self._surroundings.now_ms() - transaction.update_ms)
            patience_ms = BATCH_PATIENCE_MS - open_ms
        if patience_ms <= 0:
            self._answer(asked, ErrorCode.CONCURRENT_TRANSACTIONS, None)
            return
        self._patient.setdefault(asked.transactional_id, []).append(asked)

        def too_long() -> None:
            waiting = self._patient.get(asked.transactional_id, [])
            if asked in waiting:
                waiting.remove(asked)
                self._decide(asked, may_wait=False)

        self._surroundings.deadlines.after(patience_ms, too_long)

    def _wake(self, transactional_id: str) -> None:
        for asked in self._patient.pop(transactional_id, ()):
            self._decide(asked, may_wait=False)

    # --- carrying out ---------------------------------------------------------

    def _carry_out(self, transactional_id: str, prepared: Transaction) -> None:
        """Send the markers of a transaction, once nobody can take back how it ends."""

        def committed(code: ErrorCode) -> None:
            if not self._serves or self._transactions.get(transactional_id) is not prepared_now:
                return
            if code == ErrorCode.NONE:
                self._send(transactional_id, prepared_now)
            elif code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                # Too few are in sync, maybe for long; but it may be committed yet.
                self._surroundings.deadlines.after(WRITE_AGAIN_MS, wait)

        def wait() -> None:
            self._writer.when_committed(transactional_id, committed)

        prepared_now = self._transactions[transactional_id]
        assert prepared_now == prepared, "what was written is what is"
        wait()

    def _send(self, transactional_id: str, prepared: Transaction) -> None:
        assert transactional_id not in self._endings, "each prepared state is carried out once"
        ending = Ending(
            transactional_id=transactional_id,
            producer_id=prepared.producer_id,
            producer_epoch=prepared.producer_epoch,
            commit=prepared.commits,
            coordinator_epoch=self._writer.epoch,
            version=prepared.version,
            remaining=set(prepared.partitions),
            done=lambda: self._complete(transactional_id, prepared),
        )
        self._endings[transactional_id] = ending
        self._surroundings.markers.send(ending)

    def _complete(self, transactional_id: str, prepared: Transaction) -> None:
        """Write down that the end of a transaction is written everywhere."""
        if not self._serves or self._transactions.get(transactional_id) is not prepared:
            return
        after = complete(prepared, self._surroundings.now_ms())
        self._endings.pop(transactional_id, None)
        if self._write(transactional_id, after, ignore):
            self._wake(transactional_id)
        else:
            # Also if we are not to coordinate it: so it is said of a full disk, too.
            again = partial(self._complete, transactional_id, prepared)
            self._surroundings.deadlines.after(WRITE_AGAIN_MS, again)

    # --- the clock ------------------------------------------------------------

    def _abort_overdue(self) -> None:
        """Abort transactions that take longer than their producers said."""
        now_ms = self._surroundings.now_ms()
        overdue = [(i, t) for i, t in self._transactions.items() if is_overdue(t, now_ms)]
        for transactional_id, transaction in overdue:
            if self._write(transactional_id, fence(transaction, now_ms), ignore):
                tell(
                    "txn-timed-out",
                    transactional_id=transactional_id,
                    producer=transaction.producer_id,
                    open_ms=now_ms - transaction.start_ms,
                    timeout_ms=transaction.timeout_ms,
                )

    def _forget_expired(self) -> None:
        """Forget ids that were not used for long."""
        now_ms = self._surroundings.now_ms()
        expiration_ms = self._surroundings.config.transactional_id_expiration_ms
        expired = [
            transactional_id
            for transactional_id, transaction in self._transactions.items()
            if is_forgotten(transaction, now_ms, expiration_ms)
        ]
        if not expired:
            return
        tell("txn-ids-expired", count=len(expired), first=expired[0])
        ids = iter(expired)
        for entries in batches(Entry(transaction_key(each), None) for each in expired):
            first, *others = islice(ids, len(entries))
            self._writer.write(Effects(first, entries, ignore, also=others))


def _check_id(transactional_id: str) -> None:
    """Refuse ids that cannot be.

    Raises:
        InvalidRequestError: it is empty, or too long.
    """
    if not transactional_id:
        raise InvalidRequestError("a transactional id is not empty")
    if len(transactional_id.encode()) > ID_BYTES_MAX:
        raise InvalidRequestError(f"a transactional id of more than {ID_BYTES_MAX} bytes")


def _told(answer: Answer, after: Transaction, code: ErrorCode) -> None:
    answer(code, after if code == ErrorCode.NONE else None)
