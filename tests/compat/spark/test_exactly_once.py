"""The sink that writes exactly once, with a real Spark; kills are in tests/integration."""

import re
from pathlib import Path
from typing import Any

import pytest

from quorate.client.sync import Admin
from tests.compat.spark.conftest import fill
from tests.compat.spark.test_reading import read

COMMITTED = {"kafka.isolation.level": "read_committed"}


def copy(spark: Any, servers: str, name: str, checkpoint: Path, value: str = "value") -> None:
    """Copy what is there from topic ``name`` to ``name``-copy, 20 records at a time."""
    reader = spark.readStream.format("quorate").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", name).option("startingOffsets", "earliest")
    frame = reader.option("maxOffsetsPerTrigger", 20).load().selectExpr("key", value)
    writer = frame.writeStream.format("quorate").option("kafka.bootstrap.servers", servers)
    writer = writer.option("topic", f"{name}-copy").option("checkpointLocation", str(checkpoint))
    writer = writer.option("transactional", "true").option("kafka.transactional.id", name)
    writer.trigger(availableNow=True).start().awaitTermination()


def make(servers: str, name: str, count: int) -> None:
    with Admin(servers) as admin:
        admin.create_topic(name, partitions=2)
        admin.create_topic(f"{name}-copy", partitions=3)
    fill(servers, name, count)


def test_a_micro_batch_that_spark_repeats_is_not_written_twice(
    spark: Any, servers: str, tmp_path: Path
) -> None:
    make(servers, "once", 60)
    copy(spark, servers, "once", tmp_path)
    assert read(spark, servers, "once-copy", **COMMITTED).count() == 60
    # Spark writes commits/N when the sink has committed; as if the driver had died between the two.
    last = max(int(f.name) for f in (tmp_path / "commits").iterdir() if f.name.isdigit())
    for kept in (tmp_path / "commits").glob(f"*{last}*"):
        kept.unlink()
    fill(servers, "once", 30)
    copy(spark, servers, "once", tmp_path)
    source = read(spark, servers, "once").select("key", "value")
    copied = read(spark, servers, "once-copy", **COMMITTED).select("key", "value")
    assert copied.count() == 90
    assert source.exceptAll(copied).count() == copied.exceptAll(source).count() == 0


def test_rows_of_a_micro_batch_that_failed_are_not_seen(
    spark: Any, servers: str, tmp_path: Path
) -> None:
    make(servers, "failing", 40)
    fails = "if(value = 'value 39', raise_error('not this one'), value) value"
    with pytest.raises(Exception, match="not this one"):
        copy(spark, servers, "failing", tmp_path, value=fails)
    seen = read(spark, servers, "failing-copy", **COMMITTED).count()
    assert seen % 20 == 0
    assert seen < 40
    copy(spark, servers, "failing", tmp_path)
    assert read(spark, servers, "failing-copy", **COMMITTED).count() == 40


def test_a_batch_cannot_be_written_so_and_it_says_why(spark: Any, servers: str) -> None:
    writer = spark.range(1).selectExpr("'x' value").write.format("quorate")
    writer = writer.option("kafka.bootstrap.servers", servers).option("topic", "t")
    writer = writer.option("transactional", "true").option("kafka.transactional.id", "batch")
    with pytest.raises(Exception, match=re.escape("transactional is for streams")):
        writer.mode("append").save()
