"""The client for programs without Trio: scripts, notebooks, threads, Spark tasks.

::

    from quorate.client.sync import Consumer, Producer

    with Producer("127.0.0.1:9092") as producer:
        producer.send("appLogs", b"started")

    with Consumer("127.0.0.1:9092", group_id="billing") as consumer:
        consumer.subscribe("appLogs")
        for record in consumer:
            print(record.value)

Everything blocks, and may be called from any thread. Each object has a thread of its own in which
the Trio client runs; it is open from the beginning, ``with`` or :meth:`close` ends it. Settings,
results and errors are those of the Trio client. Ctrl-C gives up the call that it interrupts, and
raises once that has ended.
"""

from __future__ import annotations

import atexit
from collections import deque
from contextlib import suppress
from functools import update_wrapper
from itertools import islice
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeVar, cast

import trio

from quorate.client import admin as async_admin
from quorate.client import consumer as async_consumer
from quorate.client import producer as async_producer
from quorate.client.background import Background
from quorate.client.errors import (
    ClosedError,
    CommitFailedError,
    NotAssignedError,
    NoTransactionError,
    TransactionAbortedError,
)
from quorate.client.pending import PendingCommit, PendingDelivery
from quorate.client.serde.choosing import K, V

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType
    from typing import Self, Unpack

    from quorate.client import transaction as async_transaction
    from quorate.client.delivery import RecordMetadata, RecordOptions
    from quorate.client.groups.results import OffsetAndMetadata
    from quorate.client.membership.identity import GroupMetadata
    from quorate.client.progress import Progress
    from quorate.model import TopicPartition
    from quorate.records.record import Record

__all__ = ["Admin", "Consumer", "PendingCommit", "PendingDelivery", "Producer", "Transaction"]

C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)
F = TypeVar("F")
P = ParamSpec("P")
T = TypeVar("T")

QUEUED_MAX: Final = 10_000
"""How many records may be on their way to the thread; then ``enqueue`` waits."""


