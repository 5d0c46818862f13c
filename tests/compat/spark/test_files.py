"""``quorate spark read`` with a real Spark."""

from pathlib import Path
from typing import Any

import pytest

from quorate.client.sync import Admin
from quorate.tools.spark_reading import ReadPlan, Target, schema_of, write_files
from tests.compat.spark.conftest import fill


@pytest.mark.parametrize("files", [1, 5])
def test_there_are_as_many_files_as_bytes_ask_for(
    spark: Any, servers: str, tmp_path: Path, files: int
) -> None:
    topic = f"to-files-{files}"
    with Admin(servers) as admin:
        admin.create_topic(topic, partitions=3)
    fill(servers, topic, 300)
    folder = tmp_path / "out"
    plan = ReadPlan((topic,), Target("parquet", str(folder)), "", "", ("offset", "value"), 1, False)
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    summary = write_files(spark, plan, schema_of(plan.columns), options, files)
    assert summary.record_count == 300
    assert summary.file_count == files == len(list(folder.glob("part-*.parquet")))
    assert summary.size_bytes > 0
