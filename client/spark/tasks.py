"""What travels from the driver to tasks, and how they read it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

from quorate.client.spark.cluster import cluster
from quorate.client.spark.plan import Task, split
from quorate.client.spark.two_phase import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quorate.client.spark.arrow import RecordBatch
    from quorate.client.spark.options import ReadOptions
    from quorate.client.spark.plan import OffsetRange


class TaskPartition(InputPartition):
    """A task on its way from the driver."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.task = task


def partitions_of(
    ranges: list[OffsetRange], options: ReadOptions, topic_ids: Mapping[str, str]
) -> list[InputPartition]:
    """Return a partition of Spark's for each task."""
    pieces = split(ranges, options.partitions_min, options.partition_records_max)
    return [
        TaskPartition(Task(piece, topic_ids.get(piece.topic_partition.topic, "")))
        for piece in pieces
    ]


def read_partition(
    options: ReadOptions, columns: list[str], partition: InputPartition
) -> Iterator[RecordBatch]:
    """Read what one task is to read."""
    from quorate.client.spark.reading import RangeReader  # noqa: PLC0415 - with numpy, Arrow

    if not isinstance(partition, TaskPartition):
        return iter(())  # Spark makes one of its own if there is nothing to read
    return RangeReader(cluster(options.connection), options, partition.task, columns).read()


def place_of_task() -> Place:
    """Return what the task that this process runs is to write, as part of a streaming query.

    The names of the properties are Spark's own (``StreamExecution``, ``MicroBatchExecution``).
    """
    context = TaskContext.get()
    assert context is not None
    query = context.getLocalProperty("sql.streaming.queryId")
    batch = context.getLocalProperty("streaming.sql.batchId")
    assert query is not None
    assert batch is not None
    return Place(query, int(batch), context.partitionId())


def now_ms() -> int:
    """Return the time of day."""
    return int(time.time() * 1_000)  # noqa: TID251 - the shell
