"""What ``quorate spark read`` is told, and how it cuts files."""

from pathlib import Path

import pytest

from quorate.tools import spark_reading
from quorate.tools.problems import CommandError, UsageError
from quorate.tools.spark_reading import (
    ReadPlan,
    Summary,
    Target,
    file_count,
    parse_target,
    read_to_files,
    schema_of,
)


def test_a_target_is_a_format_and_a_folder() -> None:
    assert parse_target("parquet:out/") == Target("parquet", "out/")
    assert parse_target("json:a:b") == Target("json", "a:b")


@pytest.mark.parametrize("text", ["", "parquet", "parquet:", "csv:out", ":out"])
def test_other_targets_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--to is"):
        parse_target(text)


def test_columns_are_asked_for_by_a_schema() -> None:
    assert schema_of(("offset", "value")) == "offset long, value binary"
    assert "headers" not in schema_of(())
    with pytest.raises(UsageError, match="there is no column 'nope'"):
        schema_of(("nope",))


def test_files_are_cut_by_bytes_and_there_is_at_least_one() -> None:
    assert [file_count(size, 100) for size in (0, 1, 100, 101, 250)] == [1, 1, 1, 2, 3]


def test_a_summary_is_a_sentence() -> None:
    assert str(Summary(1234, 1, 2_500_000, "out/")) == "1,234 records in 1 file of out/ (2.5 MB)"
    assert "2 files" in str(Summary(0, 2, 0, "out/"))


@pytest.mark.parametrize(
    ("lacking", "hint"), [("pyspark", "pip install 'quorate"), ("java", "apt install openjdk-17")]
)
def test_what_is_missing_is_said_and_how_to_install_it(
    lacking: str, hint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def found(name: str) -> str | None:
        return None if name == lacking else name

    monkeypatch.setattr(spark_reading, "find_spec", found)
    monkeypatch.setattr("shutil.which", found)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    target = Target("parquet", str(tmp_path / "out"))
    plan = ReadPlan(("t",), target, "", "", (), 1, overwrite=False)
    with pytest.raises(CommandError, match="is not installed") as caught:
        read_to_files(plan, "localhost:9092", {}, quiet=True)
    assert hint in str(caught.value.hint)
