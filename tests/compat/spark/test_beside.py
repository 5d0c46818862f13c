"""Ours and Spark's own Kafka source, in one session, on the same topics: the same rows."""

from typing import Any

import pytest

from quorate.client.sync import Admin, Producer
from tests.compat.spark.conftest import fill

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def topic(spark: Any, servers: str) -> str:
    """A topic with nulls, headers, and batches of every compression."""
    if not spark.conf.get("spark.jars", ""):
        pytest.skip("the jars of spark-sql-kafka-0-10 cannot be had here: Maven is missing")
    with Admin(servers) as admin:
        admin.create_topic("beside", partitions=3)
        configs = {"message.timestamp.type": "LogAppendTime"}
        admin.create_topic("appended", partitions=1, configs=configs)
        admin.create_topic("transactions", partitions=2)
    for codec in CODECS:
        fill(servers, "beside", 200, compression=codec)
    fill(servers, "appended", 50)
    write_in_transactions(servers, "transactions")
    return "beside"


def write_in_transactions(servers: str, topic: str) -> None:
    """Commit two transactions in three, with single records of nobody's transaction between."""
    fill(servers, topic, 20)
    for number in range(12):
        name = f"beside-{number % 4}"
        with Producer(servers, transactional_id=name, batch_size_bytes=300) as producer:
            try:
                with producer.transaction():
                    for i in range(30):
                        producer.enqueue(topic, b"%d of %d" % (i, number), key=b"%d" % i)
                    producer.flush()
                    if number % 3 == 0:
                        raise LookupError  # noqa: TRY301 - which aborts it
            except LookupError:
                fill(servers, topic, 7)


def test_what_was_aborted_is_left_out_on_request(spark: Any, servers: str, topic: str) -> None:
    for isolation, count in (("read_committed", 20 + 8 * 30 + 4 * 7), ("read_uncommitted", 408)):
        options = {"subscribe": "transactions", "kafka.isolation.level": isolation}
        assert both(spark, servers, topic, **options)[1].count() == count


def both(spark: Any, servers: str, topic: str, **options: Any) -> tuple[Any, Any]:
    """Return what the two read."""
    frames: list[Any] = []
    for name in ("kafka", "quorate"):
        reader = spark.read.format(name).option("kafka.bootstrap.servers", servers)
        frames.append(reader.option("subscribe", topic).options(**options).load())
    return frames[0], frames[1]


OPTIONS: list[dict[str, Any]] = [
    {"includeHeaders": "true"},
    {"startingOffsets": '{"beside":{"0":10,"1":-2,"2":0}}'},
    {"endingOffsets": '{"beside":{"0":10,"1":-1,"2":50}}', "minPartitions": 7},
    {"startingTimestamp": 1_700_000_050_000, "endingTimestamp": 1_700_000_150_000},
    {"subscribe": "beside,appended,transactions", "kafka.isolation.level": "read_committed"},
    {"subscribe": "transactions", "kafka.isolation.level": "read_uncommitted"},
]


@pytest.mark.parametrize("options", OPTIONS, ids="+".join)
def test_the_same_options_read_the_same_rows(
    spark: Any, servers: str, topic: str, options: dict[str, Any]
) -> None:
    theirs, ours = both(spark, servers, topic, **options)
    assert theirs.schema.simpleString() == ours.schema.simpleString()
    assert theirs.count() > 0
    assert theirs.exceptAll(ours).count() == 0
    assert ours.exceptAll(theirs).count() == 0


def test_what_we_write_they_read_and_partition_alike(spark: Any, servers: str, topic: str) -> None:
    with Admin(servers) as admin:
        admin.create_topic("by-us", partitions=5)
        admin.create_topic("by-them", partitions=5)
    rows = spark.range(500).selectExpr("concat('key ', id) key", "concat('value ', id) value")
    for name, target in (("quorate", "by-us"), ("kafka", "by-them")):
        writer = rows.write.format(name).option("kafka.bootstrap.servers", servers)
        writer.option("topic", target).mode("append").save()
    columns = ["key", "value", "partition"]
    by_us = both(spark, servers, "by-us")[0].select(columns)
    by_them = both(spark, servers, "by-them")[1].select(columns)
    assert by_us.exceptAll(by_them).count() == by_them.exceptAll(by_us).count() == 0
