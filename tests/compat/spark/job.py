"""A job of Spark's as a user has it, whose Quorate is installed: ``job.py SERVERS [MASTER]``.

Writes a topic, reads it back, copies it as a stream that is written exactly once, and compares.
"""

import os
import platform
import sys
import tempfile
from typing import Any, Final

import pyspark
from pyspark.sql import SparkSession

import quorate
from quorate.client.sync import Admin

ROWS: Final = 10_000
QUIET: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
}


def session(master: str | None) -> Any:
    """Return the session; without a master, that of spark-submit."""
    builder: Any = SparkSession.builder
    if master is not None:
        builder = builder.master(master)
    for name, value in QUIET.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def copy(spark: Any, servers: str, source: str, sink: str) -> None:
    """Copy a topic as a stream, each row exactly once."""
    reader = spark.readStream.format("quorate").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
    frame = reader.option("maxOffsetsPerTrigger", ROWS // 2).load().selectExpr("key", "value")
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.format("quorate").option("kafka.bootstrap.servers", servers)
        writer = writer.option("topic", sink).option("checkpointLocation", checkpoint)
        writer = writer.option("transactional", "true").option("kafka.transactional.id", sink)
        writer.trigger(availableNow=True).start().awaitTermination()


def main(servers: str, master: str | None = None) -> str:
    """Run it, and return where it ran."""
    topic = f"job-{os.getpid()}"
    with Admin(servers) as admin:
        admin.create_topic(topic, partitions=4)
        admin.create_topic(f"{topic}-copy", partitions=2)
    spark = session(master)
    rows = spark.range(ROWS).selectExpr("string(id) key", "concat('value ', id) value")
    writer = rows.write.format("quorate").option("kafka.bootstrap.servers", servers)
    writer.option("topic", topic).mode("append").save()
    copy(spark, servers, topic, f"{topic}-copy")
    for name in (topic, f"{topic}-copy"):
        reader = spark.read.format("quorate").option("kafka.bootstrap.servers", servers)
        reader = reader.option("subscribe", name).option("kafka.isolation.level", "read_committed")
        found = reader.load().selectExpr("string(key) key", "string(value) value")
        assert found.exceptAll(rows).count() == rows.exceptAll(found).count() == 0, name
    nodes = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()
    where = (
        f"PySpark {pyspark.__version__}, Python {platform.python_version()},"
        f" {spark.sparkContext.master}, {nodes} JVMs, {quorate.__file__}"
    )
    spark.stop()
    return where


if __name__ == "__main__":
    print(main(*sys.argv[1:]))  # noqa: T201
