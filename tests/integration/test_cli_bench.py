"""``quorate bench``: that it sends what it says, and says what it costs."""

import io
import json
import re
import signal
import subprocess
import sys
import time

import pytest

from quorate.client import OffsetSpec, TimestampOffset, TopicPartition
from quorate.client.sync import Admin, Consumer, Producer
from quorate.tools.cli import run_command

pytestmark = pytest.mark.integration

TOPIC = "cli-bench"


def test_the_price_of_exactly_once_is_told(
    bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-b", bootstrap, "bench", "produce", TOPIC, "-n", "250", "--size", "10"]
    assert run_command([*words, "--transactional"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-2].startswith("1 broker; ")
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


def row_of(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    (row,) = json.loads(capsys.readouterr().out)["items"]
    return dict(row)


def test_compression_costs_the_client_cpu_and_saves_disk(
    bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-b", bootstrap, "--json", "bench", "produce", TOPIC, "-n", "20000"]
    rows: dict[str, dict[str, object]] = {}
    for codec in ("none", "gzip"):
        assert run_command([*words, "-z", codec]) == 0
        rows[codec] = row_of(capsys)
    plain, packed = (float(str(rows[codec]["mib_on_disk"])) for codec in ("none", "gzip"))
    sent = 20_000 * 100 / 2**20
    assert sent < plain < 1.2 * sent
    assert 0.5 * sent < packed < 0.8 * sent, "letters have 4.7 bits of 8"
    assert 0 < float(str(rows["none"]["client_cpu_s"])) < float(str(rows["gzip"]["client_cpu_s"]))


@pytest.mark.parametrize("words", [["--acks", "2"], ["--acks", "1", "--transactional"]])
def test_what_cannot_be_measured_is_refused(
    bootstrap: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["-b", bootstrap, "bench", "produce", TOPIC, *words]) == 2
    assert "--acks all" in capsys.readouterr().err


def test_a_topic_is_read_with_and_without_a_group_and_nothing_is_committed(
    bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        admin.create_topic("cli-bench-read", partitions=2)
        for number in range(300):
            producer.enqueue("cli-bench-read", b"v" * 10, key=b"%05d" % number)
    reading = ["-b", bootstrap, "--json", "bench", "consume", "--topic", "cli-bench-read"]
    assert run_command([*reading]) == 0
    alone = row_of(capsys)
    assert (alone["mode"], alone["records"], alone["join_ms"]) == ("assigned", 300, None)
    assert alone["mib"] == round(300 * 15 / 2**20, 2)
    for _ in range(2):  # it has all of it once more
        assert run_command([*reading, "-g", "cli-bench-readers"]) == 0
        member = row_of(capsys)
        assert (member["mode"], member["records"]) == ("group", 300)
        assert isinstance(member["join_ms"], float)
    assert run_command([*reading, "--messages", "100"]) == 0
    assert row_of(capsys)["records"] == 100


def test_records_go_round_and_are_timed_twice(
    bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-b", bootstrap, "--json", "bench", "e2e", "cli-bench-round", "-n", "50"]
    for more, rate_max in ((["--producer-acks", "1"], 1e6), (["--rate", "1000"], 1050)):
        assert run_command([*words, *more, "--record-size", "16"]) == 0
        acknowledged, read = json.loads(capsys.readouterr().out)["items"]
        assert (acknowledged["until"], read["until"]) == ("acknowledged", "read")
        assert acknowledged["records"] == read["records"] == 50
        assert 0 < read["p50_ms"] <= read["p99_ms"] <= read["max_ms"]
        assert read["records_per_s"] <= rate_max


def test_topics_are_made_and_are_gone_again(
    bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-b", bootstrap, "--json", "bench", "metadata", "-n", "6", "--at-once", "2"]
    assert run_command(words) == 0
    rows = json.loads(capsys.readouterr().out)["items"]
    assert [(r["request"], r["requests"]) for r in rows] == [
        ("create", 6), ("describe", 6), ("delete", 6),
    ]  # fmt: skip
    assert names_left(bootstrap) == []


class Terminal(io.StringIO):
    """Standard error as somebody sees it."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("e2e cli-bench-round -n 5", "sending 0/5"),
        ("metadata -n 3", "create 0/3"),
        ("e2e cli-bench-round -n 5 --rate 1000", ""),
        ("metadata -n 3 --at-once 2", ""),
    ],
)
def test_progress_is_drawn_where_that_is_not_measured(
    bootstrap: str, words: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert run_command(["-b", bootstrap, "bench", *words.split()]) == 0
    drawn = re.findall(r"create|sending|\d+/\d+", terminal.getvalue())
    assert set(drawn) == set(shown.split())


def names_left(bootstrap: str) -> list[str]:
    with Admin(bootstrap) as admin:
        return [t.name for t in admin.list_topics() if t.name.startswith("quorate-bench-")]


def test_no_topic_is_left_when_somebody_has_seen_enough(bootstrap: str) -> None:
    words = ["-b", bootstrap, "bench", "metadata", "-n", "100000"]
    with subprocess.Popen(
        [sys.executable, "-m", "quorate.tools.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as measuring:
        deadline_s = time.monotonic() + 20
        while not names_left(bootstrap) and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert names_left(bootstrap)
        measuring.send_signal(signal.SIGINT)
        said, _ = measuring.communicate(timeout=20)
    assert (measuring.returncode, said) == (130, b"")
    assert names_left(bootstrap) == []


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["consume", "cli-bench-nowhere"], 1, "there is no topic 'cli-bench-nowhere'"),
        (["consume"], 2, "name a topic"),
        (["consume", "a", "--topic", "b"], 2, "two topics are named"),
        (["e2e", "not a name"], 1, "INVALID_TOPIC_EXCEPTION"),
        (["e2e", "a", "--acks", "0"], 2, "--acks all"),
        (["e2e", "a", "--size", "4"], 2, "x>=16"),
        (["metadata", "-r", "7"], 1, "INVALID_REPLICATION_FACTOR"),
    ],
)
def test_what_cannot_be_measured_is_told_in_three_lines(
    bootstrap: str, words: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["-b", bootstrap, "bench", *words]) == code
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert told in "\n".join(lines)


@pytest.mark.parametrize("words", [["consume", "a"], ["e2e", "a"], ["metadata"]])
def test_without_a_cluster_there_is_nothing_to_measure(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["-b", "127.0.0.1:1", "--timeout", "0.2", "bench", *words]) == 4
    assert "no broker at 127.0.0.1:1" in capsys.readouterr().err
