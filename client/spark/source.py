"""The data source "quorate" as Spark sees it, and its batch reads."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from quorate.client.spark.cluster import Cluster, cluster, retried
from quorate.client.spark.lookup import Options
from quorate.client.spark.options import (
    check_read,
    parse_batch_read,
    parse_stream_read,
)
from quorate.client.spark.places import OptionError
from quorate.client.spark.sizing import batch_ranges
from quorate.client.spark.tasks import now_ms, partitions_of, read_partition
from quorate.client.spark.write_options import check_columns, parse_write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quorate.client.spark.arrow import RecordBatch
    from quorate.client.spark.options import ReadOptions

logger = logging.getLogger(__name__)

NAME: Final = "quorate"
HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
TYPES: Final = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}


def full_schema(*, include_headers: bool) -> StructType:
    """Return the columns of Spark's Kafka source."""
    names = [name for name in TYPES if include_headers or name != "headers"]
    return StructType([StructField(name, TYPES[name]) for name in names])


def projected(schema: StructType) -> list[str]:
    """Return the columns that a user asks for by a schema.

    Raises:
        OptionError: There is no such column, or not of that type.
    """
    for field in schema.fields:
        known = TYPES.get(field.name)
        if known is None:
            raise OptionError(f"there is no column '{field.name}'; there are {', '.join(TYPES)}")
        if field.dataType.simpleString() != known.simpleString():
            raise OptionError(
                f"column '{field.name}' is {known.simpleString()}, and cannot be read as"
                f" {field.dataType.simpleString()}: cast it afterwards"
            )
    return schema.names


class QuorateDataSource(DataSource):
    """Reads and writes topics of Quorate and Apache Kafka, as Spark's own Kafka source does."""

    @classmethod
    def name(cls) -> str:
        """Return what to give to ``format``."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns; here bad options are met first."""
        texts = dict(self.options)
        check_read(texts)
        return full_schema(include_headers=Options(texts).flag("includeHeaders", default=False))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads a batch."""
        options = parse_batch_read(dict(self.options), now_ms())
        tell(options.warnings)
        return BatchReader(options, projected(schema))

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        """Return what reads a stream."""
        from quorate.client.spark.stream import StreamReader  # noqa: PLC0415 - batches need it not

        options = parse_stream_read(dict(self.options), now_ms())
        tell(options.warnings)
        return StreamReader(options, projected(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001
        """Return what writes a batch."""
        from quorate.client.spark.sink import BatchWriter  # noqa: PLC0415 - readers need it not

        options = parse_write(dict(self.options))
        if options.transactional_id is not None:
            raise OptionError(
                "transactional is for streams (df.writeStream): a batch has no number by which it"
                " could be known again"
            )
        if overwrite:
            raise OptionError(
                "Save mode Overwrite not allowed for Kafka. Allowed save mode is Append:"
                " add .mode('append')"
            )
        check_columns({f.name: f.dataType.simpleString() for f in schema.fields}, options.topic)
        tell(options.warnings)
        if options.topic is not None:
            cluster(options.connection).topics([options.topic])  # or each task would wait for it
        return BatchWriter(options)

    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: StructType,
        overwrite: bool,  # noqa: ARG002, FBT001 - Spark's; "complete" writes all rows again
    ) -> DataSourceStreamArrowWriter:
        """Return what writes a stream."""
        from quorate.client.spark import sink  # noqa: PLC0415 - readers need it not

        options = parse_write(dict(self.options))
        check_columns({f.name: f.dataType.simpleString() for f in schema.fields}, options.topic)
        tell(options.warnings)
        if options.transactional_id is not None:
            return sink.ExactlyOnceWriter(options)
        return sink.StreamWriter(options)


def tell(warnings: tuple[str, ...]) -> None:
    """Tell the user what is odd about the options."""
    for warning in warnings:
        logger.warning("%s", warning)


class BatchReader(DataSourceReader):
    """Reads what is there when the query is planned; once planned, always the same."""

    def __init__(self, options: ReadOptions, columns: list[str]) -> None:
        self.options_read = options
        self.columns = columns

    def partitions(self) -> list[InputPartition]:
        """Ask the cluster what there is, and cut it into tasks."""
        options = self.options_read
        return retried(
            lambda: plan(cluster(options.connection), options),
            options.offset_retries,
            options.offset_retry_pause_ms,
        )

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Read what one task is to read."""
        return read_partition(self.options_read, self.columns, partition)


def plan(known: Cluster, options: ReadOptions) -> list[InputPartition]:
    """Return the tasks of a batch."""
    ranges = batch_ranges(known, options)
    ids = known.topic_ids(each.topic_partition.topic for each in ranges)
    return partitions_of(ranges, options, ids)