class _Facade(Generic[C_co]):
    """What the three have in common: a client in a thread, and its end."""

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[C_co]]) -> None:
        self.background: Background[C_co] = Background(make)
        # The thread is a daemon, which would be stopped in the middle of what it does.
        atexit.register(self.close)

    def __enter__(self) -> Self:
        """Return it: it is open already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self._close(with_error=error is not None)

    def close(self) -> None:
        """Finish what is under way, disconnect and end the thread."""
        self._close(with_error=False)

    def _close(self, *, with_error: bool) -> None:
        atexit.unregister(self.close)
        self.background.close(with_error=with_error)


def _waiting(
    method: Callable[Concatenate[C, P], Awaitable[T]],
) -> Callable[Concatenate[_Facade[C], P], T]:
    """Return the blocking method for one that waits."""

    def blocking(self: _Facade[C], /, *arguments: P.args, **named: P.kwargs) -> T:
        background = self.background
        return background.call(method, background.client, *arguments, **named)

    return update_wrapper(blocking, method)


def _immediate(
    method: Callable[Concatenate[C, P], T],
) -> Callable[Concatenate[_Facade[C], P], T]:
    """Return the method for one that does not wait: it runs in the thread all the same."""

    def blocking(self: _Facade[C], /, *arguments: P.args, **named: P.kwargs) -> T:
        background = self.background
        return background.call_now(method, background.client, *arguments, **named)

    return update_wrapper(blocking, method)


def _opening(
    client: Callable[P, C],
) -> Callable[
    [Callable[[F, Callable[[], C]], None]],
    Callable[Concatenate[F, P], None],
]:
    """Return a decorator: the constructor takes what the client's does, and gets how to make it.

    So settings, their types and what they mean stand in one place, at the Trio client.
    """

    def decorate(
        initialize: Callable[[F, Callable[[], C]], None],
    ) -> Callable[Concatenate[F, P], None]:
        def constructor(self: F, /, *arguments: P.args, **settings: P.kwargs) -> None:
            initialize(self, lambda: client(*arguments, **settings))

        update_wrapper(constructor, cast("type[object]", client).__init__)  # for help()
        return constructor

    return decorate


class Producer(_Facade[async_producer.Producer[K, V]], Generic[K, V]):
    """Sends records; see :class:`quorate.client.Producer` for settings and promises.

    :meth:`send` waits for each record. To send many, :meth:`enqueue` them: they go out in batches,
    and the end of the block (or :meth:`flush`) waits for all.
    """

    @_opening(async_producer.Producer)
    def __init__(self, make: Callable[[], async_producer.Producer[K, V]]) -> None:
        self._queue: deque[PendingDelivery] = deque()
        self._room = BoundedSemaphore(QUEUED_MAX)
        self._idle = True
        self._draining = trio.Lock()
        super().__init__(make)

    def send(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        **options: Unpack[RecordOptions],
    ) -> RecordMetadata:
        """Send a record and return where it is, once it is acknowledged.

        Raises:
            QuorateError: It was not delivered, for that reason.
        """
        background, send = self.background, self.background.client.send
        sent: RecordMetadata = background.call(
            self.drain_and, send, topic, value, key=key, **options
        )
        return sent

    partitions_of = _waiting(async_producer.Producer.partitions_of)

    def transaction(self, consumer: Consumer[Any, Any] | None = None) -> Transaction[K, V]:
        """Return a transaction, which ``with`` opens, commits and aborts; one at a time.

        See :meth:`quorate.client.Producer.transaction`.

        Raises:
            NoTransactionError: The producer has no ``transactional_id``.
        """
        made = self.background.call_now(self.background.client.transaction)
        return Transaction(self, made, consumer)

    def enqueue(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        **options: Unpack[RecordOptions],
    ) -> PendingDelivery:
        """Hand over a record and return a handle; waits only if very many are on their way.

        Raises:
            ClosedError: The producer was closed. All other errors are the handle's.
        """
        arguments: dict[str, Any] = {"topic": topic, "value": value, "key": key, **options}
        arguments["headers"] = tuple(options.get("headers", ()))  # now: they may be an iterator
        pending = PendingDelivery(self.background, arguments)
        while not self._room.acquire(timeout=1.0):
            self.background.run_soon(self._wake, once=True)  # raises once the thread has gone
        self._queue.append(pending)
        self.background.run_soon(self._wake, once=True)
        return pending

    def flush(self) -> None:
        """Wait until all records handed over so far are acknowledged, or have failed."""
        self.background.call(self._flush)

    def _close(self, *, with_error: bool) -> None:
        try:
            if not with_error:
                self.background.call(self._drain)
        except ClosedError:
            pass  # it was closed before
        finally:
            super()._close(with_error=with_error)
            for pending in self._taken():
                pending.fail(ClosedError("the producer was closed before"))

    def drop_queue(self, error: Exception) -> None:
        """Fail the records that were not handed over to the thread yet."""
        for pending in self._taken():
            pending.fail(error)
            self._room.release()

    async def drain_and(
        self, then: Callable[..., Awaitable[T]], *arguments: Any, **named: Any
    ) -> T:
        """Hand over all records so far, and do something then; in the thread."""
        await self._drain()
        return await then(*arguments, **named)

    def _taken(self) -> Iterator[PendingDelivery]:
        """Take records out of the queue, as long as no other thread has taken the last one."""
        with suppress(IndexError):
            while True:
                yield self._queue.popleft()

    # In the thread

    def _wake(self) -> None:
        if self._idle and self._queue:
            self._idle = False
            self.background.start(self._drain_in_background)

    async def _drain_in_background(self) -> None:
        await self._drain()
        self._idle = True
        self._wake()

    async def _drain(self) -> None:
        async with self._draining:  # by one at a time, or records would change their order
            # And no more than there are now: who waits for these need not wait for later ones.
            for pending in islice(self._taken(), len(self._queue)):
                try:
                    await pending.hand_over(self.background.client)
                except trio.Cancelled:  # by who waited for it: the next one goes on with it
                    self._queue.appendleft(pending)
                    raise
                self._room.release()

    async def _flush(self) -> None:
        await self._drain()
        await self.background.client.flush()


class Transaction(Generic[K, V]):
    """Records, and offsets of groups, that count all together or not at all.

    See :class:`quorate.client.Transaction`; Ctrl-C in the block aborts it.
    """

    def __init__(
        self,
        producer: Producer[K, V],
        transaction: async_transaction.Transaction[K, V],
        consumer: Consumer[Any, Any] | None,
    ) -> None:
        self._producer = producer
        self._background = producer.background
        self._transaction = transaction
        self._consumer = consumer
        self._progress: Progress | None = None

    @property
    def outcome(self) -> async_transaction.Outcome:
        """What became of it."""
        return self._transaction.outcome

    def __enter__(self) -> Self:
        """Open it."""
        if self._consumer is not None:
            background = self._consumer.background
            self._progress = background.call_now(background.client.progress)
        self._background.call(self._transaction.__aenter__)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit; abort, if an exception leaves the block."""
        if self.outcome != "open":
            return
        if error is None:
            self.commit()
        else:
            self._abort_after(error)

    def commit(self) -> None:
        """Commit it now; the end of the block does it, too."""
        try:
            self._send_progress()
            self._background.call(self._producer.drain_and, self._transaction.commit)
        except BaseException as error:
            self._abort_after(error)
            raise

    def abort(self) -> None:
        """Have nothing of it count; then the block ends without doing anything."""
        self._producer.drop_queue(TransactionAbortedError("the transaction was aborted"))
        try:
            self._background.call(self._transaction.abort)
        finally:
            self._rewind()

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: GroupMetadata | str,
    ) -> None:
        """Commit offsets of a group with the transaction."""
        self._background.call(self._transaction.send_offsets, offsets, group_metadata)

    def send(
        self, topic: str, value: V | None, *, key: K | None = None, **options: Unpack[RecordOptions]
    ) -> RecordMetadata:
        """Send a record and return where it is, once it is acknowledged."""
        drain_and, send = self._producer.drain_and, self._transaction.send
        sent: RecordMetadata = self._background.call(
            drain_and, send, topic, value, key=key, **options
        )
        return sent

    def enqueue(
        self, topic: str, value: V | None, *, key: K | None = None, **options: Unpack[RecordOptions]
    ) -> PendingDelivery:
        """Hand over a record and return a handle; the commit waits for all.

        Raises:
            NoTransactionError: The transaction has ended.
        """
        if self.outcome != "open":
            raise NoTransactionError(f"the transaction has ended: it is {self.outcome}")
        return self._producer.enqueue(topic, value, key=key, **options)

    def _send_progress(self) -> None:
        if self._progress is None or self._consumer is None:
            return
        told = self._consumer.background.call_now(self._made)
        if isinstance(told, CommitFailedError):
            self._background.call_now(self._transaction.spoil, told)
        else:
            send_offsets = self._transaction.send_offsets
            self._background.call(self._producer.drain_and, send_offsets, *told)

    def _made(
        self,
    ) -> tuple[dict[TopicPartition, OffsetAndMetadata], GroupMetadata] | CommitFailedError:
        assert self._progress is not None
        try:
            return self._progress.made(), self._progress.group_metadata
        except CommitFailedError as error:
            return error

    def _abort_after(self, error: BaseException) -> None:
        """Abort because of an error, if that has not ended it, and take the consumer back."""
        try:
            if self.outcome == "open":
                self._producer.drop_queue(TransactionAbortedError("the transaction was aborted"))
                end = self._transaction.__aexit__
                self._background.call(end, type(error), error, error.__traceback__)
        finally:
            self._rewind()

    def _rewind(self) -> None:
        if self._progress is not None and self._consumer is not None and self.outcome == "aborted":
            progress, self._progress = self._progress, None
            self._consumer.background.call_now(progress.undo)


