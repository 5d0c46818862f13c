"""Trio shell: one transaction, as its user sees it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Generic, Literal

import trio

from quorate.client.errors import (
    ClosedError,
    CommitFailedError,
    NoTransactionError,
    ProducerFencedError,
    TransactionAbortedError,
)
from quorate.client.groups.results import offsets_to_commit
from quorate.client.membership.identity import GroupMetadata
from quorate.client.serde.choosing import K, V
from quorate.client.transacting import ABORT_S, Ending
from quorate.client.transactions.states import State
from quorate.errors import KafkaError, QuorateError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from quorate.client.consumer import Consumer
    from quorate.client.delivery import Delivery, RecordMetadata, RecordOptions
    from quorate.client.groups.results import OffsetAndMetadata
    from quorate.client.producer import Producer
    from quorate.client.progress import Progress
    from quorate.client.transacting import Transactions
    from quorate.model import TopicPartition

logger = logging.getLogger(__name__)

Outcome = Literal["open", "committed", "aborted", "unknown"]


class Transaction(Generic[K, V]):
    """Records of several partitions, and offsets of groups, that count all together or not at all.

    ::

        async with producer.transaction() as tx:
            await tx.enqueue("debits", b"12", key=b"a")
            await tx.enqueue("credits", b"12", key=b"b")

    Leaving the block commits. If an exception or a cancellation leaves it, the transaction is
    aborted, within a few seconds at most, and the exception goes on. Whoever gets past the end of
    the block knows that it is committed, even if it was cancelled meanwhile.

    With a consumer, the offsets of all that it gave out in the block are committed with the
    transaction; if that is aborted, the consumer goes back to where it was.
    """

    def __init__(
        self,
        producer: Producer[K, V],
        transactions: Transactions,
        consumer: Consumer[Any, Any] | None,
    ) -> None:
        self._producer = producer
        self._transactions = transactions
        self._consumer = consumer
        self._progress: Progress | None = None
        self._outcome: Outcome | None = None
        self._committing = trio.Lock()
        self._ending: Ending | None = None
        """Of a commit, if it was not known in time what came of that."""

    @property
    def outcome(self) -> Outcome:
        """What became of it; ``unknown`` while the coordinator has not said, see :meth:`resolve`.

        It stays ``unknown`` if the producer was fenced before the coordinator said it.
        """
        if self._outcome is None:
            raise NoTransactionError("the transaction was not opened: 'async with' opens it")
        return self._outcome

    async def __aenter__(self) -> Self:
        """Open the transaction.

        Raises:
            ValueError: The consumer is in no group, or commits by itself.
            NoTransactionError: The producer has another one open.
            ProducerFencedError: Another producer has its transactional id.
        """
        if self._outcome is not None:
            raise NoTransactionError("a transaction is opened once: make another one")
        if self._consumer is not None:
            self._progress = self._consumer.progress()
        await self._transactions.begin()
        self._outcome = "open"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit; abort, if an exception leaves the block."""
        if self._outcome != "open":
            return
        if error is None:
            await self.commit()
        else:
            await self._abort_after(error)

    async def commit(self) -> None:
        """Commit it now, once all its records are acknowledged; the end of the block does it, too.

        Raises:
            TransactionAbortedError: It was aborted instead.
            TransactionOutcomeUnknownError: Nobody has said in time what became of it.
            ProducerFencedError: Another producer has the transactional id, or it took too long.
            KafkaError: The producer failed otherwise.
        """
        self._check_open()
        try:
            async with self._committing:
                if self._outcome == "committed":
                    return  # by another task
                self._check_open()
                if self._progress is not None:
                    await self._send_progress(self._progress)
                await self._transactions.commit(self._settle_all)
                self._outcome = "committed"
        except BaseException as error:
            if self._outcome == "open":
                await self._after_failed_commit(error)
            raise

    async def _settle_all(self) -> None:
        """Wait until no record waits for its acknowledgement; another task may abort meanwhile."""
        await self._producer.settle_all()
        if self._outcome != "open":
            raise self._transactions.aborted()

    async def _send_progress(self, progress: Progress) -> None:
        try:
            await self.send_offsets(progress.made(), progress.group_metadata)
        except CommitFailedError as error:
            self.spoil(error)

    def spoil(self, reason: KafkaError) -> None:
        """Have it aborted at its end, for that reason."""
        self._check_open()
        self._transactions.spoil(reason)

    async def _abort_after(self, error: BaseException) -> None:
        """Abort because of an error, which goes on, unless there is a better one to say."""
        try:
            await self.abort()
        except ProducerFencedError as fenced:
            if isinstance(error, TransactionAbortedError):
                raise fenced from error
            logger.info("after %r, there was nothing to abort any more: %s", error, fenced)
        except QuorateError as trouble:
            logger.info("after %r, the transaction was not aborted: %s", error, trouble)

    async def _after_failed_commit(self, error: BaseException) -> None:
        state = self._transactions.machine.state
        if state in {State.OPEN, State.SPOILED}:
            await self._abort_after(error)
        elif state is State.COMMITTING:
            self._outcome, self._ending = "unknown", self._transactions.last_ending
        elif state is State.FAILED and self._transactions.asked_to_commit:
            self._outcome = "unknown"
        else:
            self._outcome = "aborted"
            self._rewind()

    async def abort(self) -> None:
        """Have nothing of it count; then the block ends without doing anything.

        Cancelling does not call it off. If the coordinator does not answer within a few seconds,
        it is asked on in the background, before another transaction is opened.

        Raises:
            ProducerFencedError: Another producer has the transactional id. Nothing of it counts.
        """
        self._check_open()
        self._outcome = "aborted"
        self._rewind()
        with trio.move_on_after(ABORT_S, shield=True):
            await self._transactions.abort(self._producer.drop_parked)

    async def resolve(self) -> Outcome:
        """Wait until it is known what became of it, and return that."""
        await self._transactions.resolve()
        if self._outcome == "unknown" and self._ending is not None:
            if self._ending.reached:
                self._outcome = "committed"
            elif self._transactions.machine.state is State.SPOILED:
                self._outcome = "open"
                await self.abort()
        return self.outcome

    def _rewind(self) -> None:
        if self._progress is not None:
            try:
                self._progress.undo()
            except ClosedError:
                logger.debug("the consumer was closed before the transaction was aborted")

    def _check_open(self) -> None:
        if self._outcome != "open":
            raise NoTransactionError(f"the transaction has ended: it is {self._outcome}")

    # What it consists of

    def send_nowait(
        self, topic: str, value: V | None, *, key: K | None = None, **options: Unpack[RecordOptions]
    ) -> Delivery:
        """Hand over a record without waiting; see :meth:`Producer.send_nowait`."""
        self._check_open()
        return self._producer.send_nowait(topic, value, key=key, **options)

    async def enqueue(
        self, topic: str, value: V | None, *, key: K | None = None, **options: Unpack[RecordOptions]
    ) -> Delivery:
        """Hand over a record, waiting for room; see :meth:`Producer.enqueue`.

        That is what most want: the commit waits for the acknowledgement of all.
        """
        self._check_open()
        return await self._producer.enqueue(topic, value, key=key, **options)

    async def send(
        self, topic: str, value: V | None, *, key: K | None = None, **options: Unpack[RecordOptions]
    ) -> RecordMetadata:
        """Send a record and return where it is, once it is acknowledged.

        Raises:
            TransactionAbortedError: It was not delivered, so that nothing of the transaction is.
        """
        self._check_open()
        try:
            return await self._producer.send(topic, value, key=key, **options)
        except KafkaError as error:
            if self._transactions.machine.state is State.SPOILED:
                raise self._transactions.aborted() from error
            raise

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: GroupMetadata | str,
    ) -> None:
        """Commit offsets of a group with the transaction (KIP-98, KIP-447).

        Args:
            offsets: The next offset to read of each partition.
            group_metadata: The ``group_metadata`` of the consumer that has read up to there: a
                member that the group has gone on without is refused. Or only a group's name,
                for who is no member.

        Raises:
            ValueError: What is given is no offset.
            TransactionAbortedError: The group has gone on without that member, for example.
            ProducerFencedError: Another producer has the transactional id, or it took too long.
        """
        self._check_open()
        if isinstance(group_metadata, str):
            group_metadata = GroupMetadata(group_metadata)
        await self._transactions.send_offsets(offsets_to_commit(offsets), group_metadata)
