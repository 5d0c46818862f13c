"""Structured Streaming with a real Spark."""

import json
from pathlib import Path
from typing import Any

import pytest

from quorate.client.sync import Admin
from tests.compat.spark.conftest import fill
from tests.compat.spark.test_reading import read


def run(spark: Any, servers: str, source: str, sink: str, checkpoint: Path, **options: Any) -> Any:
    """Copy what is there from topic to topic, and return the query's progress."""
    reader = spark.readStream.format("quorate").option("kafka.bootstrap.servers", servers)
    frame = reader.option("subscribe", source).options(**options).load().selectExpr("key", "value")
    writer = frame.writeStream.format("quorate").option("kafka.bootstrap.servers", servers)
    writer = writer.option("topic", sink).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return [json.loads(progress.json) for progress in query.recentProgress]


def test_a_stream_goes_on_where_it_was_and_tells_its_lag(
    spark: Any, servers: str, tmp_path: Path
) -> None:
    with Admin(servers) as admin:
        admin.create_topic("source", partitions=2)
        admin.create_topic("sink", partitions=2)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 60}
    options |= {"commitOffsetsToGroup": "true", "kafka.group.id": "lagging"}
    fill(servers, "source", 100)
    first = run(spark, servers, "source", "sink", tmp_path, **options)
    assert sum(batch["numInputRows"] for batch in first) == 100
    assert len([batch for batch in first if batch["numInputRows"]]) == 2
    latest = first[0]["sources"][0]["latestOffset"]
    latest = json.loads(latest) if isinstance(latest, str) else latest
    assert sum(latest["source"].values()) == 100
    fill(servers, "source", 30)
    run(spark, servers, "source", "sink", tmp_path, **options)
    assert read(spark, servers, "sink").count() == 130
    with Admin(servers) as admin:
        committed = admin.list_group_offsets("lagging")
    assert sum(each.offset for each in committed.values()) >= 100


def test_a_topic_that_was_created_again_ends_the_stream_with_a_reason(
    spark: Any, servers: str, tmp_path: Path
) -> None:
    with Admin(servers) as admin:
        admin.create_topic("again", partitions=1)
        admin.create_topic("copy", partitions=1)
    fill(servers, "again", 10)
    run(spark, servers, "again", "copy", tmp_path, startingOffsets="earliest")
    with Admin(servers) as admin:
        admin.delete_topics(["again"])
        admin.create_topic("again", partitions=1)
    fill(servers, "again", 20)
    with pytest.raises(Exception, match="Topic again was deleted and created again"):
        run(spark, servers, "again", "copy", tmp_path)
    run(spark, servers, "again", "copy", tmp_path, failOnDataLoss="false")
    assert read(spark, servers, "copy").count() == 30
