"""Trio shell: runs a pipeline of records as one instance of an application."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias, cast
from uuid import uuid4

import trio

from quorate.client.admin import Admin
from quorate.client.admin_results import TopicDescription
from quorate.client.catching_up import ensure_compacted, read_up
from quorate.client.connections import RETRY, now_ms, require_at_least
from quorate.client.consumer import Consumer
from quorate.client.errors import (
    CommitFailedError,
    NotAssignedError,
    TransactionAbortedError,
    TransactionOutcomeUnknownError,
)
from quorate.client.producer import Producer
from quorate.client.rebalancing import RebalanceListener
from quorate.client.sending.partitioner import partition_for_key
from quorate.client.streams.task import Ownership, Tally, Task
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, KafkaError, QuorateError, UnknownTopicOrPartitionError
from quorate.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from quorate.client.connections import ConnectionOptions
    from quorate.client.delivery import Delivery
    from quorate.client.progress import Progress
    from quorate.client.streams.pipeline import Pipeline
    from quorate.client.streams.task import Outcome, Output
    from quorate.client.transaction import Transaction
    from quorate.records.record import Record

logger = logging.getLogger(__name__)

Guarantee: TypeAlias = Literal["exactly_once_v2", "at_least_once"]

IDLE_POLL_MS: Final = 100
"""How long at most what was just assigned waits until it is restored."""

RECORDS_A_COMMIT_MAX: Final = 10_000
GONE_LOOKS: Final = 10
GONE_PAUSE_S: Final = 0.5
"""How often a topic is to be gone before it is: brokers that start know it late."""

FAILURES_MAX: Final = 10
"""How often in a row a commit, or what comes before it, may fail for other reasons than rebalances.
"""


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """What :func:`run` was given, checked; names are those of its arguments."""

    application_id: str
    instance: str | None
    processing_guarantee: Guarantee
    commit_interval_ms: int
    skip_unreadable: bool
    auto_offset_reset: Literal["earliest", "latest"]
    session_timeout_ms: int
    transaction_timeout_ms: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """What an instance has done since it began; only what was committed counts.

    Attributes:
        records: Records that were read.
        results: Records that were written to the sink.
        late: Records that came when all their windows were closed.
        without_key: Records that could not be grouped.
        null: Records without a value.
        unreadable: Records that were skipped, because they could not be read.
        commits: How often something was committed.
        aborts: How often it was not, and was done again.
        tasks: The partitions that are this instance's now.
        windows: How many windows of keys they hold.
    """

    records: int
    results: int
    late: int
    without_key: int
    null: int
    unreadable: int
    commits: int
    aborts: int
    tasks: tuple[int, ...]
    windows: int


class _AtLeastOnce:
    """A commit without a transaction: what is read is committed when what it came to is written."""

    def __init__(self, producer: Producer, consumer: Consumer[Any, Any]) -> None:
        self._producer = producer
        self._consumer = consumer
        self._deliveries: list[Delivery] = []
        self._progress: Progress

    async def __aenter__(self) -> Self:
        self._progress = self._consumer.progress()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._progress.undo()
            return
        await self._producer.flush()
        for delivery in self._deliveries:
            if delivery.error is not None:
                self._give_up(delivery.error)
        try:
            offsets = self._progress.made()
            if offsets:
                await self._consumer.commit(offsets)
        except KafkaError as failed:
            self._give_up(failed)

    def _give_up(self, error: QuorateError) -> NoReturn:
        """Go back to where this began, to do it again if that may help."""
        self._progress.undo()
        if isinstance(error, CommitFailedError) or _may_pass(error):
            raise TransactionAbortedError(f"nothing was committed: {error}") from error
        raise error

    async def enqueue(self, topic: str, value: bytes | None, **options: Any) -> Delivery:
        """Hand over a record."""
        delivery = await self._producer.enqueue(topic, value, **options)
        self._deliveries.append(delivery)
        return delivery

    async def resolve(self) -> str:
        """Say that it was not committed; nobody asks."""
        return "aborted"


def _may_pass(error: QuorateError) -> bool:
    """Whether an error is one of an outage; a topic that is gone does not come back."""
    return (
        isinstance(error, KafkaError)
        and error.retriable
        and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


class Running:
    """One instance of an application while it runs.

    Each round restores what is new, reads for a while, and commits what that came to. Partitions
    come and go in the reading only; what was read before they went is not committed then, and read
    again by whoever has them.
    """

    def __init__(self, settings: StreamSettings, pipeline: Pipeline) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._ownership = Ownership(pipeline, skip_unreadable=settings.skip_unreadable)
        self._changelog = f"{settings.application_id}-changelog"
        self._tally = Tally()
        self._commits = 0
        self._aborts = 0
        self._failures_in_a_row = 0
        self._rebalanced = self._gave_up = False
        self._sink_partitions = 0
        self._counts: dict[str, int] = {}
        self._admin: Admin
        self._consumer: Consumer[Any, Any]
        self._restorer: Consumer[Any, Any]
        self._producer: Producer

    @property
    def statistics(self) -> Statistics:
        """What it has done so far."""
        counted = {field.name: getattr(self._tally, field.name) for field in fields(Tally)}
        owned = self._ownership.tasks()
        stores = [task.store for task in owned.values() if task.store is not None]
        return Statistics(
            **counted,
            commits=self._commits,
            aborts=self._aborts,
            tasks=tuple(sorted(owned)),
            windows=sum(store.window_count for store in stores),
        )

    async def run(
        self,
        bootstrap: str | Sequence[str],
        options: ConnectionOptions,
        task_status: trio.TaskStatus[Running],
    ) -> None:
        """Run until cancelled."""
        settings = self._settings
        async with AsyncExitStack() as stack:
            self._admin = await stack.enter_async_context(Admin(bootstrap, **options))
            restorer = Consumer[Any, Any](
                bootstrap,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                **options,
            )
            self._restorer = await stack.enter_async_context(restorer)
            self._producer = await stack.enter_async_context(self._new_producer(bootstrap, options))
            source, windowed = self._pipeline.source, self._pipeline.aggregation is not None
            kind = _MergingConsumer if windowed and len(source.topics) > 1 else Consumer[Any, Any]
            consumer = kind(
                bootstrap,
                isolation_level="read_committed",
                group_id=settings.application_id,
                group_instance_id=settings.instance,
                enable_auto_commit=False,
                auto_offset_reset=settings.auto_offset_reset,
                partition_assignment_strategy="range",
                session_timeout_ms=settings.session_timeout_ms,
                heartbeat_interval_ms=max(1, min(3_000, settings.session_timeout_ms // 3)),
                **options,
            )
            self._consumer = await stack.enter_async_context(consumer)
            await self._look_at_topics()
            consumer.subscribe(source.topics, listener=_Listener(self))
            task_status.started(self)
            while True:
                await self._round()
                if self._rebalanced:
                    await self._look_again()

    def _new_producer(
        self, bootstrap: str | Sequence[str], options: ConnectionOptions
    ) -> Producer[bytes, bytes]:
        settings = self._settings
        if settings.processing_guarantee == "at_least_once":
            return Producer(bootstrap, **options)
        name = settings.instance or str(uuid4())
        return Producer(
            bootstrap,
            transactional_id=f"{settings.application_id}-{name}",
            transaction_timeout_ms=settings.transaction_timeout_ms,
            # What is not written by then can be aborted in time, and be done again: had the
            # coordinator to abort it, the producer would be fenced.
            delivery_timeout_ms=max(1, settings.transaction_timeout_ms * 3 // 4),
            **options,
        )

    async def _look_again(self) -> None:
        """See after a rebalance that the topics are those that it began with.

        Raises:
            UnknownTopicOrPartitionError: One is gone: its partitions will not come back.
            ValueError: One that is grouped has more partitions.
        """
        for topic in self._pipeline.source.topics:
            count, before = await self._count_again(topic), self._counts[topic]
            if self._pipeline.aggregation is not None and count not in {None, before}:
                raise ValueError(
                    f"topic {topic} has {count} partitions now, and had {before}: windows of keys"
                    " that are in another one now would be left behind. Take another"
                    " application_id, which counts anew"
                )

    async def _count_again(self, topic: str) -> int | None:
        """Return how many partitions a topic has, whatever was known; None if nobody says."""
        looks = 0
        while True:
            try:
                told = (await self._admin.describe_topics([topic]))[topic]
                if isinstance(told, TopicDescription):
                    return len(told.partitions)
                raise told
            except UnknownTopicOrPartitionError as error:
                looks += 1
                if looks == GONE_LOOKS:
                    raise UnknownTopicOrPartitionError(f"there is no topic {topic!r}") from error
            except KafkaError as error:
                logger.info("topic %s was not looked at: %s", topic, error)
                return None
            await trio.sleep(GONE_PAUSE_S)

    async def _look_at_topics(self) -> None:
        counts = self._counts = {
            topic: len(await self._consumer.partitions_of(topic))
            for topic in self._pipeline.source.topics
        }
        self._sink_partitions = len(await self._consumer.partitions_of(self._pipeline.sink.topic))
        if self._pipeline.aggregation is None:
            return
        if len(set(counts.values())) != 1:
            told = ", ".join(f"{topic} has {count}" for topic, count in counts.items())
            raise ValueError(f"topics that are grouped need the same number of partitions: {told}")
        await ensure_compacted(self._admin, self._changelog, max(counts.values()))

    # Which partitions

    def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """Take partitions over; nothing of them is read before they are restored."""
        owned = {partition.partition for partition in self._consumer.assignment}
        self._ownership.assigned({partition.partition for partition in partitions}, owned)
        self._consumer.pause(*partitions)
        self._rebalanced = True

    def on_given_up(self, partitions: frozenset[TopicPartition]) -> None:
        """Give partitions up."""
        self._ownership.given_up({partition.partition for partition in partitions})
        self._rebalanced = self._gave_up = True

    async def _restore(self) -> None:
        """Bring new tasks up to what was committed of them by whoever had them before.

        The order matters: once positions are known, no transaction of a former owner is open that
        may still be committed (KIP-447); so all of its changes are there, or their end is waited
        for.
        """
        numbers = set(self._ownership.to_restore)
        if not numbers:
            return
        partitions = [p for p in self._consumer.assignment if p.partition in numbers]
        for partition in partitions:
            await self._consumer.wait_for_position(partition)
        if self._pipeline.aggregation is not None:
            await self._replay({TopicPartition(self._changelog, number) for number in numbers})
        self._ownership.restored(numbers)
        self._consumer.resume(*partitions)

    async def _replay(self, places: set[TopicPartition]) -> None:
        tasks = {place: self._ownership.task(place.partition) for place in places}

        def apply(record: Record) -> None:
            store = tasks[record.topic_partition].store
            assert store is not None
            store.replay(record.key or b"", record.value)

        began_ms = now_ms()
        starts = {place: task.next_changelog_offset for place, task in tasks.items()}
        for place, offset in (await read_up(self._admin, self._restorer, starts, apply)).items():
            tasks[place].next_changelog_offset = offset
        logger.info("restored %d partitions in %d ms", len(places), now_ms() - began_ms)

    # The work

    async def _round(self) -> None:
        self._rebalanced = self._gave_up = False
        try:
            await self._restore()
        except NotAssignedError as error:  # a rebalance that began in the last poll has its turn
            logger.info("partitions went: %s", error)
        except KafkaError as error:
            if not _may_pass(error):
                raise
            await self._after_failure(error)
        touched: dict[int, Task] = {}
        written = Tally()
        unit = self._new_unit()
        committed = False
        try:
            async with unit:
                await self._read(touched)
                self._check_kept()
                last = await self._write(unit, touched, written)
            committed = True
            self._know_changelogs(last)
        except TransactionOutcomeUnknownError:
            committed = await unit.resolve() == "committed"
        except TransactionAbortedError as error:
            await self._after_abort(error)
        finally:
            for task in touched.values():
                (task.commit if committed else task.abort)()
        if committed and touched:
            self._commits += 1
            self._failures_in_a_row = 0
            self._tally.add(written)

    def _new_unit(self) -> Transaction[bytes, bytes] | _AtLeastOnce:
        if self._settings.processing_guarantee == "at_least_once":
            return _AtLeastOnce(self._producer, self._consumer)
        return self._producer.transaction(self._consumer)

    async def _read(self, touched: dict[int, Task]) -> None:
        """Take records until it is time to commit, or partitions come or go."""
        deadline_s: float | None = None
        count = 0
        while count < RECORDS_A_COMMIT_MAX and not self._rebalanced:
            wait_ms = IDLE_POLL_MS
            if deadline_s is not None:
                wait_ms = min(wait_ms, int((deadline_s - trio.current_time()) * 1000))
                if wait_ms <= 0:
                    return
            records = await self._consumer.poll(timeout_ms=wait_ms)
            if deadline_s is None:
                if not records:
                    return
                deadline_s = trio.current_time() + self._settings.commit_interval_ms / 1000
            count += len(records)
            for record in records:
                task = self._ownership.task(record.partition)
                touched[record.partition] = task
                task.take(record)

    def _check_kept(self) -> None:
        """Refuse to write what was read, if partitions were given up since.

        It would not be committed. Without a transaction it would count all the same: in changelogs
        it would stand behind what others may have written by now, and undo that.

        Raises:
            TransactionAbortedError: Some were.
        """
        if self._gave_up:
            raise TransactionAbortedError("partitions went to other instances")

    async def _write(
        self,
        unit: Transaction[bytes, bytes] | _AtLeastOnce,
        touched: dict[int, Task],
        written: Tally,
    ) -> dict[int, Delivery]:
        """Hand over what records came to; return the last record of each changelog."""
        last: dict[int, Delivery] = {}
        for number, task in touched.items():
            outcome: Outcome = task.outcome()
            written.add(outcome.tally)
            for output in outcome.outputs:
                await self._write_output(unit, output)
            for key, value in outcome.changelog:
                last[number] = await unit.enqueue(self._changelog, value, key=key, partition=number)
        return last

    async def _write_output(
        self, unit: Transaction[bytes, bytes] | _AtLeastOnce, output: Output
    ) -> None:
        partition = None
        if output.partition_key is not None:
            partition = partition_for_key(output.partition_key, self._sink_partitions)
        await unit.enqueue(
            self._pipeline.sink.topic,
            output.value,
            key=output.key,
            headers=output.headers,
            timestamp_ms=output.timestamp_ms if output.timestamp_ms >= 0 else None,
            partition=partition,
        )

    def _know_changelogs(self, last: dict[int, Delivery]) -> None:
        for number, delivery in last.items():
            self._ownership.task(number).next_changelog_offset = delivery.metadata.offset + 1

    async def _after_abort(self, error: TransactionAbortedError) -> None:
        """Try again, if that may help.

        Raises:
            KafkaError: It has failed too often.
        """
        self._aborts += 1
        if self._rebalanced:
            logger.info("partitions came or went: %s", error)
        else:
            await self._after_failure(error)

    async def _after_failure(self, error: KafkaError) -> None:
        """Pause before it is tried again.

        Raises:
            UnknownTopicOrPartitionError: The sink is gone: it will not help.
            KafkaError: It has failed too often.
        """
        await self._count_again(self._pipeline.sink.topic)
        self._failures_in_a_row += 1
        if self._failures_in_a_row >= FAILURES_MAX:
            raise error
        logger.warning("done again: %s", error)
        await trio.sleep(RETRY.first_ms * self._failures_in_a_row / 1000)


class _MergingConsumer(Consumer[Any, Any]):
    """Gives out the records of a task's partitions by their times.

    A backlog of one topic before that of another would have the windows of the other closed before
    their records come.
    """

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        assert self._reading is not None
        self._reading.fetcher.merges = True
        return self


class _Listener(RebalanceListener):
    """Tells an instance which partitions come and go."""

    def __init__(self, running: Running) -> None:
        self._running = running

    async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._running.on_assigned(partitions)

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self._running.on_given_up(partitions)


async def run(  # noqa: PLR0913 - the public settings, by name
    application_id: str,
    pipeline: Pipeline,
    bootstrap: str | Sequence[str],
    *,
    instance: str | None = None,
    processing_guarantee: Guarantee = "exactly_once_v2",
    commit_interval_ms: int = 100,
    unreadable: Literal["fail", "skip"] = "fail",
    auto_offset_reset: Literal["earliest", "latest"] = "earliest",
    session_timeout_ms: int = 45_000,
    transaction_timeout_ms: int = 10_000,
    task_status: trio.TaskStatus[Running] = trio.TASK_STATUS_IGNORED,
    **options: Unpack[ConnectionOptions],
) -> None:
    """Run a pipeline until cancelled, as one of any number of instances of an application.

    The instances are a consumer group that shares the partitions; ``nursery.start`` returns a
    :class:`Running` with ``statistics``. The state of windows is in memory, and in the compacted
    topic ``<application_id>-changelog``, from which whoever gets a partition restores it.

    Args:
        application_id: The name of the group; transactional ids and the changelog begin with it.
        pipeline: What to do: :func:`stream` ... ``.to(topic)``.
        bootstrap: Where to find a first broker: ``host:port``, several with commas.
        instance: A name for this instance, if it keeps one over restarts: then it takes over where
            it was at once (a static member, and the same transactional id, which ends what a killed
            predecessor left open). None takes a new one: after a crash others wait for
            ``session_timeout_ms`` and ``transaction_timeout_ms``. No two may have the same.
        processing_guarantee: ``exactly_once_v2``: what is read, what it comes to and the state are
            committed in one transaction. ``at_least_once``: after a crash some records may count
            again.
        commit_interval_ms: How long to gather before a commit.
        unreadable: Whether to end with SerdeError, or to skip and count, what cannot be read.
        auto_offset_reset: Where to begin without a committed offset.
        session_timeout_ms: How long the group waits for a sign of life.
        transaction_timeout_ms: How long a transaction may stay open before it is aborted.
        task_status: As Trio has it.
        **options: See :class:`quorate.client.connections.ConnectionOptions`.

    Raises:
        ValueError: A setting makes no sense; or partitions of topics do not go together.
        SerdeError: A key or value cannot be read or written.
        ProducerFencedError: Another instance of that name was started.
        KafkaError: Something that does not pass; start it again when it is mended.
    """
    if not application_id:
        raise ValueError("application_id is empty")
    if processing_guarantee not in {"exactly_once_v2", "at_least_once"}:
        raise ValueError(f"there is no processing_guarantee {processing_guarantee!r}")
    if unreadable not in {"fail", "skip"}:
        raise ValueError(f"unreadable is {unreadable!r}, but must be fail or skip")
    require_at_least("commit_interval_ms", commit_interval_ms, 1)
    settings = StreamSettings(
        application_id,
        instance,
        processing_guarantee,
        commit_interval_ms,
        unreadable == "skip",
        auto_offset_reset,
        session_timeout_ms,
        transaction_timeout_ms,
    )
    kept = cast("ConnectionOptions", {"client_id": application_id, **options})
    await Running(settings, pipeline).run(bootstrap, kept, task_status)
