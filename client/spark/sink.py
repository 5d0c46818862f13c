"""Writes of batches and streams, in the order of task and partition: at least, or exactly once."""

from __future__ import annotations

from itertools import chain
from random import Random
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from quorate.client.spark.cluster import cluster
from quorate.client.spark.exactly_once import ExactlyOnce
from quorate.client.spark.tasks import now_ms, place_of_task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quorate.client.spark.arrow import RecordBatch
    from quorate.client.spark.exactly_once import TaskTransaction
    from quorate.client.spark.two_phase import Decision, OpenTransaction, Place
    from quorate.client.spark.write_options import WriteOptions


class Written(WriterCommitMessage):
    """What a task tells the driver.

    Attributes:
        record_count: How many records are acknowledged.
        transaction: What it has left open for the driver to commit; None if there is nothing.
    """

    def __init__(self, record_count: int, transaction: OpenTransaction | None = None) -> None:
        self.record_count = record_count
        self.transaction = transaction


def write_rows(
    options: WriteOptions,
    batches: Iterable[RecordBatch],
    transaction: TaskTransaction | None = None,
) -> int:
    """Write the rows of a task, and return how many; all are acknowledged then.

    A task that fails was perhaps half written; Spark tries it again, and rows are there twice then,
    except those of a transaction that is not committed.
    """
    from quorate.client.spark.producing import TaskProducer  # noqa: PLC0415 - with numpy, Arrow
    from quorate.client.spark.rows import Distributor  # noqa: PLC0415

    producer = TaskProducer(cluster(options.connection), options, transaction)
    turn = Random().randrange(1 << 20)  # noqa: S311 - spreads load, guards no secret
    distributor = Distributor(options.topic, producer.partition_count, turn, options.batch_bytes)
    for batch in batches:
        producer.send(distributor.distribute(batch, now_ms()))
    return producer.record_count


def write_once(
    options: WriteOptions,
    decision: Decision | None,
    place: Place,
    batches: Iterator[RecordBatch],
) -> Written:
    """Write the rows of a task in a transaction, and leave it open; what is committed is left out.

    Args:
        options: How.
        decision: What the driver found decided before this micro-batch.
        place: What the rows are.
        batches: The rows; a task without any needs no transaction.
    """
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return Written(0)
    transaction = None
    if decision is None or not decision.covers(place):
        transaction = ExactlyOnce(cluster(options.connection), options).begin(place)
    if transaction is None:
        for _ in batches:
            pass  # Spark sends all of them, whether they are wanted or not
        return Written(0)
    record_count = write_rows(options, chain([first], batches), transaction)
    return Written(record_count, transaction.leave())


class BatchWriter(DataSourceArrowWriter):
    """Writes a batch."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return Written(write_rows(self._options, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: every task's rows are there."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: what was written stays, for it is promised at least once."""


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches, each row at least once."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return Written(write_rows(self._options, iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: every task's rows are there."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: what was written stays; the micro-batch is repeated."""


class ExactlyOnceWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches, each row exactly once for those who read what is committed.

    The driver makes one before the tasks of a micro-batch, which get copies of it, and another one
    to commit or abort: each first carries out what was decided before.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._decision = self._sink().recover()

    def _sink(self) -> ExactlyOnce:
        return ExactlyOnce(cluster(self._options.connection), self._options)

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return self.write_at(place_of_task(), iterator)

    def write_at(self, place: Place, iterator: Iterator[RecordBatch]) -> Written:
        """Write the rows of a task, given what they are."""
        return write_once(self._options, self._decision, place, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Commit what the tasks have left open."""
        self._sink().commit(_left_open(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Abort it, unless it was decided to commit it: Spark calls this after a failed commit."""
        transactions = _left_open(messages)
        if transactions:
            self._sink().abort(transactions[0].place.query, batchId, transactions)


def _left_open(messages: list[WriterCommitMessage | None]) -> list[OpenTransaction]:
    written = [message for message in messages if isinstance(message, Written)]
    return [each.transaction for each in written if each.transaction is not None]
