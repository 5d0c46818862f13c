"""``quorate spark`` with a real Spark: files, and the program to begin with."""

import json
from pathlib import Path
from typing import Any

import pytest

from quorate.client.sync import Admin
from quorate.tools.cli import run_command
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


def test_the_program_to_begin_with_shows_records_and_counts_them(
    spark: Any, servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    del spark  # it is there, so that the program takes it
    with Admin(servers) as admin:
        admin.create_topic("to-begin-with", partitions=2)
    fill(servers, "to-begin-with", 20)  # it shows so many, in any order
    where = ["-b", servers, "spark"]
    assert run_command([*where, "check", "to-begin-with", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["items"]
    assert [finding["state"] for finding in findings] == ["ok"] * 6
    assert findings[-1]["detail"] == "2 partitions with about 20 records"

    assert run_command([*where, "example", "to-begin-with", "--since", "2023-01-01"]) == 0
    exec(compile(capsys.readouterr().out, "example", "exec"), {})
    shown = capsys.readouterr().out
    assert shown.endswith("20 records\n")
    assert "|value 19" in shown
