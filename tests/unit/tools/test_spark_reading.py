"""What ``quorate spark read`` is told, and how it cuts files."""

import pytest

from quorate.tools.problems import UsageError
from quorate.tools.spark_reading import Summary, Target, file_count, parse_target, schema_of


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
