"""Ours and Spark's own Kafka source, in one session, on the same topics: the same rows."""

from typing import Any

import pytest

from quorate.client.sync import Admin
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
    for codec in CODECS:
        fill(servers, "beside", 200, compression=codec)
    fill(servers, "appended", 50)
    return "beside"


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
    {"subscribe": "beside,appended", "kafka.isolation.level": "read_committed"},
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
