"""Batch reads and writes with a real Spark, and facts about Spark that they lean on."""

from typing import Any

import pytest

from quorate.client.sync import Admin, Producer
from tests.compat import serving
from tests.compat.spark.conftest import fill

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def read(spark: Any, servers: str, topic: str, **options: Any) -> Any:
    reader = spark.read.format("quorate").option("kafka.bootstrap.servers", servers)
    return reader.option("subscribe", topic).options(**options).load()


def write(frame: Any, servers: str, **options: Any) -> None:
    writer = frame.write.format("quorate").option("kafka.bootstrap.servers", servers)
    writer.options(**options).mode("append").save()


@pytest.fixture(scope="module")
def orders(servers: str) -> str:
    """A topic of three partitions with 300 records."""
    with Admin(servers) as admin:
        admin.create_topic("orders", partitions=3)
    fill(servers, "orders", 300)
    return "orders"


def test_the_source_is_found_by_itself_and_has_the_columns_of_sparks_own(
    spark: Any, servers: str, orders: str
) -> None:
    frame = read(spark, servers, orders, includeHeaders="true")
    assert frame.columns == [*COLUMNS, "headers"]
    assert frame.count() == 300
    first = frame.where("headers is not null").orderBy("timestamp").first()
    assert [tuple(h) for h in first.headers] == [("h", bytearray(b"0")), ("null", None)]


def test_arrows_types_are_what_spark_wants() -> None:
    types = pytest.importorskip("pyspark.sql.pandas.types", reason="pyspark is not installed")
    from quorate.client.spark.decode import arrow_schema  # noqa: PLC0415 - needs Arrow
    from quorate.client.spark.source import full_schema  # noqa: PLC0415 - needs pyspark

    schema = full_schema(include_headers=True)
    assert arrow_schema(schema.names).equals(types.to_arrow_schema(schema, timezone="UTC"))


def test_a_schema_of_the_users_leaves_columns_out(spark: Any, servers: str, orders: str) -> None:
    reader = spark.read.format("quorate").option("kafka.bootstrap.servers", servers)
    frame = reader.option("subscribe", orders).schema("offset long, value binary").load()
    assert frame.columns == ["offset", "value"]
    assert frame.selectExpr("count(*) n", "count(value) v").first().asDict() == {"n": 300, "v": 257}


def test_ranges_are_cut_into_tasks_that_together_read_everything(
    spark: Any, servers: str, orders: str
) -> None:
    frame = read(spark, servers, orders, minPartitions="7", maxRecordsPerPartition="50")
    assert frame.rdd.getNumPartitions() >= 7
    assert frame.select("partition", "offset").distinct().count() == 300


def test_times_say_where_to_read(spark: Any, servers: str, orders: str) -> None:
    since = {"startingTimestamp": 1_700_000_100_000, "endingTimestamp": 1_700_000_200_000}
    assert read(spark, servers, orders, **since).count() == 100
    assert read(spark, servers, orders, since="2023-11-14T22:18:00Z").count() == 20
    assert read(spark, servers, orders, since="-1h").count() == 0


def test_a_topic_without_records_is_an_empty_frame(spark: Any, servers: str) -> None:
    # Spark calls read() with a partition of its own if there is none.
    with Admin(servers) as admin:
        admin.create_topic("empty", partitions=2)
    assert read(spark, servers, "empty").count() == 0


def test_a_frame_reads_the_same_again_and_a_new_one_what_came_since(
    spark: Any, servers: str
) -> None:
    with Admin(servers) as admin:
        admin.create_topic("growing", partitions=1)
    fill(servers, "growing", 5)
    frame = read(spark, servers, "growing")
    assert frame.count() == 5
    fill(servers, "growing", 5)
    assert frame.count() == 5
    assert read(spark, servers, "growing").count() == 10


def test_what_is_written_is_what_was_read(spark: Any, servers: str, orders: str) -> None:
    with Admin(servers) as admin:
        admin.create_topic("copied", partitions=3)
    columns = ["key", "value", "partition", "timestamp", "headers"]
    original = read(spark, servers, orders, includeHeaders="true").select(columns)
    write(original, servers, topic="copied", **{"kafka.compression.type": "lz4"})
    copied = read(spark, servers, "copied", includeHeaders="true").select(columns)
    assert original.exceptAll(copied).count() == copied.exceptAll(original).count() == 0


BAD_READS = [
    ({"subscribePattern": "x"}, "Only one of the following options can be specified for Kafka"),
    ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
    ({"kafka.bootstrap.servers": "127.0.0.1:1"}, "no broker at 127.0.0.1:1: cannot connect to"),
    ({"subscribe": "nowhere"}, "there is no topic 'nowhere'"),
    ({"endingOffsets": '{"orders":{"0":500,"1":500,"2":500}}'}, "its log ends at"),
]


@pytest.mark.parametrize(("options", "text"), BAD_READS)
def test_what_cannot_be_read_is_said_in_the_last_line(
    spark: Any, servers: str, orders: str, options: dict[str, str], text: str
) -> None:
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as caught:
        read(spark, servers, orders, **options).count()
    said = [line for line in str(caught.value).splitlines() if "Error: " in line]
    assert text in said[-1]


def test_a_damaged_batch_ends_the_query_and_says_where(
    spark: Any, servers: str, node: serving.Broker
) -> None:
    with Admin(servers) as admin:
        admin.create_topic("damaged", partitions=2)
    with Producer(servers) as producer:
        for i in range(3):
            producer.send("damaged", b"value %d" % i, partition=1)
    (segment,) = node.partition_folder("damaged", 1).glob("*.log")
    content = segment.read_bytes()
    segment.write_bytes(content.replace(b"value 1", b"value 7"))
    with pytest.raises(Exception, match="corrupt batch in topic damaged") as caught:
        read(spark, servers, "damaged").collect()
    place = "corrupt batch in topic damaged, partition 1, at offset 1: "
    assert any(place in line for line in str(caught.value).splitlines())


BAD_WRITES: list[tuple[str, dict[str, str], str]] = [
    ("id as value", {"topic": "t"}, "value attribute unsupported type bigint. value must be a(n)"),
    ("string(id) as value", {}, "topic option required when no 'topic' attribute is present."),
    ("string(id) as value", {"topic": "t", "transactional": "true"}, "there is no kafka.tr"),
    ("string(id) as value", {"topic": "nowhere"}, "there is no topic 'nowhere'"),
]


@pytest.mark.parametrize(("column", "options", "text"), BAD_WRITES)
def test_what_cannot_be_written_is_said(
    spark: Any, servers: str, column: str, options: dict[str, str], text: str
) -> None:
    with pytest.raises(Exception, match="Traceback") as caught:
        write(spark.range(1).selectExpr(column), servers, **options)
    assert text in str(caught.value)


@pytest.mark.xfail(strict=True, reason="Spark 4.1 to 4.3: a pushed filter stays on the DataFrame")
def test_filters_pushed_down_for_one_query_do_not_filter_the_next(spark: Any) -> None:
    """Once this passes, our reader may let Spark push filters down."""
    from tests.compat.spark.leaking import LeakingSource  # noqa: PLC0415 - needs pyspark

    spark.dataSource.register(LeakingSource)
    frame = spark.read.format("leaking").load()
    assert frame.where("offset < 3").count() == 3
    assert frame.count() == 10
