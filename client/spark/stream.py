"""Streaming reads: where a query is, what goes into its next micro-batch, what tasks read of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from quorate.client.spark.checkpoint import StreamOffsets, planned, same_topics, stream_offsets
from quorate.client.spark.cluster import cluster, retried
from quorate.client.spark.losses import loss_reporter
from quorate.client.spark.places import EARLIEST, LATEST
from quorate.client.spark.plan import Trigger, limited, resolve
from quorate.client.spark.tasks import now_ms, partitions_of, read_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql.datasource import InputPartition

    from quorate.client.spark.arrow import RecordBatch
    from quorate.client.spark.options import ReadOptions
    from quorate.model import TopicPartition

T = TypeVar("T")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches. The driver's copy lives as long as the query; tasks get copies of it.

    Invariants: ``initialOffset`` is the same however often it is asked for. What a micro-batch
    reads follows from its two ends and the options alone, so that a repeated one reads the same.
    """

    def __init__(self, options: ReadOptions, columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._initial: dict[str, Any] | None = None
        self._latest: StreamOffsets | None = None
        self._is_available_now = False
        self._trigger = Trigger(options.rate, last_ms=0)

    # Where the query is

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new query begins."""
        if self._initial is None:
            found: StreamOffsets = self._asking(self._find_initial)
            self._initial = found.to_json()
        return self._initial

    def _find_initial(self) -> StreamOffsets:
        options = self._options
        known = cluster(options.connection)
        partitions = known.subscribed(options.subscription)
        offsets = resolve(
            options.start,
            partitions,
            self._ask,
            starting=True,
            latest_without_match=options.start_latest_without_match,
        )
        return StreamOffsets(offsets, known.topic_ids(p.topic for p in partitions))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how much goes into a micro-batch, unless its trigger says otherwise."""
        rate = self._options.rate
        if rate.offsets_max is not None:
            return ReadMaxRows(rate.offsets_max)
        if rate.offsets_min is not None:
            return ReadMinRows(rate.offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read what is there now, and nothing that comes later."""
        self._is_available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next micro-batch ends: at ``start`` if it is not worth its while yet."""
        begun = stream_offsets(start)
        latest = self._latest
        if latest is None or not self._is_available_now:
            latest = self._latest = self._asking(self._find_latest)
        begun = same_topics(begun, latest.topic_ids, loss_reporter(self._options))
        if isinstance(limit, ReadAllAvailable):
            return latest.to_json()
        added = latest.offsets.keys() - begun.offsets.keys()
        begins = self._asking(lambda: self._ask(dict.fromkeys(added, EARLIEST)))
        starts = {**begins, **begun.offsets}
        if not self._is_available_now and not self._trigger.is_due(
            starts, latest.offsets, now_ms()
        ):
            return start
        if isinstance(limit, ReadMaxRows):
            ends = limited(starts, latest.offsets, limit.max_rows)
            return StreamOffsets(ends, latest.topic_ids).to_json()
        return latest.to_json()

    def _find_latest(self) -> StreamOffsets:
        known = cluster(self._options.connection)
        partitions = known.subscribed(self._options.subscription)
        ends = self._ask(dict.fromkeys(partitions, LATEST))
        return StreamOffsets(ends, known.topic_ids(p.topic for p in partitions))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the ends of the logs as last heard, for the query's progress to tell its lag."""
        return None if self._latest is None else self._latest.to_json()

    def _ask(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        options = self._options
        return cluster(options.connection).list_offsets(
            times, committed_only=options.fetch.committed_only
        )

    def _asking(self, call: Callable[[], T]) -> T:
        return retried(call, self._options.offset_retries, self._options.offset_retry_pause_ms)

    # What tasks read

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the tasks of a micro-batch."""
        last = stream_offsets(end)
        ranges = planned(stream_offsets(start), last, loss_reporter(self._options))
        return partitions_of(ranges, self._options, last.topic_ids)

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Read what one task is to read."""
        return read_partition(self._options, self._columns, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Publish how far the query is to a group, if one was named; for tools that show lag.

        Spark calls this when it plans the next micro-batch.
        """
        group = self._options.commit_group
        if group is None:
            return
        from quorate.client.spark.publishing import publish  # noqa: PLC0415 - few need it

        publish(self._options.connection, group, stream_offsets(end).offsets)

    def stop(self) -> None:
        """Do nothing: Spark ends the process."""
