"""Writes of batches and streams: each row at least once, in the order of its task and partition."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from quorate.client.spark.cluster import cluster
from quorate.client.spark.tasks import now_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quorate.client.spark.arrow import RecordBatch
    from quorate.client.spark.write_options import WriteOptions


class Written(WriterCommitMessage):
    """What a task tells the driver: how many records are acknowledged."""

    def __init__(self, record_count: int) -> None:
        self.record_count = record_count


def write_rows(options: WriteOptions, batches: Iterator[RecordBatch]) -> Written:
    """Write the rows of a task; all are acknowledged when this returns.

    A task that fails was perhaps half written; Spark tries it again, and rows are there twice then.
    """
    from quorate.client.spark.producing import TaskProducer  # noqa: PLC0415 - with numpy, Arrow
    from quorate.client.spark.rows import Distributor  # noqa: PLC0415

    producer = TaskProducer(cluster(options.connection), options)
    turn = Random().randrange(1 << 20)  # noqa: S311 - spreads load, guards no secret
    distributor = Distributor(options.topic, producer.partition_count, turn, options.batch_bytes)
    for batch in batches:
        producer.send(distributor.distribute(batch, now_ms()))
    return Written(producer.record_count)


class BatchWriter(DataSourceArrowWriter):
    """Writes a batch."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return write_rows(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: every task's rows are there."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: what was written stays, for it is promised at least once."""


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return write_rows(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: every task's rows are there."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: what was written stays; the micro-batch is repeated."""
