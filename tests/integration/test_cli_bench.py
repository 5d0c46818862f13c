"""``quorate bench``: that it sends what it says, and says what it costs."""

import json

import pytest

from quorate.client import OffsetSpec, TimestampOffset, TopicPartition
from quorate.client.sync import Admin, Consumer
from quorate.tools.cli import run_command

pytestmark = pytest.mark.integration

TOPIC = "cli-bench"


def test_the_price_of_exactly_once_is_told(
    bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-b", bootstrap, "bench", "produce", TOPIC, "-n", "250", "--size", "10"]
    assert run_command([*words, "--transactional"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-2].startswith("1 brokers; ")
    assert said[-1].startswith("transactions of 100 records: ")
    assert said[-1].endswith(" of plain")
    with Admin(bootstrap) as admin:
        (end,) = admin.list_offsets({TopicPartition(TOPIC, 0): OffsetSpec.LATEST}).values()
    # One of each to warm up; transactions of 1, 100, 100 and 50 records, and their markers.
    assert isinstance(end, TimestampOffset)
    assert end.offset == 2 * 251 + 4
    with Consumer(bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([(TOPIC, 0)])
        consumer.seek_to_beginning()
        values: list[bytes | None] = []
        while len(values) < 502:
            values += [record.value for record in consumer.poll()]
    assert {len(value or b"") for value in values} == {10}


def test_one_way_of_sending_is_a_row(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-b", bootstrap, "--json", "bench", "produce", TOPIC, "-n", "300", "--acks", "1"]
    assert run_command([*words, "-z", "lz4"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["items"]
    assert (row["mode"], row["records"], row["of_plain"]) == ("plain", 300, 1.0)
    assert 0 < row["p50_ms"] <= row["p99_ms"]
    assert row["records_per_s"] > 0


@pytest.mark.parametrize("words", [["--acks", "2"], ["--acks", "1", "--transactional"]])
def test_what_cannot_be_measured_is_refused(
    bootstrap: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["-b", bootstrap, "bench", "produce", TOPIC, *words]) == 2
    assert "--acks all" in capsys.readouterr().err