class Consumer(_Facade[async_consumer.Consumer[K, V]], Generic[K, V]):
    """Reads records; see :class:`quorate.client.Consumer` for settings and promises.

    One thread at a time may poll or iterate; others may seek, pause and ask. Every record that is
    iterated over costs a visit to the thread: whoever reads a lot polls.
    """

    @_opening(async_consumer.Consumer)
    def __init__(self, make: Callable[[], async_consumer.Consumer[K, V]]) -> None:
        super().__init__(make)

    subscribe = _immediate(async_consumer.Consumer.subscribe)
    unsubscribe = _waiting(async_consumer.Consumer.unsubscribe)
    commit = _waiting(async_consumer.Consumer.commit)

    def commit_soon(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None
    ) -> PendingCommit:
        """Commit without waiting; see :meth:`quorate.client.Consumer.commit_soon`."""
        client = self.background.client
        return PendingCommit(self.background, self.background.call_now(client.commit_soon, offsets))

    committed = _waiting(async_consumer.Consumer.committed)
    lag = _immediate(async_consumer.Consumer.lag)
    assign = _immediate(async_consumer.Consumer.assign)
    assign_topics = _waiting(async_consumer.Consumer.assign_topics)
    partitions_of = _waiting(async_consumer.Consumer.partitions_of)
    pause = _immediate(async_consumer.Consumer.pause)
    resume = _immediate(async_consumer.Consumer.resume)
    seek = _immediate(async_consumer.Consumer.seek)
    seek_to_beginning = _immediate(async_consumer.Consumer.seek_to_beginning)
    seek_to_end = _immediate(async_consumer.Consumer.seek_to_end)
    seek_to_time = _waiting(async_consumer.Consumer.seek_to_time)
    position = _waiting(async_consumer.Consumer.position)
    wait_for_position = _waiting(async_consumer.Consumer.wait_for_position)
    beginning_offsets = _waiting(async_consumer.Consumer.beginning_offsets)
    end_offsets = _waiting(async_consumer.Consumer.end_offsets)
    offsets_for_times = _waiting(async_consumer.Consumer.offsets_for_times)

    def poll(
        self, *, max_records: int | None = None, timeout_ms: int = 1_000
    ) -> list[Record[K, V]]:
        """Return records as soon as there are some; see :meth:`quorate.client.Consumer.poll`."""
        client = self.background.client
        return self._given(lambda: client.poll(max_records=max_records, timeout_ms=timeout_ms))

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read."""
        return self.background.call_now(lambda: self.background.client.assignment)

    def __iter__(self) -> Self:
        """Iterate over records; without an end, for more may be written."""
        return self

    def __next__(self) -> Record[K, V]:
        """Return the next record, waiting for one."""

        async def take() -> list[Record[K, V]]:
            return [await self.background.client.__anext__()]

        return self._given(take)[0]

    def _given(self, take: Callable[[], Awaitable[list[Record[K, V]]]]) -> list[Record[K, V]]:
        """Return records that the client gives out; if Ctrl-C does not let it, have it go back."""
        taken: list[Record[K, V]] = []

        async def run() -> None:
            taken.extend(await take())

        try:
            self.background.call(run)
        except KeyboardInterrupt:
            with suppress(ClosedError):
                self.background.call_now(self._go_back, taken)
            raise
        return taken

    def _go_back(self, taken: list[Record[K, V]]) -> None:
        begins: dict[TopicPartition, int] = {}
        for record in taken:
            begins.setdefault(record.topic_partition, record.offset)
        for partition, offset in begins.items():
            with suppress(NotAssignedError):  # whoever has it now begins there
                self.background.client.seek(partition, offset)


class Admin(_Facade[async_admin.Admin]):
    """Creates, describes, changes and deletes; see :class:`quorate.client.Admin`."""

    @_opening(async_admin.Admin)
    def __init__(self, make: Callable[[], async_admin.Admin]) -> None:
        super().__init__(make)

    create_topic = _waiting(async_admin.Admin.create_topic)
    create_topics = _waiting(async_admin.Admin.create_topics)
    delete_topics = _waiting(async_admin.Admin.delete_topics)
    create_partitions = _waiting(async_admin.Admin.create_partitions)
    list_topics = _waiting(async_admin.Admin.list_topics)
    describe_topics = _waiting(async_admin.Admin.describe_topics)
    describe_all_topics = _waiting(async_admin.Admin.describe_all_topics)
    describe_topic_partitions = _waiting(async_admin.Admin.describe_topic_partitions)
    delete_records = _waiting(async_admin.Admin.delete_records)
    list_offsets = _waiting(async_admin.Admin.list_offsets)
    describe_configs = _waiting(async_admin.Admin.describe_configs)
    alter_configs = _waiting(async_admin.Admin.alter_configs)
    describe_cluster = _waiting(async_admin.Admin.describe_cluster)
    describe_log_dirs = _waiting(async_admin.Admin.describe_log_dirs)
    unregister_broker = _waiting(async_admin.Admin.unregister_broker)
    elect_leaders = _waiting(async_admin.Admin.elect_leaders)
    alter_partition_reassignments = _waiting(async_admin.Admin.alter_partition_reassignments)
    list_partition_reassignments = _waiting(async_admin.Admin.list_partition_reassignments)
    describe_quorum = _waiting(async_admin.Admin.describe_quorum)
    describe_versions = _waiting(async_admin.Admin.describe_versions)
    update_features = _waiting(async_admin.Admin.update_features)
    list_transactions = _waiting(async_admin.Admin.list_transactions)
    describe_transactions = _waiting(async_admin.Admin.describe_transactions)
    describe_producers = _waiting(async_admin.Admin.describe_producers)
    abort_transaction = _waiting(async_admin.Admin.abort_transaction)
    fence_producers = _waiting(async_admin.Admin.fence_producers)
    list_groups = _waiting(async_admin.Admin.list_groups)
    describe_groups = _waiting(async_admin.Admin.describe_groups)
    delete_groups = _waiting(async_admin.Admin.delete_groups)
    remove_members = _waiting(async_admin.Admin.remove_members)
    list_group_offsets = _waiting(async_admin.Admin.list_group_offsets)
    alter_group_offsets = _waiting(async_admin.Admin.alter_group_offsets)
    reset_group_offsets = _waiting(async_admin.Admin.reset_group_offsets)
    delete_group_offsets = _waiting(async_admin.Admin.delete_group_offsets)
